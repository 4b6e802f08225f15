"""Values that code reads on `meta`, where there are none, and what it prints there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from grader.calls.call import Call, Options, Outcome
from grader.calls.counters import EveryOp
from grader.calls.responder import Responder
from grader.sandbox.preload import meta_below_python

ON_META = Options(device="meta")
X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


@pytest.fixture(autouse=True, scope="module")
def _as_in_a_worker() -> None:
    meta_below_python()


def asked(function: Any, *args: Any, trusted: bool = False) -> Outcome:
    return Responder({"f": function}, None if trusted else {}).respond(Call("f", args, begin=1, options=ON_META))


def shows(x: Tensor) -> Tensor:
    print(x, f"{x} {x.sum():.3f}", repr([x]))
    return x * 2


def reads(x: Tensor) -> Tensor:
    assert not torch.isnan(x).any() and x.mean().item() > 0 and 3.0 in x
    numbers = [len(x.tolist()), x.detach().cpu().numpy().max(), float(np.asarray(x).sum())]
    if x.max() > 3.5 and torch.equal(x, x):
        return x[x > 0] * sum(numbers) + torch.tensor([x.max(), 1.0], device=x.device)[0]
    raise ValueError("another branch than on the CPU")


def raises_numbers(x: Tensor) -> Tensor:
    """Of which torch makes tensors by itself, where not every op takes a number."""
    powers = 10000.0 ** (x / 4) + 2**x
    assert powers.sum().item() > 0
    return powers


def makes(count: int, device: str) -> Tensor:
    steps = torch.arange(count, device=device)
    assert steps.max() == count - 1 and steps.float().mean().item() == (count - 1) / 2
    return steps[steps.tolist()[0] :]


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("function", [shows, reads, raises_numbers])
def test_the_values_of_the_cpu_are_read(function: Any, trusted: bool) -> None:
    """By the same line, in the same order: the shape is that of the CPU, also where it depends on values."""
    with EveryOp():
        pass  # a call that was measured before leaves its function where reads are seen
    outcome = asked(function, X, trusted=trusted)
    assert (outcome.raised, outcome.elsewhere) == (None, [])
    assert outcome.value.tensor.shape == function(X).shape  # type: ignore[union-attr]


def test_many_tokens_come_without_values() -> None:
    """Any will do: a shape is given alone."""
    outcome = asked(shows, torch.empty(1, 1030, 4, device="meta"))
    assert outcome.raised is None
    assert outcome.value.tensor.shape == (1, 1030, 4)  # type: ignore[union-attr]


def test_a_device_by_name() -> None:
    """A function that makes its tensor on `meta` reads it as well."""
    outcome = Responder({"f": makes}, {}).respond(Call("f", (3, "meta"), begin=1))
    assert outcome.raised is None
    assert outcome.value.tensor.is_meta  # type: ignore[union-attr]


def test_another_read_is_refused() -> None:
    """What only the code on `meta` reads has no value."""
    outcome = asked(lambda x: x * float(x.sum()) if x.is_meta else x * 2.0, X)
    assert outcome.raised is not None
    assert "meta" in outcome.raised.message


def test_a_read_does_not_hide_other_work() -> None:
    """The functions are compared as before."""

    def other(x: Tensor) -> Tensor:
        return x.exp() * x.sum().item() if x.is_meta else x.sigmoid() * x.sum().item()

    assert asked(other, X).elsewhere == ["exp", "sigmoid"]


class Counts(nn.Module):
    """It notes each call, and reads a value."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append(1)
        assert x.sum().item() and len(self.calls) == 1
        return x


@pytest.mark.parametrize("trusted", [False, True])
def test_a_module_is_called_once(trusted: bool) -> None:
    """The call that was made to see that it reads leaves nothing behind."""
    responder = Responder({"M": Counts}, None if trusted else {})
    move = Call("to", ("meta", None), handle=1)
    made = Call("M", new_handle=1, begin=1)
    outcome = responder.respond(Call("__call__", (X,), handle=1, first=(made, move), options=ON_META))
    assert outcome.raised is None
    assert responder.handles[1].calls == [1]


class Changes(nn.Module):
    """A module that is of another class once it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.__class__ = Plain  # type: ignore[assignment]  # of the same layout

    def __iter__(self) -> Any:
        return iter([torch.empty(2, device="meta")])


class Plain:
    """No module."""

    __iter__ = Changes.__iter__


class Shows(nn.Module):
    """It prints a parameter, and reads one, while it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        print(f"{self.weight} {self.weight.sum():.2f} {self.weight.tolist()}")


def test_of_a_class_the_module_is_compared() -> None:
    """To make it takes many functions, and none is recorded; what has made something else of itself is refused."""
    responder = Responder({"M": Changes, "S": Shows}, {})
    assert responder.respond(Call("M", new_handle=1, begin=1, options=ON_META)).elsewhere
    on_meta = Options(device="meta", made_on_meta=True)
    outcome = responder.respond(Call("S", new_handle=2, options=on_meta))
    assert (outcome.raised, outcome.elsewhere) == (None, [])


def test_a_long_call_is_not_compared() -> None:
    """It costs nothing on `meta`; the same code is compared on short ones, and what only long ones do is not."""

    def other(x: Tensor) -> Tensor:
        return x.exp() if x.is_meta else x.sigmoid()

    assert asked(other, torch.zeros(1, 1030, 4)).elsewhere == []
    assert asked(other, torch.zeros(1, 1024, 4)).elsewhere == ["exp", "sigmoid"]


def test_a_copy_on_the_cpu_is_another_module() -> None:
    """What is empty in a module is empty in its copy, and no call on `meta` puts something into it."""
    responder = Responder({"M": Counts}, {})
    move = Call("to", ("meta", None), handle=1)
    responder.respond(Call("is_training", handle=1, first=(Call("M", new_handle=1, begin=1), move)))
    module, copied = responder.handles[1], responder._cpu_copies._modules[1]
    values = [value for value in vars(module).values() if isinstance(value, dict | set | list)]
    assert all(mine is not theirs for mine, theirs in zip(values, vars(copied).values(), strict=False))
    assert copied.calls == [] and copied._parameters is not module._parameters
