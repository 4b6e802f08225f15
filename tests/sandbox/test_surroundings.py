"""Machines that lack something: no shared memory, a limit of memory that is smaller than the machine, a clock that
jumps."""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.base.paths import ROOT
from tests import hostile

CGROUPS = Path("/sys/fs/cgroup")
WITHOUT_SHARED_MEMORY = 'mount -t tmpfs -o size=4k,mode=000 none /dev/shm && rm -rf /dev/shm/* && exec "$@"'
STORM = (Path(hostile.__file__).parent / "attacks" / "end_memory_storm.py").read_text("utf-8")


def command(folder: Path, source: str) -> list[str]:
    """Grades one file from a shell."""
    (folder / f"{hostile.STEP}.py").write_text(source, encoding="utf-8")
    return [sys.executable, "-P", "-m", "grader", "grade", "--submission", str(folder), "--step", "2", "--lang", "en"]


def ran(words: list[str]) -> str:
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.thorough
def test_without_shared_memory(tmp_path: Path) -> None:
    """Judges share a file without a name, and nothing in /dev/shm."""
    if os.geteuid() != 0 or not (unshare := shutil.which("unshare")):
        pytest.skip("only root can hide /dev/shm from a process")
    hidden = [unshare, "--mount", "--propagation", "private", "sh", "-c", WITHOUT_SHARED_MEMORY, "sh"]
    hidden += ["setpriv", "--bounding-set=-dac_override"] if shutil.which("setpriv") else []
    assert "Everything passes: 8 of 8." in ran([*hidden, *command(tmp_path, hostile.GOOD)])


@pytest.fixture
def small() -> Iterator[Path]:
    """A control group of 700 MiB."""
    old, new = CGROUPS / "memory" / f"kit-{os.getpid()}", CGROUPS / f"kit-{os.getpid()}"
    for group, limit in ((old, "memory.limit_in_bytes"), (new, "memory.max")):
        with contextlib.suppress(OSError):
            group.mkdir()
            try:
                (group / limit).write_text(str(700 << 20))
                yield group
            finally:
                hostile.eventually(lambda group=group: not (group / "cgroup.procs").read_text(), 20)  # type: ignore[misc]
                group.rmdir()
            return
    pytest.skip("no control group for memory can be made here")


@pytest.mark.thorough
def test_a_limit_of_memory_below_the_machines(small: Path, tmp_path: Path) -> None:
    """As in a container: the worker is the first to go, and its author is told of it: it is no fault of ours."""
    inside = ["sh", "-c", f'echo $$ > {small}/cgroup.procs && exec "$@"', "sh"]
    assert "Everything passes: 8 of 8." in ran([*inside, *command(tmp_path, hostile.GOOD)])
    said = ran([*inside, *command(tmp_path, STORM)])
    assert "0 of 8" in said and "Traceback" not in said and "KIT_DEBUG" not in said


@pytest.mark.thorough
def test_no_deadline_is_kept_by_a_clock_that_jumps() -> None:
    """The time of day may be set back or forth while a step is graded: what waits or measures asks another clock."""
    for file in (ROOT / "grader").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(ast.Name("time"), "time" | "time_ns" | "clock_gettime"):
                    pytest.fail(f"{file}:{node.lineno} asks for the time of day", pytrace=False)
                case ast.ImportFrom("time", names) if {"time", "time_ns"} & {each.name for each in names}:
                    pytest.fail(f"{file}:{node.lineno} asks for the time of day", pytrace=False)
