"""What a tape keeps of an answer of a misconception: enough to recognise it, not enough to reconstruct it."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from grader.calls.call import Call, Outcome
from grader.calls.values import HandleId, Placed, as_tensor, folded, leaves, numbers_of
from grader.checks.backends import Exchange
from grader.oracle import randomness
from grader.oracle.likeness import (
    is_about_parameters,
    looked_at,
    parameter_shapes,
    room_of,
    said_by,
    telling_gradients,
)

FLOOR = 1e-3  # below this, a difference can't be distinguished from rounding


class Fingerprint(msgspec.Struct, array_like=True, frozen=True):
    """The fingerprint of a misconception's answer: a checksum of what must be equal, numbers that must be close, and a
    profile where random numbers were used. Of sampled tokens the rates, and a checksum of all but the tokens."""

    checksum: int
    numbers: tuple[bytes, ...]  # three per floating tensor, as `_packed` writes them
    profile: tuple[bytes, ...] = ()
    pairs: tuple[bytes, ...] = ()
    loose: int = 0
    due_error: bool = False  # of anything that was given where an error was due
    silent: bool = False  # random, and without a zero that would tell one way of drawing from another


def follows(call: Call, device: str) -> bool:
    """Whether the answer belongs on the device where the check runs: the device of its tensors or its module.

    Tensors made from numbers alone are on the CPU unless the call says otherwise.
    """
    brings = call.handle is not None or any(
        isinstance(leaf, Tensor | HandleId) for leaf in leaves((call.args, call.kwargs))
    )
    return brings and call.options.device == device


def fingerprint(
    call: Call, outcome: Outcome, device: str = "cpu", drawn: bool = False, last: bool = True
) -> Fingerprint:
    """The fingerprint of an answer in a check on this device; `drawn`: random numbers were used, `last`: the check
    ended with it. An error with which the check did not end was expected, and any error counts as the same."""
    checksum, tensors = _described(call, outcome, device, last)
    profile = tuple(randomness.profile(outcome)) if drawn else ()
    pairs = tuple(randomness.pairs(outcome)) if drawn else ()
    tokens = drawn and outcome.raised is None and randomness.has_tokens(outcome)
    loose = _described(call, outcome, device, last, sampled=True)[0] if tokens else 0
    numbers = tuple(_packed(tensor) for tensor in tensors)
    tells = randomness.tells(profile)
    return Fingerprint(checksum, numbers, profile if tells else (), pairs, loose, silent=drawn and not tells)


def agree_in(recorded: Fingerprint, exchange: Exchange, device: str, last: bool = True, exactly: bool = False) -> bool:
    """Whether an answer is the recorded one, up to the order of summation, or another draw of it. Where an error was
    due any value counts as the same, unless it is asked for `exactly`."""
    call, outcome = exchange.call, exchange.outcome
    if outcome is None or recorded.due_error != exchange.due_error:
        return False
    if exchange.due_error and not exactly:
        return True
    checksum, tensors = _described(call, outcome, device, last)
    if recorded.loose and recorded.loose == _described(call, outcome, device, last, sampled=True)[0]:
        if recorded.pairs:
            return randomness.pairs_alike(recorded.pairs, randomness.pairs(outcome))
        if not last:  # too few to tell how often each was sampled
            return True
    if checksum != recorded.checksum or len(tensors) != len(recorded.numbers):
        return False
    return _near(recorded, tensors, outcome.narrowed) or randomness.alike(
        recorded.profile, randomness.profile(outcome), randomness.shapes(outcome)
    )


def _near(recorded: Fingerprint, tensors: list[Tensor], narrowed: bool) -> bool:
    for tensor, packed in zip(tensors, recorded.numbers, strict=True):
        mine, theirs = _numbers(tensor), torch.frombuffer(bytearray(packed), dtype=_kept_as(tensor)).double()
        room = room_of(tensor.dtype, narrowed) * max(float(mine[0]), FLOOR)
        if not torch.allclose(mine.to(_kept_as(tensor)).double(), theirs, rtol=0.0, atol=room):
            return False
    return True


def _described(
    call: Call, outcome: Outcome, device: str, last: bool, *, sampled: bool = False
) -> tuple[int, list[Tensor]]:
    """A checksum of everything in an answer that must be equal, and the floating tensors, which must be close;
    `sampled`: whole numbers need not be equal."""
    here = f"{device}:0" if device != "cpu" else device
    travels = follows(call, device)

    def kind(leaf: Any) -> Any:
        match leaf:
            case Placed(tensor, place):
                where = "here" if travels and place == here else place
                exact = 0 if sampled and tensor.dtype == torch.int64 else _exact(tensor)
                return ["tensor", list(tensor.shape), str(tensor.dtype), where, exact]
            case np.ndarray():
                return ["array", list(leaf.shape), str(leaf.dtype), _exact(as_tensor(leaf))]
        return [type(leaf).__name__, repr(leaf)]

    def describe(value: Any) -> Any:
        return folded(value, kind, lambda items: ["tuple", *items], lambda items: ["dict", *sorted(items)])

    if is_about_parameters(call):
        parts: Any = ["parameters", [shape.replace(here, "here") for shape in map(str, parameter_shapes(outcome))]]
        compared: list[Any] = []
    elif outcome.raised is not None:
        parts, compared = ["raised", *said_by(outcome.raised, call)] if last else ["raised"], []
    else:
        compared = [looked_at(call, outcome).value, telling_gradients(outcome)]
        parts = [*map(describe, compared), list(outcome.modified)]
    numbers = (numbers_of(leaf) for leaf in leaves(compared))
    floating = [tensor for tensor in numbers if tensor is not None and tensor.is_floating_point()]
    return zlib.crc32(msgspec.json.encode([call.name, parts])), floating


def _exact(tensor: Tensor) -> int:
    """The checksum of what must be equal in a tensor: all of it; of a floating one the non-finite entries."""
    if tensor.device.type == "meta":
        return 0
    if tensor.is_floating_point():
        if bool(tensor.isfinite().all()):
            return 0
        tensor = tensor.isnan() + 2 * tensor.isposinf() + 3 * tensor.isneginf()
    return zlib.crc32(tensor.contiguous().numpy().tobytes())


def _numbers(tensor: Tensor) -> Tensor:
    """The sum of the sizes, and the sums weighted by a cosine and a sine of the index, in float64."""
    values = tensor.detach().double().flatten().nan_to_num(0.0, 0.0, 0.0)
    places = torch.arange(1, len(values) + 1, dtype=torch.float64)
    return torch.stack([values.abs().sum(), values @ places.cos(), values @ places.sin()])


def _kept_as(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _packed(tensor: Tensor) -> bytes:
    return bytes(_numbers(tensor).to(_kept_as(tensor)).numpy().tobytes())
