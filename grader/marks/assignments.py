"""`assignments.toml`: the assignments, their deadlines and weights, and students' extensions.

Read once and checked whole: whatever is wrong is one sentence that names the place.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from grader.base.language import gettext as _
from grader.base.names import Roll
from grader.course import choice
from grader.marks import moments

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


class BadTerm(ValueError):
    """`assignments.toml` can't be used. One sentence that names the place; the caller adds the command to type."""


@dataclass(frozen=True)
class Extra:
    """More time for one student: in one assignment, or in all of them (`assignment` is empty).

    Either `until` a moment, or so much `more`.
    """

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
    students write for a second look.
    """

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
    """The term with people called as a class calls them. Names that may refer to several people are left out."""
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
    return _Reader(str(file)).term(data, file)


def text_of(file: Path, most: int = -1) -> str:
    """The text of a file, at most `most` bytes of it. Raises BadTerm, and FileNotFoundError."""
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


class _Reader:
    """Reads one file. Each method returns the checked value of a key, or raises BadTerm with the key's place."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.local: tzinfo = UTC

    def term(self, data: Mapping[str, Any], file: Path) -> Term:
        self.known(data, TOP, "")
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
        for place, table in self.each(data, "excused", OF_AN_EXCUSE):
            assignment = self.text(table, "assignment", place, "")
            if assignment:
                self.require_one_of(assignment, assignments, f"{place}.assignment")
            yield Excuse(self.text(table, "student", place), assignment, self.text(table, "reason", place, ""))

    def late_days(self, data: Mapping[str, Any]) -> LateDays:
        """`{ free = 5, per_assignment = 2 }`."""
        table = self.table(data.get("late_days", {}), "late_days")
        self.known(table, OF_LATE_DAYS, "late_days")
        free, most = (self.whole(table, key, "late_days", 0) for key in OF_LATE_DAYS)
        return LateDays(free, most or free)

    def whole(self, table: Mapping[str, Any], key: str, place: str, default: int) -> int:
        number = self.number(table, key, place, float(default), 1000.0)
        if number != int(number):
            raise self.bad(f"{place}.{key}", _("it has to be a whole number"))
        return int(number)

    def each(self, data: Mapping[str, Any], kind: str, keys: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Each table of a list of them, with its place."""
        tables = data.get(kind, [])
        if not isinstance(tables, list):
            raise self.bad(kind, _("write [[{kind}]] with two brackets, once for each student").format(kind=kind))
        for number, each in enumerate(tables, 1):
            table = self.table(each, f"{kind} {number}")
            self.known(table, keys, f"{kind} {number}")
            yield f"{kind} {number}", table

    def assignment(self, name: str, table: Mapping[str, Any]) -> Assignment:
        """One assignment. Raises BadTerm for unknown keys, values out of bounds, or no steps."""
        place = f"assignments.{name}"
        if not name.isidentifier() and not name.replace("-", "_").isidentifier():
            raise self.bad(place, _("a name is letters, digits, _ and -, since folders are named so"))
        self.known(table, OF_AN_ASSIGNMENT, place)
        steps, extra = self.steps(table, "steps", place, table.get("tracks")), self.steps(table, "extra", place)
        electives = self.electives(table, place)
        if not steps and not electives.steps:
            raise self.bad(place, _('it has no steps; for example: steps = "1-3"'))
        opens, due = self.moment(table, "opens", place), self.moment(table, "due", place, end=True)
        if opens and due and due <= opens:
            raise self.bad(place, _("it is due before it opens"))
        late = self.table(table.get("late", {}), f"{place}.late")
        self.known(late, OF_LATE, f"{place}.late")
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
        """Any two of a list: `{ count = 2, steps = "13-18", points = 10 }`."""
        if "electives" not in table:
            return Electives()
        place = f"{place}.electives"
        settings = self.table(table["electives"], place)
        self.known(settings, OF_ELECTIVES, place)
        steps = self.steps(settings, "steps", place)
        count = self.number(settings, "count", place, 1.0, float(len(steps)))
        if count < 1 or count != int(count):
            raise self.bad(f"{place}.count", _("it has to be a whole number, at least 1"))
        return Electives(tuple(steps), int(count), self.number(settings, "points", place, 10.0))

    # --- one value ---

    def choice(self, table: Mapping[str, Any], key: str, place: str, choices: Sequence[str]) -> str:
        value = self.text(table, key, place, choices[0])
        if value not in choices:
            raise self.bad(f"{place}.{key}", _("choose from {choices}").format(choices=", ".join(choices)))
        return value

    def bad(self, place: str, problem: str) -> BadTerm:
        """The error for a problem at this place of the file."""
        where = f"{self.file}, {place}" if place else self.file
        return BadTerm(_("{place}: {problem}.").format(place=where, problem=problem))

    def known(self, table: Mapping[str, Any], keys: Sequence[str], place: str) -> None:
        """Raises BadTerm for a key that the table may not have."""
        for key in table:
            self.require_one_of(key, keys, place)

    def require_one_of(self, word: str, words: Collection[str], place: str) -> None:
        if word in words:
            return
        close = difflib.get_close_matches(word, words, 1)
        sentence = (
            _("there is no “{word}”; the nearest is {close}") if close else _("there is no “{word}”, only {known}")
        )
        raise self.bad(place, sentence.format(word=word, close=close[0] if close else "", known=", ".join(words)))

    def table(self, value: object, place: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.bad(place, _("it has to be a table"))
        return value

    def tables(self, value: object, place: str) -> Mapping[str, Mapping[str, Any]]:
        return {name: self.table(table, f"{place}.{name}") for name, table in self.table(value, place).items()}

    def text(self, table: Mapping[str, Any], key: str, place: str, default: str | None = None) -> str:
        value = table.get(key, default)
        if not isinstance(value, str) or value == "" and default is None:
            raise self.bad(f"{place}.{key}".lstrip("."), _("it has to be text in quotes"))
        return value

    def number(self, table: Mapping[str, Any], key: str, place: str, default: float, most: float = 1e6) -> float:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise self.bad(f"{place}.{key}", _("it has to be a number from 0 to {most}").format(most=f"{most:g}"))
        return float(value)

    def moment(self, table: Mapping[str, Any], key: str, place: str, *, end: bool = False) -> datetime | None:
        if key not in table:
            return None
        try:
            return moments.moment(table[key], self.local, end=end)
        except moments.NoMoment as wrong:
            problem = _("“{text}” is not a date; write 2026-09-14T23:59:00")
            raise self.bad(f"{place}.{key}", problem.format(text=wrong)) from None

    def duration(self, table: Mapping[str, Any], key: str, place: str) -> timedelta:
        try:
            return moments.duration(table[key]) if key in table else timedelta()
        except moments.NoMoment as wrong:
            problem = _('“{text}” is not a length of time; write "30 minutes" or "2 days"')
            raise self.bad(f"{place}.{key}", problem.format(text=wrong)) from None

    def zone(self, data: Mapping[str, Any]) -> tzinfo:
        try:
            return moments.zone(self.text(data, "timezone", "", "UTC"))
        except moments.NoMoment as wrong:
            problem = _('“{text}” is not a time zone; write "Asia/Seoul" or "UTC"')
            raise self.bad("timezone", problem.format(text=wrong)) from None

    def steps(self, table: Mapping[str, Any], key: str, place: str, tracks: object = None) -> list[str]:
        try:
            return choice.chosen(self.words(table.get(key), f"{place}.{key}"), self.words(tracks, f"{place}.tracks"))
        except choice.UnknownChoice as unknown:
            raise self.bad(f"{place}.{key}", str(unknown).rstrip(".")) from None

    def words(self, value: object, place: str) -> list[str]:
        """The words of a value such as `"1-3"`, 4, or a list of these. Raises BadTerm."""
        values = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(word, str | int) and not isinstance(word, bool) for word in values):
            raise self.bad(place, _('it has to be steps, such as "1-3" or [4, "step06"]'))
        return [str(word) for word in values]

    def weights(self, table: Mapping[str, Any], steps: Collection[str], place: str) -> dict[str, float]:
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
