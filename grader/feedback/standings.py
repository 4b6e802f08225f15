"""A short record of each student for a class's outputs: thousands of reports would not fit in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from grader.base.results import CheckResult, Graded, StepResult
from grader.marks.marking import counted, lateness

INVALID = re.compile(r"\b(SyntaxError|IndentationError|TabError)\b")  # as Python says of a file that does not parse


class StepStanding(StepResult, kw_only=True, frozen=True):
    """A student's result in one step with figures in place of its checks.

    `diagnoses` are the names of what went wrong: each a tuple of one, or of several that can't be told apart.
    `words` complete the sentence about one, by its name. `unexplained` is the title of the first check that fails, if
    no diagnosis says why. `invalid` and `not_imported`: no check of it got beyond its import.
    """

    seconds: float = 0.0
    checks: list[CheckResult] = []
    diagnoses: tuple[tuple[str, ...], ...] = ()
    unexplained: tuple[str, ...] = ()
    off_limits: bool = False
    invalid: bool = False
    not_imported: bool = False
    words: Mapping[str, Mapping[str, str]] = {}

    @property
    def resting(self) -> str:
        """The step's name, and in parentheses the earlier steps with references in place; empty without any."""
        return f"{self.name} ({', '.join(self.references)})" if self.references else ""


class Standing(Graded, kw_only=True, frozen=True):
    """A student's result with figures in place of its report, as a class's outputs need it. `error` says why there is
    no score."""

    score: float | None = None
    max_score: float = 0.0
    steps: tuple[StepStanding, ...] = ()
    seed: int | None = None
    taken: tuple[str, ...] = ()  # sentences about files that were taken for a step
    isolation: tuple[str, ...] = ()  # the layers that were in force
    changed: str = ""  # what this run has changed: "new", or the points before and after

    @property
    def lateness(self) -> str:
        """The share that lateness took off, with the reason, as text; empty without any."""
        return lateness(self.mark)

    @property
    def requests(self) -> list[str]:
        """The unanswered requests for a second look."""
        return self.mark.requests if self.mark else []

    @property
    def unsure(self) -> bool:
        """Whether the download says that the hand-in was late, but not by how much."""
        return bool(self.mark and self.mark.unsure)

    @property
    def by_track(self) -> dict[str, float]:
        """The points of each track that was graded."""
        points: dict[str, float] = {}
        for step in self.steps:
            points[step.track] = round(points.get(step.track, 0.0) + (step.score or 0.0), 6)
        return points

    @property
    def is_open(self) -> bool:
        """True if a person must look: there is no mark, and no rule explains it."""
        return self.score is None and not self.absence

    @property
    def nothing_handed_in(self) -> bool:
        """Whether not one step was started."""
        return self.score is not None and all(step.status == "todo" or step.score is None for step in self.steps)


def standing(graded: Graded, changed: str = "") -> Standing:
    """The short record of one student, with the points that count in the assignment, and what was `changed`."""
    report, error = counted(graded)
    fields = msgspec.structs.asdict(graded) | {"report": None, "error": error, "changed": changed, "digest": ""}
    if report is None:
        return Standing(**fields)
    fields |= {
        "unread": tuple(report.unread.items()),
        "grader_failed": any(one.status == "error" for one in report.steps),
    }
    return Standing(
        **fields, score=None if error else report.score, max_score=report.max_score, seed=report.seed,
        steps=tuple(map(_step, report.steps)), taken=tuple(graded.report.notes if graded.report else ()),
        isolation=tuple(report.isolation),
    )  # fmt: skip


def _step(step: StepResult) -> StepStanding:
    """A student's result in one step, in short."""
    named = [check.misconception for check in step.checks if check.misconception]
    failing = [check.title for check in step.checks if check.status == "fail" and not check.off_limits]
    stuck = step.stuck
    invalid = stuck and INVALID.search(step.checks[0].message) is not None
    explained = named or stuck or step.unusable or step.odd
    figures = msgspec.structs.replace(
        step, seconds=0.0, checks=[], message=step.unusable, output="", note="", remarks=[], left_out=[]
    )
    return StepStanding(
        **msgspec.structs.asdict(figures), diagnoses=_diagnoses(named),
        unexplained=() if explained else tuple(failing[:1]), off_limits=any(check.off_limits for check in step.checks),
        invalid=invalid, not_imported=stuck and not invalid,
        words={check.misconception: check.words for check in step.checks if check.misconception and check.words},
    )  # fmt: skip


def _diagnoses(named: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Each diagnosis once: `a + b` is both, `a | b` one of two that can't be told apart."""
    diagnoses: dict[tuple[str, ...], None] = {}
    for name in named:
        alternatives = [frozenset(way.split(" + ")) for way in name.split(" | ")]
        certain = frozenset.intersection(*alternatives)
        diagnoses |= {(alternative,): None for alternative in sorted(certain)}
        doubtful = tuple(dict.fromkeys(alternative for way in alternatives for alternative in sorted(way - certain)))
        if doubtful:
            diagnoses[doubtful] = None
    return tuple(diagnoses)
