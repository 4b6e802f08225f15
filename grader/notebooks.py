"""Notebooks as submissions: their answer cells are read as data, by the side that is trusted, and nothing is run.

An answer cell is a code cell that nbgrader marks as a solution and whose `grade_id` is the name of a step; where that
mark was lost, the step's name in the comment that the cell begins with will do. Where such a cell still is a stub,
a cell that defines what the step asks for takes its place, as it does in a kernel. In a notebook a cell sees the names
of the cells above it. So do answer cells here: a name that a cell uses and does not define is taken from the answer
cells of earlier steps in the same notebook, by an import that is written into the text before it is graded.
"""

from __future__ import annotations

import ast
import itertools
import re
import symtable
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple

import msgspec

from grader import stubs
from grader.places import SOLUTIONS, STEP_NAME

ASSIGNMENT = "attention"  # the name of the course's notebook, and of the assignment it is handed out as
SCHEMA = 3  # of nbgrader's metadata
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
POINTS_CELL = "{step}_points"  # the grade_id of the locked cell that holds a step's points
MARK = re.compile(rf"\s*# ?(?:[^\n]*\bsolutions/)?({STEP_NAME.pattern})\b")  # how an answer cell, or a stub, begins
COMMAND = re.compile(r"\s*[%!?]|.*\?\s*$|.*=\s*[%!]\s*\w")  # what IPython understands and Python does not
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Import, ast.ImportFrom, ast.Assert, ast.Raise)
STRING = r'"(?:[^"\\]++|\\.)*+"?'
# What goes before a number that is none: as much as there is, so that few matches are needed, and strings as a whole.
BEFORE = rf'(?:[^"NI-]++|{STRING}|N(?!aN)|I(?!nfinity)|-(?!Infinity))*+'
NO_NUMBER = re.compile(rf"({BEFORE})(NaN|-?Infinity|\Z)", re.DOTALL)  # it matches wherever it is tried
MAX_NO_NUMBERS = 1_000_000
MAX_CELLS = 10_000  # of one notebook
MAX_LOOKED_AT = stubs.MAX_STUB  # characters of cells that are read closely
TOO_MUCH = (SyntaxError, ValueError, RecursionError, MemoryError)  # what parsing raises


class Damaged(ValueError):
    """The file is not a notebook of format 4."""


class Cell(NamedTuple):
    """What stands in a cell: its kind, its text, and under which name and as what nbgrader knows it."""

    kind: str
    source: str
    identity: str
    is_answer: bool


class _Notebook(msgspec.Struct):
    cells: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_CELLS)]


class _Cell(msgspec.Struct):
    cell_type: str
    source: str | list[str] = ""
    metadata: dict[str, Any] = {}


def answers(data: bytes) -> dict[str, list[str]]:
    """The source of every answer cell, by step. A step whose points are there and whose answer is not has none.

    Cells that nbgrader marks come first, then those that begin with the step's name, then those that define what it
    asks for: those that are written are taken, before those that are stubs. Raises Damaged.
    """
    found: dict[str, list[str]] = {}
    marked: dict[str, list[str]] = {}
    others: list[str] = []
    for _kind, source, identity, is_answer in (cell for cell in cells(data) if cell.kind == "code"):
        if is_answer and STEP_NAME.fullmatch(identity):
            found.setdefault(identity, []).append(source)
        elif step := beginning(source):
            marked.setdefault(step, []).append(source)
        elif STEP_NAME.fullmatch(step := identity.removesuffix(POINTS_CELL.format(step=""))) and step != identity:
            marked.setdefault(step, [])
        else:
            others.append(source)
    given = {step: _written(found.get(step, []), marked.get(step, [])) for step in found | marked}
    missing = [step for step, sources in given.items() if _are_stubs(sources)]
    elsewhere = _defining(missing, others) if missing else {}
    return given | {step: sources for step, sources in elsewhere.items() if sources}


def _written(found: list[str], marked: list[str]) -> list[str]:
    """The first of the two in which more stands than stubs."""
    return marked if _are_stubs(found) and not _are_stubs(marked) else found or marked


def _are_stubs(sources: list[str]) -> bool:
    """Whether all of these cells still are stubs. More than is ever read of a submission is none."""
    return sum(map(len, sources)) <= MAX_LOOKED_AT and all(map(is_untouched, sources))


def _defining(steps: list[str], cells: list[str]) -> dict[str, list[str]]:
    """The cells that define what each of these steps asks for, among the first of them: no deadline is kept here."""
    asked = {name for step in steps for name in public_names(step)}
    mentioning = [source for source in cells if any(name in source for name in asked)]
    lengths = itertools.accumulate(map(len, mentioning))
    short = [source for source, length in zip(mentioning, lengths, strict=True) if length <= MAX_LOOKED_AT]
    definitions = [(source, defined(source)) for source in short if not is_untouched(source)]
    return {step: [source for source, names in definitions if names & public_names(step)] for step in steps}


