"""Answers that are split: over several cells of a notebook, or in an export of one as a `.py` file."""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from grader.base.paths import STEP_NAME
from grader.base.syntax import UNPARSABLE
from grader.course import answer_cells

BUILT_IN = frozenset(vars(builtins))
# What begins a cell in an export of a notebook: nbconvert's and jupytext's lines, and the line that names a step.
CELL = re.compile(rf"^#(?: In\[[ \d]*\]:| ?%%.*| ?(?P<step>{STEP_NAME.pattern})\b.*)$", re.MULTILINE)


def exported(source: str, steps: Iterable[str]) -> tuple[dict[str, list[str]], dict[int, str]]:
    """The answers in an export of a notebook, by step, and the other cells by their first line; each below as many
    empty lines as are above it in the file, so that lines keep their numbers."""
    every, found = set(steps), list(CELL.finditer(source))
    answers: dict[str, list[str]] = defaultdict(list)
    others: dict[int, str] = {}
    ends = [*(match.start() for match in found[1:]), len(source)]
    for match, end in zip(found, ends, strict=True):
        line = source.count("\n", 0, match.start())
        text = "\n" * line + source[match.start() : end]
        if match["step"] in every:
            answers[match["step"]].append(text)
        elif text.strip():
            others[line + 1] = text
    if found and source[: found[0].start()].strip():
        others[1] = source[: found[0].start()]
    return {step: texts for step, texts in answers.items() if any(map(answer_cells.defined, texts))}, others


class Ambiguous(ValueError):
    """Several cells define a name that a step asks for, and its answer cell does not: the name."""


def completed(step: str, answer: str, cells: Mapping[int, str], elsewhere: Collection[str]) -> tuple[str, list[int]]:
    """An answer cell with those cells of its notebook that define what it lacks, and their numbers: what the step asks
    for, and what the answer reads but does not define, where exactly one cell has it. `elsewhere`: names that other
    answer cells have. Raises Ambiguous.
    """
    asked, taken = answer_cells.public_names(step), list[int]()
    source = answer
    try:
        for _cell in range(len(cells)):
            bound, used = answer_cells.names_in(source)
            missing = sorted((asked - bound) | (used - bound - BUILT_IN - set(elsewhere)))
            number = next((each for name in missing if (each := _only(name, asked, cells))), 0)
            if not number or number in taken:
                break
            taken.append(number)
            cell = answer_cells.without_commands(cells[number])
            more = answer_cells.names_in(cell)[0]
            if more & bound & asked:  # it has another answer to what the answer cell answers
                break
            first = _read_at_once(source) & more
            source = f"{cell}\n\n\n{source}" if first else f"{source}\n\n\n{cell}"
    except UNPARSABLE:
        return answer, []
    return source, sorted(taken)


def _only(name: str, asked: Collection[str], cells: Mapping[int, str]) -> int:
    """The number of the one cell that defines a name; 0 where none does, or where several do. Raises Ambiguous where
    several define what is asked for."""
    having = {number: text for number, text in cells.items() if name in text and name in _defined_or_imported(text)}
    if name in asked and len(set(having.values())) > 1:
        raise Ambiguous(name)
    return min(having, default=0) if len(set(having.values())) == 1 else 0


def _defined_or_imported(text: str) -> set[str]:
    try:
        return answer_cells.names_in(answer_cells.without_commands(text))[0]
    except UNPARSABLE:
        return set()


def _read_at_once(source: str) -> set[str]:
    """The names that a text reads while it is run, and not when its functions are called."""
    names, waiting = set[str](), list[ast.AST]([answer_cells.tree_of(source)])
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*node.decorator_list, node.args]
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return names
