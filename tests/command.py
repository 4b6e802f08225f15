"""The command line of a copy of the kit, in a process of its own."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import weakref
from pathlib import Path


@functools.cache
def python() -> str:
    """A Python with all packages of this one. Unlike this one it does not know this checkout, and takes no module of it
    for a copy's."""
    home = Path(tempfile.mkdtemp(prefix="python-of-copies-"))
    weakref.finalize(python, shutil.rmtree, home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    folder = sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)})
    (Path(folder) / "packages.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return str(home / Path(sys.executable).relative_to(sys.prefix))


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of the kit in `folder`, 80 columns wide."""
    return subprocess.run(
        [python(), "-m", "grader", *arguments],
        capture_output=True, text=True, cwd=folder, timeout=600,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "80", "NO_COLOR": "1", "LANG": "C.UTF-8", **environment},
    )  # fmt: skip
