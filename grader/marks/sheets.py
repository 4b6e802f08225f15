"""The tables that are next to `assignments.toml`: points decided by a person, times of submission, and remarks.

The instructor writes them and the kit only reads them, at every run: they survive any regrade.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from grader.base.language import gettext as _
from grader.base.names import look
from grader.course import choice
from grader.marks import moments
from grader.marks.assignments import Assignment, BadTerm, Term, text_of

OVERRIDES, HANDED_IN, REMARKS = TABLES = ("overrides.csv", "handed_in.csv", "remarks.csv")
OVERRIDE_COLUMNS = ("assignment", "student", "step", "points", "reason")
REMARK_COLUMNS = ("assignment", "student", "step", "line", "remark", "request", "points")
CLASSROOM = "grades.csv"  # as GitHub Classroom exports it
TIME_COLUMNS = ("assignment", "student", "time")
MAX_SHEET = 4 << 20  # bytes


@dataclass(frozen=True)
class Override:
    """Points that a person has decided for one step of one student, and the line in which they are."""

    student: str
    step: str
    points: float
    reason: str
    line: int
    table: str = OVERRIDES


def overrides(term: Term, assignment: Assignment) -> dict[tuple[str, str], Override]:
    """The decisions in `overrides.csv` for an assignment, by student and step; of two lines the later one counts.

    The column `assignment` may be missing: then a line is about every assignment that has the step. Raises BadTerm.
    """
    file, decisions = term.file.parent / OVERRIDES, {}
    for line, row in _rows(file, OVERRIDE_COLUMNS, optional=("assignment",)):
        if not _is_about(file, line, row, term, assignment):
            continue
        step = _step(file, line, row["step"])
        if step not in assignment.everything:
            if row.get("assignment"):
                raise _bad(file, line, _("{step} is not a step of {name}").format(step=step, name=assignment.name))
            continue
        if not row["reason"]:
            raise _bad(file, line, _("the reason is missing: it is what the student reads"))
        points = _points(file, line, row["points"])
        decisions[row["student"], step] = Override(row["student"], step, points, row["reason"], line)
    return decisions


@dataclass(frozen=True)
class Remark:
    """A person's remark on a step, on one `line` of it, or on everything if `step` is empty; with the student's
    `request`, if any."""

    step: str
    text: str
    request: str
    line: int = 0

    @property
    def said(self) -> str:
        """The request and the remark in a sentence each."""
        request = _("A second look was asked for: {request}").format(request=self.request) if self.request else ""
        answer = _("Remark: {text}") if not self.request else _("Answer: {text}")
        return " ".join(filter(None, [request, answer.format(text=self.text) if self.text else ""]))


def remarks(term: Term, assignment: Assignment) -> dict[str, list[Remark]]:
    """The remarks of `remarks.csv` on an assignment, by student, in order. Raises BadTerm."""
    by_student = dict[str, list[Remark]]()
    for file, line, row, step in _remark_rows(term, assignment):
        text, request, place = (row.get(name, "") for name in ("remark", "request", "line"))
        if not text and not request:
            raise _bad(file, line, _("it has neither a remark nor a request"))
        if place and (not step or not place.isdecimal() or not 0 < int(place) < 100_000):
            raise _bad(file, line, _("“{text}” is not the number of a line of a step").format(text=place))
        by_student.setdefault(row["student"], []).append(Remark(step, text, request, int(place or 0)))
    return by_student


def decided_by_remark(term: Term, assignment: Assignment) -> dict[tuple[str, str], Override]:
    """The points in `remarks.csv`: an answer to a request may be a new mark, with the remark as its reason. Raises
    BadTerm."""
    decisions = {}
    for file, line, row, step in _remark_rows(term, assignment):
        if not row.get("points"):
            continue
        if not step or not row.get("remark"):
            raise _bad(file, line, _("points need a step, and a remark as their reason"))
        points = _points(file, line, row["points"])
        decisions[row["student"], step] = Override(row["student"], step, points, row["remark"], line, REMARKS)
    return decisions


def _remark_rows(term: Term, assignment: Assignment) -> Iterator[tuple[Path, int, dict[str, str], str]]:
    """The rows of `remarks.csv` about an assignment: the file, the line, the row and its step."""
    file = term.file.parent / REMARKS
    for line, row in _rows(file, REMARK_COLUMNS, optional=[name for name in REMARK_COLUMNS if name != "student"]):
        if _is_about(file, line, row, term, assignment):
            step = _step(file, line, row["step"]) if row.get("step") else ""
            if not step or step in assignment.everything:
                yield file, line, row, step


def times(term: Term, assignment: Assignment) -> dict[str, datetime]:
    """The time of each student's hand-in, as `handed_in.csv` says; a later line counts. Raises BadTerm."""
    file, handed_in = term.file.parent / HANDED_IN, {}
    for line, row in _rows(file, TIME_COLUMNS, optional=("assignment",)):
        if not _is_about(file, line, row, term, assignment):
            continue
        try:
            handed_in[row["student"]] = moments.moment(row["time"], term.local)
        except moments.NoMoment as wrong:
            raise _bad(file, line, _("“{text}” is not a date; write 2026-09-14T23:59:00").format(text=wrong)) from None
    return handed_in


