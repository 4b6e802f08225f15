"""Mistakes of other steps whose edit also fits this step's reference, and that this step does not know.

`make prove STEP=8` lists them, so that what one step knows the next one knows. What was left out stands with its reason
under the heading `## Left out` of the step's mistakes.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from grader.base import mistakes
from grader.base.language import gettext as _
from grader.base.mistakes import Entry, Unreadable, Way
from grader.base.paths import step_folders
from grader.oracle.wrong_ways import AT_HAND, Text, hunks

SHORTEST = 6  # characters that an edit replaces; fewer stand in any text
AROUND = frozenset({*dir(builtins), *AT_HAND})  # names that are there everywhere


def unknown(folder: Path) -> list[str]:
    """One line for each mistake of another step that fits: its step, its name, the definition, and the edit."""
    text, own = Text(folder), mistakes.read(folder)
    names = {name for entry in own.entries.values() for name in (entry.name, *(way.name for way in entry.ways))}
    results = {_tree(text, way, way.facts.names) for entry in own.entries.values() for way in entry.ways}
    lines = []
    entries = [
        (int(other.name[4:6]), entry)
        for other in step_folders()
        for entry in (mistakes.read(other).entries.values() if other != folder else ())
        if entry.name not in names and mistakes.JOINED not in entry.name
    ]
    # First what was left out: the same edit under another name was left out with it.
    for number, entry in sorted(entries, key=lambda entry: (entry[1].name, entry[0]) not in own.left_out):
        for name, made in _fitting(text, entry):
            if made not in results and (entry.name, number) not in own.left_out:
                edit = " ".join(entry.ways[0].code.split())
                sentence = _("step {number}, {mistake}, fits {name}: {edit}")
                lines.append(sentence.format(number=number, mistake=entry.name, name=name, edit=edit))
            results.add(made)
    return lines


def _fitting(text: Text, entry: Entry) -> Iterator[tuple[str, str]]:
    """The definitions that the edit of an entry fits, with what it makes of them."""
    way = entry.ways[0]
    if way.language != "diff" or max(len(old) for old, _new in hunks(way.code)) < SHORTEST:
        return
    for name, before in text.definitions.items():
        made = _tree(text, way, (name,))
        if made and not _missing(text, way, name, before):
            yield name, made


def _missing(text: Text, way: Way, name: str, before: str) -> set[str]:
    """The names that an edit uses and that are not there: it is about something else."""
    after = ast.parse(text.edited([replace(way, facts=replace(way.facts, names=(name,)))])[name])
    there = {node.arg for node in ast.walk(after) if isinstance(node, ast.arg)} | _names(after, ast.Store)
    return _names(after, ast.Load) - _names(ast.parse(before), ast.Load) - there - AROUND - text.definitions.keys()


def _names(tree: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, context)}


def _tree(text: Text, way: Way, names: tuple[str, ...]) -> str:
    """What an edit makes of these definitions, however it is laid out; empty where it does not fit."""
    if way.language != "diff":
        return ""
    try:
        return ast.dump(
            ast.parse("\n".join(text.edited([replace(way, facts=replace(way.facts, names=names))]).values()))
        )
    except (Unreadable, SyntaxError):
        return ""
