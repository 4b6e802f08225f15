"""Stubs as text: how a learner's file is made from a reference, and whether one has been worked on. Needs no torch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

REFERENCE_IMPORT = re.compile(r"from solutions\.(step\d{2}_\w+)\.reference import")
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def original(folder: Path) -> str:
    """The stub of the step in this folder: made from its reference, or `stub.py` where the reference is not shipped.

    Raises FileNotFoundError when neither is there.
    """
    reference = folder / "reference.py"
    if reference.is_file():
        return stub_of(reference.read_text(encoding="utf-8"), folder.name)
    return (folder / "stub.py").read_text(encoding="utf-8")


def stub_of(source: str, name: str) -> str:
    """The stub of a reference: each marked region in a function becomes `raise NotImplementedError`, others go."""
    header = (
        f"# Generated from solutions/{name} by `make exercises`: write your code where it says NotImplementedError.\n"
    )
    kept: list[str] = []
    for line, inside in regions(source):
        if not inside:
            kept.append(line)
        elif line.strip() == BEGIN and line.startswith(" "):
            kept.append(line.replace(BEGIN, "raise NotImplementedError"))
    text = with_exercise_imports("\n".join(kept))
    return header + re.sub(r"\n{4,}", "\n\n\n", text).strip() + "\n"


def solved_of(source: str) -> str:
    """The reference as a submission: the learner's file with everything filled in."""
    lines = (line for line in source.splitlines() if line.strip() not in (BEGIN, END))
    return with_exercise_imports("\n".join(lines) + "\n")


def is_untouched(source: str) -> bool:
    """Whether a learner's file still is a stub: no function does anything but raise NotImplementedError.

    Docstrings and `super().__init__()` do not count, nor do imports; a file that does not parse has been touched.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_is_stub_statement(statement) for statement in tree.body)


def regions(source: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a solution region (its marker lines do)."""
    inside = False
    for line in source.splitlines():
        if line.strip() == BEGIN:
            inside = True
        yield line, inside
        if line.strip() == END:
            inside = False


def with_exercise_imports(source: str) -> str:
    """The source with its imports of other references turned into imports of the learner's own files."""
    return REFERENCE_IMPORT.sub(r"from exercises.\1 import", source)


def _is_stub_statement(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.ClassDef() | ast.FunctionDef():
            return all(_is_stub_statement(inner) for inner in statement.body)
        case ast.Raise(exc=ast.Name(id="NotImplementedError")):
            return True
    return ast.unparse(statement) == "super().__init__()"
