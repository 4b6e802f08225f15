"""Grading inside a notebook: `check("step04_causal_mask")` says what `make grade` says, of the cells as they are now.

The answer to a step is the cell that was run last among those that begin with the step's name in a comment, as they do
when they are released; where there is none, or only a stub, the one run last among those that define what it asks for.
A step that this kernel has not seen is read from the notebooks and step files in the working folder. The kernel sends
text to a warm grader in processes of its own, so that the verdict is the grader's and not the kernel's.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from grader import grading, language, notebooks, submission
from grader.language import gettext as _
from grader.results import Report
from grader.worker import PACKAGE, SubmissionImporter

NAME = "notebook"


class Refusal(Exception):
    """It can't be graded, and one line says why. A notebook shows that line and no traceback."""

    def _render_traceback_(self) -> list[str]:  # IPython asks for it by this name
        return [str(self)]


class Verdict:
    """What came of a check: shown as a page's piece where HTML can be shown, else as text."""

    def __init__(self, report: Report, spoken: str) -> None:
        self.report = report
        self._spoken = spoken

    @property
    def score(self) -> float:
        """The points of the steps that were checked."""
        return self.report.score

    def __repr__(self) -> str:
        from grader import report as reports  # rich

        with language.use(self._spoken):
            return "\n\n".join(reports.as_text(step) for step in self.report.steps)

    def _repr_html_(self) -> str:
        from grader import page  # jinja2

        with language.use(self._spoken):
            return page.fragment(self.report)


def check(*steps: str | int, seed: int | None = None, device: str = "all", lang: str | None = None) -> Verdict:
    """Grades the steps, by name or number, all of them by default. Raises Refusal.

    `seed` repeats draws, `device` is one of cpu, cuda, mps and all, `lang` en or ko.
    """
    try:
        spoken = language.choose(lang)
    except language.UnknownLanguage:
        raise Refusal('There is no such language here. Type: check(…, lang="en"), or "ko"') from None
    with language.use(spoken):
        names = [_step_name(str(step)) for step in steps] or grading.step_names()
        return Verdict(_desk().grade(names, seed, device), spoken)


def points(step: str | int) -> float:
    """The points of a step, for nbgrader: of the last check when the answer is still the same, else of one made now."""
    with language.use(language.choose()):
        result = _desk().known(_step_name(str(step))).steps[0]
        if result.status == "error":
            raise Refusal(_("Something failed in the grader itself. Run this cell again."))
        return float(result.score)


class _Desk:
    """A warm grader, and the last report on each step with what it was about."""

    def __init__(self) -> None:
        self._grader: grading.Grader | None = None
        self._reports: dict[str, tuple[submission.Submission, Report]] = {}
        atexit.register(self.close)

    def grade(self, names: list[str], seed: int | None = None, device: str = "all") -> Report:
        """Grades the steps as their cells are now."""
        read = _read(names)
        try:
            self._grader = self._grader or grading.Grader()
            report = self._grader.grade(read, names, seed=seed, device=device)
        except grading.GraderError as error:
            self.close()
            raise Refusal(str(error)) from None
        if len(names) == 1:
            self._reports[names[0]] = read, report
        return report

    def known(self, name: str) -> Report:
        """The last report on a step that still stands, or a new one."""
        about, report = self._reports.get(name, (None, None))
        return report if report is not None and about == _read([name]) else self.grade([name])

    def close(self) -> None:
        """Ends the grader's processes."""
        if self._grader is not None:
            self._grader.close()
            self._grader = None


@cache
def _desk() -> _Desk:
    return _Desk()


def _step_name(wanted: str) -> str:
    names = grading.step_names()
    found = grading.match_step(wanted, names)
    if found is None:
        raise Refusal(
            _('There is no step {wanted}. The steps are {first} to {last}. Type: check("{first}")').format(
                wanted=wanted, first=names[0], last=names[-1]
            )
        )
    return found


# --- the cells -------------------------------------------------------------------------------------------------------


def _read(names: list[str]) -> submission.Submission:
    """The answers as they are now: those of this kernel, and from the working folder those it has not seen."""
    read = submission.Submission(NAME)
    submission.add_cells(read, {step: [source] for step, source in _live().items()}, NAME)
    there = submission.read(Path.cwd())
    for step in there.sources.keys() - read.sources.keys() - read.problems.keys():
        read.sources[step] = there.sources[step]
    for step in there.problems.keys() - read.sources.keys():
        read.problems.setdefault(step, there.problems[step])
    for step in names:
        if step not in read.sources:
            read.problems.setdefault(step, _("Run the answer cell of {step} first.").format(step=step))
    return read


def _live() -> dict[str, str]:
    """The answers among the cells that were run in this kernel, by step."""
    begun: dict[str, str] = {}
    defining: dict[str, str] = {}
    public = {step: notebooks.public_names(step) for step in grading.step_names()}
    for source in _history():
        step = notebooks.beginning(source)
        if step:
            begun[step] = source
            continue
        defined = _defined(source)
        defining |= {step: source for step, names in public.items() if names & defined}
    begun = {step: source for step, source in begun.items() if step in public}
    written = {step: source for step, source in begun.items() if not notebooks.is_untouched(source)}
    return begun | {step: source for step, source in defining.items() if not notebooks.is_untouched(source)} | written


def _history() -> list[str]:
    """The text of every cell that was run, in the order of running; nothing outside a kernel."""
    shell = _shell()
    return [] if shell is None else list(shell.history_manager.input_hist_raw)


def _shell() -> Any:
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


_defined = cache(notebooks.defined)


# --- earlier steps, imported in the kernel itself --------------------------------------------------------------------


class _Answers(Mapping[str, tuple[str, str]]):
    """The sources of the submission as it is at the moment of asking."""

    def __getitem__(self, step: str) -> tuple[str, str]:
        return _read([]).sources[step]

    def __iter__(self) -> Iterator[str]:
        return iter(_read([]).sources)

    def __len__(self) -> int:
        return len(_read([]).sources)


def _forget(*_event: object) -> None:
    """Has imports of answers look at them anew: they may have been run again, differently."""
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def _install() -> None:
    """Makes `from exercises.step02_softmax import softmax` find the learner's own cell here too, as in a worker."""
    shell = _shell()
    if shell is not None and not any(isinstance(finder, SubmissionImporter) for finder in sys.meta_path):
        sys.meta_path.insert(0, SubmissionImporter(_Answers()))
        shell.events.register("pre_run_cell", _forget)


_install()
