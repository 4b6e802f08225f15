"""Records tapes: what each step's checks draw, what the reference answers, and what the misconceptions do.

A tape holds everything that a learner's copy of the kit needs to judge and to diagnose without the solutions.
"""

from __future__ import annotations

import multiprocessing
import os
import warnings
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec
import torch
from safetensors.torch import save
from torch import Tensor

from grader import __version__, chance, course, preload
from grader.catalogue import Misconception
from grader.compare import dtype_name
from grader.course import Step
from grader.diagnose import OTHER_STREAM, in_stream, size_measured
from grader.draws import Draw
from grader.implementation import LocalBackend
from grader.messages import Call, Outcome, Raised, outcome_to_wire
from grader.places import SOLUTIONS, TAPE
from grader.tape import INDEX, Fingerprint, Index, KnownPair, KnownWay, Recording, copied, fingerprint, wire_draw
from grader.verdict import run_check

SEEDS = (20170612, 20190214)
Drawn = TypeVar("Drawn", Tensor, int)


class NotRecorded(RuntimeError):
    """The reference does not pass its own checks: there is nothing right to record."""


def record_all(folder: Path = SOLUTIONS, on_step: Callable[[str, int], None] = lambda name, size: None) -> None:
    """Writes the tape of every step into its folder below `folder`; `on_step` hears of each with its size in bytes.

    Raises NotRecorded when a reference fails one of its checks.
    """
    steps = course.steps()
    longest_first = sorted(steps, key=lambda step: -step.number)
    processes = multiprocessing.get_context("spawn")  # torch does not survive a fork
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), processes) as pool:
        recorded = {step.name: pool.submit(_record, step.folder) for step in longest_first}
        for step in steps:
            tape = recorded[step.name].result()
            path = folder / step.name / TAPE
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tape)
            on_step(step.name, len(tape))


def _record(folder: Path) -> bytes:
    preload.load_torch()
    return record(Step(folder))


def record(step: Step, seeds: tuple[int, ...] = SEEDS) -> bytes:
    """The tape of one step, the same bytes each time. Raises NotRecorded when the reference fails a check."""
    torch.set_num_threads(1)  # another split of a sum rounds otherwise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's, about what wrong ways do
        return _recorded(step, seeds)


def _recorded(step: Step, seeds: tuple[int, ...]) -> bytes:
    recorder = _Recorder(step)
    known_ways = [
        KnownWay(wrong.name, wrong.caught_by, sorted(wrong.replaced), wrong.what, wrong.why, wrong.nudge)
        for wrong in step.misconceptions
    ]
    places = {wrong.name: place for place, wrong in enumerate(step.misconceptions)}
    known_pairs = [
        KnownPair(places[first.name], places[second.name], sorted(pair.replaced))
        for pair in step.pairs
        for first, second in [pair.parts]
    ]
    checks = {check.name: [recorder.recording(check.function, seed) for seed in seeds] for check in step.checks}
    contents, pieces, stored = _each_once(recorder.tensors)
    prints = list(recorder.fingerprints)
    index = Index(step.title, list(seeds), known_ways, known_pairs, contents, pieces, prints, checks)
    packed = zlib.compress(msgspec.msgpack.encode(index), 9)
    stored[INDEX] = torch.frombuffer(bytearray(packed), dtype=torch.uint8)
    return bytes(save(stored, {"kit": __version__}))


