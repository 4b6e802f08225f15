"""Runs the top level of a file as a notebook's kernel runs cells: a statement that raises is left out, and the rest
runs."""

from __future__ import annotations
import __future__

import ast
import contextlib
import signal
import time
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class FailedStatement:
    """A statement at the top level that raised: its line, and the names that it would have bound."""

    error: BaseException
    file: str
    line: int
    names: frozenset[str]
    reported: bool = False


class TookLong(BaseException):
    """A statement at the top level took too long. Not an `Exception`: code that goes on after any error has to end."""


class TopLevel:
    """Runs files; `failed` are the statements that raised, of all of them.

    Statements that take too long are such statements: each may take half of the seconds that are left, of processor
    time, and twice that on the clock, so that a busy machine leaves nothing out.
    """

    def __init__(self, seconds: float) -> None:
        """`seconds`: for the top levels of all files together."""
        self._seconds = seconds
        self._spent = self._since = self._given = self._busy = 0.0
        self._depth = 0
        self.failed: list[FailedStatement] = []

    def run(self, source: str, filename: str, names: dict[str, Any]) -> None:
        """Runs a file in the namespace `names`; adds the statements that raise to `failed`, and goes on after them.
        Raises what compiling raises if it is no Python."""
        try:
            code = compile(source, filename, "exec", dont_inherit=True)
        except SyntaxError:
            body = ast.parse(source, filename).body  # raises if it is no Python at all
            self._one_by_one(body, filename, names, _future(body))
            return
        error = self._error_of(code, names)
        if error is None:
            return
        line, body = _line_in(error, code), ast.parse(source, filename).body
        index = next((index for index, each in enumerate(body) if _first(each) <= line <= _last(each)), None)
        if index is None:  # its traceback says nothing: the rest is not known
            self._note(error, filename, line, None)
            return
        imports = list(_imports(body[index]))
        if len(imports) < 2:
            self._note(error, filename, line, body[index])
            imports = []
        self._one_by_one([*imports, *body[index + 1 :]], filename, names, code.co_flags & FUTURE)

    def _one_by_one(self, body: Sequence[ast.stmt], filename: str, names: dict[str, Any], flags: int) -> None:
        """Runs statements one after another, each with these flags of the compiler. One that only a notebook or a
        function may hold, as `await` and `return`, fails as well."""
        waiting = list(reversed(body))
        while waiting:
            statement = waiting.pop()
            try:
                code = compile(ast.Module([statement], []), filename, "exec", flags, dont_inherit=True)
            except SyntaxError as error:
                self._note(error, filename, error.lineno or _first(statement), statement)
                continue
            raised = self._error_of(code, names)
            imports = list(_imports(statement)) if raised is not None else []
            if len(imports) > 1:
                waiting += reversed(imports)
            elif raised is not None:
                self._note(raised, filename, _line_in(raised, code) or _first(statement), statement)

    def _error_of(self, code: types.CodeType, names: dict[str, Any]) -> BaseException | None:
        """Runs code in the namespace `names`, and returns the error that it raised; None without one."""
        try:
            with self._limited():
                exec(code, names)  # what a worker is for
        except BaseException as error:  # a learner's line may raise anything
            return error
        return None

    def _note(self, error: BaseException, filename: str, line: int, statement: ast.stmt | None) -> None:
        """Adds a statement that raised to `failed`; None if it is not known which did."""
        names = frozenset(_bound(statement)) if statement is not None else frozenset()
        self.failed.append(FailedStatement(error, filename, line, names))

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        """A context that raises TookLong in its block after half of the seconds that all files together have left.
        Entered once more inside, for a file that is imported, it halves what is left then, and again on leaving."""
        self._depth += 1
        self._set_alarm()
        try:
            yield
        finally:
            self._depth -= 1
            self._set_alarm()

    def _set_alarm(self) -> None:
        """Counts the time since the last call as spent. Sets the alarm again while a file runs, and ends it after the
        last one."""
        now = time.monotonic()
        self._spent += now - self._since if self._since else 0.0
        self._since, self._busy = now if self._depth else 0.0, time.process_time()
        if hasattr(signal, "setitimer"):
            self._given = max((self._seconds - self._spent) / 2, SHORTEST) if self._depth else 0.0
            signal.signal(signal.SIGALRM, self._ring if self._depth else signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, self._given, AGAIN if self._depth else 0.0)

    def _ring(self, number: int, frame: object) -> None:
        """The alarm's handler: raises TookLong once the time is over."""
        is_over = time.process_time() - self._busy >= self._given or time.monotonic() - self._since >= 2 * self._given
        if self._depth and is_over:  # else it rings again
            raise TookLong(f"{self._given:.1f} s")


FEATURES: dict[str, int] = {name: getattr(__future__, name).compiler_flag for name in __future__.all_feature_names}
FUTURE = sum(set(FEATURES.values()))
TRACEBACK: Any = BaseException.__dict__["__traceback__"]  # a learner's class may have another
SHORTEST, AGAIN = 0.2, 0.2  # seconds


def _imports(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yields an import for each name that an import statement imports: of several in one line only those that are
    missing fail. Yields nothing for any other statement, even if there are imports inside it."""
    if isinstance(statement, ast.Import):
        yield from (ast.copy_location(ast.Import([alias]), statement) for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        for alias in statement.names:
            yield ast.copy_location(ast.ImportFrom(statement.module, [alias], statement.level), statement)


def _future(body: Sequence[ast.stmt]) -> int:
    """The compiler's flags, as one number, of the `from __future__` imports among the statements."""
    names = [
        alias.name
        for each in body
        if isinstance(each, ast.ImportFrom) and each.module == "__future__"
        for alias in each.names
    ]
    return sum(FEATURES.get(name, 0) for name in set(names))


def _line_in(error: BaseException, code: types.CodeType) -> int:
    """The line of the code at which an error passed it; 0 if its traceback does not say."""
    trace: types.TracebackType | None = TRACEBACK.__get__(error)
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    return trace.tb_lineno if trace is not None else 0


def _first(statement: ast.stmt) -> int:
    """The first line of a statement, its decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _last(statement: ast.stmt) -> int:
    """The last line of a statement."""
    return statement.end_lineno or statement.lineno


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top level binds, inside blocks too."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
                continue
            case ast.Lambda():
                continue
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
        waiting += ast.iter_child_nodes(node)
