"""Tests are handed out to the end, also when one ends its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from grader.base.paths import ROOT
from tests.schedule import ByFileAndStep


@pytest.mark.thorough
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


class Process:
    """Stands for a process of xdist. Once it has `ended`, nothing can be sent to it."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="gw0")
        self.ended = False
        self.shutting_down = False
        self.received: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        if self.ended:
            raise OSError("cannot send (already closed?)")
        self.received += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduler_of(names: list[str], processes: list[Process]) -> ByFileAndStep:
    """A scheduler that has handed the first of `names` to two processes."""
    two = SimpleNamespace(
        getvalue=lambda _name: ["2*popen"], option=SimpleNamespace(loadscopereorder=False, debug=False)
    )
    scheduler = ByFileAndStep(cast(Any, two))
    for process in processes:
        scheduler.add_node(cast(Any, process))
        scheduler.add_node_collection(cast(Any, process), names)
    scheduler.schedule()
    return scheduler


def test_a_file_sent_to_a_process_that_has_just_ended_is_not_lost() -> None:
    """The report of its last test may be read before the news of its end: another process runs the file."""
    names = [f"test_file{file}.py::test_{each}" for file in range(6) for each in range(2)]
    first, second = processes = [Process(), Process()]
    scheduler = scheduler_of(names, processes)
    first.ended = True
    scheduler.mark_test_complete(cast(Any, first), first.received[0])
    scheduler.mark_test_complete(cast(Any, first), first.received[1])
    assert scheduler.remove_node(cast(Any, first)) == names[first.received[2]]
    for index in second.received:
        scheduler.mark_test_complete(cast(Any, second), index)
    assert sorted({*first.received[:3], *second.received}) == list(range(len(names)))


def test_a_process_that_replaces_another_knows_what_follows_its_first_test() -> None:
    """A process begins a test when it has the one after, or the word that it is the last."""
    names = [f"test_file{file}.py::test_0" for file in range(6)]
    first, second = processes = [Process(), Process()]
    scheduler = scheduler_of(names, processes)
    second.shutdown()
    scheduler.remove_node(cast(Any, first))
    replacement = Process()
    scheduler.add_node(cast(Any, replacement))
    scheduler.add_node_collection(cast(Any, replacement), names)
    scheduler.schedule()
    assert len(replacement.received) >= 2 or replacement.shutting_down
