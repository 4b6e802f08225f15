"""The learner's code and another right way, line by line next to each other."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass

from markupsafe import Markup

from grader.base.syntax import parsed
from grader.web.verdict import highlighted


@dataclass(frozen=True)
class Row:
    """A line of each; None if the other has more. `same`: they are equal."""

    own: Markup | None
    other: Markup | None
    same: bool


def rows(own: str, other: str) -> list[Row]:
    """Two sources next to each other, line by line, without docstrings, comments and empty lines; empty if one does not
    parse."""
    left, right = bare(own), bare(other)
    if not left or not right:
        return []
    first, second = highlighted("\n".join(left)), highlighted("\n".join(right))
    found: list[Row] = []
    matcher = difflib.SequenceMatcher(
        None, [_key(line) for line in left], [_key(line) for line in right], autojunk=False
    )
    for kind, start, end, begin, stop in matcher.get_opcodes():
        mine, theirs = first[start:end], second[begin:stop]
        for index in range(max(len(mine), len(theirs))):
            found.append(
                Row(
                    mine[index] if index < len(mine) else None,
                    theirs[index] if index < len(theirs) else None,
                    kind == "equal",
                )
            )
    return found


def bare(source: str) -> list[str]:
    """The lines of a source without docstrings, comments and empty lines; empty if it does not parse."""
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    said: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            text = node.body[0]
            said.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return [
        line
        for number, line in enumerate(source.splitlines(), 1)
        if number not in said and line.strip() and not line.lstrip().startswith("#")
    ]


def _key(line: str) -> str:
    """A line's key for comparison: spaces and a comment behind it make no difference."""
    return " ".join(line.partition("  #")[0].split())
