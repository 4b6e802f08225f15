"""Stubs as text: generates a learner's file from a reference, and tells whether one was edited. Needs no torch."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from grader.base import language
from grader.base.language import gettext as _
from grader.base.syntax import parsed

IMPORTED = ("torch", "math", "collections", "typing", "__future__")  # what a stub may import from, besides steps
EARLIER_STEP = re.compile(r"(exercises\.)?step\d\d_")
RETURN = re.compile(r"^[ \t]+return\b", re.MULTILINE)
REFERENCE_IMPORT = re.compile(r"from solutions\.\w+\.(step\d{2}_\w+)\.reference import")
MAX_STUB = 64 << 10  # characters: parsing more (one long f-string, say) may take seconds, without a deadline
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def original(folder: Path, spoken: str = "en") -> str:
    """The stub of the step in this folder, its docstrings in the language `spoken` ("en" or "ko").

    It is made from the step's reference, or is `stub.en.py`, `stub.ko.py` where the reference is not shipped. Raises
    FileNotFoundError when neither exists.
    """
    reference = folder / "reference.py"
    if not reference.is_file():
        return shipped(folder, spoken).read_text(encoding="utf-8")
    with language.use(spoken):
        return stub_of(reference.read_text(encoding="utf-8"), folder.name)


def shipped(folder: Path, spoken: str) -> Path:
    """The path of a step's stub in a learner's kit."""
    return folder / f"stub.{spoken}.py"


def stub_of(source: str, name: str) -> str:
    """The stub of a reference, in the language in use: each marked region in a function becomes `raise
    NotImplementedError`, other regions are removed, and docstrings are translated."""
    header = _(
        "# Generated from solutions/{name} by `make exercises`: write your code where it says NotImplementedError."
    ).format(name=name)
    kept: list[str] = []
    for line, inside in regions(source):
        if not inside:
            kept.append(line)
        elif line.strip() == BEGIN and line.startswith(" "):
            kept.append(line.replace(BEGIN, "raise NotImplementedError"))
    text = with_exercise_imports("\n".join(kept))
    return header + "\n" + translated(re.sub(r"\n{4,}", "\n\n\n", text).strip()) + "\n"


def translated(source: str) -> str:
    """The source with its docstrings in the language in use; one without a translation stays English."""
    lines = source.splitlines()
    for quoted in reversed(list(_docstrings(parsed(source)))):
        text = inspect.cleandoc(str(quoted.value))
        said = _(text)
        if said == text:
            continue
        indent = " " * quoted.col_offset
        inner = [f"{indent}{line}".rstrip() for line in said.splitlines()]
        inner[0] = f'{indent}"""{inner[0].lstrip()}'
        if len(inner) == 1:
            inner[0] += '"""'
        else:
            inner.append(f'{indent}"""')
        lines[quoted.lineno - 1 : quoted.end_lineno] = inner
    return "\n".join(lines)


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """The docstrings of a module and its definitions, in order."""
    found = [
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None
        if isinstance(node.body[0], ast.Expr)
    ]
    constants = (node for node in found if isinstance(node, ast.Constant))
    return iter(sorted(constants, key=lambda node: node.lineno))


def marked_of(source: str) -> str:
    """The reference as an instructor's cell, in the language in use: regions marked, docstrings translated."""
    return translated(with_exercise_imports(source).strip()) + "\n"


def solved_of(source: str) -> str:
    """The reference as a submission: the learner's file, completed."""
    lines = (line for line in source.splitlines() if line.strip() not in (BEGIN, END))
    return with_exercise_imports("\n".join(lines) + "\n")


def public_names(stub: str) -> list[str]:
    """The names that a stub has at its top level: the file of a learner has them all."""
    found: list[str] = []
    for node in parsed(stub).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.append(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found += [alias.asname or alias.name.partition(".")[0] for alias in names]
            case ast.Assign() | ast.AnnAssign():
                found += [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and _is_bound(inner)]
    return [name for name in found if not name.startswith("_")]


def _is_bound(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def arguments(stub: str) -> dict[str, list[str]]:
    """The names of the arguments of each function in a stub, and of each method as `Class.method`, without `self`."""
    found: dict[str, list[str]] = {}
    for node in parsed(stub).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = [argument.arg for argument in node.args.args]
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    found[f"{node.name}.{inner.name}"] = [argument.arg for argument in inner.args.args[1:]]
    return found


def is_untouched(source: str) -> bool:
    """Whether a learner's file is still a stub: every function only raises NotImplementedError.

    Docstrings and `super().__init__()` do not count, nor do imports, except from the learner's own files. A file that
    does not parse has been edited.
    """
    if is_clearly_written(source):
        return False
    try:
        return is_stub(parsed(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def is_clearly_written(source: str) -> bool:
    """Whether a glance shows that it is no stub: parsing takes as long as some checks."""
    return len(source) > MAX_STUB or ("NotImplementedError" not in source and bool(RETURN.search(source)))


def is_stub(tree: ast.Module) -> bool:
    """`is_untouched`, of what is already parsed."""
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
    """The source with its imports of other references rewritten to import the learner's files."""
    return REFERENCE_IMPORT.sub(r"from exercises.\1 import", source)


def _is_stub_statement(statement: ast.stmt) -> bool:
    match statement:
        case ast.ImportFrom(module=module):  # what is imported from the learner's own file is an answer
            return module is not None and module.partition(".")[0] in IMPORTED or bool(EARLIER_STEP.match(module or ""))
        case ast.Import() | ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.ClassDef() | ast.FunctionDef():
            return all(_is_stub_statement(inner) for inner in statement.body)
        case ast.Raise(exc=ast.Name(id="NotImplementedError") | ast.Call(func=ast.Name(id="NotImplementedError"))):
            return True
        # super().__init__(), matched as a tree: `ast.unparse` fails on statements that are nested too deep.
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[], keywords=[]), attr="__init__"),
                args=[],
                keywords=[],
            )
        ):
            return True
    return False
