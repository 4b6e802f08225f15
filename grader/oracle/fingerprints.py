"""Fingerprints of a misconception's answers, for tapes: enough to recognise an answer, not enough to reconstruct it."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from grader.calls.call import Call, Outcome
from grader.calls.values import HandleId, PlacedTensor, as_tensor, folded, leaves, numbers_of
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
CLEARLY = 1e-2  # of the sum of the sizes: two answers this far apart differ by more than rounding to halves
EXACTLY = 1e-3  # and to more digits
FLOOR = 1e-3  # below this, a difference can't be distinguished from rounding
FAR_NEARER = 1e-3  # of the distance to the right answer: one this near to a mistake's is that mistake, made otherwise


class Fingerprint(msgspec.Struct, array_like=True, frozen=True):
    """The fingerprint of a misconception's answer: a checksum of what must be equal, numbers that must be close, and a
    profile if random numbers were used and a zero tells one way of drawing from another. Of sampled tokens the rates,
    and a checksum of all but the tokens."""

    checksum: int
    numbers: tuple[bytes, ...]  # three per floating tensor, packed
    profile: tuple[bytes, ...] = ()
    pairs: tuple[bytes, ...] = ()
    loose: int = 0  # the same of all but sampled tokens; of an error, that it is one
    drawn: bool = False  # random numbers were used

    def kept(self) -> Fingerprint:
        """Itself: it holds no answer."""
        return self


class AnswerPrint:
    """The fingerprint of an answer at hand, computed part by part when compared; most comparisons end at the first
    part."""

    def __init__(self, call: Call, outcome: Outcome, device: str = "cpu", drawn: bool = False) -> None:
        """Keeps a call and its outcome in a check on this device; `drawn`: random numbers were used. Computes nothing
        yet."""
        self.call, self.outcome, self.device, self.drawn = call, outcome, device, drawn

    @property
    def is_large(self) -> bool:
        """Whether the answer has more numbers than one that waits to be compared should."""
        every = map(numbers_of, leaves((self.outcome.value, self.outcome.gradients)))
        return sum(tensor.numel() for tensor in every if tensor is not None) > SHORT

    @cached_property
    def _whole(self) -> tuple[int, list[Tensor]]:
        """A checksum of what must be equal, and the floating tensors, which must be close."""
        return self._described()

    @property
    def checksum(self) -> int:
        """The checksum of all that must be equal."""
        return self._whole[0]

    @cached_property
    def loosely(self) -> int:
        """The checksum if whole numbers need not be equal, nor what an error says."""
        return self._described(loosely=True)[0]

    @property
    def loose(self) -> int:
        """`loosely` for an error or sampled tokens; 0 for other answers, which are compared exactly."""
        is_random = self.drawn and randomness.has_tokens(self.outcome)
        return self.loosely if self.outcome.raised or is_random else 0

    @cached_property
    def sums(self) -> list[list[float]]:
        """Three numbers of each floating tensor, as precise as they are kept."""
        return [_three_numbers(tensor).to(_kept_as(tensor)).tolist() for tensor in self._whole[1]]

    @cached_property
    def numbers(self) -> tuple[bytes, ...]:
        """The three numbers of each floating tensor, packed as a tape keeps them."""
        each = zip(self._whole[1], self.sums, strict=True)
        return tuple(struct.pack(_layout(tensor), *three) for tensor, three in each)

    @cached_property
    def profile(self) -> tuple[bytes, ...]:
        """The statistics of a random answer, if they tell one way of drawing from another; else empty."""
        profile = randomness.profile(self.outcome) if self.drawn else []
        return tuple(profile) if randomness.tells(profile) else ()

    @cached_property
    def pairs(self) -> tuple[bytes, ...]:
        """The counts of pairs of whole numbers in a random answer (see `randomness.pairs`); else empty."""
        return tuple(randomness.pairs(self.outcome)) if self.drawn else ()

    def kept(self) -> Fingerprint:
        """The whole fingerprint, without the answer."""
        return Fingerprint(self.checksum, self.numbers, self.profile, self.pairs, self.loose, self.drawn)

    def has_form_of(self, recorded: Print) -> bool:
        """Whether all is equal to the recorded answer that must be, so that the numbers can be compared."""
        return self.checksum == recorded.checksum and len(self._whole[1]) == len(recorded.numbers)

    def distances(self, recorded: Print) -> Iterator[tuple[torch.dtype, float, float]]:
        """For each floating tensor the dtype of which it has the digits, the sum of its sizes, and how far its numbers
        are from the recorded ones, which have the same form."""
        for tensor, mine, packed in zip(self._whole[1], self.sums, recorded.numbers, strict=True):
            pairs = zip(mine, struct.unpack(_layout(tensor), packed), strict=True)
            far = max(0.0 if one == other else abs(one - other) for one, other in pairs)
            yield torch.float32 if _is_of_float32(tensor) else tensor.dtype, max(mine[0], FLOOR), far

    def _described(self, *, loosely: bool = False) -> tuple[int, list[Tensor]]:
        """A checksum of everything that must be equal, and the floating tensors, which must be close. `loosely`: whole
        numbers need not be equal, nor what an error says. The check's own device counts as the same everywhere."""
        call, outcome = self.call, self.outcome
        home = self.device if self.device == "cpu" else f"{self.device}:0"
        if is_about_parameters(call):
            shapes = [str(shape).replace(home, "here") for shape in parameter_shapes(outcome)]
            return _checksum(call, ["parameters", shapes]), []
        if outcome.raised is not None:
            return _checksum(call, RAISED if loosely else [*RAISED, *said_by(outcome.raised, call)]), []
        compared = [looked_at(call, outcome).value, telling_gradients(outcome)]
        described = _kinds(compared, home if follows(call, self.device) else "", loosely)
        return _checksum(call, [*described, list(outcome.modified)]), _floating(compared)


