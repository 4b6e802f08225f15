"""Cuts a function or class out of a learner's file, with what it needs of that file.

The text is data here: nothing of it is run. Docstrings, comments and annotations are left out.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterator

from grader.base.paths import step_folder
from grader.base.syntax import bound_and_used, parsed

STEP = re.compile(r"(?:exercises\.)?(step\d{2}_\w+)")


class UnresolvedNames(ValueError):
    """The excerpt uses names that the file does not define; they are its only argument, as one text."""


def excised(source: str, public: str, elsewhere: Collection[str], step: str) -> str | None:
    """The last definition of the function or class `public` in a file of this step and all that it needs, imports
    first: lines for the body of a function. None if the file does not define it.

    Names `elsewhere` are imported from the step's reference. Raises UnresolvedNames, and what `ast.parse` raises.
    """
    body = [node for node in map(_Bare().visit, parsed(source).body) if node is not None]
    definitions = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == public]
    if not definitions:
        return None
    others = [node for node in body if public not in _bound(node)]
    wanted = _needed(definitions[-1], others, elsewhere)
    used = set().union(*map(_used, wanted))
    names = used & set(elsewhere) - {public}
    if missing := used - set().union(*map(_bound, wanted)) - names - set(dir(builtins)):
        raise UnresolvedNames(", ".join(sorted(missing)))
    imports = [line for node in body if node in wanted and _is_import(node) for line in _import_lines(node, used)]
    imports += [f"from {_module(step)} import {', '.join(sorted(names))}"] if names else []
    own = [ast.unparse(_Inner().visit(node)) for node in body if node in wanted and not _is_import(node)]
    return "\n\n".join(["\n".join(dict.fromkeys(imports)), *own] if imports else own)


def _needed(definition: ast.stmt, others: list[ast.stmt], elsewhere: Collection[str]) -> list[ast.stmt]:
    """A definition with those of the `others` that define what it needs, directly or not, but for names `elsewhere`."""
    wanted, waiting = [definition], [definition]
    while waiting:
        used = _used(waiting.pop()) - set(elsewhere)
        more = [node for node in others if node not in wanted and _bound(node) & used]
        wanted += more
        waiting += more
    return wanted


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement of a module binds there."""
    return bound_and_used(ast.unparse(node))[0]


def _used(node: ast.stmt) -> set[str]:
    """The names that a statement of a module takes from there, also inside functions and classes."""
    return bound_and_used(ast.unparse(node))[1]


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _import_lines(node: ast.stmt, used: Collection[str]) -> Iterator[str]:
    """A line for each imported name that is used; earlier steps' references take the place of the learner's files."""
    assert isinstance(node, ast.Import | ast.ImportFrom)
    for alias in node.names:
        bound = (alias.asname or alias.name).partition(".")[0]
        if bound not in used:
            continue
        name = f" as {alias.asname}" if alias.asname else ""
        if isinstance(node, ast.Import):
            yield f"import {_module(alias.name)}{name}"
        elif node.module in (None, "exercises") and STEP.fullmatch(alias.name):
            yield f"from {_module(alias.name).rpartition('.')[0]} import reference as {bound}"
        else:
            yield f"from {_module(node.module or '')} import {alias.name}{name}"


def _module(name: str) -> str:
    """The module of the step's reference for a module that is a learner's step file; another name as it is."""
    step = STEP.fullmatch(name)
    try:
        return f"solutions.{step_folder(step[1]).parent.name}.{step[1]}.reference" if step else name
    except FileNotFoundError:
        return name


class _Bare(ast.NodeTransformer):
    """Removes docstrings, and annotations that nothing reads."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | None:  # as ast calls it
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)  # type: ignore[return-value]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | None:
        return ast.copy_location(ast.Assign([node.target], node.value), node) if node.value else None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt | None:
        return None if node.module == "__future__" else node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        """The class without docstring; annotations stay only in a dataclass."""
        annotated = [each for each in node.body if isinstance(each, ast.AnnAssign)] if node.decorator_list else []
        fields = {id(each): each for each in annotated}  # a dataclass reads them
        node.body = [bare for each in node.body if (bare := fields.get(id(each)) or self.visit(each)) is not None]
        node.body = node.body or [ast.Pass()]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        """The function without docstring and annotations."""
        node.returns = None
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node


class _Inner(ast.NodeTransformer):
    """Turns `global` into `nonlocal` for module names that became another function's."""

    def visit_Global(self, node: ast.Global) -> ast.stmt:  # as ast calls it
        return ast.copy_location(ast.Nonlocal(node.names), node)