class _Recorder:
    """Runs the checks of one step and keeps what passes between them and what answers."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.tensors: dict[str, Tensor] = {}
        self.fingerprints: dict[Fingerprint, int] = {}

    def recording(self, check: Callable[..., None], seed: int) -> Recording:
        """One check under one seed."""
        oracle = _RecordedOracle(self.step)
        verdict = run_check(check, LocalBackend(self.step.responder()), oracle, seed=seed)
        if verdict.status != "pass":
            raise NotRecorded(f"{self.step.name}, {check.__name__}, seed {seed}: {verdict.message}")
        draws = [wire_draw(value, self.tensors) for value in oracle.drawn]
        calls = [name for name, _outcome in oracle.answered]
        answers = [outcome_to_wire(outcome, self.tensors) for _name, outcome in oracle.answered]
        return Recording(draws, calls, answers, *self._wrong_ways(check, seed, verdict.called))

    def _wrong_ways(
        self, check: Callable[..., None], seed: int, called: frozenset[str]
    ) -> tuple[dict[str, list[int]], dict[str, list[int]], dict[str, int]]:
        """The fingerprints of each misconception that this check refuses, those under other random numbers, and the
        sizes. Whoever answers like one that it passes passes too, and so does one that touches nothing of what is
        called."""
        taken: dict[str, list[int]] = {}
        redrawn: dict[str, list[int]] = {}
        sizes: dict[str, int] = {}
        for wrong in [*self.step.misconceptions, *self.step.pairs]:
            if not called & self.step.touched(wrong.replaced):
                continue
            student = _Fingerprinted(self.step, wrong)
            verdict = run_check(check, student, LocalBackend(self.step.responder()), seed=seed)
            if verdict.status == "pass":
                continue
            taken[wrong.name] = self._numbers(student)
            if student.may_be_missed:
                again = _Fingerprinted(self.step, wrong, OTHER_STREAM)
                if run_check(check, again, LocalBackend(self.step.responder()), seed=seed).status != "pass":
                    redrawn[wrong.name] = self._numbers(again)
            if size := size_measured(verdict.exchanges):
                sizes[wrong.name] = size
        return taken, redrawn, sizes

    def _numbers(self, student: _Fingerprinted) -> list[int]:
        return [self.fingerprints.setdefault(print_, len(self.fingerprints)) for print_ in student.fingerprints]


class _RecordedDraw(Draw):
    """Keeps every input that it draws."""

    def __init__(self, seed: int, check: str, drawn: list[Tensor | int]) -> None:
        super().__init__(seed, check)
        self._drawn = drawn

    def _made(self, make: Callable[[], Drawn]) -> Drawn:
        value = make()
        self._drawn.append(value.clone() if isinstance(value, Tensor) else value)
        return value


class _RecordedOracle(LocalBackend):
    """The reference; keeps its answers and the inputs of the check."""

    def __init__(self, step: Step) -> None:
        super().__init__(step.responder())
        self.drawn: list[Tensor | int] = []
        self.answered: list[tuple[str, Outcome]] = []

    def draws(self, check: str, seed: int, device: str) -> Draw:
        """Fresh inputs for the seed, kept."""
        return _RecordedDraw(seed, check, self.drawn)

    def ask(self, call: Call) -> Outcome:
        """The reference's answer, kept."""
        outcome = super().ask(call)
        # A copy is kept: what a module answers about its parameters changes with them.
        kept = copied(outcome)
        if kept.raised is not None:  # where it was raised is a line of the reference
            kept.raised = Raised(kept.raised.type, kept.raised.message)
        self.answered.append((call.name, kept))
        return outcome


class _Fingerprinted(LocalBackend):
    """A misconception; keeps fingerprints of its answers."""

    def __init__(self, step: Step, wrong: Misconception, stream: int = 0) -> None:
        super().__init__(step.responder(wrong.replaced))
        self.own_draws, self._other = wrong.own_draws, stream
        self.fingerprints: list[Fingerprint] = []
        self._asked_for: Fingerprint | None = None

    @property
    def may_be_missed(self) -> bool:
        """Whether another draw of one of the answers may not look alike."""
        return any(chance.may_miss(print_.profile) for print_ in self.fingerprints)

    def begin_check(self, seed: int) -> None:
        """As every backend, in another stream."""
        super().begin_check(seed + self._other)

    def ask(self, call: Call) -> Outcome:
        """The misconception's answer, its fingerprint kept."""
        if self._asked_for is not None:  # the check went on after it
            self.fingerprints[-1] = self._asked_for
        outcome = super().ask(in_stream(call, self._other))
        self.fingerprints.append(fingerprint(call, outcome, drawn=self.drew or self.own_draws))
        self._asked_for = fingerprint(call, outcome, last=False) if outcome.raised else None
        return outcome


def _each_once(tensors: dict[str, Tensor]) -> tuple[list[int], list[tuple[str, list[int]]], dict[str, Tensor]]:
    """For each tensor the place of its content, the dtype and shape of each content, and one tensor a dtype that holds
    them in this order: the name of a tensor of its own would take as many bytes as most of them."""
    places: dict[tuple[str, tuple[int, ...], bytes], int] = {}
    contents: list[int] = []
    parts: dict[str, list[Tensor]] = {}
    for tensor in tensors.values():
        flat = tensor.detach().flatten()
        raw = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
        content = dtype_name(tensor), tuple(tensor.shape), raw
        if content not in places:
            places[content] = len(places)
            parts.setdefault(content[0], []).append(flat)
        contents.append(places[content])
    pieces = [(dtype, list(shape)) for dtype, shape, _raw in places]
    return contents, pieces, {dtype: torch.cat(flats) for dtype, flats in parts.items()}
