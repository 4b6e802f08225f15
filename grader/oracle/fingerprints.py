"""Fingerprints of a misconception's answers, for tapes: enough to recognise an answer, not enough to reconstruct it."""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
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

RAISED = ["raised"]
SHORT = 1 << 14  # elements of a tensor for which the weights of its sums are kept
CLEARLY = 1e-2  # of the sum of the sizes: two answers this far apart differ by more than rounding
FLOOR = 1e-3  # below this, a difference can't be distinguished from rounding
FAR_NEARER = 1e-3  # of the distance to the right answer: one this near to a mistake's is that mistake, made otherwise


class Fingerprint(msgspec.Struct, array_like=True, frozen=True):
    """The fingerprint of a misconception's answer: a checksum of what must be equal, numbers that must be close, and a
    profile if random numbers were used. Of sampled tokens the rates, and a checksum of all but the tokens."""

    checksum: int
    numbers: tuple[bytes, ...]  # three per floating tensor, packed
    profile: tuple[bytes, ...] = ()
    pairs: tuple[bytes, ...] = ()
    loose: int = 0  # the same of all but sampled tokens; of an error, that it is one
    silent: bool = False  # random, and without a zero that would tell one way of drawing from another

    @property
    def is_random(self) -> bool:
        """Whether random numbers were used."""
        return bool(self.silent or self.profile or self.pairs)

    def kept(self) -> Fingerprint:
        """Itself."""
        return self


class Taken:
    """The fingerprint of an answer at hand, computed part by part when compared; most comparisons end at the first
    part."""

    def __init__(self, call: Call, outcome: Outcome, device: str = "cpu", drawn: bool = False) -> None:
        self._answer, self.is_random = (call, outcome, device), drawn

    @property
    def is_large(self) -> bool:
        """Whether the answer takes more memory than one that waits to be compared should."""
        every = map(numbers_of, leaves((self._answer[1].value, self._answer[1].gradients)))
        return sum(tensor.numel() for tensor in every if tensor is not None) > SHORT

    @cached_property
    def _whole(self) -> _Described:
        return _described(*self._answer)

    @property
    def checksum(self) -> int:
        """The checksum of all that must be equal."""
        return self._whole.checksum

    @cached_property
    def numbers(self) -> tuple[bytes, ...]:
        each = zip(self._whole.floating, self._whole.numbers, strict=True)
        return tuple(struct.pack(_layout(tensor), *three) for tensor, three in each)

    @cached_property
    def profile(self) -> tuple[bytes, ...]:
        profile = randomness.profile(self._answer[1]) if self.is_random else []
        return tuple(profile) if randomness.tells(profile) else ()

    @cached_property
    def pairs(self) -> tuple[bytes, ...]:
        return tuple(randomness.pairs(self._answer[1])) if self.is_random else ()

    @cached_property
    def loose(self) -> int:
        raised = self._answer[1].raised is not None
        tokens = self.is_random and not raised and randomness.has_tokens(self._answer[1])
        return _described(*self._answer, loosely=True).checksum if tokens or raised else 0

    @property
    def silent(self) -> bool:
        return self.is_random and not self.profile

    def kept(self) -> Fingerprint:
        """The whole fingerprint, without the answer."""
        return Fingerprint(self.checksum, self.numbers, self.profile, self.pairs, self.loose, self.silent)


Print = Fingerprint | Taken


def follows(call: Call, device: str) -> bool:
    """True if the right answer of a call is on the check's device, as its tensors or its module are.

    Tensors made from numbers alone are on the CPU unless the call says otherwise.
    """
    brings = call.handle is not None or any(
        isinstance(leaf, Tensor | HandleId) for leaf in leaves((call.args, call.kwargs))
    )
    return brings and call.options.device == device


def fingerprint(call: Call, outcome: Outcome, device: str = "cpu", drawn: bool = False) -> Print:
    """The fingerprint of an answer in a check on this device; `drawn`: random numbers were used."""
    taken = Taken(call, outcome, device, drawn)
    return taken.kept() if taken.is_large else taken


