"""A short record of each student for a class's outputs: thousands of reports would not fit in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from grader.base.results import Graded, Status, StepResult
from grader.marks.marking import as_counted, lateness, why_no_mark

INVALID = re.compile(r"\b(SyntaxError|IndentationError|TabError)\b")  # as Python says of a file that does not parse


@dataclass(frozen=True)
class StepStanding:
    """A student's result in one step.

    `diagnoses` are the names of what went wrong: each a tuple of one, or of several that can't be told apart.
    `words` complete the sentence about one, by its name. `unexplained` is the title of the first check that fails, if
    no diagnosis says why. `unusable` says why what was handed in could not be run; `invalid` and `not_imported`: no
    check of it got beyond its import. `odd`: its process did something that no
    honest answer does. `references`: the earlier steps whose
    reference was in place when it was graded.
    """

    name: str
    title: str
    status: Status
    score: float | None
    max_score: float
    diagnoses: tuple[tuple[str, ...], ...]
    unexplained: tuple[str, ...]
    off_limits: bool
    blocked_by: str | None
    unusable: str = ""
    track: str = "core"
    invalid: bool = False
    not_imported: bool = False
    odd: bool = False
    references: tuple[str, ...] = ()
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def resting(self) -> str:
        """The step, and the references that it rests on; empty without any."""
        return f"{self.name} ({', '.join(self.references)})" if self.references else ""


@dataclass(frozen=True)
class Standing:
    """A student's result; `error` says why there is no score."""

    student: str
    file: str
    score: float | None
    max_score: float
    steps: tuple[StepStanding, ...]
    error: str = ""
    unread: tuple[tuple[str, str], ...] = ()  # files, each with the reason why it was not read
    canvas_id: str = ""
    late: bool = False
    labs: tuple[str, ...] = ()
    seed: int | None = None
    taken: tuple[str, ...] = ()  # sentences about files that were taken for a step
    lateness: str = ""  # what it took off
    login: str = ""
    waiting: str = ""  # unanswered requests for a second look
    isolation: tuple[str, ...] = ()  # the layers that were in force
    from_kit: tuple[str, ...] = ()  # steps of which much is word for word in the kit's own files
    grader_failed: bool = False  # which may end otherwise next time
    moodle_id: str = ""
    section: str = ""
    absence: str = ""  # nothing was handed in, and what follows from it
    stranger: bool = False  # they are not on the roster
    requests: tuple[str, ...] = ()  # the unanswered ones for a second look
    changed: str = field(default="", compare=False)  # what this run has changed: "new", or the points before and after
    unsure: bool = False  # late as the download says, but not how late

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


def standing(graded: Graded) -> Standing:
    """The short record of one student, with the points that count in the assignment."""
    report, error = as_counted(graded), why_no_mark(graded)
    if report is None:
        return Standing(
            graded.student, graded.file, None, 0.0, (), error, graded.unread, graded.canvas_id, graded.late,
            graded.labs, login=graded.login, grader_failed=graded.grader_failed, moodle_id=graded.moodle_id,
            section=graded.section, absence=graded.absence, stranger=graded.stranger,
        )  # fmt: skip
    steps = tuple(_step(step) for step in report.steps)
    unread = tuple(report.unread.items())
    score = None if error else report.score
    return Standing(
        graded.student, graded.file, score, report.max_score, steps, error, unread, graded.canvas_id, graded.late,
        graded.labs, report.seed, tuple(graded.report.notes) if graded.report else (),
        lateness(graded.mark), graded.login, "; ".join(graded.mark.requests) if graded.mark else "",
        tuple(report.isolation), graded.from_kit, any(step.status == "error" for step in report.steps),
        graded.moodle_id, graded.section, graded.absence, graded.stranger,
        tuple(graded.mark.requests) if graded.mark else (), "", bool(graded.mark and graded.mark.unsure),
    )  # fmt: skip


def _step(step: StepResult) -> StepStanding:
    named = [check.misconception for check in step.checks if check.misconception]
    failing = [check.title for check in step.checks if check.status == "fail" and not check.off_limits]
    stuck = step.stuck
    invalid = stuck and INVALID.search(step.checks[0].message) is not None
    explained = named or stuck or step.unusable or step.odd
    return StepStanding(
        step.name, step.title, step.status, step.score, step.max_score, _diagnoses(named),
        () if explained else tuple(failing[:1]), any(check.off_limits for check in step.checks), step.blocked_by,
        step.unusable, step.track, invalid=invalid, not_imported=stuck and not invalid, odd=step.odd,
        references=tuple(step.references),
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
