"""What a step answers from where its solutions are not: the inputs, right answers and wrong ways recorded in its tape.

A tape is one safetensors file. Its tensors are the inputs and the right answers, each content once, those of a dtype
end to end; one, `index`, holds everything else as compressed MessagePack. Of a wrong way's answers a fingerprint is
kept: enough to tell whether an answer is the same, not enough to read it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import torch
from safetensors.torch import load
from torch import Tensor

from grader import __version__, chance
from grader.catalogue import Misconception, paired
from grader.compare import UNITS
from grader.diagnose import (
    ROOM,
    Question,
    is_about_parameters,
    parameter_shapes,
    said_by,
    size_measured,
    telling_gradients,
)
from grader.draws import Draw
from grader.failure import CheckFailed
from grader.implementation import Backend
from grader.language import gettext as _
from grader.messages import (
    Call,
    HandleId,
    Outcome,
    Placed,
    WireOutcome,
    WireTensor,
    outcome_from_wire,
    outcome_to_wire,
)
from grader.places import tape_version

INDEX = "index"
FLOOR = 1e-3  # below this size a difference is not told from rounding

Drawn = TypeVar("Drawn", Tensor, int)


class Fingerprint(msgspec.Struct, array_like=True, frozen=True):
    """What is kept of a wrong way's answer: a checksum of all that must be equal, and numbers that must be near; of one
    into which random numbers went also its profile."""

    checksum: int
    numbers: tuple[bytes, ...]  # three of each floating tensor, as `_packed` writes them
    profile: tuple[bytes, ...] = ()


class KnownWay(msgspec.Struct, array_like=True):
    """A misconception without its code."""

    name: str
    caught_by: str
    replaced: list[str]
    what: str
    why: str
    nudge: str


class KnownPair(msgspec.Struct, array_like=True):
    """Two misconceptions made together: their places among the known ways, and the public names they replace."""

    first: int
    second: int
    replaced: list[str]


class Recording(msgspec.Struct, array_like=True):
    """One check under one seed: its inputs, the reference's answers to the calls of these names, the fingerprints of
    each misconception's answers, until the check refused it, also under other random numbers where it takes some, and
    the size of the last where that was looked at."""

    draws: list[WireTensor | int]
    calls: list[str]
    answers: list[WireOutcome]
    fingerprints: dict[str, list[int]]
    redrawn: dict[str, list[int]]
    sizes: dict[str, int]


class Index(msgspec.Struct, array_like=True):
    """Everything in a tape but the numbers. `contents` gives, for the key of a tensor, its place among the `pieces`:
    their dtypes and shapes, in the order in which they lie in the one tensor of their dtype."""

    title: str
    seeds: list[int]
    known_ways: list[KnownWay]
    known_pairs: list[KnownPair]
    contents: list[int]
    pieces: list[tuple[str, list[int]]]
    fingerprints: list[Fingerprint]
    checks: dict[str, list[Recording]]


class DamagedTape(ValueError):
    """The file is no tape of this version of the kit."""


class Tape:
    """Answers for the reference from a recording."""

    def __init__(self, file: Path) -> None:
        if tape_version(file) != __version__:
            raise DamagedTape(str(file))
        stored = load(file.read_bytes())
        packed = stored.pop(INDEX)
        self.index = msgspec.msgpack.decode(zlib.decompress(packed.numpy().tobytes()), type=Index)
        pieces = list(_cut(stored, self.index.pieces))
        self._tensors = {str(key): pieces[place] for key, place in enumerate(self.index.contents)}
        self._answers: Iterator[tuple[str, WireOutcome]] = iter(())
        self._device = "cpu"

    @cached_property
    def misconceptions(self) -> list[Misconception]:
        """The wrong ways that come with the step; what they replace is known by name only."""
        return [
            Misconception(way.name, way.caught_by, dict.fromkeys(way.replaced), way.what, way.why, way.nudge)
            for way in self.index.known_ways
        ]

    @cached_property
    def pairs(self) -> list[Misconception]:
        """Two of the wrong ways at a time, as they are made together."""
        return [
            paired(self.misconceptions[pair.first], self.misconceptions[pair.second], dict.fromkeys(pair.replaced))
            for pair in self.index.known_pairs
        ]

    def seed(self, asked: int) -> int:
        """The recorded seed that stands for the one asked for."""
        return self.index.seeds[asked % len(self.index.seeds)]

    # --- as an oracle ---

    def draws(self, check: str, seed: int, device: str) -> Draw:
        """The recorded inputs of the check; its calls are answered next."""
        recording = self._recording(check, seed)
        self._answers = zip(recording.calls, recording.answers, strict=True)
        self._device = device
        return _TapeDraw(self._drawn(value) for value in recording.draws)

    def begin_check(self, seed: int) -> None:
        """Nothing: there is neither a module nor a random stream."""

    def ask(self, call: Call) -> Outcome:
        """The recorded answer. Raises CheckFailed, as a fault of ours, when the check asks for something else."""
        name, wire = next(self._answers, ("", None))
        if wire is None or name != call.name:
            raise _out_of_step()
        outcome = copied(outcome_from_wire(wire, self._tensors))
        return _moved(outcome, self._device) if _follows(call, self._device) else outcome

    def again(self) -> Backend | None:
        """None: every check was run on right answers when it was recorded."""
        return None

    def _recording(self, check: str, seed: int) -> Recording:
        recordings = self.index.checks.get(check)
        if recordings is None or seed not in self.index.seeds:
            raise _out_of_step()
        return recordings[self.index.seeds.index(seed)]

    def _drawn(self, value: WireTensor | int) -> Tensor | int:
        if isinstance(value, int):
            return value
        tensor: Tensor = outcome_from_wire(_holding(value), self._tensors).value.tensor
        return tensor.clone()

    # --- as the misconceptions ---

    def alike(self, wrong: Misconception, question: Question) -> bool:
        """As a witness says."""
        recording = self._recording(question.name, question.seed)
        if size_measured(question.answers) != recording.sizes.get(wrong.name, 0):
            return False
        recorded = (ways.get(wrong.name, []) for ways in (recording.fingerprints, recording.redrawn))
        return any(self._same(fingerprints, question) for fingerprints in recorded)

    def _same(self, recorded: list[int], question: Question) -> bool:
        if not 0 < len(question.answers) == len(recorded):
            return False
        return all(
            exchange.outcome is not None
            and agree_in(
                self.index.fingerprints[number],
                exchange.call,
                exchange.outcome,
                question.device,
                last=exchange is question.answers[-1],
            )
            for number, exchange in zip(recorded, question.answers, strict=True)
        )

    def refusing(self, wrong: Misconception, question: Question) -> Set[str]:
        """As a witness says."""
        return {name for name in self.index.checks if wrong.name in self._recording(name, question.seed).fingerprints}


class _TapeDraw(Draw):
    """Gives recorded inputs back, in order."""

    def __init__(self, values: Iterator[Any]) -> None:
        self._values = values

    def _made(self, make: Callable[[], Drawn]) -> Drawn:
        value: Drawn | None = next(self._values, None)
        if value is None:
            raise _out_of_step()
        return value


def _cut(stored: dict[str, Tensor], pieces: list[tuple[str, list[int]]]) -> Iterator[Tensor]:
    start = dict.fromkeys(stored, 0)
    for dtype, shape in pieces:
        end = start[dtype] + math.prod(shape)
        yield stored[dtype][start[dtype] : end].view(shape)
        start[dtype] = end


def _out_of_step() -> CheckFailed:
    sentence = _("The tape of this step does not fit its checks; this costs you nothing. Unpack the kit again.")
    return CheckFailed(sentence, "error")


def _holding(value: WireTensor) -> WireOutcome:
    return WireOutcome(value, None, {}, [], [], [], [], 0)


# --- devices ---------------------------------------------------------------------------------------------------------


def _follows(call: Call, device: str) -> bool:
    """Whether the answer is due on the device where the check runs: that is where its tensors or its module are.

    What is made from numbers alone is on the CPU unless the call says where.
    """
    brings = call.handle is not None or any(map(_has_a_place, (*call.args, *call.kwargs.values())))
    return brings and call.options.device == device


def _has_a_place(value: Any) -> bool:
    return any(map(_has_a_place, value)) if isinstance(value, tuple) else isinstance(value, Tensor | HandleId)


def _moved(outcome: Outcome, device: str) -> Outcome:
    """A recorded outcome, as it would have been on the device where the check runs now."""
    if device == "cpu":
        return outcome

    def move(value: Any) -> Any:
        if isinstance(value, Placed) and value.device == "cpu":
            return Placed(value.tensor, f"{device}:0")
        return value

    return _mapped(outcome, move)


def copied(outcome: Outcome) -> Outcome:
    """The same outcome with tensors of its own: nothing that is done to the others changes them."""
    return _mapped(
        outcome, lambda value: Placed(value.tensor.clone(), value.device) if isinstance(value, Placed) else value
    )


def _mapped(outcome: Outcome, change: Callable[[Any], Any]) -> Outcome:
    def through(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(through(item) for item in value)
        if isinstance(value, dict):
            return {name: through(item) for name, item in value.items()}
        return change(value)

    return replace(outcome, value=through(outcome.value), gradients=through(outcome.gradients))


# --- fingerprints ----------------------------------------------------------------------------------------------------


def fingerprint(
    call: Call, outcome: Outcome, device: str = "cpu", drawn: bool = False, last: bool = True
) -> Fingerprint:
    """What is kept of an answer to a call, in a check on this device; `drawn`: random numbers went into it, `last`: the
    check ended with it. An error with which it did not end was asked for, and any error will do."""
    checksum, tensors = _described(call, outcome, device, last)
    profile = tuple(chance.profile(outcome)) if drawn else ()
    return Fingerprint(checksum, tuple(_packed(tensor) for tensor in tensors), profile if chance.tells(profile) else ())


def agree_in(recorded: Fingerprint, call: Call, outcome: Outcome, device: str, last: bool = True) -> bool:
    """Whether an answer is the recorded one, but for another order of its sums, or another draw of it."""
    checksum, tensors = _described(call, outcome, device, last)
    if checksum != recorded.checksum or len(tensors) != len(recorded.numbers):
        return False
    return _near(recorded, tensors) or chance.alike(recorded.profile, chance.profile(outcome), chance.shapes(outcome))


def _near(recorded: Fingerprint, tensors: list[Tensor]) -> bool:
    for tensor, packed in zip(tensors, recorded.numbers, strict=True):
        mine, theirs = _numbers(tensor), torch.frombuffer(bytearray(packed), dtype=_kept_as(tensor)).double()
        room = ROOM * UNITS.get(tensor.dtype, 16.0) * torch.finfo(tensor.dtype).eps * max(float(mine[0]), FLOOR)
        if not torch.allclose(mine.to(_kept_as(tensor)).double(), theirs, rtol=0.0, atol=room):
            return False
    return True


def _described(call: Call, outcome: Outcome, device: str, last: bool) -> tuple[int, list[Tensor]]:
    """A checksum of everything in an answer that must be equal, and the floating tensors, which must be near."""
    tensors: list[Tensor] = []
    here = f"{device}:0" if device != "cpu" else device
    follows = _follows(call, device)

    def describe(value: Any) -> Any:
        match value:
            case Placed(tensor, place):
                where = "here" if follows and place == here else place
                return ["tensor", list(tensor.shape), str(tensor.dtype), where, _exact(tensor, tensors)]
            case tuple():
                return ["tuple", [describe(item) for item in value]]
            case dict():
                return ["dict", sorted((name, describe(item)) for name, item in value.items())]
        return [type(value).__name__, repr(value)]

    if is_about_parameters(call):
        said: Any = ["parameters", [shape.replace(here, "here") for shape in map(str, parameter_shapes(outcome))]]
    elif outcome.raised is not None:
        said = ["raised", *said_by(outcome.raised)] if last else ["raised"]
    else:
        said = [describe(outcome.value), describe(telling_gradients(outcome)), list(outcome.modified)]
    return zlib.crc32(msgspec.json.encode([call.name, said])), tensors


def _exact(tensor: Tensor, floating: list[Tensor]) -> int:
    """The checksum of what must be equal in a tensor: all of it, or of floating ones where they are not finite."""
    if tensor.device.type == "meta":
        return 0
    if tensor.is_floating_point():
        floating.append(tensor)
        if bool(tensor.isfinite().all()):
            return 0
        tensor = tensor.isnan() + 2 * tensor.isposinf() + 3 * tensor.isneginf()
    return zlib.crc32(tensor.contiguous().numpy().tobytes())


def _numbers(tensor: Tensor) -> Tensor:
    """The sum of the sizes, and the sums along a cosine and a sine of the place, in float64."""
    values = tensor.detach().double().flatten()
    values = torch.where(values.isfinite(), values, 0.0)
    places = torch.arange(1, len(values) + 1, dtype=torch.float64)
    return torch.stack([values.abs().sum(), values @ places.cos(), values @ places.sin()])


def _kept_as(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _packed(tensor: Tensor) -> bytes:
    return bytes(_numbers(tensor).to(_kept_as(tensor)).numpy().tobytes())


# --- what a recorder needs -------------------------------------------------------------------------------------------


def wire_draw(value: Tensor | int, tensors: dict[str, Tensor]) -> WireTensor | int:
    """A drawn input in its typed form, its tensor put aside into `tensors`."""
    if isinstance(value, int):
        return value
    wire = outcome_to_wire(Outcome(Placed(value, "cpu")), tensors).value
    assert isinstance(wire, WireTensor)
    return wire
