"""Turns the grader's points into a mark: weights, extra credit, points decided by a person, and lateness.

One `Marking` for one assignment; nbgrader, a class and Gradescope all mark through it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import msgspec

from grader.base.language import gettext as _
from grader.base.names import Roll
from grader.base.paths import step_folder
from grader.base.results import (
    AssignmentMark,
    Graded,
    LineRemark,
    Report,
    StepMark,
    StepResult,
    TrackResult,
    without_open_scores,
)
from grader.course.check_outline import check_file, outline
from grader.marks import moments, sheets
from grader.marks.assignments import Assignment, BadTerm, Term, alone, called_as_in
from grader.marks.second_look import Appeal
from grader.marks.sheets import Override, Remark
from grader.report.terminal import why_open

STAMP = "timestamp.txt"  # what nbgrader puts next to a submission
SUBMITTED, NBGRADERS = "submitted", ("nbgrader_config.py", "gradebook.db", "source")
DAY = timedelta(days=1)

Row = TypeVar("Row")


@dataclass(frozen=True)
class Marking:
    """The marking of one assignment. `not_applied`: names in the tables that may mean several students."""

    term: Term
    assignment: Assignment
    overrides: Mapping[tuple[str, str], Override] = field(default_factory=dict)
    times: Mapping[str, datetime] = field(default_factory=dict)
    remarks: Mapping[str, Sequence[Remark]] = field(default_factory=dict)
    not_applied: tuple[str, ...] = ()
    pushed: Mapping[str, datetime] = field(default_factory=dict)  # to the repositories of a classroom
    days_used: Mapping[str, int] = field(default_factory=dict)  # of the budget of late days, in earlier assignments

    def mark(
        self, student: str, report: Report, handed_in: datetime | None = None, *, said_by: str = "",
        late: bool = False, unclear: str = "", kit: str = "", work: Mapping[str, str] | None = None, absence: str = "",
        sources: Mapping[str, str] = MappingProxyType({}), appeals: Sequence[Appeal] = (),
    ) -> AssignmentMark:  # fmt: skip
        """The mark for a report. `handed_in` is what a learning platform says, `said_by` which; `handed_in.csv` counts
        before it.

        `late`: a system says so without a time. `unclear` is a time that can't be read: with a deadline, there are no
        points then. `work` is a digest of each step's text; `absence` says what follows from a missing hand-in,
        `sources` are the texts of the steps, and `appeals` is what the student wants to be looked at again.
        """
        steps = self._without_worst(
            self._step(student, step, (work or {}).get(step.name, ""), sources.get(step.name, ""))
            for step in report.steps
            if step.name in self.assignment.everything
        )
        counted = [step for step in steps if not step.dropped]
        electives = self.assignment.electives
        earned = None if any(step.points is None for step in counted) else sum(step.points or 0.0 for step in counted)
        own = sum(step.worth for step in steps if not step.extra and not step.elective)
        handed_in, said_by = self._hand_in_time(student, handed_in, said_by)
        deadline = self.term.deadline(self.assignment.name, student)
        unclear = unclear if deadline and handed_in is None else ""
        days = 0 if deadline is None or handed_in is None or absence else self._late_days(handed_in - deadline.until)
        free, left = self._free_days(student, days)
        share = min((days - free) * self.assignment.per_day, self.assignment.at_most)
        said, waiting = self._remarks(student, absence, appeals)
        return AssignmentMark(
            assignment=self.assignment.name, unclear=unclear,
            points=None if earned is None or unclear else _round(earned * (1 - share)),
            earned=None if earned is None else _round(earned), out_of=_round(own + electives.count * electives.points),
            remarks=said, requests=waiting, kit=kit, seed=report.seed, steps=steps,
            late=share, late_days=days, free_days=free, days_left=left,
            handed_in=_iso(handed_in), said_by=said_by if handed_in else "",
            until=_iso(deadline.until if deadline else None),
            extended=deadline.reason if deadline else "",
            unsure=late and handed_in is None and deadline is not None and deadline.until == self.assignment.due,
        )  # fmt: skip

    def _hand_in_time(self, student: str, handed_in: datetime | None, said_by: str) -> tuple[datetime | None, str]:
        """The time of a hand-in in the term's zone, and who says it: `handed_in.csv`, else the classroom's export, else
        the arguments."""
        tables = {sheets.HANDED_IN: self.times, sheets.CLASSROOM: self.pushed}
        sayings = ((times[student], name) for name, times in tables.items() if student in times)
        handed_in, said_by = next(sayings, (handed_in, said_by))
        return handed_in.astimezone(self.term.local) if handed_in else None, said_by

    def _remarks(self, student: str, absence: str, appeals: Sequence[Appeal]) -> tuple[list[str], list[str]]:
        """The remarks on the whole submission, and the unanswered requests for a second look."""
        remarks = self.remarks.get(student, ())
        waiting = [request.said for request in appeals if not request.is_answered(remarks)]
        sentence = _("A second look was asked for: {request}")
        said = [*filter(None, [absence]), *(remark.said for remark in remarks if not remark.step)]
        said += [sentence.format(request=request) for request in waiting]
        return said, [*(remark.request for remark in remarks if remark.request and not remark.text), *waiting]

    def worth(self, step: str, max_score: float) -> float:
        """The points that a step of `max_score` counts in this assignment."""
        if step in self.assignment.electives.steps:
            return self.assignment.electives.points
        return _round(max_score * self.assignment.weights.get(step, 1.0))

    def _without_worst(self, marks: Iterable[StepMark]) -> list[StepMark]:
        """The marks with all electives dropped but the best; an open one may be among the best."""
        steps = list(marks)
        electives = sorted(
            (step for step in steps if step.elective),
            key=lambda step: math.inf if step.points is None else step.points,
            reverse=True,
        )
        dropped = {step.step for step in electives[self.assignment.electives.count :]}
        return [msgspec.structs.replace(step, dropped=step.step in dropped) for step in steps]

    def _step(self, student: str, step: StepResult, work: str, source: str) -> StepMark:
        """The mark of a step: its points here, or a person's decision. `work`: the digest of its text, `source`. Raises
        BadTerm for more points than it is worth."""
        worth = self.worth(step.name, step.max_score)
        graded = None if step.score is None else _round(worth * step.score / step.max_score if step.max_score else 0.0)
        decided = self.overrides.get((student, step.name))
        notes = [note for note in self.remarks.get(student, ()) if note.step == step.name]
        if decided:
            self.require_possible(decided, worth)
        return StepMark(
            step=step.name, worth=worth, graded=graded, points=decided.points if decided else graded,
            extra=step.name in self.assignment.extra, reason=decided.reason if decided else "", work=work,
            elective=step.name in self.assignment.electives.steps,
            remark=" ".join(note.said for note in notes if not note.line), lines=_of_lines(notes, source),
        )  # fmt: skip

    def require_possible(self, decided: Override, worth: float) -> None:
        """Raises BadTerm if a person has given a step more points than it is worth."""
        if decided.points > worth:
            sentence = _("{file}, line {line}: {step} is worth {worth} points here, so {points} are too many.")
            raise BadTerm(
                sentence.format(
                    file=self.term.file.parent / decided.table,
                    line=decided.line,
                    step=decided.step,
                    worth=f"{worth:g}",
                    points=f"{decided.points:g}",
                )
            )

    def for_class(self, roll: Roll) -> Marking:
        """The marking with the class's names for its students. Names that may refer to several people are left out."""
        named = {decided.student for decided in self.term.extras} | {excuse.student for excuse in self.term.excuses}
        named |= {student for student, _step in self.overrides}
        return dataclasses.replace(
            self, term=called_as_in(self.term, roll),
            overrides={(roll.own(student), step): decided for (student, step), decided in self.overrides.items()
                       if not roll.is_ambiguous(student)},
            times=_own(roll, self.times), pushed=_own(roll, self.pushed), remarks=_own(roll, self.remarks),
            not_applied=tuple(sorted(filter(roll.is_ambiguous, named | self.times.keys() | self.remarks.keys()))),
        )  # fmt: skip

    def for_groups(self, shared: Mapping[str, Sequence[str]]) -> Marking:
        """The marking with the time of a group's submission for each of its members; `shared` has the names by which a
        table may know each member's submission."""

        def filled(times: Mapping[str, datetime]) -> dict[str, datetime]:
            found = {
                student: next((times[name] for name in names if name in times), None)
                for student, names in shared.items()
            }
            return {student: time for student, time in found.items() if time} | dict(times)

        return dataclasses.replace(self, times=filled(self.times), pushed=filled(self.pushed))

    def _free_days(self, student: str, days: int) -> tuple[int, int]:
        """The late days that come out of the student's budget for the term, and the days left in it."""
        budget = self.term.late_days
        left = max(0, budget.free - self.days_used.get(student, 0))
        free = min(days, left, budget.per_assignment)
        return free, left - free

    def _late_days(self, over: timedelta) -> int:
        """The days that count as late: 0 within the grace period, else every started day since the deadline."""
        return 0 if over <= self.assignment.grace or over <= timedelta() else math.ceil(over / DAY)


