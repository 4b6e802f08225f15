"""Fingerprints of answers, by which a tape finds the check's inputs and says whether two answers are the same."""

from __future__ import annotations

import pytest
import torch

from grader.calls.call import Call, Options, Outcome, Raised
from grader.calls.values import PlacedTensor
from grader.checks.backends import Exchange
from grader.checks.catalogue import Misconception
from grader.checks.trial import Verdict
from grader.oracle.fingerprints import agree_in, far_nearer, fingerprint
from grader.oracle.witness import Question


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 3.0000002]), True),
        (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0]), False),
        (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 3.001]), False),
        (torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 2.0]]), False),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0], dtype=torch.float64), False),
        (torch.tensor([1.0, torch.nan]), torch.tensor([torch.nan, 1.0]), False),
        (torch.tensor([1.0, torch.inf]), torch.tensor([1.0, torch.inf]), True),
        (torch.tensor([1.0, torch.inf]), torch.tensor([1.0, -torch.inf]), False),
        (torch.tensor([True, False]), torch.tensor([True, True]), False),
        (torch.tensor([[1, 2], [3, 4]]).t(), torch.tensor([[1, 3], [2, 4]]), True),
        (torch.empty(0), torch.empty(0), True),
        (torch.tensor([1.0, 1 + 2e-8], dtype=torch.float64), torch.tensor([1.0, 1.0], dtype=torch.float64), False),
        (4139.982421875, 4139.98291015625, True),  # what `item()` made of two float32, one step apart
        (4139.9824, 4139.9829, False),
        (1, 1, True),
        (1, 1.0, False),
        (None, (), False),
    ],
)
def test_fingerprints(first: object, second: object, alike: bool) -> None:
    """They match for the same answer, and for one that was summed in another order, and for no other."""
    call = Call("f")
    one, other = (
        Outcome(PlacedTensor(value, "cpu") if isinstance(value, torch.Tensor) else value) for value in (first, second)
    )
    assert agree_in(fingerprint(call, one), Exchange(call, outcome=other), "cpu") is alike
    assert not agree_in(
        fingerprint(call, one), Exchange(call, outcome=Outcome(raised=Raised("ValueError", "no"))), "cpu"
    )


UNBOUND = "cannot access local variable '{}' where it is not associated with a value"
STRAY = "Expected all tensors to be on the same device, but {} got one on meta and one of shape ({}) on cpu"


@pytest.mark.parametrize(
    ("first", "second", "last", "alike"),
    [
        (Raised("ValueError", "p is 2", source="raise ValueError(p)"),
         Raised("AssertionError", "", source="assert p <= 1"), True, True),
        (Raised("ValueError", "p is 2", source="raise ValueError(p)"), Raised("TypeError", "no"), True, False),
        (Raised("ValueError", "no", source="if p > 1: raise ValueError"),
         Raised("ValueError", "yes", source="if p > 1: raise_it()"), True, False),
        (Raised("RuntimeError", "sizes 2 and 3"), Raised("RuntimeError", "sizes 2 and 4"), True, False),
        (Raised("RuntimeError", STRAY.format("embedding", "3,")),
         Raised("RuntimeError", STRAY.format("add", "1, 3")), True, True),
        (Raised("RuntimeError", STRAY.format("add", "3,")),
         Raised("RuntimeError", STRAY.format("add", "3, 3")), True, False),
        (Raised("UnboundLocalError", UNBOUND.format("weights")),
         Raised("UnboundLocalError", UNBOUND.format("w")), True, True),
        (Raised("RuntimeError", "sizes 2 and 3"), Raised("ValueError", "p is 2"), False, True),
    ],
)  # fmt: skip
def test_fingerprints_of_errors(first: Raised, second: Raised, last: bool, alike: bool) -> None:
    """What is raised on purpose has anybody's words, and what a check asked for is any error."""
    call = Call("f")
    recorded = fingerprint(call, Outcome(raised=first))
    theirs = Exchange(call, outcome=Outcome(raised=second))
    assert agree_in(recorded, theirs, "cpu", last=last) is alike
    answers = [theirs] if last else [theirs, theirs]
    question = Question(test_fingerprints_of_errors, 1, "cpu", Verdict("fail", "", frozenset("f"), answers))
    wrong = Misconception("name", "test_of_f", {"f": None}, "what", "why", "nudge")
    assert question.agrees(recorded, 0, wrong) is alike


