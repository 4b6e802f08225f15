"""nbgrader's gradebook: a score and a comment for each step, out of reports.

The same marks are written here for a class and by `nbgrader.py` for `nbgrader autograde`, by the same functions.
A step that could not be graded has no score and asks for a person; nbgrader shows it as such, and not as a zero.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from grader.base.language import gettext as _
from grader.base.paths import STEP_NAME
from grader.base.results import AssignmentMark, Report, StepResult, is_open, leading
from grader.course import choice
from grader.course.answer_cells import POINTS_CELL
from grader.marks.marking import decision, sentences
from grader.report import terminal as reports
from grader.report.terminal import line_said

if TYPE_CHECKING:
    from nbgrader.api import Gradebook, SubmittedAssignment

DEFAULT = "sqlite:///gradebook.db"


class NoGradebook(RuntimeError):
    """The gradebook can't be written, or nbgrader is not installed. One line."""


@dataclass(frozen=True)
class Mark:
    """The gradebook's entry for one step; `share` is the part of its points, None while a person must look."""

    share: float | None
    comment: str


def require(url: str) -> None:
    """Raises NoGradebook if the gradebook can't be opened."""
    with _opened(url):
        pass


def save(
    url: str,
    assignment: str,
    entries: Iterable[tuple[str, Report | None, str, AssignmentMark | None]],
    chosen: Collection[str] = (),
) -> int:
    """Writes one grade per step for each (student, report, error, mark); without a report the error is the comment.

    An assignment that nbgrader has released is found by its name, another one is made, of the chosen steps or the core.
    Returns how many submissions were written. Raises NoGradebook.
    """
    written, failed = 0, dict[str, str]()
    with _opened(url) as gradebook:
        from nbgrader.api import InvalidEntry
        from sqlalchemy.exc import SQLAlchemyError

        steps = places(gradebook, assignment) or _make_assignment(gradebook, assignment, chosen)
        for student, report, error, counted in entries:
            if report is None:
                marks = dict.fromkeys(steps, ungraded(error))
            else:
                notes = [*report.notes, *reports.unread(report)]
                marks = {step.name: mark(step, notes) for step in report.steps if step.name in steps}
            try:
                gradebook.update_or_create_student(student)
                gradebook.update_or_create_submission(assignment, student)
                write(gradebook, marks, steps, assignment, student)
                if counted:
                    count(gradebook, counted, steps, assignment, student)
                gradebook.db.commit()
            except (SQLAlchemyError, InvalidEntry, UnicodeError) as refused:  # a name too long, say: one student's
                gradebook.db.rollback()
                failed[student] = _reason(refused)
                continue
            written += 1
    if failed:
        names = "; ".join(f"{student} ({reason})" for student, reason in failed.items())
        raise NoGradebook(_("it has no marks of {names}; the others are there").format(names=names))
    return written


def mark(step: StepResult, unread: Sequence[str] = ()) -> Mark:
    """The entry for a graded step, without a share if it has no score. If points are missing, its comment has the lines
    `unread` about files that were not read: one may hold the answer."""
    if is_open(step):  # nothing of it is known but why
        return ungraded(
            "\n".join([step.message or (first.message if (first := leading(step.checks)) else ""), *unread])
        )
    comment = "\n".join([reports.as_text(step), *(unread if step.status != "pass" else ())])
    if step.score is None:
        return ungraded(comment)
    return Mark(step.score / step.max_score if step.max_score else 0.0, _comment(comment))


def ungraded(reason: str) -> Mark:
    """The entry for what could not be graded: no share, and a comment with the reason."""
    sentence = _("This could not be graded and has no score. A person has to look at it.")
    return Mark(None, _comment(f"{sentence}\n{reason}"))


def write(
    gradebook: Gradebook, marks: Mapping[str, Mark], places: Mapping[str, str], assignment: str, student: str
) -> None:
    """Writes a student's marks, by step, as what nbgrader's autograder found; `places` has the notebook of each step.

    What a person has written stays, and counts. The caller commits.
    """
    submitted = gradebook.find_submission(assignment, student).notebooks
    grades = {(notebook.name, grade.name): grade for notebook in submitted for grade in notebook.grades}
    comments = {(notebook.name, comment.name): comment for notebook in submitted for comment in notebook.comments}
    for step, mark in marks.items():
        grade = grades[places[step], POINTS_CELL.format(step=step)]
        grade.auto_score = None if mark.share is None else score(mark, grade.max_score)
        grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
        comments[places[step], step].auto_comment = mark.comment


def count(
    gradebook: Gradebook, counted: AssignmentMark, places: Mapping[str, str], assignment: str, student: str
) -> None:
    """Writes what the steps of an assignment count: their worth, what a person has decided, extra credit, lateness;
    `places` has the notebook of each step.

    `assignments.toml` decides, also if the released notebook says otherwise. The caller commits.
    """
    submission = gradebook.find_submission(assignment, student)
    grades = {(notebook.name, grade.name): grade for notebook in submission.notebooks for grade in notebook.grades}
    comments = {(book.name, comment.name): comment for book in submission.notebooks for comment in book.comments}
    for step in counted.steps:
        if step.step not in places:
            continue
        place, name = places[step.step], POINTS_CELL.format(step=step.step)
        apart = step.extra or step.elective  # nbgrader's totals are the same for everyone
        gradebook.find_grade_cell(name, place, assignment).max_score = 0.0 if apart else step.worth
        grade, comment = grades[place, name], comments[place, step.step]
        if step.reason:  # a person has looked
            grade.needs_manual_grade = grade.manual_score is not None
        grade.auto_score = 0.0 if apart and step.points is not None else step.points
        if counted.unclear:  # all of it depends on a time that can't be read
            grade.auto_score, grade.needs_manual_grade = None, True
        grade.extra_credit = (0.0 if step.dropped else step.points) if apart else grade.extra_credit
        lines = [line_said(remark) for remark in step.lines]
        decided = [f"{step.step}: {decision(step)}"]  # it is shown at its step
        all_of_it = [line for line in sentences(counted) if line not in decided] if step is counted.steps[0] else []
        remarks = [decision(step), step.remark, *lines, *all_of_it]
        comment.auto_comment = "\n".join(
            filter(None, [_comment("\n".join(filter(None, remarks))), comment.auto_comment])
        )
    gradebook.db.flush()
    penalise(submission, counted)


