"""Records tapes: the reference's answers to each step's checks, and the misconceptions'.

A tape holds everything that a learner's kit needs to grade and diagnose without the solutions.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import hashlib
import multiprocessing
import os
import warnings
import zlib
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path

import msgspec
import torch
from safetensors.torch import save
from torch import Tensor

from grader import __version__
from grader.base import files, mistakes
from grader.base.paths import ROOT, SOLUTIONS, TAPE
from grader.calls.call import Call, Outcome, Raised
from grader.calls.codec import packed_outcome
from grader.checks.backends import LocalBackend
from grader.checks.catalogue import Misconception
from grader.checks.compare import dtype_name
from grader.checks.trial import Verdict, run_check
from grader.course import steps as course
from grader.oracle import randomness
from grader.oracle.cache import CachedOracle
from grader.oracle.fingerprints import Fingerprint
from grader.oracle.live import Solution
from grader.oracle.tape import INDEX, Index, KnownFailure, KnownPair, KnownWay, Recording, compressed, copied
from grader.oracle.witness import ALONE, OTHER_STREAM, USUAL, Question, Replies
from grader.sandbox import preload

KEPT = ROOT / "dist" / "tapes"
SEEDS = (20170612, 20190214)


class NotRecorded(RuntimeError):
    """The reference fails its own checks: there are no right answers to record."""


def record_all(
    folder: Path = SOLUTIONS, on_step: Callable[[str, int], None] = lambda name, size: None, steps: Collection[str] = ()
) -> None:
    """Writes the tape of every step, or of these steps, into its folder below `folder`.

    Tapes of steps that have not changed are taken from dist/tapes/. A step that lacks a package here is left out.
    `on_step` is called with each step and its size in bytes. Raises NotRecorded if a reference fails one of its
    checks.
    """
    chosen = recordable(steps)
    tapes = {step.name: KEPT / f"{step.name}-{_digest(sources(step.folder))}" for step in chosen}
    new = [step for step in chosen if not tapes[step.name].is_file()]  # in order: the first ones are used first
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # what torch warns of tells an author nothing
    processes = multiprocessing.get_context("spawn")  # torch can't be forked once it is in use
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), processes) as pool:  # starts none if nothing is new
        recorded = {pool.submit(_record, step.folder): step for step in new}
        try:
            for step in chosen:
                if step not in new:
                    _write(folder, step, tapes[step.name].read_bytes(), on_step)
            for recording in as_completed(recorded):
                step, tape = recorded[recording], recording.result()
                _keep(tapes[step.name], step.name, tape)
                _write(folder, step, tape, on_step)
        except BaseException:  # stopped, or a reference is wrong: the others would be recorded first
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def recordable(steps: Collection[str] = ()) -> list[course.Step]:
    """The steps, or those of these names, of which a tape can be recorded here, in order."""
    return [step for step in course.steps() if (not steps or step.name in steps) and not step.lacking]


def kept_tapes() -> list[Path]:
    """The tapes that were recorded of the steps as they are now."""
    every = (KEPT / f"{step.name}-{_digest(sources(step.folder))}" for step in recordable())
    return [tape for tape in every if tape.is_file()]


def _write(folder: Path, step: course.Step, tape: bytes, on_step: Callable[[str, int], None]) -> None:
    """Writes a step's tape into its folder, and reports its size in bytes."""
    path = folder / step.track / step.name / TAPE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tape)
    on_step(step.name, len(tape))


def sources(folder: Path) -> set[Path]:
    """The files that a step's tape is made of: its own, every reference (a step may ask for an earlier one's answers),
    and all modules that these and this one import, at the top or later, and so on."""
    every: set[Path] = set()
    left = [Path(__file__), *folder.rglob("*.py"), *SOLUTIONS.glob("*/*/reference.py")]
    while left:
        file = left.pop()
        if file not in every:
            every.add(file)
            left += _imported(file)
    return every.union(mistakes.files_of(folder), mistakes.files_of(SOLUTIONS))


