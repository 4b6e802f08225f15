"""A step's tape: recorded right answers and misconceptions, used if the solutions are absent.

A tape is one safetensors file. Its tensors are the right answers, deduplicated, concatenated by dtype and compressed;
one more, `index`, holds everything else as compressed MessagePack. Of a misconception's answers it keeps fingerprints:
enough to recognise an answer, not enough to reconstruct it. The inputs are drawn again from the recorded seed.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
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
from grader.calls.call import Call, Outcome
from grader.calls.codec import unpacked_outcome
from grader.calls.values import PlacedTensor, mapped
from grader.checks.backends import Backend
from grader.checks.catalogue import Misconception, paired
from grader.checks.draws import Draw
from grader.oracle.fingerprints import Fingerprint, Print, follows
from grader.oracle.witness import USUAL, AnswerSource, Question, Replies

INDEX = "index"


class KnownFailure(msgspec.Struct, array_like=True):
    """A misconception's answers in a check that it fails: see `witness.Replies`. Fingerprints by their numbers."""

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
    shapes, in the order in which they are concatenated. Of pairs of the `known` ways it has the indices of both and the
    public names that they replace; `generated` are made by operators."""

    title: str
    seeds: list[int]
    known: list[Misconception]
    known_pairs: list[tuple[int, int, list[str]]]
    generated: list[Misconception]
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
        self.checks, self.single = self.index.checks, self.index.known
        pieces = list(_cut({dtype: expanded(data, dtype) for dtype, data in stored.items()}, self.index.pieces))
        self._tensors = {str(key): pieces[place] for key, place in enumerate(self.index.contents)}
        self._answers: Iterator[tuple[str, Outcome]] = iter(())
        self._device = "cpu"

    def generated(self, name: str) -> list[Misconception]:
        """The recorded mistakes that operators make in a public name."""
        return [wrong for wrong in self.index.generated if name in wrong.replaced]

    @cached_property
    def pairs(self) -> list[Misconception]:
        """Pairs of misconceptions that learners make together."""
        return [
            paired(self.single[first], self.single[second], dict.fromkeys(names))
            for first, second, names in self.index.known_pairs
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
        outcome = unpacked_outcome(packed, self._tensors).copied()
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

    def answers(
        self, wrong: Misconception, check: str, question: Question, form: int = USUAL, until: Question | None = None
    ) -> Replies | None:
        """The recorded answers of a misconception; see `AnswerSource`."""
        failed = self._recording(check, question.seed).failed.get(wrong.name, {}).get(form)
        prints: list[Print] = [self.index.fingerprints[number] for number in failed.prints] if failed else []
        return Replies(prints, True, failed.about, failed.size) if failed else None


def _cut(stored: dict[str, Tensor], pieces: list[tuple[str, list[int]]]) -> Iterator[Tensor]:
    """Yields the tensors with these dtypes and shapes, in order, cut from one vector for each dtype."""
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