def test_gradients_behind_not_a_number() -> None:
    """They tell nothing: how far it spreads on the way back is a matter of how the same is written."""
    call, lost, whole = Call("f"), torch.tensor([1.0, torch.nan]), torch.tensor([1.0, 2.0])
    for value, alike in ((lost, True), (whole, False)):
        one, other = (
            Outcome(PlacedTensor(value, "cpu"), gradients={"0": PlacedTensor(back, "cpu")}) for back in (lost, whole)
        )
        assert agree_in(fingerprint(call, one), Exchange(call, outcome=other), "cpu") is alike


def test_a_gradient_of_zeros_is_none() -> None:
    """As in a check, where one that no path leads to counts as zeros."""
    call, value = Call("f"), PlacedTensor(torch.ones(2), "cpu")
    one, other = (Outcome(value, gradients={"0": back}) for back in (PlacedTensor(torch.zeros(2), "cpu"), None))
    assert agree_in(fingerprint(call, one), Exchange(call, outcome=other), "cpu")


def test_fingerprints_on_another_device() -> None:
    """An answer on the device where the check runs is at home there, as a recorded one was on the CPU."""
    values = torch.tensor([1.0, 2.0])
    recorded = fingerprint(Call("f", (values,)), Outcome(PlacedTensor(values, "cpu")))
    call = Call("f", (values,))
    call.options.device = "cuda"
    assert agree_in(recorded, Exchange(call, outcome=Outcome(PlacedTensor(values, "cuda:0"))), "cuda")
    assert not agree_in(recorded, Exchange(call, outcome=Outcome(PlacedTensor(values, "cpu"))), "cuda")


def test_what_a_check_does_not_look_at() -> None:
    """Of two values that a call returns, the one that the check compares; where an error was due, no value at all."""
    right, wrong = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    one, other = (Outcome((PlacedTensor(right, "cpu"), PlacedTensor(second, "cpu"))) for second in (right, wrong))
    for part, alike in ((0, True), (1, False), (2, False), (None, False)):
        call = Call("f", options=Options(part=part))
        assert agree_in(fingerprint(call, one), Exchange(call, outcome=other), "cpu") is alike
    given = Exchange(Call("f"), outcome=one, due_error=True)
    recorded, raised = (fingerprint(Call("f"), way) for way in (other, Outcome(raised=Raised("ValueError", "no"))))
    assert agree_in(recorded, given, "cpu")
    assert not agree_in(recorded, given, "cpu", exactly=True)
    assert not agree_in(raised, given, "cpu")
    question = Question(lambda: None, 1, "cpu", Verdict("fail", "", frozenset({"f"}), [given]))
    wrong_way = Misconception("wrong", "check", {"f": None}, "", "", "")
    assert question.agrees(recorded, 0, wrong_way)
    assert not question.agrees(raised, 0, wrong_way)
    assert not question.agrees(recorded, 1, wrong_way)  # the student's code was asked no more


def test_an_answer_may_be_far_nearer_to_a_mistake_than_to_the_right_one() -> None:
    """An answer that need not be exact is so where the same mistake was made in another form."""
    right, mistaken = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 4.0])
    recorded = fingerprint(Call("f"), Outcome(PlacedTensor(mistaken, "cpu")))

    def near(mine: torch.Tensor) -> bool:
        exchange = Exchange(Call("f"), outcome=Outcome(PlacedTensor(mine, "cpu")))
        return far_nearer(recorded, exchange, PlacedTensor(right, "cpu"), "cpu")

    assert near(mistaken + 1e-4)
    assert not near(mistaken + 1e-2)
    assert not near((right + mistaken) / 2)
    assert not near(right + 1e-7)
    assert not near(mistaken.double())
    assert not near(mistaken[:2])
