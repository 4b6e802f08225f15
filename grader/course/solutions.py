"""The solution of a step that passes, as `make solution` shows it: the reference and other right ways, with what they
trade.

It is read as text, nothing runs. A learner's kit holds them in one file per step, if it was built with `--solutions`.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.base import files
from grader.base.language import gettext as _
from grader.base.paths import SOLUTIONS, step_folder
from grader.base.syntax import parsed
from grader.course import stubs

SHIPPED = "solution.json"
MARKED = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION[ \t]*\n", re.MULTILINE)


PROSE = re.compile(r"[a-z]{2} [a-z]{2}")  # in a comment that says more than a shape
WRAPPED = 56  # letters of a translated comment's line: Hangul takes two columns


class NoSolution(FileNotFoundError):
    """This copy of the kit holds no solution of the step."""


class RightWay(msgspec.Struct):
    """Another right implementation; `trades`, in English, says what it gains and costs."""

    name: str
    trades: str
    code: str


class StepSolution(msgspec.Struct):
    """The reference's code and other right ways."""

    reference: str
    ways: list[RightWay]


def solution(step: str, solutions: Path = SOLUTIONS) -> StepSolution:
    """The solution of a step, its docstrings in the language in use. Raises NoSolution."""
    solved = _solution(step, solutions)
    ways = [RightWay(way.name, way.trades, _worded(way.code)) for way in solved.ways]
    return StepSolution(_worded(stubs.translated(solved.reference)), ways)


def comments(code: str) -> Iterator[tuple[int, int, str]]:
    """The comments that are sentences: the first line of each, from 0, its number of lines and its text."""
    first, count, text, is_alone = 0, 0, "", True
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, said = token.start[0] - 1, token.string.lstrip("# ").strip()
        own_line = not token.line[: token.start[1]].strip()
        if own_line and count and line == first + count and not is_alone:
            count, text = count + 1, f"{text} {said}"
            continue
        if PROSE.search(text):
            yield first, count, text
        first, count, text, is_alone = line, 1, said, not own_line
    if PROSE.search(text):
        yield first, count, text


def _worded(code: str) -> str:
    """The code with its comments in the language in use; one without a translation stays English."""
    lines = code.splitlines()
    for first, count, text in reversed(list(comments(code))):
        translation = _(text)
        if translation == text:
            continue
        before = lines[first][: lines[first].rindex("#")]
        if before.strip():
            lines[first] = f"{before}# {translation}"
        else:
            lines[first : first + count] = [f"{before}# {line}" for line in textwrap.wrap(translation, WRAPPED)]
    return "\n".join(lines)


def _solution(step: str, solutions: Path = SOLUTIONS) -> StepSolution:
    """The solution of a step, from the kit's copy or the step's folder. Raises NoSolution."""
    folder = step_folder(step, solutions)
    if shipped := files.decoded(folder / SHIPPED, StepSolution):
        return shipped
    try:
        reference = (folder / "reference.py").read_text(encoding="utf-8")
        variants = (folder / "variants.py").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NoSolution(step) from None
    return StepSolution(shown(reference), ways(variants))


def shown(reference: str) -> str:
    """The text of a reference as a learner sees it once the step passes: without the lines BEGIN and END SOLUTION."""
    return MARKED.sub("", stubs.solved_of(reference))


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
    """The solution of a step as JSON, as a kit holds it. Raises NoSolution."""
    return msgspec.json.encode(_solution(step)) + b"\n"