Print = Fingerprint | AnswerPrint


def follows(call: Call, device: str) -> bool:
    """True if a call brings a tensor or a module, and is made on the check's `device`: its right answer is there.

    False for numbers alone: the answer is on the CPU, or on the device that an argument asks for."""
    brings = call.handle is not None or any(
        isinstance(leaf, Tensor | HandleId) for leaf in leaves((call.args, call.kwargs))
    )
    return brings and call.options.device == device


def fingerprint(call: Call, outcome: Outcome, device: str = "cpu", drawn: bool = False) -> Print:
    """The fingerprint of an answer in a check on this device; `drawn`: random numbers were used. That of a small answer
    is computed when it is compared, and keeps the answer."""
    taken = AnswerPrint(call, outcome, device, drawn)
    return taken.kept() if taken.is_large else taken


def agree_in(recorded: Print, exchange: Exchange, device: str, last: bool = True, exactly: bool = False) -> bool:
    """Whether the student's answer in an exchange is the recorded one, up to the order of summation, or another draw of
    it. An error with which the check did not end (it was not the `last` answer) was expected, and any error counts as
    the same. If an error was due, any value counts as the same, unless `exactly`."""
    outcome = exchange.outcome
    if outcome is None:
        return False
    if exchange.due_error and not exactly:
        return recorded.loose != _checksum(exchange.call, RAISED)
    theirs = _print_of(exchange, outcome, device)
    if recorded.loose and recorded.loose == theirs.loosely:
        if recorded.pairs:
            return randomness.pairs_alike(recorded.pairs, theirs.pairs)
        if not last:  # any error, or too few tokens to tell how often each was sampled
            return True
    if not theirs.has_form_of(recorded):
        return False
    # As close as another order of summation brings them.
    if all(far <= room_of(dtype, outcome.narrowed) * size for dtype, size, far in theirs.distances(recorded)):
        return True
    return randomness.alike(recorded.profile, randomness.profile(outcome), randomness.shapes(outcome))


def clearly_apart(recorded: Print, exchange: Exchange, device: str) -> bool:
    """Whether the student's answer has the shapes of the recorded one, and numbers further apart than any way of
    rounding takes them; False for errors."""
    outcome = exchange.outcome
    if outcome is None or outcome.raised or exchange.due_error:
        return False
    theirs = _print_of(exchange, outcome, device)
    if not theirs.has_form_of(recorded):
        return False
    without_gradients = len(_floating(looked_at(exchange.call, outcome).value))  # which come behind
    return any(
        far > (CLEARLY if dtype.itemsize < 4 else EXACTLY) * size
        for dtype, size, far in islice(theirs.distances(recorded), without_gradients)
    )


