"""`roster.csv` and `groups.csv`: the students, their sections and starting dates, and the groups.

A table of one's own, or what Canvas, Moodle, Gradescope or nbgrader exports: recognised by the names of its columns.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from grader.base.language import gettext as _
from grader.base.names import Roll, look
from grader.marks import moments
from grader.marks.assignments import BadTerm, text_of
from grader.marks.sheets import CLASSROOM

ROSTER, GROUPS = "roster.csv", "groups.csv"
MAX_SHEET = 4 << 20  # bytes
EVERY = "*"  # excused from all assignments
# The columns that each system gives its export, in the languages that were looked up, by what they are to us.
COLUMNS: dict[str, Sequence[str]] = {
    "name": ("name", "student", "full name", "fullname", "이름", "성명", "학생", "전체이름"),
    "first": ("first name", "first_name", "firstname", "given name"),
    "last": ("last name", "last_name", "surname", "lastname", "family name", "성"),
    "login": ("login", "sis login id", "username", "id number", "sid", "sis user id", "student id", "lms_user_id",
              "학번", "아이디"),
    "address": ("address", "email", "email address", "e-mail", "이메일", "이메일 주소"),
    "number": ("id",),  # Canvas's own; nbgrader's is the login
    "section": ("section", "sections", "section name", "groups", "분반", "모둠"),
    "since": ("from", "from when", "since", "시작일"),
    "excused": ("excused", "면제"),
    "group": ("group", "team", "모둠명", "조"),
}  # fmt: skip
NOBODYS = ("points possible", "student, test", "test student", "student, test (read only)")  # rows of Canvas's own
SPACES = re.compile(r"[;,|]")


@dataclass(frozen=True)
class RosterEntry:
    """A student on the roster: name, other names and ids in tables or on platforms, and the rest that the roster says.
    `excused` has the names of assignments, or EVERY."""

    name: str
    logins: tuple[str, ...] = ()
    canvas_id: str = ""
    section: str = ""
    since: datetime | None = None
    excused: frozenset[str] = frozenset()

    def is_excused(self, assignment: str, due: datetime | None) -> bool:
        """True if nothing is expected: the student is excused, or joined after the assignment was due."""
        if EVERY in self.excused or look(assignment) in self.excused:
            return True
        return bool(self.since and due and due < self.since)


@dataclass(frozen=True)
class Register:
    """The students on the roster, in its order, and the groups. `columns` are Canvas's own for its assignments."""

    people: Mapping[str, RosterEntry] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    def __hash__(self) -> int:  # of what is compared: what was read with one is kept for an equal one
        return hash((tuple(self.people.values()), tuple(self.groups.items()), self.columns, self.order))

    @property
    def roll(self) -> Roll:
        """The names and logins by which the students are known."""
        return Roll({name: entry.logins for name, entry in self.people.items()})

    def lacks(self, name: str) -> bool:
        """Whether there is a roster without this person."""
        return bool(self.people) and name not in self.people

    def section(self, name: str) -> str:
        """The section of a student; empty without one, or if they are not on the roster."""
        return self.people[name].section if name in self.people else ""

    def canvas_column(self, assignment: str, title: str) -> str:
        """The column that Canvas has for an assignment, so that its import makes no new one; the name if it has
        none."""
        for column in self.columns:
            if look(column.rpartition(" (")[0]) in (look(assignment), look(title)):
                return column
        return assignment


NONE = Register()


def read(folder: Path, local: tzinfo = UTC, roster: Path | None = None, assignment: str = "") -> Register:
    """The students of the file `roster`, by default `roster.csv` in the folder, and the groups of an assignment from
    `groups.csv` there; empty without these files. Times without a zone are `local`. Raises BadTerm."""
    people, columns = dict[str, RosterEntry](), tuple[str, ...]()
    file = roster or folder / ROSTER
    try:
        text = text_of(file, MAX_SHEET)
    except FileNotFoundError:
        if roster is not None:
            raise BadTerm(_("There is no file {file}.", file=file)) from None
    else:
        people, columns = _people(file, text, local)
        _add_usernames(people, folder / CLASSROOM)
    groups = _groups(folder / GROUPS, assignment)
    return Register(people, groups, columns, tuple(people))


def _is_canvas_column(name: str) -> bool:
    """Whether Canvas has the column for an assignment: `Scores (4711)`."""
    title, _bracket, number = name.rpartition(" (")
    return bool(title) and number[-1:] == ")" and number[:-1].isdecimal()


def _people(file: Path, text: str, local: tzinfo) -> tuple[dict[str, RosterEntry], tuple[str, ...]]:
    """The students in the text of a roster, by name, and Canvas's columns for assignments. A name that is there twice
    gets the login behind it. Raises BadTerm if that does not tell them apart."""
    people: dict[str, RosterEntry] = {}
    columns = tuple[str, ...]()
    for line, row in _rows(file, text):
        columns = tuple(filter(_is_canvas_column, row))
        entry = _entry(file, line, row, local)
        if entry is None:
            continue
        if any(look(other) == look(entry.name) for other in people if other != entry.name) or entry.name in people:
            if not entry.logins:
                raise _bad(
                    file, line, _("{name} is there twice; a login or an address tells them apart", name=entry.name)
                )
            entry = RosterEntry(f"{entry.name} ({entry.logins[0]})", *_rest(entry))
            if entry.name in people:
                raise _bad(file, line, _("{name} is there twice", name=entry.name))
        people[entry.name] = entry
    return people, columns