def pushed(term: Term, assignment: Assignment) -> dict[str, datetime]:
    """The time of each student's last push, as GitHub Classroom's own export has it, by the name on GitHub and by that
    on the classroom's roster; empty without it. The date in a commit is chosen by its author. Raises BadTerm."""
    file, times = term.file.parent / CLASSROOM, dict[str, datetime]()
    try:
        table = csv.DictReader(io.StringIO(text_of(file, MAX_SHEET), newline=""))
    except FileNotFoundError:
        return {}
    if not {"assignment_name", "github_username", "submission_timestamp"} <= set(table.fieldnames or ()):
        columns = "assignment_name,github_username,roster_identifier,submission_timestamp"
        raise _bad(file, 1, _("the first line has to name the columns {columns}").format(columns=columns))
    for row in table:
        if look(row["assignment_name"]) not in (look(assignment.name), look(assignment.title)):
            continue
        if not row["submission_timestamp"]:
            continue
        try:
            when = moments.moment(row["submission_timestamp"], term.local)
        except moments.NoMoment as wrong:
            text = _("“{text}” is not a date; write 2026-09-14T23:59:00").format(text=wrong)
            raise _bad(file, table.line_num, text) from None
        for name in (row["github_username"], row.get("roster_identifier")):
            times |= {name: when} if name else {}
    return times


def _points(file: Path, line: int, text: str) -> float:
    """The points in a cell. Raises BadTerm unless it is a number from 0."""
    try:
        points = float(text)
    except ValueError:
        points = -1.0
    if not 0 <= points < 1e6:
        raise _bad(file, line, _("“{text}” is not a number of points").format(text=text))
    return points


def _step(file: Path, line: int, text: str) -> str:
    """The full name of the step with this name or number. Raises BadTerm with the line."""
    try:
        return choice.single(text)
    except choice.UnknownChoice as unknown:
        raise _bad(file, line, str(unknown).rstrip(".")) from None


def _is_about(file: Path, line: int, row: Mapping[str, str], term: Term, assignment: Assignment) -> bool:
    """Whether a row is about this assignment. Raises BadTerm for an unknown one."""
    name = row.get("assignment") or assignment.name
    if name not in term.assignments:
        names = ", ".join(term.assignments)
        raise _bad(file, line, _("there is no “{word}”, only {known}").format(word=name, known=names))
    return name == assignment.name


def _rows(file: Path, columns: Sequence[str], optional: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row that holds anything, by the names of its columns, with the number of its line; nothing if there is no
    such file. Raises BadTerm unless the columns are these, and all there but the optional ones."""
    try:
        text = text_of(file, MAX_SHEET)
    except FileNotFoundError:
        return
    csv.field_size_limit(MAX_SHEET)  # a cell that is longer than a sheet has lost its quotation mark
    table = csv.DictReader(io.StringIO(text, newline=""), restkey="")
    there = [name.strip() for name in table.fieldnames or ()]
    missing = [name for name in columns if name not in there and name not in optional]
    unknown = [name for name in there if name not in columns]
    if missing or unknown:
        sentence = _("the first line has to name the columns {columns}").format(columns=",".join(columns))
        raise _bad(file, 1, sentence)
    table.fieldnames = there
    for row in table:
        if "" in row:
            raise _bad(file, table.line_num, _("it has more cells than the first line; put a comma inside quotes"))
        cells = {name: _own(cell or "") for name, cell in row.items()}
        if any(cells.values()):
            if not cells["student"]:
                raise _bad(file, table.line_num, _("the student is missing"))
            yield table.line_num, cells


def _own(cell: str) -> str:
    """A cell as it was meant: in our own tables an apostrophe keeps a spreadsheet from taking it for a formula."""
    cell = cell.strip()
    return cell[1:] if cell[:1] == "'" and cell[1:2] in ("=", "+", "-", "@") else cell


def _bad(file: Path, line: int, problem: str) -> BadTerm:
    """The error, not raised, for a problem in a line of a table."""
    return BadTerm(_("{file}, line {line}: {problem}.").format(file=file, line=line, problem=problem))
