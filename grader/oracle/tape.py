"""A step's tape: recorded right answers and misconceptions, used if the solutions are absent.

A tape is one safetensors file. Its tensors are the right answers, deduplicated, concatenated by dtype and compressed;
one more, `index`, holds everything else as compressed MessagePack. Of a misconception's answers it keeps fingerprints:
enough to recognise an answer, not enough to reconstruct it. The inputs are drawn again from the recorded seed.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from functools import cache, cached_property
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
from grader.calls.values import PlacedTensor, mapped
from grader.checks.backends import Backend
from grader.checks.catalogue import Misconception, paired
from grader.checks.draws import Draw
from grader.oracle.fingerprints import Fingerprint, Print, follows
from grader.oracle.witness import USUAL, AnswerSource, Question, Replies

INDEX = "index"


class KnownWay(msgspec.Struct, array_like=True):
    """A misconception without its code; `generated`: an operator made it."""

    name: str
    caught_by: str
    replaced: list[str]
    what: str
    why: str
    nudge: str
    form_of: str
    words: dict[str, str] = {}
    generated: bool = False


class KnownPair(msgspec.Struct, array_like=True):
    """Two misconceptions made together: their indices among the known ways, and the public names they replace."""

    first: int
    second: int
    replaced: list[str]


class KnownFailure(msgspec.Struct, array_like=True):
    """A misconception's answers in a check that it fails: see `witness.Answers`. Fingerprints by their numbers."""

    prints: list[int]
    about: str
    size: int = 0


class Recording(msgspec.Struct, array_like=True):
    """One check under one seed: the reference's answers to the calls of these names, and those of each misconception
    that fails it, in the forms in which they differ."""

    calls: list[str]
    answers: list[Outcome]
    failed: dict[str, dict[int, KnownFailure]]


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


class Tape(AnswerSource):
    """Answers in place of the reference and the misconceptions, from a recording."""

    def __init__(self, file: Path) -> None:
        """Reads a tape. Raises DamagedTape if another version of the kit wrote it."""
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
        return [_unwritten(way) for way in self.index.known_ways if not way.generated]

    @cache  # noqa: B019  # a tape is kept as long as the process
    def generated(self, name: str) -> list[Misconception]:
        """The recorded ones of the mistakes that operators make in a public name."""
        return [_unwritten(way) for way in self.index.known_ways if way.generated and name in way.replaced]

    @cached_property
    def pairs(self) -> list[Misconception]:
        """Pairs of misconceptions that learners make together."""
        return [
            paired(self.misconceptions[pair.first], self.misconceptions[pair.second], dict.fromkeys(pair.replaced))
            for pair in self.index.known_pairs
        ]

    def seed(self, wanted: int) -> int:
        """One of the recorded seeds, the same each time for a requested one."""
        return self.index.seeds[wanted % len(self.index.seeds)]

    # --- as an oracle ---

    def draws(self, check: str, seed: int, device: str) -> Draw:
        """The inputs of the check, drawn again; the calls that follow are answered by its recording."""
        recording = self._recording(check, seed)
        self._answers = zip(recording.calls, recording.answers, strict=True)
        self._device = device
        return Draw(seed, check)

    def begin_check(self, seed: int) -> None:
        """Does nothing: there is neither a module nor a random stream."""

    def ask(self, call: Call) -> Outcome:
        """The recorded answer. Raises CheckFailed, as a fault of the grader, when the check makes another call."""
        name, packed = next(self._answers, ("", None))
        if packed is None or name != call.name:
            raise _out_of_step()
        outcome = copied(unpacked_outcome(packed, self._tensors))
        return _moved(outcome, self._device) if follows(call, self._device) else outcome

    def again(self) -> Backend | None:
        """None: every check passed on right answers when it was recorded."""
        return None

    def _recording(self, check: str, seed: int) -> Recording:
        """The recording of a check under a recorded seed. Raises CheckFailed, as a fault of the grader, if it has
        none."""
        recordings = self.index.checks.get(check)
        if recordings is None or seed not in self.index.seeds:
            raise _out_of_step()
        return recordings[self.index.seeds.index(seed) % len(recordings)]  # of a small case there is one

    # --- as the misconceptions ---

    @property
    def checks(self) -> list[str]:
        """The names of the checks, and of small cases."""
        return list(self.index.checks)

    def answers(
        self, wrong: Misconception, check: str, question: Question, form: int = USUAL, until: Question | None = None
    ) -> Replies | None:
        """The recorded answers of a misconception; see `AnswerSource`."""
        failed = self._recording(check, question.seed).failed.get(wrong.name, {}).get(form)
        prints: list[Print] = [self.index.fingerprints[number] for number in failed.prints] if failed else []
        return Replies(prints, True, failed.about, failed.size) if failed else None


def _unwritten(way: KnownWay) -> Misconception:
    """A misconception from a tape, without code."""
    return Misconception(
        way.name, way.caught_by, dict.fromkeys(way.replaced), way.what, way.why, way.nudge, form_of=way.form_of,
        words=way.words,
    )  # fmt: skip


def _cut(stored: dict[str, Tensor], pieces: list[tuple[str, list[int]]]) -> Iterator[Tensor]:
    """The tensors of a tape, in order, cut from the concatenated ones."""
    start = dict.fromkeys(stored, 0)
    for dtype, shape in pieces:
        end = start[dtype] + math.prod(shape)
        yield stored[dtype][start[dtype] : end].view(shape)
        start[dtype] = end


def compressed(values: Tensor) -> Tensor:
    """The bytes of a vector, compressed: (n,) of any dtype -> (bytes,) of uint8. The first bytes of all entries come
    first, then the second ones: signs and exponents repeat, the last bytes of fractions do not."""
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
    """The error for a tape that answers other calls than the check makes."""
    sentence = _("The tape of this step does not match its checks; this is not your fault. Unpack the kit again.")
    return CheckFailed(sentence, "error")


# --- devices ---------------------------------------------------------------------------------------------------------


def _moved(outcome: Outcome, device: str) -> Outcome:
    """A recorded outcome with its tensors said to be on this device."""
    if device == "cpu":
        return outcome

    def move(value: Any) -> Any:
        if isinstance(value, PlacedTensor) and value.device == "cpu":
            return PlacedTensor(value.tensor, f"{device}:0")
        return value

    return replace(outcome, value=mapped(outcome.value, move), gradients=mapped(outcome.gradients, move))


def copied(outcome: Outcome) -> Outcome:
    """A copy of the outcome with its own tensors."""
    return replace(outcome, value=values.copied(outcome.value), gradients=values.copied(outcome.gradients))
