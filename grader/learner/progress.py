"""The learner's progress: one answer to "where am I", from the files on disk and the last verdicts on them.

The page, watch mode, `make tracks`, `make grade`, hints and Explore all ask here. A track is started as soon as one of
its steps has a file, a step is written once its file is not an untouched stub, and it passes if the last verdict says
so; a file that is not valid Python has no verdict and does not pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from grader.base.language import gettext as _
from grader.base.paths import step_folder
from grader.base.results import StepResult
from grader.base.syntax import invalid
from grader.course import check_outline, choice, submissions, tracks
from grader.course.stubs import is_untouched
from grader.course.submissions import Submission
from grader.learner import verdicts


@dataclass(frozen=True)
class StepProgress:
    """A step: whether it has a file, whether that holds work and is no valid Python, and the last verdict on it."""

    name: str
    has_file: bool
    is_written: bool
    is_broken: bool
    result: StepResult | None

    @property
    def points(self) -> float:
        """The points of the step."""
        return self.result.max_score if self.result else points(self.name)

    @property
    def passes(self) -> bool:
        """Whether the step passed when last graded."""
        return self.result is not None and self.result.status == "pass"

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do."""
        return self.result is not None and self.result.is_settled

    @property
    def is_ungraded(self) -> bool:
        """Whether the file holds work that was not graded since it was saved."""
        return self.is_written and self.result is None and not self.is_broken


@dataclass(frozen=True)
class TrackProgress:
    """A track and its steps."""

    track: tracks.Track
    steps: list[StepProgress]

    @property
    def is_started(self) -> bool:
        """Whether the track has a file of one of its steps; the core is always started."""
        return self.track.name == choice.CORE or any(step.has_file for step in self.steps)

    @property
    def passed(self) -> list[str]:
        """The steps that pass."""
        return [step.name for step in self.steps if step.passes]

    @property
    def score(self) -> float:
        """The points earned so far."""
        return round(sum(step.result.score or 0.0 for step in self.steps if step.result), 6)

    @property
    def most(self) -> float:
        """The points of all its steps, graded or not, except if a package is missing that a step needs."""
        counted = [step for step in self.steps if step.result is None or not step.result.without_score]
        return round(sum(step.points for step in counted), 6)

    def __str__(self) -> str:
        if not self.is_started:
            return _("not started")
        return _("{passed} of {total}", passed=len(self.passed), total=len(self.steps))


@dataclass(frozen=True)
class Progress:
    """Every track, and the names of the steps that are the learner's: the core and every other step with a file."""

    tracks: list[TrackProgress]
    names: list[str]

    @cached_property
    def steps(self) -> dict[str, StepProgress]:
        """Every step by name."""
        return {step.name: step for track in self.tracks for step in track.steps}

    @property
    def core(self) -> TrackProgress:
        """The required track."""
        return self.tracks[0]

    @property
    def electives(self) -> list[TrackProgress]:
        """The other tracks that were started."""
        return [track for track in self.tracks[1:] if track.is_started]

    @property
    def ungraded(self) -> list[str]:
        """The steps with work that was not graded since it was saved."""
        return [name for name in self.names if self.steps[name].is_ungraded]

    def next_step(self, after: str | None = None) -> str | None:
        """The step to do next: the first that is not settled, after this one and then from the start; the step that
        blocks it comes first. None if everything passes, or if that is not known yet: see `ungraded`."""
        blocks = self.steps[after].result if after in self.steps else None
        if blocks is not None and blocks.blocked_by in self.names:
            return blocks.blocked_by
        start = self.names.index(after) + 1 if after in self.names else 0
        for name in self.names[start:] + self.names[:start]:
            step = self.steps[name]
            if step.is_ungraded:
                return None
            if not step.is_settled:
                blocker = step.result.blocked_by if step.result else None
                return blocker if blocker in self.names and not self.steps[blocker].is_settled else name
        return None


def of(
    submission: Submission, results: Mapping[str, StepResult], names: Sequence[str] = (), root: Path | None = None
) -> Progress:
    """The progress that these files and results, by step, show. `names`: the steps, if some were chosen; `root`: the
    folder of the tracks, by default the kit's."""
    return Progress(
        [
            TrackProgress(track, [_step(name, submission, results.get(name)) for name in _steps_of(track)])
            for track in _tracks(root)
        ],
        list(names) or choice.started(submission.sources, submission.problems, root),
    )


def in_folder(folder: Path) -> tuple[Submission, Progress]:
    """The files of a folder, and the progress by the verdicts that are saved there. Raises NoSubmission."""
    submission = submissions.read(folder)
    return submission, of(submission, {name: saved.result for name, saved in verdicts.read(folder, submission).items()})


def with_results(before: Progress, submission: Submission, results: Iterable[StepResult]) -> Progress:
    """The progress `before`, with these newer results."""
    earlier = {name: step.result for name, step in before.steps.items() if step.result is not None}
    return of(submission, earlier | {result.name: result for result in results}, before.names)


def _step(name: str, submission: Submission, result: StepResult | None) -> StepProgress:
    """The progress in one step, from the files and the last verdict."""
    has_problem = name in submission.problems
    source = submission.sources.get(name)
    is_written = has_problem or source is not None and not is_untouched(source[1])
    is_broken = source is not None and is_written and _is_broken(source[1])
    return StepProgress(name, has_problem or source is not None, is_written, is_broken, None if is_broken else result)


@cache
def points(name: str) -> float:
    """The points of a step, read from its checks as text, without torch."""
    folder = step_folder(name)
    return sum(check.points or 0.0 for check in check_outline.outline(check_outline.check_file(folder)))


@cache
def _tracks(root: Path | None) -> list[tracks.Track]:
    return tracks.tracks(root)


@cache
def _steps_of(track: tracks.Track) -> list[str]:
    return track.steps


@cache
def _is_broken(source: str) -> bool:
    return bool(invalid(source, ""))
