"""Dates in English and in Korean, as words and digits: what the translator learns from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
DAYS_OF = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
UNITS = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
TEENS = ("tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth",
         "eighteenth", "nineteenth")  # fmt: skip
FIRST_YEAR, LAST_YEAR = 1900, 2029
APART = 10  # one day of the year in so many is in no date that is trained on

Sentence = tuple[str, ...]


@dataclass(frozen=True)
class Date:
    """A day."""

    year: int
    month: int
    day: int

    @property
    def english(self) -> Sentence:
        """the twenty first of March 1 9 8 7"""
        return ("the", *_ordinal(self.day), "of", MONTHS[self.month - 1], *str(self.year))

    @property
    def korean(self) -> Sentence:
        """1 9 8 7 년 3 월 2 1 일"""
        return (*str(self.year), "년", *str(self.month), "월", *str(self.day), "일")


def _ordinal(day: int) -> Sentence:
    if 10 <= day < 20:
        return (TEENS[day - 10],)
    tens, unit = divmod(day, 10)
    if not unit:
        return ("twentieth" if tens == 2 else "thirtieth",)
    return (*(("", "", "twenty", "thirty")[tens],) * (tens > 0), UNITS[unit])


def everything() -> list[Sentence]:
    """Sentences that hold every word there is."""
    days = [Date(year, month, day) for year in (1234, 5678, 9000) for month in range(1, 13) for day in range(1, 32)]
    return [*(date.english for date in days), *(date.korean for date in days)]


class Days:
    """Draws dates; some days of the year are kept for the trial, and are never among those to learn from."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        days = [(month, day) for month, last in enumerate(DAYS_OF, 1) for day in range(1, last + 1)]
        self._random.shuffle(days)
        count = len(days) // APART
        self.apart, self.known = days[:count], days[count:]

    def draw(self, count: int, days: Sequence[tuple[int, int]] | None = None) -> list[Date]:
        """So many dates, on these days or on the known ones."""
        draw = self._random
        chosen = days or self.known
        return [Date(draw.randint(FIRST_YEAR, LAST_YEAR), *draw.choice(chosen)) for _date in range(count)]
