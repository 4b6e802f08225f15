"""What an oracle has answered and drawn under one seed is kept, and is what it would answer and draw again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from grader.calls.call import Call
from grader.checks.backends import LocalBackend
from grader.checks.trial import run_check
from grader.judge.session import Session
from grader.oracle.cache import CachedOracle
from grader.oracle.live import solutions

FIRST = solutions()[0]


def test_draws_are_the_oracles_own_and_nobody_changes_them() -> None:
    oracle = CachedOracle(FIRST.oracle())
    for _time in range(3):
        fresh, draw = FIRST.oracle().draws("test_widths", 5, "cpu"), oracle.draws("test_widths", 5, "cpu")
        values = draw.normal(2, 3)
        assert torch.equal(values, fresh.normal(2, 3))
        values.zero_()  # a check may work on what it has drawn
        assert draw.integer(0, 1000) == fresh.integer(0, 1000)
    assert not torch.equal(oracle.draws("test_widths", 6, "cpu").normal(2, 3), fresh.normal(2, 3))


def test_a_check_that_goes_further_draws_on_from_where_it_was() -> None:
    oracle = CachedOracle(FIRST.oracle())
    oracle.draws("test_widths", 5, "cpu").normal(4)
    fresh, draw = FIRST.oracle().draws("test_widths", 5, "cpu"), oracle.draws("test_widths", 5, "cpu")
    for count in (4, 3, 2):
        assert torch.equal(draw.normal(count), fresh.normal(count))


def test_answers_are_given_again_and_go_on_from_there() -> None:
    oracle, plain = CachedOracle(FIRST.oracle()), FIRST.oracle()
    questions = [Call("dot_product_scores", (torch.full((1, 2), float(k)), torch.ones(3, 2))) for k in range(3)]
    for most in (1, 2, 3, 1):
        oracle.begin_check(7)
        plain.begin_check(7)
        for question in questions[:most]:
            assert torch.equal(oracle.ask(question).value.tensor, plain.ask(question).value.tensor)


def test_a_prepared_step_asks_its_reference_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a learner types, the judge has the reference answer what the next grade will ask."""
    session: Any = Session(None, None)  # type: ignore[arg-type]  # it neither answers nor starts anything here
    session._prepare(SimpleNamespace(steps=[FIRST.name], seed=9), ["cpu"])
    step, oracle = session._steps[FIRST.name], session._answers[FIRST.name].oracle

    def asked(*_call: Any) -> None:
        raise AssertionError("the reference was asked again")

    student = LocalBackend(step.responder())
    monkeypatch.setattr(oracle, "_oracle", SimpleNamespace(ask=asked, draws=oracle._oracle.draws, begin_check=asked))
    for check in step.checks:
        assert run_check(check.function, student, oracle, seed=9).status == "pass"
