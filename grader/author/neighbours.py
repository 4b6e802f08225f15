"""Mistakes of other steps whose edit also fits this step's reference, and that this step does not know.

`make prove STEP=8` lists them, so that what one step knows the next one knows. What was left out stands with its reason
under the heading `## Left out` of the step's mistakes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from grader.base import mistakes
from grader.base.language import gettext as _
from grader.base.mistakes import Entry, Unreadable, Way
from grader.base.paths import SOLUTIONS, step_folders
from grader.oracle.wrong_ways import Text

SHORTEST = 8  # characters that an edit replaces; fewer stand in any text


def unknown(folder: Path, solutions: Path = SOLUTIONS) -> list[str]:
    """One line for each mistake of another step that fits: its step, its name, the definition, and the edit."""
    text, own = Text(folder), mistakes.read(folder)
    names = {name for entry in own.entries.values() for name in (entry.name, *(way.name for way in entry.ways))}
    results = {_tree(text, way, way.facts.names) for entry in own.entries.values() for way in entry.ways}
    lines = []
    for other in step_folders(solutions):
        number = int(other.name[4:6])
        for entry in mistakes.read(other).entries.values() if other != folder else ():
            if entry.name in names or (entry.name, number) in own.left_out or mistakes.JOINED in entry.name:
                continue
            for name, made in _fitting(text, entry):
                if made not in results:
                    results.add(made)
                    edit = " ".join(entry.ways[0].code.split())
                    sentence = _("step {number}, {mistake}, fits {name}: {edit}")
                    lines.append(sentence.format(number=number, mistake=entry.name, name=name, edit=edit))
    return lines


def _fitting(text: Text, entry: Entry) -> Iterator[tuple[str, str]]:
    """The definitions that the edit of an entry fits, with what it makes of them."""
    way = entry.ways[0]
    if way.language != "diff" or max(len(line) for line in way.code.splitlines()) < SHORTEST:
        return
    for name in text.definitions:
        if made := _tree(text, way, (name,)):
            yield name, made


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