def cells(data: bytes) -> Iterator[Cell]:
    """Every cell of a notebook that can be read. Raises Damaged."""
    try:
        notebook = _decoded(data.decode("utf-8-sig"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(str(error)) from error
    for raw in notebook.cells:
        try:
            cell = msgspec.json.decode(raw, type=_Cell)
        except (msgspec.DecodeError, RecursionError):
            continue
        marks = cell.metadata.get("nbgrader")
        marks = marks if isinstance(marks, dict) else {}
        source = cell.source if isinstance(cell.source, str) else "".join(cell.source)
        yield Cell(cell.cell_type, source, str(marks.get("grade_id")), marks.get("solution") is True)


def beginning(source: str) -> str | None:
    """The step that is named in the comment at the beginning of a cell."""
    begins = MARK.match(source)
    return begins[1] if begins else None


def is_untouched(source: str) -> bool:
    """Whether a cell still is a stub."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd escapes in strings
        return stubs.is_untouched(source)


@cache
def public_names(step: str) -> frozenset[str]:
    """The functions and classes that a step asks for; none where there is no such step."""
    folder = SOLUTIONS / step
    return defined(stubs.original(folder)) if folder.is_dir() else frozenset()


def defined(source: str) -> frozenset[str]:
    """The functions and classes that a cell defines."""
    try:
        body = _parsed(source).body
    except TOO_MUCH:
        return frozenset()
    return frozenset(statement.name for statement in body if isinstance(statement, ast.FunctionDef | ast.ClassDef))


def command(source: str) -> tuple[int, str] | None:
    """Number and text of the line that is a command of IPython and keeps the cell from being Python; None without."""
    try:
        _parsed(source)
    except SyntaxError as error:
        lines = source.split("\n")
        for number in (error.lineno or 0, 1):
            if 0 < number <= len(lines) and COMMAND.match(lines[number - 1]):
                return number, lines[number - 1].strip()
    except TOO_MUCH:
        pass
    return None


def with_earlier_names(cells: Mapping[str, str]) -> dict[str, str]:
    """The sources of one notebook's answer cells by step, with the names imported that each takes from those of earlier
    steps.

    Line numbers stay as they are, unless a cell begins with a definition in its very first line.
    """
    given: dict[str, str] = {}
    origins: dict[str, str] = {}  # of every name above the cell: each cell is parsed once, and not once a later cell
    for step in sorted(cells):
        given[step] = _with_names(cells[step], origins)
        origins |= _bindings(step, cells[step])
    return given


def _with_names(source: str, origins: Mapping[str, str]) -> str:
    """The source of a cell, with the names imported that it takes from elsewhere and that have an origin."""
    try:
        wanted = _taken(source)
        imports = "; ".join(sorted({origins[name] for name in wanted & origins.keys()}))
        return _inserted(source, imports) if imports else source
    except TOO_MUCH:
        return source  # the worker says what is wrong with it


def _decoded(text: str) -> _Notebook:
    """The notebook in a text. Outputs may hold numbers that are none, which Python writes and JSON does not know."""
    try:
        return msgspec.json.decode(text, type=_Notebook)
    except msgspec.DecodeError:
        if not 0 < text.count("NaN") + text.count("Infinity") <= MAX_NO_NUMBERS:
            raise
        without = NO_NUMBER.sub(lambda match: match[1] + ("null" if match[2] else ""), text)
        return msgspec.json.decode(without, type=_Notebook)


def _parsed(source: str) -> ast.Module:
    _require_short(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _require_short(source: str) -> None:
    """Raises ValueError for more than is looked at: no deadline is kept while this side parses."""
    if len(source) > MAX_LOOKED_AT:
        raise ValueError("too long to be looked at")


def _taken(source: str) -> set[str]:
    """The names that a cell uses and does not define."""
    _require_short(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scopes = [symtable.symtable(source, "cell", "exec")]
    own = {symbol.get_name() for symbol in scopes[0].get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    used: set[str] = set()
    while scopes:
        scope = scopes.pop()
        scopes += scope.get_children()
        used |= {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    return used - own


def _bindings(step: str, source: str) -> Iterator[tuple[str, str]]:
    """The names that an answer cell defines at its top level, each with the statement that imports it elsewhere."""
    try:
        body = _parsed(source).body
    except TOO_MUCH:
        return
    for statement in body:
        match statement:
            case ast.Import() | ast.ImportFrom():
                for alias in statement.names:
                    yield (alias.asname or alias.name).partition(".")[0], _alone(statement, alias)
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                yield statement.name, f"from exercises.{step} import {statement.name}"
            case ast.Assign() | ast.AnnAssign():
                for node in ast.walk(statement):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        yield node.id, f"from exercises.{step} import {node.id}"


def _alone(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    """The statement that imports one of the names which this one imports."""
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import([alias]))
    return ast.unparse(ast.ImportFrom(statement.module, [alias], statement.level))


def _inserted(source: str, imports: str) -> str:
    """The source with imports before its first statement, behind its docstring and what it takes from the future."""
    body = _parsed(source).body
    leading = list(itertools.takewhile(_goes_first, body))
    first = body[len(leading)]  # there is one: it uses a name
    lines = source.split("\n")
    if leading:
        row, column = (leading[-1].end_lineno or 1) - 1, leading[-1].end_col_offset or 0  # the column is in bytes
        line = lines[row].encode()
        lines[row] = f"{line[:column].decode()}; {imports}{line[column:].decode()}"
    elif isinstance(first, SIMPLE):
        lines[first.lineno - 1] = f"{imports}; {lines[first.lineno - 1]}"
    elif min([first.lineno, *(node.lineno for node in getattr(first, "decorator_list", []))]) > 1:
        lines[0] = imports  # in place of a comment, or of nothing
    else:
        lines.insert(0, imports)
    return "\n".join(lines)


def _goes_first(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())) | ast.ImportFrom(module="__future__"):
            return True
    return False
