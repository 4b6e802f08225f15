"""Records tapes: the reference's answers to each step's checks, and the misconceptions'.

A tape holds everything that a learner's kit needs to grade and diagnose without the solutions.
"""

from __future__ import annotations

import ast
import contextlib
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
from grader.oracle.tape import INDEX, Index, KnownFailure, Recording, compressed
from grader.oracle.witness import ALONE, OTHER_STREAM, USUAL, Question, Replies
from grader.sandbox import preload

KEPT = ROOT / "dist" / "tapes"
SEEDS = (20170612, 20190214)


class NotRecorded(RuntimeError):
    """The reference fails its own checks: there are no right answers to record."""


def record_all(
    folder: Path = SOLUTIONS, on_step: Callable[[str, int], None] = lambda name, size: None, steps: Collection[str] = ()
) -> None:
    """Writes the tape, which holds the reference's answers, of every step, or of those named in `steps`, into the
    step's folder below `folder`.

    Tapes of steps that have not changed are taken from dist/tapes/. A step that lacks a package here is left out.
    `on_step` is called with each step's name and its tape's size in bytes. Raises NotRecorded if a reference fails one
    of its checks."""
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
                _cache_tape(tapes[step.name], step.name, tape)
                _write(folder, step, tape, on_step)
        except BaseException:  # stopped, or a reference is wrong: the others would be recorded first
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def recordable(steps: Collection[str] = ()) -> list[course.Step]:
    """The steps, or those with these names, that can be recorded here, in order: all but those that lack a package."""
    return [step for step in course.steps() if (not steps or step.name in steps) and not step.lacking]


def cached_tapes() -> list[Path]:
    """The tapes in dist/tapes/ that were recorded of the steps as they are now."""
    every = (KEPT / f"{step.name}-{_digest(sources(step.folder))}" for step in recordable())
    return [tape for tape in every if tape.is_file()]


def _write(folder: Path, step: course.Step, tape: bytes, on_step: Callable[[str, int], None]) -> None:
    """Writes a step's tape into its folder below `folder`, and calls `on_step` with its name and size in bytes."""
    path = folder / step.track / step.name / TAPE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tape)
    on_step(step.name, len(tape))


def sources(folder: Path) -> set[Path]:
    """The files that a step's tape depends on: its own, every reference (a step may ask for an earlier one's answers),
    and all modules that these and the recorder import, at the top or later, and so on."""
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
    """The files of the engine and of the solutions that a module names in its imports, and the `__init__.py` of each
    folder on the way to them and to itself."""
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
    """The tape of the step in a folder, recorded in this process, which loads torch for it."""
    preload.load_torch()
    return record(Solution(folder))


def _cache_tape(path: Path, name: str, tape: bytes) -> None:
    """Writes the tape to `path`, in place of the step's older ones there. A read-only checkout caches none."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        for stale in path.parent.glob(f"{name}-*"):
            stale.unlink(missing_ok=True)
        files.write(path, tape)


def _digest(paths: Iterable[Path]) -> str:
    """A digest of the content of these files, and of torch's version, since its arithmetic may differ."""
    seen = hashlib.sha256(f"{torch.__version__}{__version__}".encode())
    for path in sorted(paths):
        seen.update(path.read_bytes())
    return seen.hexdigest()[:32]


def record(step: Solution, seeds: tuple[int, ...] = SEEDS) -> bytes:
    """The tape of one step as bytes, the same each time: answers to its checks under each of the seeds. Raises
    NotRecorded if the reference fails a check."""
    torch.set_num_threads(1)  # splitting a sum differently would change its rounding
    recorder = _Recorder(step)
    indices = {wrong.name: index for index, wrong in enumerate(step.misconceptions)}
    pairs = [
        (indices[first.name], indices[second.name], sorted(pair.replaced))
        for pair in step.pairs
        for first, second in [pair.parts]
    ]
    with warnings.catch_warnings(action="ignore"):  # torch's warnings about what misconceptions do
        checks = {check.name: [recorder.recording(check.function, seed) for seed in seeds] for check in step.checks}
        small = [case for few in step.small_cases.values() for case in few]  # they name nothing
        checks |= {case.__name__: [recorder.recording(case, seeds[0], named=False)] for case in small}
    known, generated = ([*map(_without_code, ways)] for ways in (step.misconceptions, recorder.told_apart(checks)))
    contents, pieces, stored = _deduplicated(recorder.tensors)
    prints = list(recorder.fingerprints)
    index = Index(step.title, list(seeds), known, pairs, generated, contents, pieces, prints, checks)
    packed = zlib.compress(msgspec.msgpack.encode(index), 9)
    stored[INDEX] = torch.frombuffer(bytearray(packed), dtype=torch.uint8)
    return bytes(save(stored, {"kit": __version__}))