def _own(roll: Roll, table: Mapping[str, Row]) -> dict[str, Row]:
    """The rows of a table by the class's name of each student, without rows that may refer to several people."""
    return {roll.own(student): row for student, row in table.items() if not roll.is_ambiguous(student)}


def of(term: Term, name: str) -> Marking:
    """The marking of the assignment `name`, with the tables next to the term's file, all checked. Raises BadTerm."""
    assignment = term.assignments[name]
    overrides = sheets.decided_by_remark(term, assignment) | sheets.overrides(term, assignment)
    marking = Marking(term, assignment, overrides, sheets.times(term, assignment), sheets.remarks(term, assignment),
                      pushed=sheets.pushed(term, assignment))  # fmt: skip
    for decided in marking.overrides.values():
        points = [check.points for check in outline(check_file(step_folder(decided.step)))]
        if all(value is not None for value in points):
            marking.require_possible(decided, marking.worth(decided.step, sum(value or 0.0 for value in points)))
    return marking


def _of_lines(notes: Iterable[Remark], source: str) -> list[LineRemark]:
    """The remarks on single lines of a step, in order, each with the line as it was handed in."""
    lines = source.splitlines()
    placed = sorted((note for note in notes if note.line), key=lambda note: note.line)
    return [
        LineRemark(line=note.line, code=lines[note.line - 1] if note.line <= len(lines) else "", text=note.said)
        for note in placed
    ]


