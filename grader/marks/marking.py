"""From what the grader gives to what counts: weights, extra credit, points decided by a person, and lateness.

One `Marking` for one assignment; nbgrader, a class and Gradescope all mark through it.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from grader.base.language import gettext as _
from grader.base.results import AssignmentMark, Report, StepMark, StepResult, TrackResult
from grader.marks import moments, sheets
from grader.marks.assignments import Assignment, BadTerm, Term, alone
from grader.marks.sheets import Override

STAMP = "timestamp.txt"  # what nbgrader puts beside a submission
SUBMITTED, NBGRADERS = "submitted", ("nbgrader_config.py", "gradebook.db", "source")
DAY = timedelta(days=1)
ZONE = re.compile(r"[A-Za-z][\w+/-]*\Z")


@dataclass(frozen=True)
class Marking:
    """How one assignment is marked. `kit` and `seed` say what grades, and go into each mark."""

    term: Term
    assignment: Assignment
    overrides: Mapping[tuple[str, str], Override] = field(default_factory=dict)
    times: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def as_graded(self) -> bool:
        """Whether a mark is always just the points of the report: nothing is weighted, dated or decided."""
        one = self.assignment
        return not (one.weights or one.extra or one.due or self.overrides)

    def mark(
        self, student: str, report: Report, handed_in: datetime | None = None, *, said_by: str = "",
        late: bool = False, kit: str = "", work: Mapping[str, str] | None = None,
    ) -> AssignmentMark:  # fmt: skip
        """The mark for a report. `handed_in` is what a learning platform says, `said_by` which; `handed_in.csv` counts
        before it.

        `late`: a system says so without a time. `work` is a digest of each step's text.
        """
        steps = [
            self._step(student, step, (work or {}).get(step.name, ""))
            for step in report.steps if step.name in self.assignment.everything
        ]  # fmt: skip
        own = [step for step in steps if not step.extra]
        earned = None if any(step.points is None for step in steps) else sum(step.points or 0.0 for step in steps)
        if student in self.times:
            handed_in, said_by = self.times[student], sheets.HANDED_IN
        deadline = self.term.deadline(self.assignment.name, student)
        share = 0.0 if deadline is None or handed_in is None else self._share(handed_in - deadline.until)
        return AssignmentMark(
            assignment=self.assignment.name, points=None if earned is None else _round(earned * (1 - share)),
            earned=None if earned is None else _round(earned), out_of=_round(sum(step.worth for step in own)),
            late=share, handed_in=_iso(handed_in), said_by=said_by if handed_in else "",
            until=_iso(deadline.until if deadline else None),
            extended=deadline.reason if deadline else "",
            unsure=late and handed_in is None and deadline is not None and deadline.until == self.assignment.due,
            kit=kit, seed=report.seed, steps=steps,
        )  # fmt: skip

    def worth(self, step: str, max_score: float) -> float:
        """What a step of so many points counts in this assignment."""
        return _round(max_score * self.assignment.weights.get(step, 1.0))

    def _step(self, student: str, step: StepResult, work: str) -> StepMark:
        worth = self.worth(step.name, step.max_score)
        graded = None if step.score is None else _round(worth * step.score / step.max_score if step.max_score else 0.0)
        decided = self.overrides.get((student, step.name))
        if decided and decided.points > worth:
            said = _("{file}, line {line}: {step} is worth {worth} points here, so {points} are too many.")
            raise BadTerm(
                said.format(
                    file=self.term.file.parent / sheets.OVERRIDES, line=decided.line, step=step.name,
                    worth=f"{worth:g}", points=f"{decided.points:g}",
                )
            )  # fmt: skip
        return StepMark(
            step=step.name, worth=worth, graded=graded, points=decided.points if decided else graded,
            extra=step.name in self.assignment.extra, reason=decided.reason if decided else "", work=work,
        )  # fmt: skip

    def _share(self, over: timedelta) -> float:
        """The share that lateness costs: within the grace nothing, beyond it each begun day since the deadline."""
        if over <= self.assignment.grace or over <= timedelta():
            return 0.0
        return min(math.ceil(over / DAY) * self.assignment.per_day, self.assignment.at_most)


def of(term: Term, name: str) -> Marking:
    """How an assignment of the term is marked, with what stands in the tables beside it. Raises BadTerm."""
    assignment = term.assignments[name]
    return Marking(term, assignment, sheets.overrides(term, assignment), sheets.times(term, assignment))


def plain(name: str, steps: list[str]) -> Marking:
    """Each step worth its points, as in a class without `assignments.toml`."""
    term = alone(name, steps)
    return Marking(term, term.assignments[name])


def stamp(folder: Path, term: Term) -> datetime | None:
    """The time in the `timestamp.txt` that nbgrader has put into the folder of a submission; None without one that is a
    time. Raises OSError."""
    file = folder / STAMP
    if not file.is_file() or file.is_symlink():
        return None
    try:
        return moments.moment(file.read_text(encoding="utf-8", errors="replace")[:200].strip(), term.local)
    except moments.NoMoment:
        return None


def is_nbgraders(folder: Path) -> bool:
    """Whether this is where nbgrader collects a submission, `submitted/STUDENT/ASSIGNMENT` of a course that has its own
    files: anywhere else a `timestamp.txt` is what the student handed in."""
    submitted = folder.absolute().parent.parent
    return submitted.name == SUBMITTED and any((submitted.parent / name).exists() for name in NBGRADERS)


def digest(text: str) -> str:
    """A short digest of a step's text, to tell whether it was handed in again."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]


