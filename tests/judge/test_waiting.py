"""What is done to a module waits for the next call, and has to go well like a call of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from grader.base.errors import CheckFailed
from grader.base.limits import Limits
from grader.calls.call import Call, Load
from grader.calls.codec import decode_call, encode_call
from grader.calls.framing import PREFIX
from grader.calls.responder import Responder
from grader.checks.assertions import Draw, Implementation, agree, fitting, must_raise, twins
from grader.checks.backends import LocalBackend
from grader.checks.trial import Verdict, run_check
from grader.judge.worker_backend import WorkerBackend


class Right(nn.Module):
    """A module like another."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A linear layer."""
        return self.linear(x)


class Unmovable(Right):
    """A module that can't be put in evaluation mode."""

    def eval(self) -> Right:
        """Fails."""
        raise RuntimeError("no evaluation")


class Misnamed(nn.Module):
    """A module whose parameters have other names."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)


def verdict_on(made: type[nn.Module], check: Any) -> Verdict:
    """What `check` says of a step whose module is `made`."""
    return run_check(check, *(LocalBackend(Responder({"Part": part})) for part in (made, Right)), seed=3)


def loaded(student: Implementation, reference: Implementation, draw: Draw) -> None:
    theirs, ours = student.Part(), reference.Part()
    values = draw.parameters(ours.parameters())
    theirs.load_parameters(values)
    ours.load_parameters(values)
    values["linear.weight"] = torch.zeros(2, 2)  # what is loaded is what was given
    x = draw.normal(3, 2)
    agree(theirs.eval()(x), ours.eval()(x), terms=4)


def nothing_follows(student: Implementation, reference: Implementation, draw: Draw) -> None:
    student.Part().eval()


def an_error_is_due(student: Implementation, reference: Implementation, draw: Draw) -> None:
    theirs = student.Part().eval()
    must_raise(lambda: theirs(torch.ones(1, 3)), "three columns")


@pytest.mark.parametrize("check", [loaded, nothing_follows, an_error_is_due])
def test_right_module_passes(check: Any) -> None:
    """Done in order, nothing left out."""
    assert verdict_on(Right, check).status == "pass"


@pytest.mark.parametrize("check", [loaded, nothing_follows, an_error_is_due])
def test_what_fails_before_a_call_fails_the_check(check: Any) -> None:
    """Also when no call follows, and where the call itself should raise."""
    verdict = verdict_on(Unmovable, check)
    assert verdict.status == "fail"
    assert "Part().eval()" in verdict.message
    assert "no evaluation" in verdict.message


def test_parameters_of_other_names_are_named() -> None:
    """As if they had been loaded by themselves."""
    verdict = verdict_on(Misnamed, loaded)
    assert verdict.status == "fail"
    assert verdict.message.startswith("called    Part()")
    assert "lin.weight" in verdict.message


class Biasless(nn.Module):
    """The layer without its bias."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The product alone."""
        return self.linear(x)


def fitted(student: Implementation, reference: Implementation, draw: Draw) -> None:
    values = {"linear.weight": draw.normal(2, 2), "linear.bias": torch.zeros(2)}
    theirs, ours = fitting(student, values, "Part"), fitting(reference, values, "Part")
    x = draw.normal(3, 2)
    agree(theirs(x), ours(x), terms=4)


@pytest.mark.parametrize(("check", "status"), [(fitted, "pass"), (loaded, "fail")])
def test_parameters_as_far_as_they_fit(check: Any, status: str) -> None:
    """What a check is not about may have a bias too few."""
    assert verdict_on(Biasless, check).status == status


class Unmade(nn.Module):
    """A module that can't be made."""

    def __init__(self) -> None:
        raise ValueError("no such part")


class Unwritten(nn.Module):
    """A module that is not written yet."""

    def __init__(self) -> None:
        raise NotImplementedError


def one_called(student: Implementation, reference: Implementation, draw: Draw) -> None:
    theirs, ours = twins(student, reference, draw, "Part")
    x = draw.normal(3, 2)
    agree(theirs(x), ours(x), terms=4)


def none_called(student: Implementation, reference: Implementation, draw: Draw) -> None:
    twins(student, reference, draw, "Part")


def one_to_fail(student: Implementation, reference: Implementation, draw: Draw) -> None:
    theirs, _ours = twins(student, reference, draw, "Part")
    must_raise(lambda: theirs(torch.ones(1, 3)), "three columns")


@pytest.mark.parametrize("check", [one_called, none_called, one_to_fail])
@pytest.mark.parametrize(
    ("made", "status", "says"),
    [
        (Right, "pass", ""),
        (Unmade, "fail", "Part raised ValueError: no such part"),
        (Unwritten, "todo", "Part is not written yet"),
        (lambda: torch.ones(2), "fail", "expected  an nn.Module"),
        (3, "fail", "not a function or a class"),
    ],
)
def test_twin_is_made_with_the_next_call(check: Any, made: Any, status: str, says: str) -> None:
    """And what goes wrong then is its making's, wherever it shows."""
    verdict = verdict_on(made, check)
    assert (verdict.status, verdict.called) == (status, {"Part"})
    assert says in verdict.message
    assert status == "pass" or verdict.message.startswith("called    Part()\n")


def test_numbers_that_a_twin_begins_with_are_not_its_answers() -> None:
    """An answer is one that chance had a part in only where its own call drew."""
    part = LocalBackend(Responder({"Part": Right}))
    part.begin_check(seed=3)
    part.ask(Call("__call__", (torch.ones(1, 2),), handle=1, first=(Call("Part", new_handle=1),)))
    assert not part.drew
    part.ask(Call("Part", new_handle=2))
    assert part.drew


def test_twin_counts_as_its_class() -> None:
    """A class whose making hangs is not made again: a call of a module of it says why, at once."""
    made = Call("Part", new_handle=1)
    student = WorkerBackend(None, Load("", {}, {}), Limits())  # type: ignore[arg-type]  # nothing is started
    student._lost["Part"] = CheckFailed("it hung")
    with pytest.raises(CheckFailed, match="it hung"):
        student.ask(Call("__call__", handle=1, first=(made,)))


def test_what_waits_travels_with_the_call() -> None:
    """Its tensors included."""
    call = Call("__call__", (torch.ones(2),), handle=1, first=(Call("load_parameters", ({"a": torch.eye(2)}, True)),))
    data = encode_call(call)
    end = PREFIX.size + PREFIX.unpack(data[: PREFIX.size])[0]
    arrived = decode_call(data[PREFIX.size : end], data[end:])
    assert torch.equal(arrived.args[0], torch.ones(2))
    assert torch.equal(arrived.first[0].args[0]["a"], torch.eye(2))
    assert arrived.first[0].args[1] is True
