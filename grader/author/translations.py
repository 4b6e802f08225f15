"""Maintains the Korean catalogues: collects every sentence that users read.

The engine's sentences are in `grader/locale/ko.po`, those of a step in its own folder. `update` adds new sentences and
drops old ones, `problems` lists what is missing or stale.
"""

from __future__ import annotations

import ast
import inspect
import io
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from babel.messages import Catalog
from babel.messages.extract import extract_from_file
from babel.messages.pofile import read_po, write_po
from jinja2.ext import babel_extract

from grader.author import kit
from grader.base import files, paths
from grader.base.language import CATALOGUES
from grader.course import solutions

ENGINE = paths.ROOT / "grader"
DOMAIN = "kit"


def catalogue_files(chosen: Collection[str] = ()) -> Iterator[tuple[Path, list[str]]]:
    """Yields every .po file, or those of the chosen steps, with the English sentences that belong in it."""
    if not chosen:
        yield CATALOGUES / "ko.po", list(dict.fromkeys(engine_messages()))
    for folder in paths.step_folders(paths.SOLUTIONS):
        if not chosen or folder.name in chosen:
            yield folder / "ko.po", step_messages(folder)
    for folder in () if chosen else kit.lab_folders():
        messages = [message for path in sorted(folder.glob("*.py")) for message in _marked(path)]
        if messages:
            yield folder / "ko.po", list(dict.fromkeys(messages))


def engine_messages() -> Iterator[str]:
    """The sentences of the engine: every literal in `_(…)` and `N_(…)`, in code and in templates."""
    for path in sorted([*ENGINE.rglob("*.py"), *ENGINE.rglob("*.html.j2")]):
        yield from _marked(path)


def step_messages(folder: Path) -> list[str]:
    """The sentences of a step: its stub's docstrings, the titles and sentences of its checks, what its other right ways
    trade, and the comments that `make solution` shows."""
    messages: list[str] = []
    for path in sorted(folder.glob("*.py")):
        docstrings = list(_docstrings(path))
        if path.name == "reference.py":
            messages += [docstrings[0].splitlines()[0], *docstrings]
            reference = path.read_text(encoding="utf-8")
            messages += [text for _line, _count, text in solutions.comments(solutions.shown(reference))]
        elif path.name.startswith("test_"):
            messages += [text.splitlines()[0] for text in list(_docstrings(path, "test_"))[1:]]
        elif path.name == "variants.py":
            ways = solutions.ways(path.read_text(encoding="utf-8"))
            messages += [way.trades for way in ways]
            messages += [text for way in ways for _line, _count, text in solutions.comments(way.code)]
        messages += _marked(path)
    return list(dict.fromkeys(messages))


def _marked(path: Path) -> Iterator[str]:
    """The literals in `_(…)` and `N_(…)` of a Python file or a template; of a plural form, the singular."""
    method: Any = babel_extract if path.suffix == ".j2" else "python"  # Jinja's has Babel's signature of before types
    for _line, message, _comments, _context in extract_from_file(method, path, keywords={"_": None, "N_": None}):
        yield message if isinstance(message, str) else message[0]


def _docstrings(path: Path, prefix: str = "") -> Iterator[str]:
    """Yields the module's docstring (perhaps empty), then those of its functions and classes with names that start with
    `prefix`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.startswith(prefix):
            text = ast.get_docstring(node)
            if text:
                yield inspect.cleandoc(text)


def update(chosen: Collection[str] = ()) -> Iterator[str]:
    """Adds new sentences to the catalogues, or to those of the chosen steps, drops old ones, keeps the other
    translations; yields one line per catalogue."""
    for path, messages in catalogue_files(chosen):
        old = _read(path)
        catalog = _empty_catalogue()
        for message in messages:
            catalog.add(message, string=old.get(message, ""))
        buffer = io.BytesIO()
        write_po(buffer, catalog, width=110, no_location=True, omit_header=False)
        files.write(path, buffer.getvalue())
        empty = sum(not old.get(message) for message in messages)
        yield f"{path.relative_to(paths.ROOT)}: {len(messages)} sentences, {empty} to translate"


def problems() -> list[str]:
    """A line for each sentence that is untranslated, and for each translation without a sentence, with its file."""
    lines = []
    for path, messages in catalogue_files():
        have, name = _read(path), path.relative_to(paths.ROOT)
        lines += [f"{name}: not translated: {message[:60]!r}" for message in messages if not have.get(message)]
        lines += [f"{name}: stale: {message[:60]!r}" for message in have if message not in messages]
    return lines


def _empty_catalogue() -> Catalog:
    """A Korean catalogue without entries, the same bytes whenever it is made."""
    no_date = datetime(2026, 1, 1, tzinfo=UTC)  # reproducible: the same bytes whenever they are built
    return Catalog(
        locale="ko", domain=DOMAIN, project="attention-from-scratch", version="1", fuzzy=False, charset="utf-8",
        header_comment="# Korean sentences of the exercise kit. `make messages` keeps this file.",
        creation_date=no_date, revision_date=no_date,
    )  # fmt: skip


def _read(path: Path) -> dict[str, str]:
    """The translations of a catalogue, by the English sentence; empty without a file."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        catalog = read_po(file, locale="ko", charset="utf-8")
    return {str(message.id): str(message.string) for message in catalog if message.id}
