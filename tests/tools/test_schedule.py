"""Tests are handed out to the end, also when one ends its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from grader.base.paths import ROOT


def test_a_process_that_ends_costs_one_test(tmp_path: Path) -> None:
    """It failed, and all others are run once."""
    hook = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom tests.schedule import pytest_xdist_make_scheduler\n"
    (tmp_path / "conftest.py").write_text(hook)
    for number in range(8):
        ends = "import os; os._exit(1)" if number == 4 else "pass"
        tests = [f"def test_{each}():\n    {ends if each == 1 else 'pass'}\n" for each in range(3)]
        (tmp_path / f"test_file{number}.py").write_text("\n".join(tests))
    words = ["-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert "1 failed, 23 passed" in done.stdout, done.stdout
