"""`assignments.toml`: the assignments, their deadlines and weights, and students' extensions.

Read once and checked whole: whatever is wrong is one sentence that names the place.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from grader.base.language import gettext as _
from grader.base.names import Roll
from grader.course import choice
from grader.marks.toml_tables import BadTerm as BadTerm
from grader.marks.toml_tables import TableReader

FILE = Path("assignments.toml")
STAND_INS = ("reference", "own")
TOP = ("title", "timezone", "contact", "late_days", "assignments", "extensions", "accommodations", "excused")
OF_AN_ASSIGNMENT = (
    "title", "steps", "tracks", "extra", "electives", "weights", "opens", "due", "grace", "late", "stand_ins", "weight",
    "attempts", "attempts_at_most",
)  # fmt: skip
ATTEMPTS = ("last", "best")
OF_ELECTIVES = ("count", "steps", "points")
OF_LATE = ("per_day", "at_most")
OF_AN_EXTENSION = ("student", "assignment", "until", "more", "reason")
OF_AN_ACCOMMODATION = ("student", "more", "reason")
OF_AN_EXCUSE = ("student", "assignment", "reason")
OF_LATE_DAYS = ("free", "per_assignment")


@dataclass(frozen=True)
class Extra:
    """More time for one student: in one assignment, or in all of them (`assignment` is empty). Either `until` a
    moment, or so much `more`."""

    student: str
    assignment: str
    until: datetime | None
    more: timedelta
    reason: str


@dataclass(frozen=True)
class Excuse:
    """Nothing is expected of a student in one assignment, or in all of them (`assignment` is empty)."""

    student: str
    assignment: str
    reason: str


@dataclass(frozen=True)
class LateDays:
    """The days of the whole term by which each student may be late for nothing, at most `per_assignment` in one."""

    free: int = 0
    per_assignment: int = 0


@dataclass(frozen=True)
class Deadline:
    """The moment until which a student may hand in without a penalty, and the reason if it is not the assignment's own
    date."""

    until: datetime
    reason: str = ""


@dataclass(frozen=True)
class Electives:
    """Steps of which the best `count` of each student count, each worth `points`."""

    steps: tuple[str, ...] = ()
    count: int = 0
    points: float = 0.0


@dataclass(frozen=True)
class Assignment:
    """An assignment: steps that are handed out together. `weights` multiply the points of a step, `extra` steps count
    on top of the total.

    `per_day` is the share of the points that each started day costs, `at_most` all days together. `weight` is what the
    assignment counts in the term. `stand_ins`: what takes the place of an earlier step that is not part of it.
    `attempts`: which of several counts, the last or the best, of so many `attempts_at_most`, the last ones.
    """

    name: str
    title: str
    steps: tuple[str, ...]
    extra: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    opens: datetime | None = None
    due: datetime | None = None
    grace: timedelta = timedelta()
    per_day: float = 0.0
    at_most: float = 1.0
    stand_ins: str = "reference"
    weight: float = 1.0
    attempts: str = ATTEMPTS[0]
    attempts_at_most: int = 10
    electives: Electives = Electives()

    @property
    def attempts_read(self) -> int:
        """The number of a student's attempts that are graded."""
        return self.attempts_at_most if self.attempts == "best" else 1

    @property
    def everything(self) -> list[str]:
        """The steps with those for extra credit and the electives, in order."""
        return sorted({*self.steps, *self.extra, *self.electives.steps})


@dataclass(frozen=True)
class Term:
    """The assignments in order, extensions and excuses. `file` is where it was read, `contact` the address to which
    students write for a second look."""

    title: str
    file: Path
    local: tzinfo
    assignments: Mapping[str, Assignment]
    extras: Sequence[Extra] = ()
    excuses: Sequence[Excuse] = ()
    late_days: LateDays = LateDays()
    contact: str = ""

    def deadline(self, assignment: str, student: str) -> Deadline | None:
        """The student's deadline; None if the assignment has no date. An extension for the assignment counts before an
        accommodation for all; of several, the one with the most time."""
        due = self.assignments[assignment].due
        if due is None:
            return None
        own = [extra for extra in self.extras if extra.student == student and extra.assignment in ("", assignment)]
        own = [extra for extra in own if extra.assignment] or own
        dated = [Deadline(extra.until or due + extra.more, extra.reason) for extra in own]
        return max(dated, key=lambda deadline: deadline.until, default=Deadline(due))

    def before(self, assignment: str) -> list[Assignment]:
        """The assignments that are before this one in the file."""
        names = list(self.assignments)
        return [self.assignments[name] for name in names[: names.index(assignment)]]


