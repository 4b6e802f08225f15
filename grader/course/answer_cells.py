"""Notebooks as submissions: the trusted side reads their answer cells as data and runs nothing.

An answer cell is a code cell that nbgrader marks as a solution and whose `grade_id` is the name of a step; where that
metadata was lost, the step's name in the cell's first comment will do. If such a cell is still a stub, a cell that
defines what the step asks for takes its place, as it does in a kernel. In a notebook a cell sees the names of the cells
above it. So do answer cells here: a name that a cell uses and does not define is taken from the answer cells of earlier
steps in the same notebook, by an import that is written into the text before it is graded.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, NamedTuple

import msgspec

from grader.base.paths import STEP_NAME, step_folder
from grader.base.syntax import UNPARSABLE, bound_and_used, parsed
from grader.course import stubs

ASSIGNMENT = "attention"  # the name of the course's notebook, and of its assignment
SCHEMA = 3  # of nbgrader's metadata
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
POINTS_CELL = "{step}_points"  # the grade_id of the locked cell that holds a step's points
MARK = re.compile(
    rf"(?:\s*[%!][^\n]*\n)*\s*# ?(?:[^\n]*\bsolutions/(?:\w+/)?)?({STEP_NAME.pattern})\b"
)  # the first comment of an answer cell, below commands such as %%time, or of a stub
COMMAND = re.compile(r"\s*[%!?]|.*\?\s*$|.*=\s*[%!]\s*\w")  # IPython syntax that Python does not have
CELL_MAGIC = re.compile(r"\s*%%(time|timeit|capture|prun)\b")  # what follows is Python all the same
MAX_COMMANDS = 20  # in one cell: it is parsed once for each
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Import, ast.ImportFrom, ast.Assert, ast.Raise)
STRING = r'"(?:[^"\\]++|\\.)*+"?'
# The text before a NaN or an infinity: as much as possible, so that few matches are needed, and strings as a whole.
BEFORE = rf'(?:[^"NI-]++|{STRING}|N(?!aN)|I(?!nfinity)|-(?!Infinity))*+'
NO_NUMBER = re.compile(rf"({BEFORE})(NaN|-?Infinity|\Z)", re.DOTALL)  # it matches anywhere
MAX_NO_NUMBERS = 1_000_000
MAX_CELLS = 10_000  # of one notebook
MAX_LOOKED_AT = stubs.MAX_STUB  # characters of a cell that is parsed, and of the cells searched for definitions
MAX_PARSED = 512 << 10  # characters of all the cells of a submission that are parsed: twice what its answers may have


class DamagedNotebook(ValueError):
    """The file is not a notebook of format 4."""


@dataclass
class Parsing:
    """The parsed cells of one submission's notebooks: each text once, all of them within one budget.

    No deadline holds while this side parses, and 64 KiB can take a second: one f-string of thousands of parts does.
    """

    left: int = MAX_PARSED
    trees: dict[str, ast.Module | Exception] = field(default_factory=dict)

    def tree(self, source: str) -> ast.Module:
        """The parsed text. Raises one of UNPARSABLE, the same one for the same text."""
        if source not in self.trees:
            try:
                self.take(source)
                self.trees[source] = parsed(source)
            except UNPARSABLE as error:
                self.trees[source] = error.with_traceback(None)
        tree = self.trees[source]
        if isinstance(tree, Exception):
            raise tree
        return tree

    def take(self, source: str) -> None:
        """Takes the length of a text from the budget. Raises ValueError if it is too long, or too little is left."""
        if len(source) > min(MAX_LOOKED_AT, self.left):
            raise ValueError("too long to be looked at")
        self.left -= len(source)


_parsing: ContextVar[Parsing | None] = ContextVar("parsing", default=None)


@contextmanager
def one_budget() -> Iterator[None]:
    """Inside the block each cell is parsed once, and all of them within one budget; blocks inside share it."""
    token = _parsing.set(_parsing.get() or Parsing())
    try:
        yield
    finally:
        _parsing.reset(token)


class Cell(NamedTuple):
    """A cell: its kind, its text, and its name and role in nbgrader's metadata."""

    kind: str
    source: str
    identity: str
    is_answer: bool


class _Notebook(msgspec.Struct):
    cells: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_CELLS)]


class _ReadCell(msgspec.Struct):
    cell_type: str
    source: str | list[str] = ""
    metadata: dict[str, Any] = {}


