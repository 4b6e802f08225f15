"""The version of the kit on this machine, as a digest: by it a saved report is known to be valid or outdated."""

from __future__ import annotations

import functools
import hashlib
import sys
from importlib import metadata

from grader import __version__
from grader.base.paths import ROOT, SOLUTIONS

ENGINE_FILES = ("*.py", "*/*.py", "locale/*.po", "*/templates/*.j2")
STEP_FILES = (
    "mistakes*.md", "*/*/*.py", "*/*/*/*.py", "*/*/mistakes*.md", "*/*/mistakes/*.md", "*/*/*.safetensors", "*/*/*.po",
)  # fmt: skip


@functools.cache
def kit_version() -> str:
    """The version of the kit, and 12 hexadecimal digits of its engine, its steps, torch and Python."""
    digest = hashlib.sha256(f"{metadata.version('torch')} {sys.version_info[:2]}".encode())
    paths = [path for pattern in ENGINE_FILES for path in (ROOT / "grader").glob(pattern)]
    paths += [path for pattern in STEP_FILES for path in SOLUTIONS.glob(pattern)]
    for path in sorted(paths):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()} {len(content)} ".encode() + content)
    return f"{__version__}+{digest.hexdigest()[:12]}"
