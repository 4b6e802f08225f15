"""A step's tape: recorded right answers and misconceptions, used where the solutions are absent.

A tape is one safetensors file. Its tensors are the right answers, deduplicated, concatenated by dtype and compressed;
one more, `index`, holds everything else as compressed MessagePack. Of a misconception's answers it keeps fingerprints:
enough to recognise an answer, not enough to reconstruct it. The inputs are drawn again from the recorded seed.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Set
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import torch
from msgspec.structs import replace
from safetensors.torch import load
from torch import Tensor

from grader import __version__
from grader.base.errors import CheckFailed
from grader.base.language import gettext as _
from grader.base.paths import tape_version
from grader.calls import values
from grader.calls.call import Call, Outcome
from grader.calls.codec import unpacked_outcome
from grader.calls.values import Placed, mapped
from grader.checks.backends import Backend
from grader.checks.catalogue import Misconception, paired
from grader.checks.draws import Draw
from grader.oracle import randomness
from grader.oracle.fingerprints import Fingerprint, agree_in, follows
from grader.oracle.likeness import same_size
from grader.oracle.witness import Question, Witness

INDEX = "index"


class KnownWay(msgspec.Struct, array_like=True):
    """A misconception without its code."""

    name: str
    caught_by: str
    replaced: list[str]
    what: str
    why: str
    nudge: str
    form_of: str


class KnownPair(msgspec.Struct, array_like=True):
    """Two misconceptions made together: their indices among the known ways, and the public names they replace."""

    first: int
    second: int
    replaced: list[str]


class Recording(msgspec.Struct, array_like=True):
    """One check under one seed: the reference's answers to the calls of these names, and the fingerprints of each
    misconception's answers up to its failure, also under other random numbers where it uses some, and in a file whose
    other names do not use what it replaces, with the size of the last where the check measured it. `elsewhere` are
    those that fail by an answer of a name that they do not replace."""

    calls: list[str]
    answers: list[Outcome]
    fingerprints: dict[str, list[int]]
    redrawn: dict[str, list[int]]
    sizes: dict[str, int]
    alone: dict[str, list[int]]
    elsewhere: list[str]


class Index(msgspec.Struct, array_like=True):
    """Everything in a tape but the numbers. `contents` maps the key of a tensor to its index in `pieces`: dtypes and
    shapes, in the order in which they are concatenated."""

    title: str
    seeds: list[int]
    known_ways: list[KnownWay]
    known_pairs: list[KnownPair]
    contents: list[int]
    pieces: list[tuple[str, list[int]]]
    fingerprints: list[Fingerprint]
    checks: dict[str, list[Recording]]


class DamagedTape(ValueError):
    """The file is not a tape of this version of the kit."""


class Tape(Witness):
    """Answers in place of the reference, from a recording."""

    def __init__(self, file: Path) -> None:
        if tape_version(file) != __version__:
            raise DamagedTape(str(file))
        stored = load(file.read_bytes())
        packed = stored.pop(INDEX)
        self.index = msgspec.msgpack.decode(zlib.decompress(packed.numpy().tobytes()), type=Index)
        pieces = list(_cut({dtype: expanded(data, dtype) for dtype, data in stored.items()}, self.index.pieces))
        self._tensors = {str(key): pieces[place] for key, place in enumerate(self.index.contents)}
        self._answers: Iterator[tuple[str, Outcome]] = iter(())
        self._device = "cpu"

    @cached_property
    def misconceptions(self) -> list[Misconception]:
        """The step's misconceptions; what they replace is known by name only."""
        return [
            Misconception(
                way.name, way.caught_by, dict.fromkeys(way.replaced), way.what, way.why, way.nudge, form_of=way.form_of
            )
            for way in self.index.known_ways
        ]

    @cached_property
    def pairs(self) -> list[Misconception]:
        """Pairs of misconceptions that learners make together."""
        return [
            paired(self.misconceptions[pair.first], self.misconceptions[pair.second], dict.fromkeys(pair.replaced))
            for pair in self.index.known_pairs
        ]

    def seed(self, asked: int) -> int:
        """The recorded seed for a requested one."""
        return self.index.seeds[asked % len(self.index.seeds)]

    # --- as an oracle ---

    def draws(self, check: str, seed: int, device: str) -> Draw:
        """The inputs of the check, whose calls are answered next."""
        recording = self._recording(check, seed)
        self._answers = zip(recording.calls, recording.answers, strict=True)
        self._device = device
        return Draw(seed, check)

    def begin_check(self, seed: int) -> None:
        """Does nothing: there is neither a module nor a random stream."""

    def ask(self, call: Call) -> Outcome:
        """The recorded answer. Raises CheckFailed, as a fault of the grader, when the check makes another call."""
        name, kept = next(self._answers, ("", None))
        if kept is None or name != call.name:
            raise _out_of_step()
        outcome = copied(unpacked_outcome(kept, self._tensors))
        return _moved(outcome, self._device) if follows(call, self._device) else outcome

    def again(self) -> Backend | None:
        """None: every check passed on right answers when it was recorded."""
        return None

    def _recording(self, check: str, seed: int) -> Recording:
        recordings = self.index.checks.get(check)
        if recordings is None or seed not in self.index.seeds:
            raise _out_of_step()
        return recordings[self.index.seeds.index(seed) % len(recordings)]  # of a small case there is one

    # --- as the misconceptions ---

    def alike(self, wrong: Misconception, question: Question) -> bool:
        """See `Witness`."""
        recording = self._recording(question.name, question.seed)
        if not same_size(recording.sizes.get(wrong.name, 0), question.answers):
            return False
        recorded = (ways.get(wrong.name, []) for ways in (recording.fingerprints, recording.redrawn, recording.alone))
        return any(self._same(fingerprints, question, wrong) for fingerprints in recorded)

    def _same(self, recorded: list[int], question: Question, wrong: Misconception) -> bool:
        if not 0 < len(question.answers) == len(recorded):
            return False
        return all(
            agree_in(self.index.fingerprints[number], exchange, question.device, exchange is question.answers[-1])
            for place, (number, exchange) in enumerate(zip(recorded, question.answers, strict=True))
            if question.counts(place, wrong.replaced)
        )

    def undecided(self, wrong: Misconception, question: Question) -> bool:
        """See `Witness`."""
        numbers = self._recording(question.name, question.seed).fingerprints.get(wrong.name, [])
        for place, (number, exchange) in enumerate(zip(numbers, question.answers, strict=False)):
            recorded, last = self.index.fingerprints[number], exchange is question.answers[-1]
            counts = question.counts(place, wrong.replaced)
            if counts and not agree_in(recorded, exchange, question.device, last):
                shapes = randomness.shapes(exchange.outcome) if exchange.outcome else []
                return recorded.silent and 0 < len(recorded.numbers) == len(shapes)
        return False

    def exactly(self, wrong: Misconception, question: Question) -> bool:
        """See `Witness`."""
        numbers = self._recording(question.name, question.seed).fingerprints.get(wrong.name, [])
        return len(numbers) == len(question.answers) > 0 and agree_in(
            self.index.fingerprints[numbers[-1]], question.answers[-1], question.device, exactly=True
        )

    def shows(self, wrong: Misconception, question: Question) -> bool:
        """See `Witness`."""
        numbers = self._recording(question.name, question.seed).fingerprints.get(wrong.name, [])
        return 0 < len(numbers) <= len(question.answers)

    def refusing(self, wrong: Misconception, question: Question) -> Set[str]:
        """See `Witness`."""
        every = {name: self._recording(name, question.seed) for name in self.index.checks}
        failed = {name: recording for name, recording in every.items() if wrong.name in recording.fingerprints}
        return {name for name, recording in failed.items() if wrong.name not in recording.elsewhere}


