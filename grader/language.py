"""The language of what a person reads: English as written in the code, Korean from the compiled catalogue."""

from __future__ import annotations

import gettext as standard
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "ko")
COMPILED = Path(__file__).parent / "locale"
DOMAIN = "kit"

_language: ContextVar[str] = ContextVar("language", default="en")


class UnknownLanguage(ValueError):
    """The kit speaks no such language."""


@contextmanager
def use(language: str) -> Iterator[None]:
    """Everything said inside the block is said in this language."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


def current() -> str:
    """The language in use: `en` or `ko`."""
    return _language.get()


def choose(asked: str | None = None) -> str:
    """The language asked for, else that of KIT_LANG, else of the system's locale, else English.

    Raises UnknownLanguage when one was asked for by name that the kit does not speak.
    """
    named = asked or os.environ.get("KIT_LANG")
    if named:
        short = named.lower().replace("-", "_").partition("_")[0].partition(".")[0]
        if short not in LANGUAGES:
            raise UnknownLanguage(named)
        return short
    return system()


def system() -> str:
    """The language of the system's locale, English for one that the kit does not speak."""
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable)
        if value:
            return "ko" if value.lower().startswith("ko") else "en"
    return "en"


def gettext(message: str) -> str:
    """The message in the language in use."""
    language = _language.get()
    return message if language == "en" else _catalogue(language).gettext(message)


@cache
def _catalogue(language: str) -> standard.NullTranslations:
    return standard.translation(DOMAIN, COMPILED, [language], fallback=True)
