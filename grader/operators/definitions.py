"""The text of a function or class as operators see it: one function in it, its arguments and its sizes."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

SHAPED = {"unsqueeze", "squeeze", "view", "reshape", "transpose", "flatten"}  # methods that keep a tensor's numbers
Replaced = ast.expr | ast.stmt
# A family of mistakes, the node to replace, its new source, and words for the family's sentence, by their name in it.
Replacement = tuple[str, Replaced, str, dict[str, str]]


@dataclass
class Definition:
    """The text of a function or class, and one function in it."""

    text: str
    method: str
    node: ast.FunctionDef

    def __post_init__(self) -> None:
        """Reads the defaults, sizes, tensor arguments and names out of the text."""
        every = list(ast.walk(ast.parse(self.text)))
        self.defaults, self.sizes = _defaults(self.node), _sizes(self.node)
        self.floats = _of_type(self.node, "float")
        self.kept = _kept(every)
        self.tensors = [
            argument.arg
            for argument in self.node.args.args
            if argument.annotation is not None and ast.unparse(argument.annotation) == "Tensor"
        ]
        self.arguments = {argument.arg for argument in self.node.args.args} - {"self"}
        self.names = {node.attr for node in every if isinstance(node, ast.Attribute)}
        self.names |= {node.id for node in every if isinstance(node, ast.Name)}

    @cached_property
    def assigned(self) -> dict[str, list[ast.Assign]]:
        """The assignments to each variable, or to it first among several, in order."""
        every: dict[str, list[ast.Assign]] = {}
        for node in ast.walk(self.node):
            if isinstance(node, ast.Assign):
                target = node.targets[0].elts[0] if isinstance(node.targets[0], ast.Tuple) else node.targets[0]
                if isinstance(target, ast.Name):
                    every.setdefault(target.id, []).append(node)
        return every

    def source(self, node: ast.AST) -> str:
        """The source of a node; empty if it has none."""
        if getattr(node, "end_lineno", None) is None:
            return ""
        start, end = self._span(node)
        return self._raw[start:end].decode()

    def submodule(self, node: ast.AST) -> str:
        """The name of the submodule (`self.NAME`) that an expression is the output of, or the first of its outputs,
        through dropout or in another shape as well; else empty, also for a variable that is read again elsewhere."""
        if isinstance(node, ast.Name):
            return self._submodule_of(node)
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            return ""
        if node.func.attr in SHAPED:
            return self.submodule(node.func.value)
        if self.source(node.func.value) != "self" or len(node.args) == 0:
            return ""
        return self.submodule(node.args[0]) if "drop" in node.func.attr else node.func.attr

    def _submodule_of(self, name: ast.Name) -> str:
        """The submodule that a variable, read here alone, is the output of; else empty."""
        every = self.assigned.get(name.id, [])
        before = [each for each in every if each.lineno < name.lineno]
        if not before or not (len(every) == 1 or all(each in self.node.body for each in every)):
            return ""
        ends = [each.end_lineno or each.lineno for each in every if each.lineno >= name.lineno]
        read = [
            node
            for node in ast.walk(self.node)
            if isinstance(node, ast.Name) and node.id == name.id and isinstance(node.ctx, ast.Load)
            if before[-1].lineno < node.lineno <= min(ends, default=node.lineno)
        ]
        return self.submodule(before[-1].value) if len(read) == 1 else ""

    def of_the_function(self, changed: str) -> str:
        """The source of the function in a `changed` text of the whole, in which nothing else has changed."""
        first, last = self.node.lineno - 1, len(self.text.splitlines()) - (self.node.end_lineno or 0)
        lines = changed.splitlines()
        return "\n".join(lines[first : len(lines) - last])[self.node.col_offset :]

    def with_new(self, node: Replaced, new: str) -> str:
        """The text with the source `new` in place of a node."""
        start, end = self._span(node)
        return (self._raw[:start] + new.encode() + self._raw[end:]).decode()

    def _span(self, node: Any) -> tuple[int, int]:
        """The places in `_raw` where a node begins and ends."""
        rows = self._rows
        return rows[node.lineno - 1] + node.col_offset, rows[node.end_lineno - 1] + node.end_col_offset

    @cached_property
    def _raw(self) -> bytes:
        """The text as bytes, which ast counts columns in."""
        return self.text.encode()

    @cached_property
    def _rows(self) -> list[int]:
        """The places in `_raw` where the lines begin."""
        return [0, *itertools.accumulate(len(line) for line in self._raw.splitlines(keepends=True))]


def functions(text: str) -> Iterator[Definition]:
    """Yields the function that a source defines, or each method of the class, as a Definition."""
    for outer in ast.parse(text).body:
        for node in outer.body if isinstance(outer, ast.ClassDef) else [outer]:
            if isinstance(node, ast.FunctionDef):
                yield Definition(text, node.name if node is not outer else "", node)


def _defaults(node: ast.FunctionDef) -> dict[str, str]:
    """The arguments to the source of their defaults; without a default, of a neutral value of the type, else empty."""
    arguments = [argument for argument in node.args.args if argument.arg != "self"]
    defaults = [""] * (len(arguments) - len(node.args.defaults)) + [
        ast.unparse(default) for default in node.args.defaults
    ]
    by_type = {"float": "0.0", "bool": "False"}
    return {
        argument.arg: default or by_type.get(ast.unparse(argument.annotation) if argument.annotation else "", "")
        for argument, default in zip(arguments, defaults[-len(arguments) :] if arguments else [], strict=True)
    }


def _of_type(node: ast.FunctionDef, name: str) -> set[str]:
    """The names of the arguments with this type as their annotation."""
    return {
        argument.arg
        for argument in node.args.args
        if argument.annotation is not None and ast.unparse(argument.annotation) == name
    }


def _kept(every: list[ast.AST]) -> list[str]:
    """The names, sorted, of whole numbers among a constructor's arguments that an instance keeps under these names."""
    kept = {node.attr for node in every if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    makers = [node for node in every if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return sorted(kept & {name for node in makers for name in _of_type(node, "int")})


def _sizes(node: ast.FunctionDef) -> list[str]:
    """The names of sizes, sorted: of whole numbers among the arguments, and of variables set from a shape."""
    sizes = _of_type(node, "int")
    for found in ast.walk(node):
        if isinstance(found, ast.Assign) and "shape" in ast.unparse(found.value):
            sizes |= {name.id for name in ast.walk(found.targets[0]) if isinstance(name, ast.Name)}
    return sorted(sizes - {"_"})
