"""Python's parser, for one thread at a time."""

from __future__ import annotations

import ast
import symtable
import threading
import time
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from grader.base.language import gettext as _
from grader.base.limited import SECONDS, OverBudget

INDENT = 4  # columns before the line of source
MOST = 72  # columns of a line that are shown
TAB = 4

UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)  # the errors that parsing raises

_parsing = threading.Lock()
_left: ContextVar[list[float] | None] = ContextVar("left", default=None)


@contextmanager
def budget(seconds: float = SECONDS) -> Iterator[None]:
    """Limits parsing inside the block to this many seconds of processor time in all, and one more text. Beyond it
    raises OverBudget."""
    token = _left.set([seconds])
    try:
        yield
    finally:
        _left.reset(token)


@contextmanager
def _metered() -> Iterator[None]:
    left = _left.get()
    if left is None:
        yield
        return
    if left[0] <= 0:
        raise OverBudget(_("Parsing it took more than {seconds} s of the processor.", seconds=SECONDS))
    start = time.thread_time()
    try:
        yield
    finally:
        left[0] -= time.thread_time() - start


def parsed(source: str | bytes, name: str = "<unknown>") -> ast.Module:
    """The result of `ast.parse`, and its errors, without warnings about odd escapes in strings. Python 3.11 counts the
    depth of a tree for all threads together: of two that parse at once, one may get a SystemError."""
    with _parsing, _metered(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, name)


def tree_of(source: str, longest: int) -> ast.Module | None:
    """The parsed text; None if it is no Python, or too long: parsing it may take seconds, without a deadline."""
    try:
        return parsed(source) if len(source) <= longest else None
    except UNPARSABLE:
        return None


def bound_and_used(source: str) -> tuple[set[str], set[str]]:
    """The names that a text binds at its top level, and those that it reads there, also inside functions and classes.
    Raises as `parsed` does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        top = symtable.symtable(source, "<unknown>", "exec")
    bound = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    used = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    scopes = top.get_children()
    while scopes:
        scope = scopes.pop()
        scopes += scope.get_children()
        used |= {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    return bound, used


def invalid(source: str, shown: str) -> str:
    """The error in a file that is not valid Python: a sentence with the line and the reason, the line, and a caret
    below the place; empty if it is valid."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Under its own name Python would look the line up in a file of that name, wherever this runs.
            compile(source, "<submission>", "exec", dont_inherit=True)
    except SyntaxError as error:
        if _only_leaves_out(source, error.lineno or 0):
            return ""
        reason = f"{type(error).__name__}: {error.msg}"
        sentence = _("{file}, line {line}: not valid Python yet ({reason}).").format(
            file=shown, line=error.lineno or 1, reason=reason
        )
        return "\n".join([sentence, *_caret(source, error)])
    except (ValueError, RecursionError, MemoryError) as error:
        return _("{file}: not valid Python yet ({reason}).").format(file=shown, reason=error or type(error).__name__)
    return ""


def _only_leaves_out(source: str, line: int) -> bool:
    """Whether a line that Python refuses is a statement of its own at the top level, as `await` in a notebook: it is
    left out, and the rest is graded."""
    try:
        body = parsed(source).body
    except UNPARSABLE:
        return False
    spanning = [each for each in body if each.lineno <= line <= (each.end_lineno or 0)]
    return any(not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for each in spanning)


def _caret(source: str, error: SyntaxError) -> list[str]:
    """The line and the caret, cut to what a screen shows; nothing if Python names no place."""
    lines = source.split("\n")
    if not error.lineno or not error.offset or error.lineno > len(lines):
        return []
    line = lines[error.lineno - 1].rstrip()
    before, after = line[: error.offset - 1], line[error.offset - 1 :]
    before = before.lstrip().replace("\t", " " * TAB)
    if len(before) > MOST:  # each step below looks at all that is left
        before = "…" + before[-MOST:]
    while _columns(before) > MOST - TAB:
        before = "…" + before[2:]
    text = before + after[: MOST + 1].replace("\t", " " * TAB)
    while _columns(text) > MOST:
        text = text[:-2] + "…"
    return [" " * INDENT + text, " " * (INDENT + _columns(before)) + "^"]


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