def plain(name: str, steps: list[str]) -> Marking:
    """The marking of a class without `assignments.toml`: each step worth its points, no date."""
    term = alone(name, steps)
    return Marking(term, term.assignments[name])


def stamp(folder: Path) -> str:
    """The content of the `timestamp.txt` that nbgrader puts into a submission's folder; empty without one.

    Raises OSError.
    """
    file = folder / STAMP
    there = file.is_file() and not file.is_symlink()
    return file.read_text(encoding="utf-8", errors="replace")[:200].strip() if there else ""


def is_nbgraders(folder: Path) -> bool:
    """True for a folder in which nbgrader collects a submission, `submitted/STUDENT/ASSIGNMENT` of a course that has
    its own files: anywhere else a `timestamp.txt` is what the student handed in."""
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
    counted = msgspec.structs.replace(
        report, steps=steps, score=mark.points, max_score=mark.out_of, open=unclear(mark),
        tracks=_totals(report.tracks, steps), notes=[*report.notes, *sentences(mark)],
    )  # fmt: skip
    return without_open_scores(counted)


def counted(graded: Graded) -> tuple[Report | None, str]:
    """A student's report with the points that count, from which every output is made, None without one; and the reason
    why there is no mark yet, in a sentence or two, empty if there is one. This alone decides what is open."""
    if graded.report is None:
        return None, graded.error
    report = marked(graded.report, graded.mark) if graded.mark else graded.report
    return report, why_open(report)


