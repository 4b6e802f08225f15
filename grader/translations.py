"""Keeps the Korean catalogues: finds every sentence a person reads, and compiles what the program loads.

The engine's sentences stand in `grader/locale/ko.po`, those of a step in its own folder. `update` adds what is new and
drops what is gone, `compile` makes the one file that is read at run time, `check` says what is missing or stale.
"""

from __future__ import annotations

import ast
import inspect
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import typer
from babel.messages import Catalog
from babel.messages.extract import extract_from_file
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from grader import arguments, authoring, cli, course, demo
from grader.language import COMPILED, DOMAIN

ENGINE = Path(__file__).parent
OUTPUT = COMPILED / "ko" / "LC_MESSAGES" / f"{DOMAIN}.mo"

application = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False)


def catalogue_files() -> list[tuple[Path, list[str]]]:
    """Every catalogue with the sentences it should hold."""
    engine = (COMPILED / "ko.po", list(dict.fromkeys(engine_messages())))
    return [engine, *((step.folder / "ko.po", step_messages(step.folder)) for step in course.steps())]


def engine_messages() -> Iterator[str]:
    """The sentences of the engine: every literal in `_(…)`, and what --help says."""
    for path in sorted(ENGINE.rglob("*.py")):
        yield from _marked(path)
    for spoken in (cli.application, demo.app):
        yield from (line.help for line in arguments.documented(typer.main.get_command(spoken)))


def step_messages(folder: Path) -> list[str]:
    """The sentences of a step: its stub's docstrings, the titles and sentences of its checks, its misconceptions."""
    messages: list[str] = []
    for path in sorted(folder.glob("*.py")):
        docstrings = list(_docstrings(path))
        if path.name == "reference.py":
            messages += [docstrings[0].splitlines()[0], *docstrings]
        elif path.name.startswith("test_"):
            messages += [text.splitlines()[0] for text in list(_docstrings(path, "test_"))[1:]]
        elif path.name == "misconceptions.py":
            paragraphs = (text.split("\n\n") for text in docstrings[1:])
            messages += [" ".join(part.split()) for parts in paragraphs if len(parts) == 3 for part in parts]
        messages += _marked(path)
    return list(dict.fromkeys(messages))


def _marked(path: Path) -> Iterator[str]:
    for _line, message, _comments, _context in extract_from_file("python", path, keywords={"_": None}):
        yield message if isinstance(message, str) else message[0]


def _docstrings(path: Path, prefix: str = "") -> Iterator[str]:
    """The module's docstring (perhaps empty), then those of its functions and classes whose names start so."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.startswith(prefix):
            text = ast.get_docstring(node)
            if text:
                yield inspect.cleandoc(text)


@application.command()
def update(folder: Path = typer.Argument(None, help="One step's folder; all catalogues without it.")) -> None:
    """Adds new sentences, drops those that are gone, keeps the translations of the rest."""
    if unread := authoring.unparsed():
        typer.echo("\n".join(unread), err=True)
        raise typer.Exit(2)
    for path, messages in catalogue_files():
        if folder is not None and path.parent.resolve() != folder.resolve():
            continue
        old = _read(path)
        catalog = _empty_catalogue()
        for message in messages:
            catalog.add(message, string=old.get(message, ""))
        buffer = io.BytesIO()
        write_po(buffer, catalog, width=110, no_location=True, omit_header=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(buffer.getvalue())
        empty = sum(not old.get(message) for message in messages)
        typer.echo(f"{path.relative_to(course.ROOT)}: {len(messages)} sentences, {empty} to translate")


@application.command("compile")
def compile_catalogues() -> None:
    """Writes the one file that the program reads."""
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_bytes(compiled())


def compiled() -> bytes:
    """The bytes of the compiled catalogue."""
    catalog = _empty_catalogue()
    for path, _messages in catalogue_files():
        for message, text in _read(path).items():
            if text:
                catalog.add(message, string=text)
    buffer = io.BytesIO()
    write_mo(buffer, catalog)
    return buffer.getvalue()


def problems() -> list[str]:
    """What is untranslated, stale or not compiled; each with its file."""
    found = []
    for path, messages in catalogue_files():
        have, name = _read(path), path.relative_to(course.ROOT)
        found += [f"{name}: not translated: {message[:60]!r}" for message in messages if not have.get(message)]
        found += [f"{name}: stale: {message[:60]!r}" for message in have if message not in messages]
    if not OUTPUT.is_file() or OUTPUT.read_bytes() != compiled():
        found.append(f"{OUTPUT.relative_to(course.ROOT)} is stale: run `make messages`")
    return found


def _empty_catalogue() -> Catalog:
    no_date = datetime(2026, 1, 1, tzinfo=UTC)  # the files are the same whenever they are made
    return Catalog(
        locale="ko", domain=DOMAIN, project="attention-from-scratch", version="1", fuzzy=False, charset="utf-8",
        header_comment="# Korean sentences of the exercise kit. `make messages` keeps this file.",
        creation_date=no_date, revision_date=no_date,
    )  # fmt: skip


def _read(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        catalog = read_po(file, locale="ko", charset="utf-8")
    return {str(message.id): str(message.string) for message in catalog if message.id}


@application.command()
def check() -> None:
    """Says what is missing or stale; exits 1 when something is."""
    found = problems()
    for problem in found:
        typer.echo(problem)
    raise typer.Exit(1 if found else 0)


if __name__ == "__main__":
    application()
