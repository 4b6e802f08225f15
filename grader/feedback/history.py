"""A student over the whole term on one page: every assignment and attempt, and what regrades have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from grader.base.language import gettext as _
from grader.base.results import AssignmentMark, Graded
from grader.feedback import pages
from grader.feedback.table import TermRow
from grader.marks import moments
from grader.marks.assignments import Term
from grader.marks.marking import sentences, shown
from grader.report.terminal import number

FOLDER = "history"  # of the pages, beside the table of the term


@dataclass(frozen=True)
class Week:
    """One assignment, as the page shows it; `page` leads to the student's page, if there is one."""

    title: str
    page: str
    points: str
    handed_in: str
    until: str
    said: list[str]


def html(term: Term, row: TermRow, graded: Mapping[str, Graded]) -> str:
    """The page of one student as HTML, for staff; `graded` has the result of each assignment that was graded, by
    name."""
    weeks = [_week(term, name, row, graded.get(name)) for name in row.points]
    about = _("For staff: every assignment of the term, with its attempts and what regrades have changed.")
    return pages.page("history.html.j2", row.student, about, (), weeks=weeks, of_term=row.percent)


def _week(term: Term, name: str, row: TermRow, graded: Graded | None) -> Week:
    """The assignment `name` as a student's page shows it; `graded` is the result, None without one."""
    assignment, points = term.assignments[name], row.points[name]
    mark = graded.mark if graded else None
    out_of = f" / {number(mark.out_of)}" if mark and points is not None else ""
    said = [*filter(None, [row.notes.get(name, "")]), *(sentences(mark) if mark else ()), *_tries(graded)]
    if graded:
        changes = [f"{made.when}: {shown(made.before)} → {shown(made.after)}: {made.why}" for made in graded.changes]
        said += [_("Changed, {change}", change=change) for change in changes]
    page = f"../{quote(name)}/pages/{quote(graded.file, safe='')}.html" if graded and graded.report else ""
    return Week(
        assignment.title or name, page, "–" if points is None else f"{number(points)}{out_of}",
        _moment(mark.handed_in if mark else ""), _until(term, name, row.student, mark), list(dict.fromkeys(said)),
    )  # fmt: skip


def _tries(graded: Graded | None) -> Sequence[str]:
    """A line for each attempt with its points, the one that counts marked; empty for a single attempt."""
    if not graded or len(graded.tries) < 2:
        return ()
    lines = []
    for index, tried in enumerate(graded.tries, 1):
        counts = _(", it counts") if index == graded.attempt + 1 else ""
        when = f" ({_moment(tried.handed_in)})" if tried.handed_in else ""
        lines.append(_("Attempt {number}: {points}", number=index, points=number(tried.points)) + counts + when)
    return lines


def _until(term: Term, name: str, student: str, mark: AssignmentMark | None) -> str:
    """The deadline of a student as text: that of the mark, else today's in the term; empty without one."""
    if mark and mark.until:
        return _moment(mark.until)
    deadline = term.deadline(name, student)
    return moments.shown(deadline.until) if deadline else ""


def _moment(text: str) -> str:
    """A moment in ISO format as a person reads it; empty for an empty text."""
    return moments.shown(datetime.fromisoformat(text)) if text else ""