def _add_usernames(people: dict[str, RosterEntry], file: Path) -> None:
    """Adds to the logins of students their names on GitHub, after which repositories are named, as GitHub Classroom's
    export `file` links them to the roster; nothing without the file."""
    try:
        table = csv.DictReader(io.StringIO(text_of(file, MAX_SHEET), newline=""))
    except FileNotFoundError:
        return
    roll = Roll({name: entry.logins for name, entry in people.items()})
    for row in table:
        username, meant = row.get("github_username") or "", roll.meant(row.get("roster_identifier") or "")
        if username and len(meant) == 1 and username not in people[meant[0]].logins:
            entry = people[meant[0]]
            people[meant[0]] = replace(entry, logins=(*entry.logins, username))


def _rest(entry: RosterEntry) -> tuple[tuple[str, ...], str, str, datetime | None, frozenset[str]]:
    """Everything in a roster's entry but the name."""
    return entry.logins, entry.canvas_id, entry.section, entry.since, entry.excused


def _entry(file: Path, line: int, row: Mapping[str, str], local: tzinfo) -> RosterEntry | None:
    """The student in a row; None for a row without a name, or of Canvas's test student. Raises BadTerm for a wrong
    date."""
    cells = {
        kind: next((row[name] for name in row if look(name) in names and row[name]), "")
        for kind, names in COLUMNS.items()
    }
    name = cells["name"]
    if "성" in row:  # Moodle in Korean: `이름` is the given name
        name = _full(name, cells["last"])
    elif not name:
        name = _full(cells["first"], cells["last"])
    is_canvas = "sis login id" in map(look, row)
    if is_canvas and name.count(",") == 1:  # sorted by the family name
        last, first = (part.strip() for part in name.split(","))
        name = _full(first, last)
    logins = [row[column] for column in row if look(column) in (*COLUMNS["login"], *COLUMNS["address"]) and row[column]]
    if cells["number"] and not is_canvas:
        logins.insert(0, cells["number"])
        name = name or cells["number"]
    name = name or (logins[0] if logins else "")
    if not name or look(cells["name"]) in NOBODYS:
        return None
    try:
        since = moments.moment(cells["since"], local) if cells["since"] else None
    except moments.NoMoment as wrong:
        raise _bad(file, line, _("“{text}” is not a date; write 2026-09-14T23:59:00").format(text=wrong)) from None
    excused = frozenset(look(word) for word in SPACES.split(cells["excused"]) if word.strip())
    excused = frozenset([EVERY]) if excused & {"yes", "all", "true", "1", "x", EVERY, "예", "전부"} else excused
    return RosterEntry(
        name, tuple(dict.fromkeys(logins)), cells["number"] if is_canvas else "", cells["section"], since, excused
    )


def _full(first: str, last: str) -> str:
    """A full name: the family name first if it is written in Hangul, as Korean has it."""
    korean = any("\uac00" <= letter <= "\ud7a3" for letter in first + last)
    return f"{last}{first}" if korean else f"{first} {last}".strip()


def _groups(file: Path, assignment: str) -> dict[str, tuple[str, ...]]:
    """The members of each group of an assignment, as the file has them, by group; empty without a file. Raises
    BadTerm."""
    try:
        text = text_of(file, MAX_SHEET)
    except FileNotFoundError:
        return {}
    members: dict[str, list[str]] = defaultdict(list)
    for line, row in _rows(file, text):
        group = next((row[name] for name in row if look(name) in COLUMNS["group"]), "")
        student = next(
            (row[name] for name in row if look(name) in (*COLUMNS["name"], *COLUMNS["login"], *COLUMNS["address"])), ""
        )
        if not group or not student:
            raise _bad(file, line, _("the first line has to name the columns {columns}", columns="group,student"))
        about = next((row[name] for name in row if look(name) in ("assignment", "과제")), "")
        if about in ("", assignment):
            members[group].append(student)
    return {group: tuple(students) for group, students in members.items()}


def _rows(file: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row that holds anything, by the names of the columns, with the number of its line. Raises BadTerm if the
    first line names none that is known."""
    csv.field_size_limit(MAX_SHEET)
    table = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip().lstrip("\ufeff") for name in next(table, [])]
    columns = {name for names in COLUMNS.values() for name in names}
    if not any(look(name) in columns for name in header):
        raise _bad(file, 1, _("the first line has to name the columns {columns}", columns=_expected(file)))
    for cells in table:
        row = {name: _own(cell) for name, cell in zip(header, cells, strict=False)}
        if any(row.values()):
            yield table.line_num, row


def _expected(file: Path) -> str:
    """The first line that a roster, or a list of groups, could have."""
    return "group,student" if file.name == GROUPS else "name,login,address,section,from,excused"


def _own(cell: str) -> str:
    """A cell as it was meant: in our own tables an apostrophe keeps a spreadsheet from taking it for a formula."""
    cell = cell.strip()
    return cell[1:] if cell[:1] == "'" and cell[1:2] in ("=", "+", "-", "@") else cell


def _bad(file: Path, line: int, problem: str) -> BadTerm:
    """The error, not raised, for a problem in a line of a table."""
    return BadTerm(_("{file}, line {line}: {problem}.").format(file=file, line=line, problem=problem))