def agree_in(recorded: Print, exchange: Exchange, device: str, last: bool = True, exactly: bool = False) -> bool:
    """Whether an answer is the recorded one, up to the order of summation, or another draw of it. An error with which
    the check did not end (it was not the `last` answer) was expected, and any error counts as the same. If an error was
    due, any value counts as the same, unless `exactly`."""
    outcome = exchange.outcome
    if outcome is None:
        return False
    if exchange.due_error and not exactly:
        return recorded.loose != _checksum(exchange.call, RAISED)
    if recorded.loose and recorded.loose == _student(exchange, outcome, device, loosely=True).checksum:
        if recorded.pairs:
            return randomness.pairs_alike(recorded.pairs, randomness.pairs(outcome))
        if not last:  # any error, or too few tokens to tell how often each was sampled
            return True
    theirs = _student(exchange, outcome, device)
    if theirs.checksum != recorded.checksum or len(theirs.floating) != len(recorded.numbers):
        return False
    return _near(recorded, theirs, outcome.narrowed) or randomness.alike(
        recorded.profile, randomness.profile(outcome), randomness.shapes(outcome)
    )


def clearly_apart(recorded: Print, exchange: Exchange, device: str) -> bool:
    """Whether an answer has the shapes of the recorded one, and numbers further apart than any way of rounding takes
    them."""
    if exchange.outcome is None or exchange.outcome.raised or exchange.due_error:
        return False
    theirs = _student(exchange, exchange.outcome, device)
    if theirs.checksum != recorded.checksum or len(theirs.floating) != len(recorded.numbers):
        return False
    own = _floating(looked_at(exchange.call, exchange.outcome).value)
    each = zip(own, theirs.numbers, recorded.numbers, strict=False)  # without the gradients, which come behind
    return any(
        abs(one - other) > CLEARLY * max(mine[0], FLOOR)
        for tensor, mine, packed in each
        for one, other in zip(mine, struct.unpack(_layout(tensor), packed), strict=True)
    )


def far_nearer(recorded: Print, exchange: Exchange, right: Any, device: str) -> bool:
    """Whether an answer has the shapes of the recorded one, is clearly wrong, and far nearer to it than to the right
    one."""
    if exchange.outcome is None or exchange.outcome.raised or exchange.due_error:
        return False
    theirs = _student(exchange, exchange.outcome, device)
    due = _floating(right)
    shapes = [(tensor.shape, tensor.dtype) for tensor in due]
    count = len(due)  # without the gradients, which come behind
    if theirs.checksum != recorded.checksum or len(theirs.floating) != len(recorded.numbers) or not count:
        return False
    if [(tensor.shape, tensor.dtype) for tensor in theirs.floating[:count]] != shapes:
        return False
    own = [number for each in theirs.numbers[:count] for number in each]
    mistakes = [
        number
        for tensor, packed in zip(due, recorded.numbers, strict=False)
        for number in struct.unpack(_layout(tensor), packed)
    ]
    wanted = [number for tensor in due for number in _numbers(tensor).tolist()]
    apart = math.dist(own, wanted)
    return apart > CLEARLY * math.hypot(*wanted) and math.dist(own, mistakes) <= FAR_NEARER * apart


@dataclass(frozen=True)
class _Described:
    """A checksum of everything in an answer that must be equal, and the floating tensors, which must be close."""

    checksum: int
    floating: list[Tensor]

    @cached_property
    def numbers(self) -> list[list[float]]:
        """Three numbers of each floating tensor, as precise as they are kept."""
        return [_numbers(tensor).to(_kept_as(tensor)).tolist() for tensor in self.floating]


def _student(exchange: Exchange, outcome: Outcome, device: str, loosely: bool = False) -> _Described:
    """A student's answer as `_described`, once: it is compared with those of many misconceptions."""
    if loosely not in exchange.described:
        exchange.described[loosely] = _described(exchange.call, outcome, device, loosely=loosely)
    description: _Described = exchange.described[loosely]
    return description


