"""A check asks lazily: only what a right answer would give as well ends in a verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grader.base.errors import CheckFailed
from grader.calls.responder import Responder
from grader.checks import lazy
from grader.checks.assertions import agree, exactly, holds, must_raise
from grader.checks.backends import LocalBackend
from grader.checks.draws import Draw
from grader.checks.implementation import Implementation
from grader.checks.lazy import Here, Message, Odd, Script

Check = Callable[[Implementation, Implementation, Draw], None]


class Model(nn.Module):
    """A module without parameters."""

    def forward(self, x: Tensor) -> Tensor:
        """Doubles."""
        return x * 2


def double(x: Tensor) -> Tensor:
    """Doubles; refuses three dimensions."""
    if x.dim() == 3:
        raise ValueError("three dimensions")
    return x * 2


RIGHT: dict[str, Any] = {"double": double, "Model": Model}


class Counted(Here):
    """Counts messages, and may change what was answered."""

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__(LocalBackend(Responder(names, {})))
        self.messages: list[int] = []

    def send_all(self, frames: list[bytes]) -> list[Message]:
        """The answers."""
        self.messages.append(len(frames))
        return super().send_all(frames)


def ask(check: Check, names: dict[str, Any], scripts: dict[str, Script] | None = None) -> tuple[bool, list[int]]:
    """Whether a check passes in few messages, and how many calls each had."""
    transport, reference = Counted(names), LocalBackend(Responder(RIGHT))
    scripts = {} if scripts is None else scripts
    found = lazy.passed(check, transport, {"Model"}.__contains__, reference, seed=1, scripts=scripts)
    return found is not None, transport.messages


def of_both(student: Implementation, reference: Implementation, draw: Draw) -> None:
    for _time in range(3):
        x = draw.normal(2, 2)
        agree(student.double(x), reference.double(x))
        x.zero_()  # after it was handed over
    agree(student.Model()(torch.ones(2)), reference.Model()(torch.ones(2)))


def read_between(student: Implementation, reference: Implementation, draw: Draw) -> None:
    x = draw.normal(2, 2)
    first = student.double(x)
    exactly(student.double(reference.double(x).tensor()), 4 * x)
    agree(first, 2 * x)


def refused(student: Implementation, reference: Implementation, draw: Draw) -> None:
    agree(student.double(draw.normal(2)), reference.double(draw.normal(2))) if draw.integer(0, 0) else None
    got = student.double(torch.ones(2))
    must_raise(lambda: student.double(torch.ones(1, 1, 1)), "three dimensions")
    agree(got, reference.double(torch.ones(2)))


def caught(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Goes on after an error, which must be the last call's."""
    student.double(torch.ones(2))
    try:
        student.double(torch.ones(1, 1)).tensor()
    except CheckFailed:
        return
    holds(draw.integer(1, 1) == 1, "never")


@pytest.mark.parametrize(
    ("check", "messages"), [(of_both, [5]), (read_between, [1, 1]), (refused, [1, 1]), (caught, [2])]
)
def test_calls_go_together(check: Check, messages: list[int]) -> None:
    """Up to where the check looks at an answer, its own or the reference's, or where an error is due."""
    assert ask(check, RIGHT) == (True, messages)


@pytest.mark.parametrize("check", [of_both, read_between, refused])
@pytest.mark.parametrize(
    "wrong",
    [
        {"double": lambda x: x * 3},
        {"double": lambda x: 1 / 0},
        {"double": lambda x: Model()},
        {"double": lambda x: x.exp_()},
        {"double": lambda x: None},
        {},
    ],
)
def test_what_is_wrong_has_no_verdict(check: Check, wrong: dict[str, Any]) -> None:
    """Wrong values, an error, an object, an input that was changed, nothing, no such name."""
    assert not ask(check, {"Model": Model} | wrong)[0]


def test_an_earlier_calls_error_is_not_the_one_that_is_due() -> None:
    """`must_raise` would be content with it."""

    def fails_on_two(x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError
        return x * 2

    assert not ask(refused, RIGHT | {"double": fails_on_two})[0]
    assert not ask(caught, RIGHT | {"double": lambda x: 1 / 0})[0]


def test_known_answers_have_the_known_verdict() -> None:
    """Bit for bit; others are judged, also under a known script."""
    scripts: dict[str, Script] = {}
    assert ask(of_both, RIGHT, scripts) == (True, [5])
    (script,) = scripts.values()
    assert len(script.passed) == 1
    assert ask(of_both, RIGHT, scripts) == (True, [5])
    assert len(script.passed) == 1
    almost = RIGHT | {"double": lambda x: x.double().mul(2 * (1 + 1e-6)).to(x.dtype)}
    assert ask(of_both, almost, scripts) == (True, [5])
    assert len(script.passed) == 2
    assert not ask(of_both, RIGHT | {"double": lambda x: x * 2.1}, scripts)[0]


def test_messages_made_from_answers_are_not_sent_to_whoever_answers_otherwise() -> None:
    """Where later calls are made from the student's own answers."""

    def chained(student: Implementation, reference: Implementation, draw: Draw) -> None:
        first = student.double(draw.normal(2)).tensor()
        agree(student.double(first), 2 * first)

    scripts: dict[str, Script] = {}
    other = RIGHT | {"double": lambda x: x * 2.000001}
    for names in (RIGHT, other, RIGHT, other):
        assert ask(chained, names, scripts) == (True, [1, 1])
    (script,) = scripts.values()
    assert len(script.passed) == 2


def test_a_transport_that_fails_ends_it() -> None:
    class Broken(Counted):
        def send_all(self, frames: list[bytes]) -> list[Message]:
            raise Odd

    reference = LocalBackend(Responder(RIGHT))
    assert lazy.passed(of_both, Broken(RIGHT), {"Model"}.__contains__, reference, seed=1, scripts={}) is None
    assert lazy.Queue.active is None