@cache
def _imported(file: Path) -> list[Path]:
    """The files of the engine and of the solutions that a module names in its imports; of folders on the way, its own
    among them, the `__init__`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    folders = {ROOT.joinpath(*name.split(".")) for name in names if name.partition(".")[0] in ("grader", "solutions")}
    places = {place for name in (file, *folders) for place in (name, *name.parents) if place.is_relative_to(ROOT)}
    return [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]


def _record(folder: Path) -> bytes:
    preload.load_torch()
    return record(Solution(folder))


def _keep(path: Path, name: str, tape: bytes) -> None:
    """Keeps the tape, in place of the step's older one. A read-only checkout keeps none."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        for stale in path.parent.glob(f"{name}-*"):
            stale.unlink(missing_ok=True)
        files.write(path, tape)


def _digest(made_of: Iterable[Path]) -> str:
    """A digest of the content of these files, and of torch's version, since its arithmetic may differ."""
    seen = hashlib.sha256(f"{torch.__version__}{__version__}".encode())
    for path in sorted(made_of):
        seen.update(path.read_bytes())
    return seen.hexdigest()[:32]


def record(step: Solution, seeds: tuple[int, ...] = SEEDS) -> bytes:
    """The tape of one step, the same bytes each time. Raises NotRecorded if the reference fails a check."""
    torch.set_num_threads(1)  # splitting a sum differently would change its rounding
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's warnings about what misconceptions do
        return _recorded(step, seeds)


def _recorded(step: Solution, seeds: tuple[int, ...]) -> bytes:
    """The tape of a step as bytes, for these seeds. Raises NotRecorded."""
    recorder = _Recorder(step)
    numbers = {wrong.name: number for number, wrong in enumerate(step.misconceptions)}
    known_pairs = [
        KnownPair(numbers[first.name], numbers[second.name], sorted(pair.replaced))
        for pair in step.pairs
        for first, second in [pair.parts]
    ]
    checks = {check.name: [recorder.recording(check.function, seed) for seed in seeds] for check in step.checks}
    small = [case for few in step.small_cases.values() for case in few]
    checks |= {case.__name__: [recorder.small_case(case, seeds[0])] for case in small}
    known_ways = [_known(wrong) for wrong in step.misconceptions]
    known_ways += [_known(wrong, generated=True) for wrong in recorder.told_apart(checks)]
    contents, pieces, stored = _each_once(recorder.tensors)
    prints = list(recorder.fingerprints)
    index = Index(step.title, list(seeds), known_ways, known_pairs, contents, pieces, prints, checks)
    packed = zlib.compress(msgspec.msgpack.encode(index), 9)
    stored[INDEX] = torch.frombuffer(bytearray(packed), dtype=torch.uint8)
    return bytes(save(stored, {"kit": __version__}))


def _known(wrong: Misconception, generated: bool = False) -> KnownWay:
    """A misconception as a tape holds it, without its code."""
    return KnownWay(
        wrong.name, wrong.caught_by, sorted(wrong.replaced), wrong.what, wrong.why, wrong.nudge, wrong.form_of,
        dict(wrong.words), generated,
    )  # fmt: skip