def _near(recorded: Print, theirs: _Described, narrowed: bool) -> bool:
    """Whether the numbers are as close as another order of summation brings them."""
    for tensor, mine, packed in zip(theirs.floating, theirs.numbers, recorded.numbers, strict=True):
        room = room_of(tensor.dtype, narrowed or _is_of_float32(tensor)) * max(mine[0], FLOOR)
        pairs = zip(mine, struct.unpack(_layout(tensor), packed), strict=True)
        if not all(one == other or abs(one - other) <= room for one, other in pairs):
            return False
    return True


def _is_of_float32(tensor: Tensor) -> bool:
    """True for one number that float32 holds as it is: a float that `item()` made of one, say."""
    return tensor.dim() == 0 and tensor.dtype == torch.float64 and bool(tensor.float().double() == tensor)


def _described(call: Call, outcome: Outcome, device: str, *, loosely: bool = False) -> _Described:
    """An answer, described; `loosely`: whole numbers need not be equal, nor what an error says."""
    if is_about_parameters(call):
        here = f"{device}:0" if device != "cpu" else device
        shapes = [shape.replace(here, "here") for shape in map(str, parameter_shapes(outcome))]
        return _Described(_checksum(call, ["parameters", shapes]), [])
    if outcome.raised is not None:
        said = RAISED if loosely else [*RAISED, *said_by(outcome.raised, call)]
        return _Described(_checksum(call, said), [])
    compared = [looked_at(call, outcome).value, telling_gradients(outcome)]
    home = f"{device}:0" if device != "cpu" else device
    described = _kinds(compared, home if follows(call, device) else "", loosely)
    return _Described(_checksum(call, [*described, list(outcome.modified)]), _floating(compared))


def _kinds(compared: list[Any], home: str, loosely: bool) -> list[Any]:
    """Everything of these values that must be equal; `home` is the device of a right answer."""

    def kind(leaf: Any) -> Any:
        """The type of one value, with its shape, dtype, device and exact content, as far as two right answers share
        them."""
        match leaf:
            case Placed(tensor, device):
                exact = 0 if loosely and tensor.dtype == torch.int64 else _exact(tensor)
                return ["tensor", list(tensor.shape), str(tensor.dtype), "here" if device == home else device, exact]
            case np.ndarray():
                return ["array", list(leaf.shape), str(leaf.dtype), _exact(as_tensor(leaf))]
            case float() if math.isfinite(leaf):  # two ways to write a formula may differ in the last digit
                return ["float"]
        return [type(leaf).__name__, repr(leaf)]

    return [
        folded(value, kind, lambda items: ["tuple", *items], lambda items: ["dict", *sorted(items)])
        for value in compared
    ]


def _floating(value: Any) -> list[Tensor]:
    """The floating tensors and arrays of a value, and its finite floats as tensors."""
    each = (
        torch.tensor(leaf, dtype=torch.float64) if isinstance(leaf, float) and math.isfinite(leaf) else numbers_of(leaf)
        for leaf in leaves(value)
    )
    return [tensor for tensor in each if tensor is not None and tensor.is_floating_point()]


def _checksum(call: Call, parts: Any) -> int:
    return zlib.crc32(msgspec.json.encode([call.name, parts]))


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
    waves = _short_waves if len(values) <= SHORT else _waves
    return torch.cat((values.abs().sum().view(1), waves(len(values)) @ values))


def _waves(count: int) -> Tensor:
    """A cosine and a sine of the index: (2, count)."""
    places = torch.arange(1, count + 1, dtype=torch.float64)
    return torch.stack((places.cos(), places.sin()))


_short_waves = lru_cache(maxsize=64)(_waves)


def _kept_as(tensor: Tensor) -> torch.dtype:
    """The dtype in which numbers are compared."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _layout(tensor: Tensor) -> str:
    return "<3d" if tensor.dtype == torch.float64 else "<3f"
