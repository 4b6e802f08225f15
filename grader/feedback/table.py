"""A term at a glance: its assignments, and what each student has in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.base import files
from grader.base.language import gettext as _
from grader.course import choice
from grader.feedback.exports import harmless
from grader.marks import moments
from grader.marks.assignments import Term
from grader.report.terminal import number, plain

Points = tuple[float | None, float]  # what a student has, and out of how many


def overview(term: Term, totals: Mapping[str, Points]) -> RenderableType:
    """What the file says, as a table, with the points that full marks give; then who has more time."""
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
            assignment.name, plain(assignment.title), steps, number(totals[assignment.name][1]),
            *(moments.shown(moment) if moment else "" for moment in (assignment.opens, assignment.due)),
            late if assignment.per_day else "",
        )  # fmt: skip
    more = [_more(term, student) for student in dict.fromkeys(extra.student for extra in term.extras)]
    texts = [Text(line) for line in more]
    return Group(Text(plain(term.title), "bold"), table, *([Text(), Text(_("More time"), "bold"), *texts]))


def _more(term: Term, student: str) -> str:
    dated = [(name, term.deadline(name, student)) for name in term.assignments]
    parts = [
        f"{name} {moments.shown(deadline.until)} ({deadline.reason})"
        for name, deadline in dated
        if deadline and deadline.until != term.assignments[name].due
    ]
    return f"  {plain(student)}: {plain('; '.join(parts))}"


def term_csv(term: Term, marks: Mapping[str, Mapping[str, Points]]) -> str:
    """A row a student: the points of each assignment, the percentage of the term. `marks` by assignment and student.

    An assignment that has no marks yet is left out; who is missing in one has 0 there, and who could not be graded has
    no percentage.
    """
    names = [name for name in term.assignments if name in marks]
    students = sorted({student for name in names for student in marks[name]})
    rows: list[list[str]] = [["student", *names, "percent"]]
    for student in students:
        points = [marks[name].get(student, (0.0, _most(marks[name].values()))) for name in names]
        cells = ["" if score is None else number(score) for score, _out_of in points]
        rows.append([harmless(student), *cells, percent([term.assignments[name].weight for name in names], points)])
    return files.table(rows)


def percent(weights: Sequence[float], points: Sequence[Points]) -> str:
    """The weighted mean of the shares, in percent; empty where a mark is open."""
    shares = [None if score is None else score / most if most else 0.0 for score, most in points]
    counted = [share for share in shares if share is not None]
    if len(counted) < len(shares) or not sum(weights):
        return ""
    return f"{100 * sum(weight * share for weight, share in zip(weights, counted, strict=True)) / sum(weights):.2f}"


def _most(points: Iterable[Points]) -> float:
    return max((out_of for _score, out_of in points), default=0.0)
