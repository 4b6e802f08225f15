"""What is the same in every run can be copied: memorised answers earn nothing, and right work loses nothing."""

from __future__ import annotations

import hashlib

import pytest

from grader.base.errors import CheckFailed
from grader.base.results import CheckResult, leading
from grader.calls.call import Call, Outcome
from grader.calls.codec import encode_call
from grader.checks.backends import Backend, LocalBackend
from grader.checks.trial import run_check
from grader.judge import outcome
from grader.judge.step_run import Answers, DeviceRun
from grader.oracle.live import Solution, solutions
from tests.whole import sample

STEPS = sample([step for step in solutions() if not step.lacking])


class Memory:
    """Answers that are known in advance: to each sequence of calls that a check begins with under every seed."""

    def __init__(self, step: Solution, seeds: tuple[int, ...]) -> None:
        self.known: dict[str, Outcome] = {}
        self.so_far = hashlib.sha256()
        tables = []
        for seed in seeds:
            table: dict[str, Outcome] = {}
            for check in step.checks:
                student = _Recording(LocalBackend(step.responder()), table)
                run_check(check.function, student, LocalBackend(step.responder()), seed=seed)
            tables.append(table)
        self.known = {calls: tables[0][calls] for calls in set.intersection(*map(set, tables))}

    def allow(self, seconds: float | None) -> None:
        """As a worker's: there is no limit."""

    def begin_check(self, seed: int) -> None:
        """A check begins."""
        self.so_far = hashlib.sha256()

    def ask(self, call: Call) -> Outcome:
        """What is known of it."""
        self.so_far.update(encode_call(call))
        if self.so_far.hexdigest() not in self.known:
            raise CheckFailed("not known in advance")
        return self.known[self.so_far.hexdigest()].copied()


class _Recording:
    def __init__(self, backend: Backend, table: dict[str, Outcome]) -> None:
        self.backend, self.table, self.so_far = backend, table, hashlib.sha256()

    def begin_check(self, seed: int) -> None:
        self.backend.begin_check(seed)
        self.so_far = hashlib.sha256()

    def ask(self, call: Call) -> Outcome:
        self.so_far.update(encode_call(call))
        outcome = self.backend.ask(call)
        self.table[self.so_far.hexdigest()] = outcome.copied()
        return outcome


def graded(step: Solution, student: Backend, seed: int, monkeypatch: pytest.MonkeyPatch) -> list[CheckResult]:
    """The results of the step's checks, without a diagnosis."""
    monkeypatch.setattr(DeviceRun, "_diagnoses", lambda self: {})
    oracle = LocalBackend(step.responder())
    run = DeviceRun(step, student, Answers(seed, oracle, step.witness(oracle)), "cpu")  # type: ignore[arg-type]
    run.ask()
    return outcome.results(run.endings, "", "")


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_memorised_answers_earn_nothing(step: Solution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows the answers to all that is asked in every run, and no more, has no points."""
    results = graded(step, Memory(step, (1, 2)), 3, monkeypatch)
    earned = {result.name: result.points for result in results if result.points}
    assert not earned
    told = leading(results)
    assert told is not None
    assert told.status == "fail"


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_each_function_counts_by_itself(step: Solution) -> None:
    """Whoever has written only what a hand case calls has its points: some check draws inputs for no more than that."""
    verdicts = [
        run_check(check.function, LocalBackend(step.responder()), LocalBackend(step.responder()), seed=1)
        for check in step.checks
    ]
    for fixed in (verdict for verdict in verdicts if not verdict.drawn):
        shown = {name for drawn in verdicts if drawn.drawn and drawn.called <= fixed.called for name in drawn.called}
        assert fixed.called <= shown