def penalise(submission: SubmittedAssignment, counted: AssignmentMark) -> None:
    """Subtracts the late penalty from each notebook of a submission, and records its deadline."""
    until, handed_in = (_utc(text) for text in (counted.until, counted.handed_in))
    if until is not None:
        due = submission.assignment.duedate or until
        submission.assignment.duedate, submission.extension = due, until - due if until > due else None
    submission.timestamp = handed_in or submission.timestamp
    for notebook in submission.notebooks:
        notebook.late_submission_penalty = round(counted.late * notebook.score, 6) if counted.late else None


def _utc(text: str) -> datetime | None:
    """A moment as nbgrader keeps it: in UTC, without a zone."""
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None) if text else None


def score(mark: Mark, max_score: float) -> float:
    """The points for a mark out of `max_score`, which an instructor may have changed from the kit's; 0 without a
    share."""
    return round((mark.share or 0.0) * max_score, 6)


def places(gradebook: Gradebook, assignment: str) -> dict[str, str]:
    """The name of the notebook that holds a step's answer and points, by step; empty without such an assignment."""
    from nbgrader.api import MissingEntry

    try:
        notebooks = gradebook.find_assignment(assignment).notebooks
    except MissingEntry:
        return {}
    by_name = {}
    for notebook in notebooks:
        names = {cell.name for cell in notebook.grade_cells}
        for step in (cell.name for cell in notebook.solution_cells):
            if STEP_NAME.fullmatch(step) and POINTS_CELL.format(step=step) in names:
                by_name[step] = str(notebook.name)
    return by_name


def programs_on_path() -> None:
    """Puts the programs next to this interpreter on the path: nbgrader starts alembic when a gradebook is new."""
    programs = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    if programs not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([programs, path])


def quieten() -> None:
    """Silences what SQLAlchemy says of nbgrader when it mirrors an assignment for a new submission.

    nbgrader relates the new rows to old ones before it adds them, and adds them a moment later: nothing is lost.
    """
    from sqlalchemy.exc import SAWarning

    warning = r"Object of type <Submitted(Assignment|Notebook)> not in session"
    warnings.filterwarnings("ignore", warning, SAWarning, module=r"nbgrader\.api")


@contextmanager
def _without_tracebacks() -> Iterator[None]:
    """Keeps nbgrader from logging a traceback for each row that the database refuses, until the block ends."""
    log = logging.getLogger("tornado.application")
    was, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = was


@contextmanager
def _opened(url: str) -> Iterator[Gradebook]:
    """The open gradebook at this URL. Raises NoGradebook."""
    try:
        import sqlalchemy.exc
        from nbgrader.api import Gradebook, InvalidEntry, MissingEntry
    except ImportError as error:
        raise NoGradebook(_("nbgrader is not installed ({reason}).").format(reason=error)) from None
    programs_on_path()
    try:
        with warnings.catch_warnings(), _without_tracebacks(), Gradebook(url) as gradebook:
            quieten()
            yield gradebook
    except (sqlalchemy.exc.SQLAlchemyError, InvalidEntry, MissingEntry, ImportError) as error:
        raise NoGradebook(_reason(error)) from error


def _reason(error: Exception) -> str:
    """The first line of a database error's message, without the name of the driver's exception."""
    cause = getattr(error, "orig", None) or error
    said = re.sub(
        r"^\([\w.]+\) ", "", str(cause)
    )  # SQLAlchemy's message starts with the name of the driver's exception
    return next((line.strip() for line in said.splitlines() if line.strip()), type(cause).__name__)


def _make_assignment(gradebook: Gradebook, assignment: str, chosen: Collection[str]) -> Mapping[str, str]:
    """Makes the assignment as the release of one notebook would; returns the name of that notebook by step. Raises
    NoGradebook if another assignment has its name."""
    from grader.course import steps as course  # torch, which nothing else here needs

    if any(other.name == assignment and other.notebooks for other in gradebook.assignments):
        raise NoGradebook(_("it has a different assignment named {name}").format(name=assignment))
    gradebook.update_or_create_assignment(assignment)
    gradebook.update_or_create_notebook(assignment, assignment)
    names = choice.or_core(chosen)
    steps = (step for step in course.steps() if step.name in names)
    for step in steps:
        points = POINTS_CELL.format(step=step.name)
        gradebook.update_or_create_grade_cell(points, assignment, assignment, max_score=step.points, cell_type="code")
        gradebook.update_or_create_solution_cell(step.name, assignment, assignment)
        for name in (points, step.name):
            gradebook.update_or_create_source_cell(
                name, assignment, assignment, cell_type="code", locked=name == points
            )
    return places(gradebook, assignment)


def _comment(text: str) -> str:
    """The text as a block of code in Markdown, with unprintable characters as escapes: nbgrader's feedback pages write
    everything else as HTML."""
    text = reports.plain(text.encode(errors="replace").decode())
    return "\n".join(f"    {line}" for line in text.splitlines())
