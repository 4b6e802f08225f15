"""The mark of a student who handed in nothing: a zero says which rule made it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from grader.base.language import gettext as _
from grader.marks import moments
from grader.marks.assignments import Term
from grader.marks.register import Register, RosterEntry


@dataclass(frozen=True)
class Absence:
    """A missing submission: 0 points, excused, or still undecided; and the reason in one sentence."""

    why: str
    is_zero: bool = False
    is_excused: bool = False


def absence(
    term: Term, assignment: str, student: str, register: Register, now: datetime, sections: Collection[str]
) -> Absence:
    """The consequence for a student without a hand-in: excused, 0 points since their own date has passed, or no mark
    yet. `sections` are those in which anyone handed in: the submissions of another one are somewhere else."""
    due = term.assignments[assignment].due
    entry = register.people.get(student, RosterEntry(student))
    for excuse in term.excuses:
        if excuse.student == student and excuse.assignment in ("", assignment):
            return Absence(_("Excused ({reason}).", reason=excuse.reason or _("no reason is given")), is_excused=True)
    if entry.is_excused(assignment, due):
        if entry.since and due and due < entry.since:
            sentence = _("Excused: in the course since {since}, when this had been due.")
            return Absence(sentence.format(since=moments.shown(entry.since)), is_excused=True)
        return Absence(_("Excused: the roster says so."), is_excused=True)
    if entry.section and entry.section not in sections:
        sentence = _("Nothing of section {section} was graded so far: there is no mark yet.")
        return Absence(sentence.format(section=entry.section))
    deadline = term.deadline(assignment, student)
    if deadline is None:
        return Absence(_("Nothing was handed in, and the assignment has no due date: there is no mark yet."))
    until = deadline.until + term.assignments[assignment].grace
    if now <= until:
        return Absence(_("Nothing was handed in so far; there is time until {until}.", until=moments.shown(until)))
    sentence = _("Nothing was handed in, and {until} has passed: 0 points.")
    return Absence(sentence.format(until=moments.shown(until)), is_zero=True)