def answers(data: bytes) -> tuple[dict[str, list[str]], dict[int, str]]:
    """The source of every answer cell, by step; nothing for a step that has a cell of points but no answer. Also
    returns the other code cells, by their number among all cells, from 1. `data`: the bytes of the file.

    Cells that nbgrader marks come first, then those that start with the step's name, then those that define what it
    asks for: written ones are preferred to stubs. Raises DamagedNotebook.
    """
    by_step: dict[str, list[str]] = {}
    marked: dict[str, list[str]] = {}
    others: dict[int, str] = {}
    code = ((number, cell) for number, cell in enumerate(cells(data), 1) if cell.kind == "code")
    for number, (_kind, source, identity, is_answer) in code:
        if is_answer and STEP_NAME.fullmatch(identity):
            by_step.setdefault(identity, []).append(source)
        elif step := named_step(source):
            marked.setdefault(step, []).append(source)
        elif STEP_NAME.fullmatch(step := identity.removesuffix(POINTS_CELL.format(step=""))) and step != identity:
            marked.setdefault(step, [])
        else:
            others[number] = source
    found = {step: _written(by_step.get(step, []), marked.get(step, [])) for step in by_step | marked}
    missing = [step for step, sources in found.items() if _are_stubs(sources)]
    elsewhere = _defining(missing, list(others.values())) if missing else {}
    used = {source for sources in elsewhere.values() for source in sources}
    rest = {number: source for number, source in others.items() if source not in used}
    return found | {step: sources for step, sources in elsewhere.items() if sources}, rest


def _written(answered: list[str], marked: list[str]) -> list[str]:
    """Of two lists of the cells of a step, `marked` if only that holds more than stubs, or if `answered` is empty; else
    `answered`."""
    return marked if _are_stubs(answered) and not _are_stubs(marked) else answered or marked


def _are_stubs(sources: list[str]) -> bool:
    """Whether all of these cells are still stubs. Too much text to parse counts as work."""
    return sum(map(len, sources)) <= MAX_LOOKED_AT and all(map(is_untouched, sources))


def _defining(steps: list[str], cells: list[str]) -> dict[str, list[str]]:
    """The cells that define something that each of these steps asks for, by step; only the first MAX_LOOKED_AT
    characters of cells are searched, since no deadline holds here."""
    public = {name for step in steps for name in public_names(step)}
    mentioning = [source for source in cells if any(name in source for name in public)]
    lengths = itertools.accumulate(map(len, mentioning))
    short = [source for source, length in zip(mentioning, lengths, strict=True) if length <= MAX_LOOKED_AT]
    definitions = [(source, defined(source)) for source in short if not is_untouched(source)]
    return {step: [source for source, names in definitions if names & public_names(step)] for step in steps}