def far_nearer(recorded: Print, exchange: Exchange, right: Any, device: str) -> bool:
    """Whether the student's answer has the shapes of the recorded one and of the right one, is clearly wrong, and far
    nearer to the recorded one; False for errors."""
    outcome, due = exchange.outcome, _floating(right)
    if outcome is None or outcome.raised or exchange.due_error or not due:
        return False
    theirs = _print_of(exchange, outcome, device)
    own = _floating(looked_at(exchange.call, outcome).value)
    if not theirs.has_form_of(recorded) or [(x.shape, x.dtype) for x in own] != [(x.shape, x.dtype) for x in due]:
        return False
    each = zip(own, due, theirs.sums, recorded.numbers, strict=False)  # without the gradients, which come behind
    numbers = [
        (mine, *both)
        for tensor, wanted, sums, packed in each
        for mine, *both in zip(
            sums, _three_numbers(wanted).tolist(), struct.unpack(_layout(tensor), packed), strict=True
        )
    ]
    mine, rights, mistaken = zip(*numbers, strict=True)
    apart = math.dist(mine, rights)
    return apart > CLEARLY * math.hypot(*rights) and math.dist(mine, mistaken) <= FAR_NEARER * apart


def _print_of(exchange: Exchange, outcome: Outcome, device: str) -> AnswerPrint:
    """The fingerprint of a student's answer, taken once and kept in the exchange: it is compared with those of many
    misconceptions."""
    if exchange.fingerprint is None:
        exchange.fingerprint = AnswerPrint(exchange.call, outcome, device, drawn=True)
    taken: AnswerPrint = exchange.fingerprint
    return taken


def _kinds(compared: list[Any], home: str, loosely: bool) -> list[Any]:
    """Everything of these values that must be equal, as JSON can hold it; `home` is the device of a right answer."""

    def kind(leaf: Any) -> Any:
        """The type of one value, with its shape, dtype, device and exact content, as far as two right answers share
        them."""
        match leaf:
            case PlacedTensor(tensor, device):
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
    """A checksum of the call's name and of `parts`, any JSON."""
    return zlib.crc32(msgspec.json.encode([call.name, parts]))


def _exact(tensor: Tensor) -> int:
    """A checksum of what must be equal in a tensor: all of it; of a floating one the non-finite entries; 0 if nothing
    must."""
    if tensor.device.type == "meta":
        return 0
    if tensor.is_floating_point():
        if bool(tensor.isfinite().all()):
            return 0
        tensor = tensor.isnan() + 2 * tensor.isposinf() + 3 * tensor.isneginf()
    return zlib.crc32(tensor.contiguous().numpy().tobytes())


def _three_numbers(tensor: Tensor) -> Tensor:
    """A tensor (3,) in float64: the sum of the sizes, and the sums weighted by a cosine and a sine of the index."""
    values = tensor.detach().double().flatten().nan_to_num(0.0, 0.0, 0.0)
    waves = _short_waves if len(values) <= SHORT else _waves
    return torch.cat((values.abs().sum().view(1), waves(len(values)) @ values))


def _waves(count: int) -> Tensor:
    """A cosine and a sine of the index: (2, count)."""
    places = torch.arange(1, count + 1, dtype=torch.float64)
    return torch.stack((places.cos(), places.sin()))


_short_waves = lru_cache(maxsize=64)(_waves)


def _is_of_float32(tensor: Tensor) -> bool:
    """True for one number that float32 holds as it is: a float that `item()` made of one, say."""
    return tensor.dim() == 0 and tensor.dtype == torch.float64 and bool(tensor.float().double() == tensor)


def _kept_as(tensor: Tensor) -> torch.dtype:
    """The dtype in which a tensor's three numbers are compared."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _layout(tensor: Tensor) -> str:
    """The format for `struct` of a tensor's three numbers."""
    return "<3d" if tensor.dtype == torch.float64 else "<3f"
