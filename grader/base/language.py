"""The language of messages: English as written in the code, Korean from the catalogues.

A catalogue is a gettext file, `ko.po`: one for the engine and one for each step. They are read once and cached in
`grader/locale`, all that a learner's kit holds of them: the engine's sentences as `engine.ko.json`, which every command
loads, and the ten times as many of the steps as `steps.ko.json`, which is loaded when a sentence is not the engine's.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from grader.base import files
from grader.base.paths import ROOT, SOLUTIONS

if TYPE_CHECKING:
    from typing import Any

LANGUAGES = ("en", "ko")
DEVICE = re.compile(r"[a-z][a-z0-9_]*")  # how torch names devices; which of them are there, torch knows
CATALOGUES = ROOT / "grader" / "locale"
ENGINE, STEPS = "engine", "steps"

# What was typed before the name of the command: `make`, `attention`, or nothing of these.
TYPED = os.environ.get("KIT_TYPED", "")
COMMAND = r"\bpython -m grader |\bmake (?=[a-z]+[0-9]?\b(?: [A-Z]+=|[\s.,;:)’”\"]|$))"

respell: Callable[[str], str] = str  # spells options as they were typed; the command line sets it

_language: ContextVar[str] = ContextVar("language", default="en")


class UnknownLanguage(ValueError):
    """The kit does not support this language."""


@contextmanager
def use(language: str) -> Iterator[None]:
    """Has messages inside the block be in this language, `en` or `ko`."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


def current() -> str:
    """The language in use: `en` or `ko`."""
    return _language.get()


def choose(wanted: str | None = None) -> str:
    """The requested language, else that of KIT_LANG, else of the system's locale, else English.

    Raises UnknownLanguage if the requested language is not supported.
    """
    named = wanted or os.environ.get("KIT_LANG")
    if named:
        short = named.lower().replace("-", "_").partition("_")[0].partition(".")[0]
        if short not in LANGUAGES:
            raise UnknownLanguage(named)
        return short
    return system()


def system() -> str:
    """The language of the system's locale; English if the kit does not support it."""
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable)
        if value:
            return "ko" if value.lower().startswith("ko") else "en"
    return "en"


def gettext(message: str, /, **values: object) -> str:
    """The message in the language in use, its commands as they are typed, and the values put in for their names in
    braces; without values, braces stay."""
    language = _language.get()
    text = message
    if language != "en":  # the engine's first: a lab's "step" is not a step of a course
        text = messages(ENGINE, language).get(message) or messages(STEPS, language).get(message) or message
    return typed(text).format(**values) if values else typed(text)


def typed(message: str) -> str:
    """A message with its commands as they are typed here: `attention grade` in a course made by the wheel."""
    return respell(re.sub(COMMAND, "attention ", message) if TYPED == "attention" else message)


def N_(message: str) -> str:  # noqa: N802  # gettext's own name for it
    """Marks a sentence that is translated later, when the language is known."""
    return message


def catalogue(path: Path) -> dict[str, str]:
    """The translations in a gettext file, by the English sentence. Raises OSError."""
    text = path.read_text(encoding="utf-8")
    entries = re.findall(r'^msgid ((?:".*"\n)+)msgstr ((?:".*"(?:\n|$))+)', text, re.MULTILINE)
    return {_unquoted(message): _unquoted(translation) for message, translation in entries if message != '""\n'}


def cached(whose: str, language: str) -> Path:
    """The path of the file that caches the translations of a language: the engine's or the steps' (ENGINE, STEPS)."""
    return CATALOGUES / f"{whose}.{language}.json"


@cache
def messages(whose: str, language: str) -> dict[str, str]:
    """The engine's translations, or the steps' (ENGINE, STEPS), by the English sentence: from the cache if it is up to
    date, else from the catalogues, which writes the cache."""
    import json  # English needs none

    sources = [CATALOGUES / f"{language}.po"]
    if whose == STEPS:
        patterns = ("mistakes*.md", "*/*/mistakes*.md", "*/*/mistakes/*.md")
        documents = [path for pattern in patterns for path in SOLUTIONS.glob(pattern)]
        sources = [*sorted(SOLUTIONS.glob(f"*/*/{language}.po")), *sorted(documents)]
    stamps: list[list[Any]] = [[str(path.relative_to(ROOT)), *_stamp(path)] for path in sources if path.is_file()]
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        saved: dict[str, Any] = json.loads(cached(whose, language).read_bytes())
        if saved["sources"] == stamps:
            return dict(saved["messages"])
    read = {
        english: translation
        for path in sources
        if path.suffix == ".po"
        for english, translation in catalogue(path).items()
    }
    if whose == STEPS:
        from grader.base import mistakes

        folders = sorted({path.parents[path.parent.name == "mistakes"] for path in sources if path.suffix == ".md"})
        read |= {
            english: translation
            for folder in folders
            for english, translation in mistakes.translations(folder)
            if translation
        }
    with contextlib.suppress(OSError):  # an installed kit may be read-only
        files.write(cached(whose, language), packed(read, stamps))
    return read


def packed(translations: dict[str, str], stamps: list[list[Any]]) -> str:
    """The content of the cache; `stamps` are path, time and size of each catalogue. Without any it is valid as long as
    there are no catalogues, as in a kit."""
    import json

    return json.dumps({"sources": stamps, "messages": translations}, ensure_ascii=False, separators=(",", ":"))


def _stamp(path: Path) -> tuple[int, int]:
    """The time of a file's last change in nanoseconds, and its size in bytes."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _unquoted(lines: str) -> str:
    """The text of the quoted lines of an entry in a gettext file, joined."""
    import json

    return "".join(json.loads(line) for line in lines.splitlines())