def sentences(mark: AssignmentMark) -> list[str]:
    """The sentences about a mark as a whole: lateness, electives, remarks, requests."""
    lines = [*mark.remarks, *(f"{step.step}: {decision(step)}" for step in mark.steps if step.reason)]
    until, handed_in = _read(mark.until), _read(mark.handed_in)
    if mark.extended and until:
        lines.append(_("You had time until {until} ({reason}).", until=moments.shown(until), reason=mark.extended))
    if mark.late and until and handed_in:
        text = _(
            "Handed in {length} late. Each day that has started counts, here {days}: {percent} % of the points are "
            "taken off, {earned} become {points}."
        )
        lines.append(
            text.format(
                length=moments.said(handed_in - until),
                days=mark.late_days,
                percent=f"{100 * mark.late:g}",
                earned=shown(mark.earned),
                points=shown(mark.points),
            )
        )
    if mark.free_days and until and handed_in:
        text = _("Handed in {length} late: {free} of the free late days of the term used, {left} left.")
        length = moments.said(handed_in - until)
        lines.append(text.format(length=length, free=mark.free_days, left=mark.days_left))
    if handed_in and until and mark.said_by:
        lines.append(_("Handed in {when}, as {source} says.", when=moments.shown(handed_in), source=mark.said_by))
    if mark.unsure:
        lines.append(_("The download says that this is late, but not when it was handed in: nothing was taken off."))
    if any(step.dropped for step in mark.steps):
        best = [step for step in mark.steps if step.elective and not step.dropped]
        text = _("Of the electives the best count: {steps}.")
        lines.append(text.format(steps=", ".join(f"{step.step} {shown(step.points)}" for step in best)))
    extra = [step for step in mark.steps if step.extra]
    if extra:
        text = _("Extra credit, on top of the total: {steps}.")
        lines.append(text.format(steps=", ".join(f"{step.step} {shown(step.points)}" for step in extra)))
    return lines


def unclear(mark: AssignmentMark) -> str:
    """The reason why a mark that depends on a time is open; empty if it isn't."""
    sentence = _("When this was handed in can't be read (“{text}”). There is no mark yet: a person must look.")
    return sentence.format(text=mark.unclear) if mark.unclear else ""


def lateness(mark: AssignmentMark | None) -> str:
    """The deduction and its reason, in short, to go next to the number; empty if there was none."""
    if mark is None:
        return ""
    if mark.unsure:
        return _("late without a time: nothing taken off")
    until, handed_in = _read(mark.until), _read(mark.handed_in)
    if not mark.late_days or until is None or handed_in is None:
        return ""
    if not mark.late:
        length = moments.said(handed_in - until)
        return _("{length} late, days started: {days}, all of them free", length=length, days=mark.late_days)
    free = _(", {count} of them free", count=mark.free_days) if mark.free_days else ""
    sentence = _("{earned} − {percent} %: {length} late, days started: {days}{free}")
    return sentence.format(
        earned=shown(mark.earned),
        percent=f"{100 * mark.late:g}",
        length=moments.said(handed_in - until),
        days=mark.late_days,
        free=free,
    )


def decision(step: StepMark) -> str:
    """The sentence about points decided by hand; empty if there is no such decision."""
    if not step.reason:
        return ""
    sentence = _("Decided by the staff: {points} of {worth} points ({reason}). The grader gave {graded}.")
    return sentence.format(
        points=shown(step.points), worth=shown(step.worth), reason=step.reason, graded=shown(step.graded)
    )


def _counted(step: StepResult, mark: StepMark) -> StepResult:
    """A step's result with the points that count in the assignment."""
    factor = mark.worth / step.max_score if step.max_score else 0.0
    checks = [
        msgspec.structs.replace(
            check, points=_round(check.points * factor), max_points=_round(check.max_points * factor)
        )
        for check in step.checks
    ]
    note = " ".join(part for part in (step.note, decision(mark), mark.remark) if part)
    return msgspec.structs.replace(
        step, score=mark.points, max_score=mark.worth, checks=checks, note=note, remarks=mark.lines
    )


def _totals(tracks: Iterable[TrackResult], steps: Iterable[StepResult]) -> list[TrackResult]:
    """The tracks with the points of these steps added up again."""
    steps = list(steps)
    totals = []
    for track in tracks:
        own = [step for step in steps if step.track == track.name]
        score, most = sum(step.score or 0.0 for step in own), sum(step.max_score for step in own)
        totals.append(msgspec.structs.replace(track, score=_round(score), max_score=_round(most)))
    return totals


def _round(number: float) -> float:
    return round(number, 6)


def _iso(when: datetime | None) -> str:
    return when.isoformat() if when else ""


def _read(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def shown(number: float | None) -> str:
    """Points as text in a sentence; a question mark for None."""
    return "?" if number is None else f"{number:.4g}"
