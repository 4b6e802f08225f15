"""Deadlines: where they are stated, and that a slow machine is told apart from a loop."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from grader.base.errors import CheckFailed
from grader.base.limits import Limits
from grader.calls.call import Call, Load
from grader.checks.assertions import deadline, points
from grader.course import steps
from grader.judge.grader import Grader
from grader.judge.worker_backend import WorkerBackend
from grader.oracle.live import solutions
from tests.hostile import GOOD, STEP, one_file

HOGS = 3  # busy processes on one processor
# Its first call is busy past the deadline by the clock, whatever the load. By itself it would be late; beside the hogs
# it gets a quarter of a processor or less, and the time that it waited for one is added to the deadline.
SLOW = f"""{GOOD}
import time
right, waits = softmax, [2.6]

def softmax(x, dim=-1):
    begin = time.monotonic()
    while waits and time.monotonic() < begin + waits[0]:
        pass
    waits.clear()
    return right(x, dim)
"""
LOOP = f"{GOOD}\ndef softmax(x, dim=-1):\n    while True:\n        pass\n"


class Late:
    """A process that never answers, and notes how long it was waited for."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def launch(self, limits: Limits) -> Late:
        """Itself."""
        return self

    def send(self, data: bytes, deadline: float) -> None:
        """Is late."""
        self.waited.append(deadline - time.monotonic())
        raise TimeoutError

    def __getattr__(self, name: str) -> object:
        return lambda *args, **kwargs: ""


def test_a_check_states_its_own() -> None:
    """`@deadline` goes before the limits, and patience is worked into both."""

    @points(1)
    @deadline(30)
    def check() -> None:
        """A check that takes its time."""

    assert steps.as_check(check).deadline == 30.0
    limits = Limits(call_seconds=2.0, step_seconds=100.0, patience=2.0).of_step(None)
    for stated, expected in ((steps.as_check(check).deadline, 60.0), (None, 4.0)):
        late = Late()
        student = WorkerBackend(late, Load(STEP, {STEP: ("file", GOOD)}, {}), limits)  # type: ignore[arg-type]
        student.allow(stated)
        with pytest.raises(CheckFailed, match=f"no answer within {expected:.0f} s"):
            student.ask(Call("softmax"))
        assert late.waited == [pytest.approx(expected, abs=0.5)]


def test_a_step_states_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """`DEADLINE` beside the checks is for all calls of the step together."""
    step = solutions()[1]
    assert step.deadline is None
    module = ModuleType("checks")
    module.DEADLINE = 5.0  # type: ignore[attr-defined]
    monkeypatch.setitem(step.__dict__, "checks_module", module)
    limits = Limits(call_seconds=10.0, patience=3.0).of_step(step.deadline)
    assert (limits.call_seconds, limits.step_seconds) == (30.0, 15.0)
    late = Late()
    with pytest.raises(CheckFailed, match="no answer within 15 s"):
        WorkerBackend(late, Load(STEP, {STEP: ("file", GOOD)}, {}), limits).ask(Call("softmax"))  # type: ignore[arg-type]


@pytest.fixture
def crowded() -> Iterator[None]:
    """This process and all it starts share one processor with others that never rest."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    hogs = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(HOGS)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
        os.sched_setaffinity(0, before)


@pytest.mark.thorough
@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this system does not count how long a process waits"
)
def test_a_slow_machine_is_no_loop(crowded: None) -> None:
    """What a process waits for a processor is not held against it, and a loop gains nothing by it."""
    with Grader(1, Limits(call_seconds=60.0)) as grader:
        assert grader.grade(one_file(STEP, GOOD), [STEP], device="cpu").steps[0].status == "pass"
        grader.limits = Limits(call_seconds=2.0, step_seconds=30.0)
        (slow,) = grader.grade(one_file(STEP, SLOW), [STEP], device="cpu").steps
        assert slow.status == "pass", slow.checks[0].message
        (loop,) = grader.grade(one_file(STEP, LOOP), [STEP], device="cpu").steps
    assert loop.status == "timeout"
