"""Values of TOML tables, checked one by one: whatever is wrong is one sentence that names the place in the file."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from grader.base.language import gettext as _
from grader.course import choice
from grader.marks import moments


class BadTerm(ValueError):
    """`assignments.toml` can't be used. One sentence that names the place; the caller adds the command to type."""


class TableReader:
    """Reads the tables of one file. Each method returns the checked value of a `key` of a table, or `default` without
    the key, or raises BadTerm that names the `place` of the table in the file: `assignments.week1.late`."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.local: tzinfo = UTC  # of times without a zone

    def choice(self, table: Mapping[str, Any], key: str, place: str, choices: Sequence[str]) -> str:
        """One of these words, by default the first. Raises BadTerm."""
        value = self.text(table, key, place, choices[0])
        if value not in choices:
            raise self.bad(f"{place}.{key}", _("choose from {choices}").format(choices=", ".join(choices)))
        return value

    def bad(self, place: str, problem: str) -> BadTerm:
        """The error, not raised, for a problem at this place of the file."""
        where = f"{self.file}, {place}" if place else self.file
        return BadTerm(_("{place}: {problem}.").format(place=where, problem=problem))

    def require_known(self, table: Mapping[str, Any], keys: Sequence[str], place: str) -> None:
        """Raises BadTerm for a key that the table may not have."""
        for key in table:
            self.require_one_of(key, keys, place)

    def require_one_of(self, word: str, words: Collection[str], place: str) -> None:
        """Raises BadTerm, with the nearest word, if `word` is not one of these."""
        if word in words:
            return
        close = difflib.get_close_matches(word, words, 1)
        sentence = (
            _("there is no “{word}”; the nearest is {close}") if close else _("there is no “{word}”, only {known}")
        )
        raise self.bad(place, sentence.format(word=word, close=close[0] if close else "", known=", ".join(words)))

    def table(self, value: object, place: str) -> Mapping[str, Any]:
        """The value, if it is a table. Raises BadTerm for another."""
        if not isinstance(value, dict):
            raise self.bad(place, _("it has to be a table"))
        return value

    def tables(self, value: object, place: str) -> Mapping[str, Mapping[str, Any]]:
        """The tables in a table, by name. Raises BadTerm for another value in it."""
        return {name: self.table(table, f"{place}.{name}") for name, table in self.table(value, place).items()}

    def text(self, table: Mapping[str, Any], key: str, place: str, default: str | None = None) -> str:
        """A text; without a default it is required, and not empty. Raises BadTerm."""
        value = table.get(key, default)
        if not isinstance(value, str) or value == "" and default is None:
            raise self.bad(f"{place}.{key}".lstrip("."), _("it has to be text in quotes"))
        return value

    def number(self, table: Mapping[str, Any], key: str, place: str, default: float, most: float = 1e6) -> float:
        """A number from 0 to `most`. Raises BadTerm."""
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise self.bad(f"{place}.{key}", _("it has to be a number from 0 to {most}").format(most=f"{most:g}"))
        return float(value)

    def moment(self, table: Mapping[str, Any], key: str, place: str, *, end: bool = False) -> datetime | None:
        """A date or time; None without the key. `end`: a date is its last second. Raises BadTerm."""
        if key not in table:
            return None
        try:
            return moments.moment(table[key], self.local, end=end)
        except moments.NoMoment as wrong:
            problem = _("“{text}” is not a date; write 2026-09-14T23:59:00")
            raise self.bad(f"{place}.{key}", problem.format(text=wrong)) from None

    def duration(self, table: Mapping[str, Any], key: str, place: str) -> timedelta:
        """A length of time; 0 without the key. Raises BadTerm."""
        try:
            return moments.duration(table[key]) if key in table else timedelta()
        except moments.NoMoment as wrong:
            problem = _('“{text}” is not a length of time; write "30 minutes" or "2 days"')
            raise self.bad(f"{place}.{key}", problem.format(text=wrong)) from None

    def zone(self, data: Mapping[str, Any]) -> tzinfo:
        """The time zone `timezone`, by default UTC. Raises BadTerm."""
        try:
            return moments.zone(self.text(data, "timezone", "", "UTC"))
        except moments.NoMoment as wrong:
            problem = _('“{text}” is not a time zone; write "Asia/Seoul" or "UTC"')
            raise self.bad("timezone", problem.format(text=wrong)) from None

    def steps(self, table: Mapping[str, Any], key: str, place: str, tracks: object = None) -> list[str]:
        """The names of the steps that the key and the value `tracks` choose; empty without both. Raises BadTerm."""
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

    def whole(self, table: Mapping[str, Any], key: str, place: str, default: int) -> int:
        """A whole number from 0 to 1000. Raises BadTerm."""
        number = self.number(table, key, place, float(default), 1000.0)
        if number != int(number):
            raise self.bad(f"{place}.{key}", _("it has to be a whole number"))
        return int(number)

    def each(self, data: Mapping[str, Any], kind: str, keys: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The place and the table of each entry of the list `kind`, which may have these keys. Raises BadTerm."""
        tables = data.get(kind, [])
        if not isinstance(tables, list):
            raise self.bad(kind, _("write [[{kind}]] with two brackets, once for each student").format(kind=kind))
        for number, each in enumerate(tables, 1):
            table = self.table(each, f"{kind} {number}")
            self.require_known(table, keys, f"{kind} {number}")
            yield f"{kind} {number}", table