def _without_code(wrong: Misconception) -> Misconception:
    """A misconception as a tape holds it."""
    return msgspec.structs.replace(wrong, replaced=dict.fromkeys(sorted(wrong.replaced)), words=dict(wrong.words))


class _Recorder:
    """Runs the checks of one step and records their calls and answers."""

    def __init__(self, step: Solution) -> None:
        self.step = step
        self.asked = step.asked_here(CachedOracle(LocalBackend(step.responder())))
        self.tensors: dict[str, Tensor] = {}
        self.fingerprints: dict[Fingerprint, int] = {}
        self.generated = step.operators.recorded() if step.operators else []
        self._passed: set[tuple[str, str]] = set()  # check and misconception: under an earlier seed

    def recording(self, check: Callable[..., None], seed: int, named: bool = True) -> Recording:
        """The recording of one check under one seed: the calls, the reference's answers and, with `named`, those of the
        misconceptions that fail it, by which a mistake gets its name. Raises NotRecorded if the reference fails."""
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
        """The misconceptions that fail this check: for each name its answers by form, in the forms that differ. One
        that passed it under an earlier seed isn't tried again, unless the check is one that catches it: nearly all
        would pass again, and the others are known by that one."""
        question, name = Question(check, seed, "cpu", Verdict("fail", "", called)), check.__name__
        failed: dict[str, dict[int, KnownFailure]] = {}
        for wrong in [*self.step.misconceptions, *self.step.pairs, *self.generated]:
            touched, passed = self.step.touched(wrong.replaced), (name, wrong.name)
            if not called & touched or passed in self._passed:
                continue
            # Of a generated one a single form is kept, which takes the least room.
            uses_it = wrong.caught_by and called & wrong.replaced.keys() and called & (touched - wrong.replaced.keys())
            usual = self.asked.answers(wrong, name, question)
            forms = {USUAL: usual, ALONE: self.asked.answers(wrong, name, question, ALONE) if uses_it else None}
            if usual and usual.refused and any(randomness.may_miss(each.profile) for each in usual.prints):
                forms[OTHER_STREAM] = self.asked.answers(wrong, name, question, OTHER_STREAM)
            failures = {form: self._kept(answers) for form, answers in forms.items() if answers and answers.refused}
            if USUAL in failures and ALONE in failures and failures[ALONE].prints == failures[USUAL].prints:
                del failures[ALONE]
            if failures:
                failed[wrong.name] = failures
            elif name not in wrong.refused_by:
                self._passed.add(passed)
        return failed

    def told_apart(self, checks: dict[str, list[Recording]]) -> list[Misconception]:
        """The generated mistakes that answer otherwise than any other recorded one. Those of the others are removed
        from the recordings, which are by the check's name."""
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

    def _kept(self, answers: Replies) -> KnownFailure:
        """Answers as a tape holds them: each fingerprint by its number in `self.fingerprints`, which grows."""
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
        copy = outcome.copied()  # an answer about parameters changes with them
        if copy.raised is not None:  # the position would reveal a line of the reference
            copy.raised = Raised(copy.raised.type, copy.raised.message)
        self.answered.append((call.name, copy))
        return outcome


def _deduplicated(tensors: dict[str, Tensor]) -> tuple[list[int], list[tuple[str, list[int]]], dict[str, Tensor]]:
    """Tensors without repetition: the index of each one's content, the dtype and shape of each content, and one
    compressed tensor per dtype that concatenates them. A separate tensor's name would take as many bytes as most
    contents."""
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
