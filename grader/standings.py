"""What a class's outputs need of each student, in little: thousands of reports would not fit in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grader.results import Graded, Status, StepResult


@dataclass(frozen=True)
class StepStanding:
    """How a student stands in one step.

    `diagnoses` are the names of what went wrong: each a tuple of one, or of several that can't be told apart.
    `unexplained` is the title of the first check that fails, where no diagnosis says why. `unusable` says why what was
    handed in could not be run.
    """

    name: str
    title: str
    status: Status
    score: float
    max_score: float
    diagnoses: tuple[tuple[str, ...], ...]
    unexplained: tuple[str, ...]
    off_limits: bool
    blocked_by: str | None
    unusable: str = ""


@dataclass(frozen=True)
class Standing:
    """How a student stands; `error` says why there is no score."""

    student: str
    file: str
    score: float | None
    max_score: float
    steps: tuple[StepStanding, ...]
    error: str = ""

    @property
    def nothing_handed_in(self) -> bool:
        """Whether not one step was begun."""
        return self.score is not None and all(step.status == "todo" for step in self.steps)


def standing(graded: Graded) -> Standing:
    """What the outputs of a class need of one student."""
    report = graded.report
    if report is None:
        return Standing(graded.student, graded.file, None, 0.0, (), graded.error)
    steps = tuple(_step(step) for step in report.steps)
    return Standing(graded.student, graded.file, report.score, report.max_score, steps)


def _step(step: StepResult) -> StepStanding:
    named = [check.misconception for check in step.checks if check.misconception]
    failing = [check.title for check in step.checks if check.status == "fail" and not check.off_limits]
    unexplained = [] if named or step.blocked_by or step.unusable else failing[:1]
    return StepStanding(
        step.name, step.title, step.status, step.score, step.max_score, _diagnoses(named), tuple(unexplained),
        any(check.off_limits for check in step.checks), step.blocked_by, step.unusable,
    )  # fmt: skip


def _diagnoses(named: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Each diagnosis once: `a + b` is both, `a | b` one of two that can't be told apart."""
    found: dict[tuple[str, ...], None] = {}
    for name in named:
        alternatives = [frozenset(way.split(" + ")) for way in name.split(" | ")]
        certain = frozenset.intersection(*alternatives)
        found |= {(one,): None for one in sorted(certain)}
        doubtful = tuple(dict.fromkeys(one for way in alternatives for one in sorted(way - certain)))
        if doubtful:
            found[doubtful] = None
    return tuple(found)