def marked(report: Report, mark: AssignmentMark) -> Report:
    """The report with the points that count: steps scaled to what they are worth, decisions of a person, the total with
    what lateness takes. Everything that is made of a report can be made of this one."""
    by_step = {step.step: step for step in mark.steps}
    steps = [_counted(step, by_step[step.name]) for step in report.steps if step.name in by_step]
    own = [step for step in steps if not by_step[step.name].extra]
    points = mark.points
    if points is None:  # open: what could be graded, as in the report
        points = sum(step.score for step in steps if step.score is not None)
    return msgspec.structs.replace(
        report, steps=steps, score=points, max_score=_round(sum(step.max_score for step in own)),
        tracks=_totals(report.tracks, steps), notes=[*report.notes, *sentences(mark)],
    )  # fmt: skip


def sentences(mark: AssignmentMark) -> list[str]:
    """What there is to say about a mark besides its steps."""
    said = []
    until, handed_in = _read(mark.until), _read(mark.handed_in)
    if mark.extended and until:
        text = _("You had time until {until} ({reason}).")
        said.append(text.format(until=moments.shown(until), reason=mark.extended))
    if mark.late and until and handed_in:
        text = _("Handed in {length} late: {percent} % of the points are taken off, {earned} become {points}.")
        said.append(
            text.format(
                length=moments.said(handed_in - until), percent=f"{100 * mark.late:g}",
                earned=_number(mark.earned), points=_number(mark.points),
            )
        )  # fmt: skip
    if handed_in and until and mark.said_by:
        text = _("Handed in {when}, as {source} says.")
        said.append(text.format(when=moments.shown(handed_in), source=mark.said_by))
    if mark.unsure:
        said.append(_("The download says that this is late, but not when it was handed in: nothing was taken off."))
    extra = [step for step in mark.steps if step.extra]
    if extra:
        text = _("Extra credit, on top of the total: {steps}.")
        said.append(text.format(steps=", ".join(f"{step.step} {_number(step.points)}" for step in extra)))
    return said


def decision(step: StepMark) -> str:
    """The sentence about points that a person has decided; empty where nobody has."""
    if not step.reason:
        return ""
    said = _("Decided by the staff: {points} of {worth} points ({reason}). The grader gave {graded}.")
    return said.format(
        points=_number(step.points), worth=_number(step.worth), reason=step.reason, graded=_number(step.graded)
    )


def _counted(step: StepResult, mark: StepMark) -> StepResult:
    factor = mark.worth / step.max_score if step.max_score else 0.0
    checks = [
        msgspec.structs.replace(
            check, points=_round(check.points * factor), max_points=_round(check.max_points * factor)
        )
        for check in step.checks
    ]
    note = " ".join(part for part in (step.note, decision(mark)) if part)
    return msgspec.structs.replace(step, score=mark.points, max_score=mark.worth, checks=checks, note=note)


def _totals(tracks: Iterable[TrackResult], steps: Iterable[StepResult]) -> list[TrackResult]:
    steps = list(steps)
    found = []
    for track in tracks:
        own = [step for step in steps if step.track == track.name]
        score, most = sum(step.score or 0.0 for step in own), sum(step.max_score for step in own)
        found.append(msgspec.structs.replace(track, score=_round(score), max_score=_round(most)))
    return found


def _round(number: float) -> float:
    return round(number, 6)


def _iso(when: datetime | None) -> str:
    return when.isoformat() if when else ""


def _read(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _number(number: float | None) -> str:
    return "?" if number is None else f"{number:.4g}"