class _Recorder:
    """Runs the checks of one step and records their calls and answers."""

    def __init__(self, step: Solution) -> None:
        self.step = step
        self.asked = step.asked_here(CachedOracle(LocalBackend(step.responder())))
        self.tensors: dict[str, Tensor] = {}
        self.fingerprints: dict[Fingerprint, int] = {}
        self.generated = step.recorded_too
        self._passed: set[tuple[str, str]] = set()  # check and misconception: under an earlier seed

    def small_case(self, case: Callable[..., None], seed: int) -> Recording:
        """A small case, without the misconceptions' answers: it names nothing."""
        return self.recording(case, seed, named=False)

    def recording(self, check: Callable[..., None], seed: int, named: bool = True) -> Recording:
        """The recording of one check under one seed; `named`: with the misconceptions' answers."""
        oracle = _RecordedOracle(self.step)
        verdict = run_check(check, LocalBackend(self.step.responder()), oracle, seed=seed)
        if verdict.status != "pass":
            raise NotRecorded(f"{self.step.name}, {check.__name__}, seed {seed}: {verdict.message}")
        calls = [name for name, _outcome in oracle.answered]
        answers = [packed_outcome(outcome, self.tensors) for _name, outcome in oracle.answered]
        return Recording(calls, answers, self._wrong_ways(check, seed, verdict.called) if named else {})

    def _wrong_ways(
        self, check: Callable[..., None], seed: int, called: frozenset[str]
    ) -> dict[str, dict[int, KnownFailure]]:
        """Each misconception that fails this check, in the forms that differ. One that passed it under an earlier seed
        isn't tried again, unless the check is one that catches it: nearly all would pass again, and the others are
        known by that one."""
        question, name = Question(check, seed, "cpu", Verdict("fail", "", called)), check.__name__
        failed: dict[str, dict[int, KnownFailure]] = {}
        for wrong in [*self.step.misconceptions, *self.step.pairs, *self.generated]:
            touched, passed = self.step.touched(wrong.replaced), (name, wrong.name)
            if not called & touched or passed in self._passed:
                continue
            # Of a generated one a single form is kept, which takes the least room.
            uses_it = wrong.caught_by and called & wrong.replaced.keys() and called & (touched - wrong.replaced.keys())
            forms = {form: self._failing(wrong, question, form) for form in (USUAL, *[ALONE] * bool(uses_it))}
            if any(randomness.may_miss(answer.profile) for answer in forms[USUAL].prints):
                forms[OTHER_STREAM] = self._failing(wrong, question, OTHER_STREAM)
            if uses_it and forms[ALONE].prints == forms[USUAL].prints:
                del forms[ALONE]
            failures = {form: self._kept(answers) for form, answers in forms.items() if answers.prints}
            if failures:
                failed[wrong.name] = failures
            elif name not in wrong.refused_by:
                self._passed.add(passed)
        return failed

    def told_apart(self, checks: dict[str, list[Recording]]) -> list[Misconception]:
        """The generated mistakes that answer otherwise than any other recorded one; the rest is dropped from the
        recordings."""
        recordings = [recording for each in checks.values() for recording in each]

        def answered(name: str) -> bytes:
            return msgspec.msgpack.encode([each.failed.get(name, {}).get(USUAL) for each in recordings])

        seen = {answered(wrong.name) for wrong in self.step.misconceptions} | {answered("")}
        distinct: list[Misconception] = []
        for wrong in self.generated:
            if (own := answered(wrong.name)) not in seen:
                seen.add(own)
                distinct.append(wrong)
                continue
            for recording in recordings:
                recording.failed.pop(wrong.name, None)
        return distinct

    def _failing(self, wrong: Misconception, question: Question, form: int) -> Replies:
        """The answers of a misconception, if the check fails on them."""
        answers = self.asked.answers(wrong, question.name, question, form)
        if not answers or not answers.refused:
            return Replies()
        return dataclasses.replace(answers, prints=[each.kept() for each in answers.prints])

    def _kept(self, answers: Replies) -> KnownFailure:
        """Answers as a tape holds them: by the numbers of their fingerprints."""
        prints = [self.fingerprints.setdefault(each.kept(), len(self.fingerprints)) for each in answers.prints]
        return KnownFailure(prints, answers.about, answers.size)


class _RecordedOracle(LocalBackend):
    """The reference; records its answers."""

    def __init__(self, step: Solution) -> None:
        super().__init__(step.responder())
        self.answered: list[tuple[str, Outcome]] = []

    def ask(self, call: Call) -> Outcome:
        """The reference's answer, which is also recorded."""
        outcome = super().ask(call)
        # Records a copy: an answer about parameters changes with them.
        copy = copied(outcome)
        if copy.raised is not None:  # the position would reveal a line of the reference
            copy.raised = Raised(copy.raised.type, copy.raised.message)
        self.answered.append((call.name, copy))
        return outcome


def _each_once(tensors: dict[str, Tensor]) -> tuple[list[int], list[tuple[str, list[int]]], dict[str, Tensor]]:
    """Deduplicates tensors: the index of each one's content, the dtype and shape of each content, and one tensor per
    dtype that concatenates them, compressed. A separate tensor's name would take as many bytes as most contents."""
    numbers: dict[tuple[str, tuple[int, ...], bytes], int] = {}
    contents: list[int] = []
    parts: dict[str, list[Tensor]] = {}
    for tensor in tensors.values():
        flat = tensor.detach().flatten()
        raw = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
        content = dtype_name(tensor), tuple(tensor.shape), raw
        if content not in numbers:
            numbers[content] = len(numbers)
            parts.setdefault(content[0], []).append(flat)
        contents.append(numbers[content])
    pieces = [(dtype, list(shape)) for dtype, shape, _raw in numbers]
    return contents, pieces, {dtype: compressed(torch.cat(flats)) for dtype, flats in parts.items()}
