"""Dates and times of a term, each with its zone, and how long something takes."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from grader.base.language import gettext as _

UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(m|min|minutes?|h|hours?|d|days?|w|weeks?)\s*", re.IGNORECASE)
# As nbgrader writes it: 2026-09-14 23:58:59.123456 UTC, or with the name of a zone.
STAMP = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?) ?(Z|[+-]\d\d:?\d\d|[A-Za-z][\w+/-]*)?")


class NoMoment(ValueError):
    """The text is not a date, a time or a zone. One phrase says what was read."""


def zone(name: str) -> tzinfo:
    """The time zone of a name such as `Asia/Seoul` or `UTC`. Raises NoMoment."""
    if name.upper() in ("UTC", "Z", "GMT"):
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise NoMoment(name) from None


def moment(value: object, local: tzinfo, *, end: bool = False) -> datetime:
    """A date or time as TOML or a table gives it; one without a zone is `local`. A date alone is its first second, or
    with `end` its last. Raises NoMoment."""
    if isinstance(value, str):
        return _read(value.strip(), local, end=end)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=local)
    if isinstance(value, date):
        return datetime.combine(value, time(23, 59, 59) if end else time(), local)
    raise NoMoment(str(value))


def stamped(text: str, local: tzinfo) -> tuple[datetime | None, str]:
    """The time of a system's stamp, None without one; and the text, if it can't be read."""
    try:
        return moment(text, local) if text else None, ""
    except NoMoment:
        return None, text


def _read(text: str, local: tzinfo, *, end: bool) -> datetime:
    """The moment in a text, in the zone `local` unless it names one; `end` makes a date the end of its day. Raises
    NoMoment."""
    try:
        if match := STAMP.fullmatch(text):
            stamp, zoned = datetime.fromisoformat(match[1]), match[2] or ""
            if zoned[:1] in ("+", "-"):
                return datetime.fromisoformat(f"{stamp.isoformat()}{zoned}")
            return stamp.replace(tzinfo=zone(zoned) if zoned else local)
        return moment(date.fromisoformat(text), local, end=end)
    except ValueError:
        raise NoMoment(text) from None


def duration(value: object) -> timedelta:
    """The length of time that a text such as `30 minutes` or `2 days` gives. Raises NoMoment for another value."""
    match = DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise NoMoment(str(value))
    return timedelta(**{UNITS[match[2][0].lower()]: float(match[1])})


def said(length: timedelta) -> str:
    """A length of time in words, its two largest units."""
    minutes = round(length.total_seconds() / 60)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    if days and minutes and not hours:  # "1 d 0 h" would not say why it is a second day
        return _("{days} d {minutes} min").format(days=days, minutes=minutes)
    if days:
        return _("{days} d {hours} h").format(days=days, hours=hours)
    return _("{hours} h {minutes} min").format(hours=hours, minutes=minutes)


def shown(when: datetime) -> str:
    """A moment as a person reads it: `2026-09-14 23:59 KST`."""
    return f"{when:%Y-%m-%d %H:%M} {when.tzname() or ''}".strip()
