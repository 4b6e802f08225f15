"""The parts of an answer that tell one mistake from another, and the room for other ways to write the same one."""

from __future__ import annotations

import re
from typing import Any

import torch
from msgspec.structs import replace

from grader.calls.call import Call, Outcome, Raised
from grader.calls.values import PlacedTensor, leaves, numbers_of
from grader.checks.backends import Exchange
from grader.checks.compare import UNITS, Tolerance, gradient_room, largest_of, magnitude

# A learner who makes the same mistake may sum in another order: tolerance for that, and for nothing else.
ROOM = 16.0
PEAK_ROOM = 1.3  # and for a memory peak, which includes whatever was alive at the same time
SAVED_ROOM = 1.1  # and for what is kept for a backward pass, which depends on how each operation is written
MEMORY = ("largest", "live", "peak", "saved")  # the measures that tell one mistake from another
ON_PURPOSE = re.compile(r"(^|:\s*)(raise|assert)\b")  # a line that raises deliberately
# What people raise for an argument that they don't take; of other types, as NotImplementedError, the type counts.
REFUSALS = frozenset({"ValueError", "AssertionError", "TypeError", "RuntimeError", "IndexError", "Exception"})
OF_A_SOLUTION, OF_A_CATALOGUE = "solutions", re.compile("misconceptions|mistakes")
OF_A_CLASS = ("__init__", "forward", "__call__")
ADDRESS = re.compile(r"0x[0-9a-f]+")
# A tensor of more or fewer dimensions than the code was written for: which operation met it first says nothing.
DIMENSIONS = re.compile(
    r"Dimension out of range|number of dimensions|must be a [123]D tensor|values to unpack|expects a tensor with <= \d"
)
# What the responder says about a tensor on another device: the mistake is the line that made it, not the op that met it
# first, or with how many leading dimensions of size 1.
STRAY = re.compile(r"(on the same device, but )\w+ (got one on meta and one of shape \()(?:1, )*+([\d, ]*?),?\)")
VARIABLE = re.compile(r"(variable) '\w+'")  # names of the author's own choice


def size_measured(answers: list[Exchange]) -> int:
    """The memory of the last answer, in elements or bytes as the check measured it; 0 if it measured none.

    A check that looks at an answer's memory has found nothing wrong with its values, nor with the memory of earlier
    answers.
    """
    last = answers[-1] if answers else None
    if last is None or last.outcome is None or last.measured not in MEMORY:
        return 0
    got: Any = last.outcome.measured.get(last.measured, 0)
    # A peak differs by some bytes from run to run; two digits of it make two recordings the same.
    return int(float(f"{got:.1e}")) if last.measured == "peak" else int(got)


def same_size(size: int, answers: list[Exchange]) -> bool:
    """Whether these answers took this much memory, in the unit of `size_measured`. A peak, or what is kept for a
    backward pass, need only be close."""
    theirs = size_measured(answers)
    if theirs and answers[-1].measured != "largest":
        room = PEAK_ROOM if answers[-1].measured in ("live", "peak") else SAVED_ROOM
        return theirs < room * size and size < room * theirs
    return theirs == size


def is_about_parameters(call: Call) -> bool:
    """Whether the call asks a module for its parameters: initial values are random, so only names and shapes count."""
    return call.handle is not None and call.name == "parameters"


def looked_at(call: Call, outcome: Outcome) -> Outcome:
    """The outcome with only the returned value that the check looks at, without gradients: the other values may be
    right or wrong in a way of their own. The outcome itself if the check looks at all values."""
    part, value = call.options.part, outcome.value
    if part is None or not isinstance(value, tuple) or part >= len(value):
        return outcome
    return replace(outcome, value=value[part], gradients={})


def parameter_shapes(outcome: Outcome) -> list[tuple[str, str]]:
    """The name of each parameter in an answer, with its shape, dtype and device as text, sorted; empty if the answer
    has none."""
    values = outcome.value if isinstance(outcome.value, dict) else {}
    return sorted(
        (name, f"{tuple(value.tensor.shape)} {value.tensor.dtype} {value.device}")
        for name, value in values.items()
        if isinstance(value, PlacedTensor)
    )


def telling_gradients(outcome: Outcome) -> dict[str, PlacedTensor | None]:
    """The gradients of an answer by argument, as far as they distinguish one mistake from another; None for one of
    zeros, up to rounding.

    Empty if a value is NaN: how far NaN spreads in the backward pass differs between equivalent implementations, since
    `max` passes it to the largest entry and `amax` to all."""
    if outcome.gradients and _has_nan(outcome.value):
        return {}
    largest = largest_of(outcome.gradients)
    return {name: None if back is None or _is_zero(back, largest) else back for name, back in outcome.gradients.items()}


def _is_zero(placed: PlacedTensor, largest: float) -> bool:
    """Whether a gradient is zero up to rounding, next to the largest number of all gradients."""
    if placed.device == "meta":
        return False
    return magnitude(placed.tensor, 0.0) <= gradient_room(placed.tensor, largest, Tolerance())


def _has_nan(value: Any) -> bool:
    """Whether a number in the value is NaN."""
    numbers = (numbers_of(leaf) for leaf in leaves(value))
    return any(tensor is not None and tensor.is_floating_point() and bool(tensor.isnan().any()) for tensor in numbers)


def said_by(raised: Raised, call: Call) -> tuple[str, str]:
    """The type and message of an error, without what varies between runs or between implementations of the same
    mistake: two errors with equal ones count as the same. If the code was not written for a number of dimensions, only
    that. Errors raised on purpose are worded differently by everyone, so only the place counts: the called code, or
    code below it, as in a model with too many tokens."""
    if ON_PURPOSE.search(raised.source):
        kind = "" if raised.type in REFUSALS else raised.type
        return kind, "" if _by_callee(raised, call) else "beneath " + "".join(raised.shapes[:1]).partition(": ")[2]
    if DIMENSIONS.search(raised.message):
        return "", "dimensions"
    return raised.type, VARIABLE.sub(r"\1", STRAY.sub(r"\1\2\3)", ADDRESS.sub("0x", raised.message)))


def _by_callee(raised: Raised, call: Call) -> bool:
    """Whether the code that was called, or a helper of its own, raised the error, and not a model inside it. Of a known
    mistake, only the file of mistakes is its own code: a class that it takes from the reference is not."""
    if raised.function not in OF_A_CLASS:
        return True
    if OF_A_SOLUTION in raised.file:
        return bool(OF_A_CATALOGUE.search(raised.file))
    return (call.handle is not None and not call.own) or call.name[:1].isupper()


def room_of(dtype: torch.dtype, narrowed: bool) -> float:
    """The tolerance for numbers of this dtype, as a share of their size. A float64 that went through a float32 on its
    way (`narrowed`) is only as exact as that: what was rounded before, and what after, differs with each way of writing
    the same mistake."""
    computed = torch.float32 if narrowed and dtype == torch.float64 else dtype
    return ROOM * UNITS.get(computed, 16.0) * torch.finfo(computed).eps
