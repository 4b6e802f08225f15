"""A term at a glance: its assignments, and each student's points in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.base import files
from grader.base.language import gettext as _
from grader.base.names import Roll
from grader.course import choice
from grader.feedback.exports import harmless
from grader.marks import moments
from grader.marks.absence import absence
from grader.marks.assignments import Term, called_as_in
from grader.marks.register import NONE, Register
from grader.report.terminal import number, plain

NAMED = 10  # students in a line
Points = tuple[float | None, float]  # what a student has, and out of how many


def overview(term: Term, totals: Mapping[str, Points]) -> RenderableType:
    """The assignments as a table, with the points for full marks from `totals`; then the students who have more
    time."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", expand=False)
    for name in (_("assignment"), _("title"), _("steps"), _("points"), _("opens"), _("due"), _("late")):
        table.add_column(name)
    for assignment in term.assignments.values():
        steps = choice.numbers(assignment.steps)
        if assignment.extra:
            steps = _("{steps}, extra {extra}").format(steps=steps, extra=choice.numbers(assignment.extra))
        if assignment.electives.steps:
            listed = choice.numbers(assignment.electives.steps)
            any_of = _("any {count} of {steps}").format(count=assignment.electives.count, steps=listed)
            steps = f"{steps}; {any_of}" if steps else any_of
        late = _("{percent} % a day, at most {most} %").format(
            percent=f"{100 * assignment.per_day:g}", most=f"{100 * assignment.at_most:g}"
        )
        table.add_row(
            assignment.name,
            plain(assignment.title),
            steps,
            number(totals[assignment.name][1]),
            *(moments.shown(moment) if moment else "" for moment in (assignment.opens, assignment.due)),
            late if assignment.per_day else "",
        )
    more = [_more(term, student) for student in dict.fromkeys(extra.student for extra in term.extras)]
    texts = [Text(line) for line in more]
    return Group(Text(plain(term.title), "bold"), table, *([Text(), Text(_("More time"), "bold"), *texts]))


def _more(term: Term, student: str) -> str:
    """A line for the terminal with a student's own deadlines, and the reason for each."""
    dated = [(name, term.deadline(name, student)) for name in term.assignments]
    parts = [
        f"{name} {moments.shown(deadline.until)} ({deadline.reason})"
        for name, deadline in dated
        if deadline and deadline.until != term.assignments[name].due
    ]
    return f"  {plain(student)}: {plain('; '.join(parts))}"


@dataclass(frozen=True)
class TermRow:
    """A student in the term: the points of each assignment, None if they are open or excused; the percentage; and
    remarks by assignment."""

    student: str
    section: str
    points: Mapping[str, float | None]
    percent: str
    notes: Mapping[str, str]


def term_rows(
    term: Term, marks: Mapping[str, Mapping[str, Points]], register: Register = NONE, now: datetime | None = None
) -> list[TermRow]:
    """A row for each student on the roster or with a mark; `marks` by assignment, then by student. An assignment that
    has no marks yet is left out.

    `absence` decides for students without a submission: 0 if their date has passed, excused, or no mark yet.
    """
    names = [name for name in term.assignments if name in marks]
    students = sorted({student for name in names for student in marks[name]} | set(register.people))
    roll = Roll(
        {student: register.people[student].logins if student in register.people else () for student in students}
    )
    term = called_as_in(term, roll)
    sections = {name: {register.section(student) for student in marks[name]} for name in names}
    rows = []
    for student in students:
        points, counted, notes = dict[str, float | None](), dict[str, Points](), dict[str, str]()
        for name in names:
            own = marks[name].get(student)
            if own is None:
                missing = absence(term, name, student, register, now or datetime.now(term.local), sections[name])
                own = (0.0 if missing.is_zero else None, _most(marks[name].values()))
                notes[name] = missing.why
                if missing.is_excused:
                    points[name] = None
                    continue
            elif own[0] is None:
                notes[name] = _("There is no mark yet: a person must look.")
            points[name], counted[name] = own[0], own
        weights = [term.assignments[name].weight for name in counted]
        share = percent(weights, list(counted.values()))
        rows.append(TermRow(student, register.section(student), points, share, notes))
    return rows


def term_csv(rows: Sequence[TermRow], names: Sequence[str]) -> str:
    """The rows as CSV text, the assignments `names` as columns, with a reason for each empty cell and each zero that
    was not earned."""
    sections = any(row.section for row in rows)
    table: list[list[str]] = [["student", *(["section"] if sections else []), *names, "percent", "why"]]
    for row in rows:
        cells = ["" if (points := row.points.get(name)) is None else number(points) for name in names]
        why = "; ".join(f"{name}: {note}" for name, note in row.notes.items())
        own = [harmless(row.section)] if sections else []
        table.append([harmless(row.student), *own, *cells, row.percent, harmless(why)])
    return files.table(table)


def said(rows: Sequence[TermRow]) -> Iterator[str]:
    """A line for each note on the cells of an assignment, such as why students have no mark, with their names."""
    by_note: dict[str, list[str]] = {}
    for row in rows:
        for name, note in row.notes.items():
            by_note.setdefault(f"{name}: {note}", []).append(row.student)
    for note, students in sorted(by_note.items()):
        more = "" if len(students) <= NAMED else ", …"
        yield plain(f"{note} ({len(students)}: {', '.join(students[:NAMED])}{more})")


def percent(weights: Sequence[float], points: Sequence[Points]) -> str:
    """The weighted mean of the shares of points, in percent, as text; empty if a mark is open, or none counts."""
    shares = [None if score is None else score / most if most else 0.0 for score, most in points]
    counted = [share for share in shares if share is not None]
    if len(counted) < len(shares) or not sum(weights):
        return ""
    return f"{100 * sum(weight * share for weight, share in zip(weights, counted, strict=True)) / sum(weights):.2f}"


def _most(points: Iterable[Points]) -> float:
    """The points for full marks; 0 without marks."""
    return max((out_of for _score, out_of in points), default=0.0)
