"""A judge and its worker on one processor, and only for as long as a step takes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from grader import processor
from grader.grading import Grader
from grader.places import ROOT
from grader.submission import Submission
from tests.hostile import eventually

SAYS_WHERE = """import os
print("may run on", len(os.sched_getaffinity(0)))
def dot_product_scores(query, key):
    return query
"""
TAKES = """import sys, time
root, board = sys.argv[1:]
sys.path.insert(0, root)
from grader import processor
with processor.one_processor(int(board)):
    print(*processor.allowed(), flush=True)
    time.sleep(60)
"""

pytestmark = pytest.mark.skipif(len(processor.allowed()) < 2, reason="one processor, or a system that does not say")


def test_for_a_while() -> None:
    """One of those that were allowed, and all of them again afterwards, whatever happened meanwhile."""
    before = processor.allowed()
    with pytest.raises(ZeroDivisionError), processor.one_processor():
        inside = processor.allowed()
        with processor.one_processor():
            assert processor.allowed() == inside
        raise ZeroDivisionError
    assert len(inside) == 1
    assert inside < before
    assert processor.allowed() == before


def test_judges_keep_off_each_others_processor() -> None:
    """Also when the system has put both on one; and who ends, however it ends, leaves its processor to others."""
    board, before = processor.board(), processor.allowed()

    def chosen_from(current: int) -> set[int]:
        processor.stay({current})
        processor.stay(before)
        with processor.one_processor(board):
            return processor.allowed()

    command = [sys.executable, "-c", TAKES, str(ROOT), str(board)]
    with subprocess.Popen(command, pass_fds=[board], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        for _step in range(3):
            (ours,) = chosen_from(theirs)
            assert ours != theirs
        other.kill()
    assert eventually(lambda: chosen_from(theirs) == {theirs}), "it is free again"


def test_a_python_without_files_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was built for old systems: the board is a temporary file."""
    monkeypatch.delattr(os, "memfd_create")
    board = processor.board.__wrapped__()
    with processor.one_processor(board):
        assert len(processor.allowed()) == 1
    os.close(board)


def test_a_processor_that_is_not_there_changes_nothing() -> None:
    """As when it was switched off."""
    before = processor.allowed()
    processor.stay({max(os.sched_getaffinity(0)) + 1000})
    assert processor.allowed() == before


def test_a_worker_runs_where_its_judge_does() -> None:
    """So much its own code can see."""
    submitted = Submission("said", {"step01_scores": ("said/step01_scores.py", SAYS_WHERE)})
    with Grader(1) as grader:
        (step,) = grader.grade(submitted, ["step01_scores"], device="cpu").steps
    assert step.output.startswith("may run on 1")
