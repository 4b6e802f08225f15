"""The command line of a copy of the kit, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of the kit in `folder`, 80 columns wide."""
    return subprocess.run(
        [sys.executable, "-m", "grader", *arguments],
        capture_output=True, text=True, cwd=folder, timeout=600,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "80", "NO_COLOR": "1", "LANG": "C.UTF-8", **environment},
    )  # fmt: skip