def _cut(stored: dict[str, Tensor], pieces: list[tuple[str, list[int]]]) -> Iterator[Tensor]:
    start = dict.fromkeys(stored, 0)
    for dtype, shape in pieces:
        end = start[dtype] + math.prod(shape)
        yield stored[dtype][start[dtype] : end].view(shape)
        start[dtype] = end


def compressed(values: Tensor) -> Tensor:
    """The bytes of a vector, compressed: (n,) of any dtype -> uint8. The first bytes of all entries come first, then
    the second ones: signs and exponents repeat, the last bytes of fractions do not."""
    raw = values.view(torch.uint8).reshape(len(values), values.element_size())
    packed = zlib.compress(raw.t().contiguous().numpy().tobytes(), 9)
    return torch.frombuffer(bytearray(packed), dtype=torch.uint8)


def expanded(data: Tensor, dtype: str) -> Tensor:
    """The vector that was `compressed`; `dtype` is its name, as in `float32`."""
    kind = getattr(torch, dtype)
    raw = bytearray(zlib.decompress(data.numpy().tobytes()))
    if not raw:
        return torch.empty(0, dtype=kind)
    planes = torch.frombuffer(raw, dtype=torch.uint8).view(kind.itemsize, -1)
    return planes.t().flatten().view(kind)


def _out_of_step() -> CheckFailed:
    sentence = _("The tape of this step does not match its checks; this is not your fault. Unpack the kit again.")
    return CheckFailed(sentence, "error")


# --- devices ---------------------------------------------------------------------------------------------------------


def _moved(outcome: Outcome, device: str) -> Outcome:
    """A recorded outcome, moved to the device where the check runs."""
    if device == "cpu":
        return outcome

    def move(value: Any) -> Any:
        if isinstance(value, Placed) and value.device == "cpu":
            return Placed(value.tensor, f"{device}:0")
        return value

    return replace(outcome, value=mapped(outcome.value, move), gradients=mapped(outcome.gradients, move))


def copied(outcome: Outcome) -> Outcome:
    """A copy of the outcome with its own tensors."""
    return replace(outcome, value=values.copied(outcome.value), gradients=values.copied(outcome.gradients))
