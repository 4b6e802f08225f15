"""What `make solution` shows of a step that passes: the reference and other right ways, with what they trade.

Read as text, nothing run. A learner's kit holds them in one file per step, where it was built with `--solutions`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec

from grader.base import files
from grader.base.paths import SOLUTIONS, step_folder
from grader.base.syntax import parsed
from grader.course import stubs

SHIPPED = "solution.json"
MARKED = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION[ \t]*\n", re.MULTILINE)


class NoSolution(FileNotFoundError):
    """This copy of the kit holds no solution of the step."""


class RightWay(msgspec.Struct):
    """Another right implementation; `trades`, in English, says what it gains and costs."""

    name: str
    trades: str
    code: str


class Solved(msgspec.Struct):
    """The reference's code and other right ways."""

    reference: str
    ways: list[RightWay]


def solution(step: str, solutions: Path = SOLUTIONS) -> Solved:
    """The solution of a step, its docstrings in the language in use. Raises NoSolution."""
    shown = _solution(step, solutions)
    return Solved(stubs.translated(shown.reference), shown.ways)


def _solution(step: str, solutions: Path = SOLUTIONS) -> Solved:
    folder = step_folder(step, solutions)
    if shipped := files.decoded(folder / SHIPPED, Solved):
        return shipped
    try:
        reference = (folder / "reference.py").read_text(encoding="utf-8")
        variants = (folder / "variants.py").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NoSolution(step) from None
    return Solved(MARKED.sub("", stubs.solved_of(reference)), ways(variants))


def ways(variants: str) -> list[RightWay]:
    """The right ways of a step's `variants.py` that say what they trade, in the order they are written."""
    written = []
    for node in parsed(variants).body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        for mark in node.decorator_list:
            words = mark.keywords if isinstance(mark, ast.Call) else []
            trades = next((ast.literal_eval(word.value) for word in words if word.arg == "trades"), "")
            if trades:
                written.append(RightWay(node.name, trades, ast.get_source_segment(variants, node) or ""))
    return written


def shipped(step: str) -> bytes:
    """The solution of a step as a kit holds it. Raises NoSolution."""
    return msgspec.json.encode(_solution(step)) + b"\n"