def cells(data: bytes) -> Iterator[Cell]:
    """Every cell that can be read, of the notebook with these bytes. Raises DamagedNotebook."""
    try:
        notebook = _decoded(data.decode("utf-8-sig"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedNotebook(str(error)) from error
    for raw in notebook.cells:
        try:
            cell = msgspec.json.decode(raw, type=_ReadCell)
        except (msgspec.DecodeError, RecursionError):
            continue
        marks = cell.metadata.get("nbgrader")
        marks = marks if isinstance(marks, dict) else {}
        source = cell.source if isinstance(cell.source, str) else "".join(cell.source)
        yield Cell(cell.cell_type, source, str(marks.get("grade_id")), marks.get("solution") is True)


def named_step(source: str) -> str | None:
    """The step named in the comment at the start of a cell; None without one."""
    begins = MARK.match(source)
    return begins[1] if begins else None


def is_untouched(source: str) -> bool:
    """Whether a cell is still a stub. Cells that can't be parsed, or are too long to parse, count as written."""
    if stubs.is_clearly_written(source):
        return False
    try:
        return stubs.is_stub(tree_of(source))
    except UNPARSABLE:
        return False


@cache
def public_names(step: str) -> frozenset[str]:
    """The names of the functions and classes that a step asks for; empty if there is no such step, or its reference is
    broken: the other steps are graded."""
    try:
        return defined(stubs.original(step_folder(step)))
    except (FileNotFoundError, *UNPARSABLE):
        return frozenset()


def defined(source: str) -> frozenset[str]:
    """The names of the functions and classes that a cell defines at its top level; empty if it can't be parsed."""
    try:
        body = tree_of(without_commands(source)).body
    except UNPARSABLE:
        return frozenset()
    return frozenset(statement.name for statement in body if isinstance(statement, ast.FunctionDef | ast.ClassDef))


def without_commands(source: str) -> str:
    """The source of a cell with the lines blanked that are commands of IPython and keep it from being Python: `%%time`,
    `!ls`, `%matplotlib inline`, `softmax?`. Line numbers stay as they are; what still is no Python is left alone."""
    lines = source.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if CELL_MAGIC.match(lines[first]):
        lines[first] = ""
    for _attempt in range(MAX_COMMANDS):
        try:
            tree_of("\n".join(lines))
            break
        except SyntaxError as error:
            number = (error.lineno or 0) - 1
            places = [place for place in (number, number - 1) if 0 <= place < len(lines)]
            place = next((place for place in places if COMMAND.match(lines[place])), None)
            if place is None:
                return source
            # In a block, nothing at all would leave it empty.
            indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
            goes_on, lines[place] = lines[place].endswith("\\"), f"{indent}pass" if indent else ""
            while goes_on and place + 1 < len(lines):
                place += 1
                goes_on, lines[place] = lines[place].endswith("\\"), ""
        except UNPARSABLE:
            return source
    return "\n".join(lines)


def with_earlier_names(cells: Mapping[str, str]) -> dict[str, str]:
    """The sources of one notebook's answer cells by step, each with imports of the names that it uses from earlier
    ones.

    Line numbers are kept, unless a cell starts with a definition in its very first line.
    """
    completed: dict[str, str] = {}
    origins: dict[str, str] = {}  # of every name above the cell: each cell is parsed once, and not once per later cell
    for step in sorted(cells):
        completed[step] = _with_names(cells[step], origins)
        origins |= _bindings(step, cells[step])
    return completed


def _with_names(source: str, origins: Mapping[str, str]) -> str:
    """The source of a cell, with imports of the names that it uses and does not define; `origins` has the statement
    that imports each name, and other names are left. Unchanged if it can't be parsed."""
    try:
        bound, used = names_in(source)
        imports = "; ".join(sorted({origins[name] for name in (used - bound) & origins.keys()}))
        return _inserted(source, imports) if imports else source
    except UNPARSABLE:
        return source  # the worker reports what is wrong with it


def _decoded(text: str) -> _Notebook:
    """The notebook with this JSON, which may hold NaN and infinities, as Python writes and JSON does not allow. Raises
    msgspec.DecodeError."""
    try:
        return msgspec.json.decode(text, type=_Notebook)
    except msgspec.DecodeError:
        if not 0 < text.count("NaN") + text.count("Infinity") <= MAX_NO_NUMBERS:
            raise
        without = NO_NUMBER.sub(lambda match: match[1] + ("null" if match[2] else ""), text)
        return msgspec.json.decode(without, type=_Notebook)


def tree_of(source: str) -> ast.Module:
    """The parsed cell, within the budget of the submission that it belongs to. Raises one of UNPARSABLE."""
    return (_parsing.get() or Parsing()).tree(source)


def names_in(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell binds at its top level, and those that it reads from there; within the budget of the
    submission that it belongs to. Raises one of UNPARSABLE."""
    (_parsing.get() or Parsing()).take(source)  # for the table of symbols it is parsed once more
    return bound_and_used(source)


def _bindings(step: str, source: str) -> Iterator[tuple[str, str]]:
    """The names that an answer cell binds at its top level, each with the statement that imports it elsewhere; nothing
    if the cell can't be parsed."""
    try:
        body = tree_of(source).body
    except UNPARSABLE:
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
    """The text of a statement that imports only `alias` of the names of this import."""
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import([alias]))
    return ast.unparse(ast.ImportFrom(statement.module, [alias], statement.level))


def _inserted(source: str, imports: str) -> str:
    """The source with the statements `imports`, one line, before its first one, after its docstring and `from
    __future__` imports; they share a line with what is there, so that lines keep their numbers if possible."""
    body = tree_of(source).body
    leading = list(itertools.takewhile(_goes_first, body))
    first = body[len(leading)]  # never empty: it uses a name
    lines = source.split("\n")
    if leading:
        row, column = (leading[-1].end_lineno or 1) - 1, leading[-1].end_col_offset or 0  # the column is in bytes
        line = lines[row].encode()
        lines[row] = f"{line[:column].decode()}; {imports}{line[column:].decode()}"
    elif isinstance(first, SIMPLE):
        lines[first.lineno - 1] = f"{imports}; {lines[first.lineno - 1]}"
    elif min([first.lineno, *(node.lineno for node in getattr(first, "decorator_list", []))]) > 1:
        lines[0] = imports  # replaces a comment, or an empty line
    else:
        lines.insert(0, imports)
    return "\n".join(lines)


def _goes_first(statement: ast.stmt) -> bool:
    """Whether a statement must stay at the top of a file: a docstring or a future import."""
    match statement:
        case ast.Expr(value=ast.Constant(value=str())) | ast.ImportFrom(module="__future__"):
            return True
    return False
