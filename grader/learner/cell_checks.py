"""Grading inside a notebook: `check("step04_causal_mask")` grades the cells as they are now, like `make grade`.

The answer to a step is the last run cell that starts with the step's name in a comment, as released cells do; if there
is none, or only a stub, the last run cell that defines what the step asks for. Steps that were not run in this kernel
are read from the notebooks and step files in the working folder. The kernel sends text to a warm grader in separate
processes, so that the verdict does not depend on the kernel's state.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from grader.base import language
from grader.base.errors import Refusal
from grader.base.language import gettext as _
from grader.base.results import Report
from grader.course import answer_cells, choice, submissions
from grader.judge import grader
from grader.judge.launcher import GraderError
from grader.sandbox.importer import PACKAGE, SubmissionImporter

NAME = "notebook"


class CheckedSteps:
    """The result of a check: shown as HTML if possible, else as text."""

    def __init__(self, report: Report, spoken: str) -> None:
        self.report = report
        self._spoken = spoken

    @property
    def score(self) -> float | None:
        """The points of the steps that were checked; None if one has no score."""
        return self.report.score

    def __repr__(self) -> str:
        """The report as text, for a kernel without HTML."""
        from grader.report import terminal as reports  # rich

        with language.use(self._spoken):
            notes = [*map(reports.plain, self.report.notes)]
            return "\n\n".join([*(reports.as_text(step) for step in self.report.steps), *notes])

    def _repr_html_(self) -> str:
        """The report as HTML, with hints."""
        from grader.course import lessons
        from grader.report import page  # jinja2

        with language.use(self._spoken):
            return page.fragment(self.report, lessons.hints_of(step.name for step in self.report.steps))


def check(
    *steps: str | int,
    track: str | Sequence[str] = (),
    seed: int | None = None,
    device: str = "all",
    lang: str | None = None,
) -> CheckedSteps:
    """Grades the steps: `check(4)`, `check("step04_causal_mask")`, `check("1-6,13")`, `check(track="positions")`; by
    default the core and every elective that was started. Raises Refusal.

    `seed` repeats draws, `device` is as torch names it, or all, `lang` en or ko.
    """
    try:
        spoken = language.choose(lang)
    except language.UnknownLanguage:
        raise Refusal('There is no such language here. Type: check(…, lang="en"), or "ko"') from None
    with language.use(spoken):
        names = _chosen(map(str, steps), [track] if isinstance(track, str) else track) or _by_default()
        return CheckedSteps(_warm_grader().grade(names, seed, device), spoken)


def points(step: str | int, worth: float | None = None) -> float:
    """The points of a step, for nbgrader: from the last check if the answer is still the same, else from a new one.
    `worth` is what the step counts in an assignment, if that differs from its own points. Raises Refusal without a
    score."""
    with language.use(language.choose()):
        result = _warm_grader().latest(_step_name(str(step))).steps[0]
        if result.without_score:
            raise Refusal(result.message)
        if result.score is None:
            raise Refusal(result.unusable or _("Something failed in the grader itself. Run this cell again."))
        return result.score if worth is None else worth * result.score / (result.max_score or 1.0)


class _WarmGrader:
    """A warm grader, with the last report on each step and the answer that it was about."""

    def __init__(self) -> None:
        self._grader = grader.LazyGrader()
        self._reports: dict[str, tuple[submissions.Submission, Report]] = {}
        atexit.register(self._grader.close)

    def grade(self, names: list[str], seed: int | None = None, device: str = "all") -> Report:
        """Grades the steps as their cells are now. Raises Refusal if the grader fails."""
        read = _read(names)
        try:
            report = self._grader.grade(read, names, seed=seed, device=device)
        except GraderError as error:
            raise Refusal(str(error)) from None
        if len(names) == 1:
            self._reports[names[0]] = read, report
        return report

    def latest(self, name: str) -> Report:
        """The last report on a step if its answer is still the same, else a new one. Raises Refusal."""
        about, report = self._reports.get(name, (None, None))
        return report if report is not None and about == _read([name]) else self.grade([name])


@cache
def _warm_grader() -> _WarmGrader:
    return _WarmGrader()


def _step_name(wanted: str) -> str:
    """The full name of the step with this name or number. Raises Refusal, with the call to type instead."""
    try:
        return choice.single(wanted)
    except choice.UnknownChoice as unknown:
        raise _no_such(unknown) from None


def _chosen(steps: Iterable[str], tracks: Iterable[str]) -> list[str]:
    """The names of these steps and of those of the tracks, in order. Raises Refusal, with the call to type instead."""
    try:
        return choice.chosen(steps, tracks)
    except choice.UnknownChoice as unknown:
        raise _no_such(unknown) from None


def _no_such(unknown: choice.UnknownChoice) -> Refusal:
    """The error, not raised, for an unknown step or track, with the call to type instead."""
    named = "track=" if unknown.option == "--track" else ""
    sentence = _("{problem} Type: {code}")
    return Refusal(sentence.format(problem=unknown, code=f'check({named}"{unknown.instead}")'))


def _by_default() -> list[str]:
    """The names of the steps of this notebook's assignment, which KIT_STEPS names; without it, of the core and every
    elective with work. Raises Refusal if KIT_STEPS names no step of the course."""
    if own := os.environ.get("KIT_STEPS"):
        return _chosen([own], [])
    read = _read([])
    return choice.by_default(read.sources, read.problems)


# --- the cells -------------------------------------------------------------------------------------------------------


def _read(names: list[str]) -> submissions.Submission:
    """The current answers: those of this kernel, and the others from the working folder. Each of the steps `names` that
    has no answer gets a problem that says so."""
    read = submissions.Submission(NAME)
    submissions.add_cells(read, {step: [source] for step, source in _live().items()}, NAME)
    there = submissions.read(Path.cwd())
    for step in there.sources.keys() - read.sources.keys() - read.problems.keys():
        read.sources[step] = there.sources[step]
    for step in there.problems.keys() - read.sources.keys():
        read.problems.setdefault(step, there.problems[step])
    for step in names:
        if step not in read.sources:
            read.problems.setdefault(step, _("Run the answer cell of {step} first.").format(step=step))
    return read


def _live() -> dict[str, str]:
    """The source of the cell that answers each step, of those that were run in this kernel."""
    begun: dict[str, str] = {}
    defining: dict[str, str] = {}
    public = {step: answer_cells.public_names(step) for step in choice.step_names()}
    for source in _history():
        step = answer_cells.named_step(source)
        if step:
            begun[step] = source
            continue
        defined = _defined(source)
        defining |= {step: source for step, names in public.items() if names & defined}
    begun = {step: source for step, source in begun.items() if step in public}
    written = {step: source for step, source in begun.items() if not answer_cells.is_untouched(source)}
    return (
        begun | {step: source for step, source in defining.items() if not answer_cells.is_untouched(source)} | written
    )


def _history() -> list[str]:
    """The text of every cell that was run, in order; empty outside a kernel."""
    shell = _shell()
    return [] if shell is None else list(shell.history_manager.input_hist_raw)


def _shell() -> Any:
    """The IPython shell of this kernel; None outside of one."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


_defined = cache(answer_cells.defined)


# --- earlier steps, imported in the kernel itself --------------------------------------------------------------------


class _AnswerCells(Mapping[str, tuple[str, str]]):
    """The sources of the submission at the moment of the lookup."""

    def __getitem__(self, step: str) -> tuple[str, str]:
        return _read([]).sources[step]

    def __iter__(self) -> Iterator[str]:
        return iter(_read([]).sources)

    def __len__(self) -> int:
        return len(_read([]).sources)


def _forget(*_event: object) -> None:
    """Makes imports of answers reload them: the cells may have been edited and run again."""
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def _install() -> None:
    """Makes `from exercises.step02_softmax import softmax` find the learner's own cell in the kernel too, as in a
    worker; does nothing outside a kernel."""
    shell = _shell()
    if shell is not None and not any(isinstance(finder, SubmissionImporter) for finder in sys.meta_path):
        sys.meta_path.insert(0, SubmissionImporter(_AnswerCells()))  # type: ignore[arg-type]  # without references it only reads
        shell.events.register("pre_run_cell", _forget)


_install()
