"""A judge and its worker on one CPU, and only for as long as a step takes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from grader.base.paths import ROOT
from grader.course.submissions import Submission
from grader.judge import zygote_process
from grader.judge.grader import Grader
from grader.sandbox import cpus
from tests.hostile import eventually

SAYS_WHERE = """import os
print("may run on", len(os.sched_getaffinity(0)))
def dot_product_scores(query, key):
    return query
"""
TAKES = """import sys, time
root, cpu_claims = sys.argv[1:]
sys.path.insert(0, root)
from grader.sandbox import cpus
with cpus.pinned_to_one_cpu(int(cpu_claims)):
    print(*cpus.allowed(), flush=True)
    time.sleep(60)
"""

pytestmark = pytest.mark.skipif(len(cpus.allowed()) < 2, reason="one CPU, or a system that does not tell")


def test_for_a_while() -> None:
    """One of those that were allowed, and all of them again afterwards, whatever happened meanwhile."""
    before = cpus.allowed()
    with pytest.raises(ZeroDivisionError), cpus.pinned_to_one_cpu():
        inside = cpus.allowed()
        with cpus.pinned_to_one_cpu():
            assert cpus.allowed() == inside
        raise ZeroDivisionError
    assert len(inside) == 1
    assert inside < before
    assert cpus.allowed() == before


def test_judges_keep_off_each_others_cpu() -> None:
    """Also when the system has put both on one; and who ends, however it ends, leaves its CPU to others."""
    cpu_claims, before = zygote_process.cpu_claims(), cpus.allowed()

    def chosen_from(current: int) -> set[int]:
        cpus.pin({current})
        cpus.pin(before)
        with cpus.pinned_to_one_cpu(cpu_claims):
            return cpus.allowed()

    command = [sys.executable, "-c", TAKES, str(ROOT), str(cpu_claims)]
    with subprocess.Popen(command, pass_fds=[cpu_claims], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        for _step in range(3):
            (ours,) = chosen_from(theirs)
            assert ours != theirs
        other.kill()
    assert eventually(lambda: chosen_from(theirs) == {theirs}), "it is free again"


def test_a_python_without_files_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was built for old systems: the claims are in a temporary file."""
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(zygote_process, "_claims", [])
    cpu_claims = zygote_process.cpu_claims()
    with cpus.pinned_to_one_cpu(cpu_claims):
        assert len(cpus.allowed()) == 1
    os.close(cpu_claims)


def test_a_processor_that_is_not_there_changes_nothing() -> None:
    """As when it was switched off."""
    before = cpus.allowed()
    cpus.pin({max(os.sched_getaffinity(0)) + 1000})
    assert cpus.allowed() == before


@pytest.mark.thorough
def test_a_worker_runs_where_its_judge_does() -> None:
    """So much its own code can see."""
    submitted = Submission("said", {"step01_scores": ("said/step01_scores.py", SAYS_WHERE)})
    with Grader(1) as grader:
        (step,) = grader.grade(submitted, ["step01_scores"], device="cpu").steps
    assert step.output.startswith("may run on 1")


def test_a_line_that_is_refused_leaves_no_process_behind() -> None:
    """The process that loads torch is started before the command line is read, and ended where nothing is graded."""
    code = (
        "import sys; sys.argv = ['grader', 'grade', '--step', '99']\n"
        "from grader.judge import zygote_process as early\n"
        "start, pids = early.ZygoteProcess, []\n"
        "class Noted(start):\n"
        "    def __init__(self, **how): super().__init__(**how); pids.append(self.pid)\n"
        "early.ZygoteProcess = Noted\n"
        "import atexit, os, runpy\n"
        "def gone():\n"
        "    (pid,) = pids\n"
        "    print(os.path.exists(f'/proc/{pid}'))\n"
        "atexit.register(gone)\n"
        "runpy.run_module('grader', run_name='__main__', alter_sys=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert done.stdout == "False\n"
