"""Reads the checks of a step as text: names, titles, points and lines, importing nothing. Needs no torch."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

from grader.base.paths import SOLUTIONS, STEP_NAME
from grader.base.syntax import parsed


class CheckOutline(NamedTuple):
    """One check as written in its file; `line` counts from 0, `points` is None if they are not a plain number."""

    name: str
    title: str
    points: float | None
    line: int


def is_check_file(path: Path) -> bool:
    """Whether this file holds the checks of a step of the course."""
    folder = path.parent
    return (
        STEP_NAME.fullmatch(folder.name) is not None
        and path == check_file(folder)
        and folder.parent.parent.resolve() == SOLUTIONS
    )


def check_file(folder: Path) -> Path:
    """The path of the check file of the step in this folder, be it there or not."""
    return folder / f"test_{folder.name.partition('_')[2]}.py"


def outline(file: Path) -> list[CheckOutline]:
    """The checks in a file, in the order they are written. Raises SyntaxError."""
    return [
        CheckOutline(node.name, (ast.get_docstring(node) or node.name).splitlines()[0], _points(node), node.lineno - 1)
        for node in parsed(file.read_text(encoding="utf-8"), str(file)).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def _points(check: ast.FunctionDef) -> float | None:
    """The points in a check's decorator; None without one."""
    for mark in check.decorator_list:
        match mark:
            case ast.Call(func=ast.Name(id="points"), args=[ast.Constant(value=int() | float() as number)]):
                return float(number)
    return None
