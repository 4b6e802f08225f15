"""Finds the names that a file takes from the files next to it, as their texts say: a wrong class that no file imports
blocks no step.

Only import statements are read: `__import__`, `getattr` and the like are not followed.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache

from grader.base.paths import STEP_NAME
from grader.base.syntax import tree_of
from grader.course.stubs import MAX_STUB

Sources = Mapping[str, tuple[str, str]]  # by module name: what a file is called, and its text
ALL = "*"  # every name of a module
Name = tuple[str, str]  # of a module, and in it


class Outline:
    """The top level of one file: the names that each of its names uses."""

    def __init__(self, source: str) -> None:
        """Reads the source's top level; one that does not parse, or is too long, has no names."""
        self._made_of: dict[str, set[str]] = defaultdict(set)  # names of this file that a name's definition speaks of
        self._taken: dict[str, set[Name]] = defaultdict(set)  # what an import binds to a name
        self._anywhere: set[Name] = set()  # imported inside of functions, or with a star: for whichever name needs it
        tree = tree_of(source, MAX_STUB)
        for statement in tree.body if tree else ():
            self._note(statement)

    def needs(self, name: str) -> tuple[set[str], set[Name]]:
        """The names of this file, and those of other modules, that a name uses directly. ALL for the whole file; empty
        if the file does not define the name."""
        if name == ALL:
            return set(), {*self._anywhere, *(taken for each in self._taken.values() for taken in each)}
        if name in self._taken:
            return set(), self._taken[name]
        if name in self._made_of:
            return self._made_of[name], {taken for taken in self._anywhere if taken[1] != ALL}
        return set(), {(module, name) for module, what in self._anywhere if what == ALL}

    def _note(self, statement: ast.stmt) -> None:
        """Records a statement at the top level: the names that it imports, and the names that it binds and uses."""
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for bound, taken in _imports(statement):
                if bound == ALL:
                    self._anywhere.add(taken)
                else:
                    self._taken[bound].add(taken)
            return
        spoken, bound_here = set(), set()
        for node in ast.walk(statement):
            match node:
                case ast.Import() | ast.ImportFrom():
                    self._anywhere |= {taken for _bound, taken in _imports(node)}
                case ast.Name(id=name, ctx=ast.Load()):
                    spoken.add(name)
                case ast.Name(id=name):
                    bound_here.add(name)
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound_here = {statement.name}
        for name in bound_here:
            self._made_of[name] |= spoken


@lru_cache(256)  # the same files are asked for with each step
def _outline(source: str) -> Outline:
    return Outline(source)


def imported_names(step: str, sources: Sources, of: str = ALL) -> dict[str, set[str]]:
    """The names that a step's file takes from other steps, itself or through them, by step; ALL if it imports a whole
    module. `of` is a name in the file: only those that it uses."""
    outlines = {step: _outline(sources[step][1])} if step in sources else {}
    names: set[Name] = set()
    waiting: list[Name] = [(step, of)]
    while waiting:
        module, name = waiting.pop()
        if (module, name) in names:
            continue
        names.add((module, name))
        if module not in sources:
            continue
        outline = outlines.get(module) or outlines.setdefault(module, _outline(sources[module][1]))
        own, others = outline.needs(name)
        waiting += [(module, each) for each in own]
        waiting += [other for other in others if other[0] in sources or STEP_NAME.fullmatch(other[0])]
    by_step: dict[str, set[str]] = defaultdict(set)
    for module, name in names:
        if module != step and STEP_NAME.fullmatch(module):
            by_step[module].add(name)
    return dict(sorted(by_step.items()))


def imported_steps(step: str, sources: Sources) -> list[str]:
    """The names of the other steps that the file of a step imports, itself or through what it imports, in order."""
    return list(imported_names(step, sources))


def _imports(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Name]]:
    """Yields each name that an import binds (ALL for a star), with the module and the name in it that it comes from
    (ALL for a whole module)."""
    match statement:
        case ast.Import(names=names):
            for alias in names:
                bound = alias.asname or alias.name.partition(".")[0]
                yield bound, (alias.name.removeprefix("exercises."), ALL)
        case ast.ImportFrom(module="exercises" | None, names=names):
            for alias in names:
                yield alias.asname or alias.name, (alias.name, ALL)
        case ast.ImportFrom(module=str(module), names=names):
            for alias in names:
                yield alias.asname or alias.name, (module.removeprefix("exercises."), alias.name)