def called_as_in(term: Term, roll: Roll) -> Term:
    """The term with the class's name for each student. Extensions and excuses with an ambiguous name are left out."""
    extras = [dataclasses.replace(extra, student=roll.own(extra.student)) for extra in term.extras
              if not roll.is_ambiguous(extra.student)]  # fmt: skip
    excuses = [dataclasses.replace(excuse, student=roll.own(excuse.student)) for excuse in term.excuses
               if not roll.is_ambiguous(excuse.student)]  # fmt: skip
    return dataclasses.replace(term, extras=extras, excuses=excuses)


def read(file: Path) -> Term:
    """The term in a file. Raises BadTerm, and FileNotFoundError if there is no such file."""
    try:
        data = tomllib.loads(text_of(file).replace("\r\n", "\n").replace("\r", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadTerm(_("{file} is not valid TOML: {reason}.").format(file=file, reason=error)) from None
    return _TermReader(str(file)).term(data, file)


def text_of(file: Path, most: int = -1) -> str:
    """The first `most` bytes of a file, by default all, as text. Raises BadTerm, and FileNotFoundError."""
    try:
        with file.open("rb") as there:
            return there.read(most).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadTerm(_("{file} is not UTF-8.").format(file=file)) from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadTerm(_("{file} can't be read ({reason}).").format(file=file, reason=error.strerror)) from None


def alone(name: str, steps: Sequence[str]) -> Term:
    """The term of a class that has no file: one assignment without a date, each step worth its points."""
    return Term("", FILE, UTC, {name: Assignment(name, "", tuple(steps), stand_ins="own")})


class _TermReader(TableReader):
    """Reads the parts of a term from the tables of its file."""

    def term(self, data: Mapping[str, Any], file: Path) -> Term:
        """The term in the content of the whole file, read from `file`. Raises BadTerm."""
        self.require_known(data, TOP, "")
        self.local = self.zone(data)
        tables = self.tables(data.get("assignments", {}), "assignments")
        if not tables:
            raise self.bad("", _("it has no assignment; the first one starts with [assignments.NAME]"))
        assignments = {name: self.assignment(name, table) for name, table in tables.items()}
        extras = [
            *self.extras(data, "extensions", OF_AN_EXTENSION, assignments),
            *self.extras(data, "accommodations", OF_AN_ACCOMMODATION, assignments),
        ]
        return Term(
            self.text(data, "title", "", ""), file, self.local, assignments, extras,
            list(self.excuses(data, assignments)), self.late_days(data), self.text(data, "contact", "", ""),
        )  # fmt: skip

    def excuses(self, data: Mapping[str, Any], assignments: Collection[str]) -> Iterator[Excuse]:
        """The entries of the list `excused`. Raises BadTerm."""
        for place, table in self.each(data, "excused", OF_AN_EXCUSE):
            assignment = self.text(table, "assignment", place, "")
            if assignment:
                self.require_one_of(assignment, assignments, f"{place}.assignment")
            yield Excuse(self.text(table, "student", place), assignment, self.text(table, "reason", place, ""))

    def late_days(self, data: Mapping[str, Any]) -> LateDays:
        """The late days: `{ free = 5, per_assignment = 2 }`; none if the key is missing. Raises BadTerm."""
        table = self.table(data.get("late_days", {}), "late_days")
        self.require_known(table, OF_LATE_DAYS, "late_days")
        free, most = (self.whole(table, key, "late_days", 0) for key in OF_LATE_DAYS)
        return LateDays(free, most or free)

    def assignment(self, name: str, table: Mapping[str, Any]) -> Assignment:
        """The assignment `name`, from its table. Raises BadTerm for unknown keys, values out of bounds, or no steps."""
        place = f"assignments.{name}"
        if not name.isidentifier() and not name.replace("-", "_").isidentifier():
            raise self.bad(place, _("a name is letters, digits, _ and -, since folders are named so"))
        self.require_known(table, OF_AN_ASSIGNMENT, place)
        steps, extra = self.steps(table, "steps", place, table.get("tracks")), self.steps(table, "extra", place)
        electives = self.electives(table, place)
        if not steps and not electives.steps:
            raise self.bad(place, _('it has no steps; for example: steps = "1-3"'))
        opens, due = self.moment(table, "opens", place), self.moment(table, "due", place, end=True)
        if opens and due and due <= opens:
            raise self.bad(place, _("it is due before it opens"))
        late = self.table(table.get("late", {}), f"{place}.late")
        self.require_known(late, OF_LATE, f"{place}.late")
        return Assignment(
            name=name, title=self.text(table, "title", place, name),
            steps=tuple(step for step in steps if step not in {*extra, *electives.steps}), extra=tuple(extra),
            electives=electives, attempts=self.choice(table, "attempts", place, ATTEMPTS),
            attempts_at_most=max(1, int(self.number(table, "attempts_at_most", place, 10.0, 1000.0))),
            weights=self.weights(table, {*steps, *extra} - {*electives.steps}, place), opens=opens, due=due,
            grace=self.duration(table, "grace", place),
            per_day=self.number(late, "per_day", f"{place}.late", 0.0, 100.0) / 100,
            at_most=self.number(late, "at_most", f"{place}.late", 100.0, 100.0) / 100,
            stand_ins=self.choice(table, "stand_ins", place, STAND_INS),
            weight=self.number(table, "weight", place, 1.0),
        )  # fmt: skip

    def extras(
        self, data: Mapping[str, Any], kind: str, keys: Sequence[str], assignments: Collection[str]
    ) -> list[Extra]:
        """The entries of the list `kind`, extensions or accommodations, which may have these keys. Raises BadTerm."""
        extras = []
        for place, table in self.each(data, kind, keys):
            student, assignment = self.text(table, "student", place), ""
            if kind == "extensions":
                assignment = self.text(table, "assignment", place)
                self.require_one_of(assignment, assignments, f"{place}.assignment")
            until, more = self.moment(table, "until", place, end=True), self.duration(table, "more", place)
            if (until is None) == (not more):
                raise self.bad(place, _('say how long: more = "2 days", or for one assignment until = 2026-09-17'))
            extras.append(Extra(student, assignment, until, more, self.text(table, "reason", place, "")))
        return extras

    def electives(self, table: Mapping[str, Any], place: str) -> Electives:
        """The electives of an assignment's table, `{ count = 2, steps = "13-18", points = 10 }`; none without. Raises
        BadTerm."""
        if "electives" not in table:
            return Electives()
        place = f"{place}.electives"
        settings = self.table(table["electives"], place)
        self.require_known(settings, OF_ELECTIVES, place)
        steps = self.steps(settings, "steps", place)
        count = self.number(settings, "count", place, 1.0, float(len(steps)))
        if count < 1 or count != int(count):
            raise self.bad(f"{place}.count", _("it has to be a whole number, at least 1"))
        return Electives(tuple(steps), int(count), self.number(settings, "points", place, 10.0))

    def weights(self, table: Mapping[str, Any], steps: Collection[str], place: str) -> dict[str, float]:
        """The factors of these steps' points in an assignment's table, by step; empty without. Raises BadTerm."""
        place, weights = f"{place}.weights", {}
        table = self.table(table.get("weights", {}), place)
        for word in table:
            try:
                step = choice.single(word)
            except choice.UnknownChoice as unknown:
                raise self.bad(place, str(unknown).rstrip(".")) from None
            if step not in steps:
                raise self.bad(place, _("{step} is not a step of this assignment").format(step=step))
            weights[step] = self.number(table, word, place, 1.0)
        return weights
