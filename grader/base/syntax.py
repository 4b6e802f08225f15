"""Python's parser, for one thread at a time."""

from __future__ import annotations

import ast
import re
import symtable
import threading
import time
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from grader.base.language import N_
from grader.base.language import gettext as _
from grader.base.limited import SECONDS, OverBudget

INDENT = 4  # columns before the line of source
MOST = 72  # columns of a line that are shown
TAB = 4
OF_SHAPES = ("shape", "size", "numel")

UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)  # the errors that parsing raises

_parsing = threading.Lock()
_left: ContextVar[list[float] | None] = ContextVar("left", default=None)


@contextmanager
def budget(seconds: float = SECONDS) -> Iterator[None]:
    """Limits parsing inside the block to this many seconds of processor time in all; the text that exceeds it is still
    parsed, the next one raises OverBudget."""
    token = _left.set([seconds])
    try:
        yield
    finally:
        _left.reset(token)


@contextmanager
def _metered() -> Iterator[None]:
    """Takes the processor time of a block off what is left to this thread. Raises OverBudget if none is left."""
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
    """The parsed text; None if it is no Python, or has more than `longest` characters: parsing those may take seconds,
    without a deadline."""
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
    """The error in a file that is not valid Python, `shown` by this name: a sentence with the line and the reason, the
    line, and a caret below the place; empty if it is valid but for statements that will be left out."""
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
        return "\n".join([sentence, *_caret(source, error), *_likely_cause(source, error.lineno or 0)])
    except (ValueError, RecursionError, MemoryError) as error:
        return _("{file}: not valid Python yet ({reason}).").format(file=shown, reason=error or type(error).__name__)
    return ""


# What is no Python, however it got into a file, and what to say about it: whole lines, and letters in the line that
# Python names.
LINES = (
    (
        re.compile(r"(<{7}|>{7}) |={7}$"),
        N_("Line {line} is a mark of a merge in Git: choose one side, remove the marks."),
    ),
    (re.compile(r"^\s*```"), N_("Line {line} is Markdown: remove the lines with ```.")),
)
LETTERS = (
    (
        re.compile("[\u00a0\u2007\u202f\u3000]"),
        N_("It holds a blank from a web page, not from a keyboard: type it again."),
    ),
    (
        re.compile("[\uff01-\uff5e\u3001\u3002]"),
        N_("It holds the full-width character {letter}: type it on an English keyboard."),
    ),
    (re.compile("[\u2018\u2019\u201c\u201d]"), N_("It holds the curly quotation mark {letter}: type a straight one.")),
)


def _likely_cause(source: str, named: int) -> list[str]:
    """A sentence, in a list, about what often makes a file no Python; empty if nothing such is found. `named` is the
    number of the line that Python names."""
    lines = source.split("\n")
    for number, text in enumerate(lines, 1):
        for pattern, sentence in LINES:
            if pattern.match(text):
                return [_(sentence).format(line=number)]
    text = lines[named - 1] if 0 < named <= len(lines) else ""
    found = ((pattern.search(text), sentence) for pattern, sentence in LETTERS)
    return [_(sentence).format(letter=match[0]) for match, sentence in found if match][:1]


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
    """The columns of a terminal that a text takes: a wide letter takes two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def loops(source: str, function: str, longest: int) -> list[str]:
    """Sentences about loops of a function, or of a class's methods, that can't be meant: one that returns in its first
    round, and one that nothing in it can end. Empty for a text that is no Python, or longer than `longest` characters.
    """
    tree = tree_of(source, longest)
    named = [node for node in ast.walk(tree) if tree and getattr(node, "name", "") == function] if tree else []
    sentences = []
    for loop in (node for each in named for node in ast.walk(each) if isinstance(node, ast.For | ast.While)):
        if returns := next((each for each in loop.body if isinstance(each, ast.Return)), None):
            sentence = _("Line {line} returns inside the loop of line {loop}: it ends in its first round.")
            sentences.append(sentence.format(line=returns.lineno, loop=loop.lineno))
        elif isinstance(loop, ast.While) and _never_ends(loop):
            sentences.append(_("Nothing in the loop of line {line} changes what it waits for.", line=loop.lineno))
    return sentences


def _never_ends(loop: ast.While) -> bool:
    """True if no round of a loop can change a name in its condition, and nothing leaves the loop. A name of which the
    condition reads only the shape can change by assignment alone."""
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    if any(isinstance(node, ast.Break | ast.Return | ast.Raise) for node in inside):
        return False
    names = _names([loop.test])
    stored = {name for node in inside if isinstance(getattr(node, "ctx", None), ast.Store) for name in _names([node])}
    handed_on = {name for node in inside if isinstance(node, ast.Call) for name in _names([node])}
    return bool(names) and names.isdisjoint(stored | (handed_on - _sized(loop.test)))


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    """The variables that are read or set anywhere in the nodes."""
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def _sized(test: ast.expr) -> set[str]:
    """The names of which a condition reads only the shape, as in `ids.shape[1]` and `ids.size(1)`."""
    attributes = [node for node in ast.walk(test) if isinstance(node, ast.Attribute) and node.attr in OF_SHAPES]
    return {node.value.id for node in attributes if isinstance(node.value, ast.Name)}
