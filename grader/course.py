"""The course: which steps there are, in what order, and what belongs to each.

A step is a folder of `solutions/` whose name is `stepNN_name`. There is no registry: the number gives the order, the
first line of the reference's docstring the title, the marks on the checks the points.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from grader import catalogue
from grader.responder import Responder

ROOT = Path(__file__).resolve().parent.parent
SOLUTIONS = ROOT / "solutions"
EXERCISES = ROOT / "exercises"

STEP_NAME = re.compile(r"step\d{2}_[a-z0-9_]+")
REFERENCE_IMPORT = re.compile(r"from solutions\.(step\d{2}_\w+)\.reference import")
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


class UnknownStep(LookupError):
    """No step has this name."""


@dataclass(frozen=True)
class Check:
    """One check of a step: a pytest function, its title and its points."""

    name: str
    title: str
    points: float
    function: Callable[..., None]


@dataclass(frozen=True)
class Step:
    """One step, read from its folder."""

    folder: Path

    @property
    def name(self) -> str:
        """`step04_causal_mask`."""
        return self.folder.name

    @property
    def number(self) -> int:
        """4 for `step04_causal_mask`."""
        return int(self.name[4:6])

    @property
    def check_file(self) -> Path:
        """The file of its checks."""
        return self.folder / f"test_{self.name.partition('_')[2]}.py"

    @cached_property
    def title(self) -> str:
        """The first line of the reference's docstring."""
        return (ast.get_docstring(ast.parse(self._reference_source)) or self.name).splitlines()[0]

    @cached_property
    def checks_module(self) -> ModuleType:
        """The module of the checks."""
        return importlib.import_module(f"solutions.{self.name}.{self.check_file.stem}")

    @cached_property
    def checks(self) -> list[Check]:
        """The checks, in the order they are written."""
        return [as_check(value) for name, value in vars(self.checks_module).items() if name.startswith("test_")]

    @property
    def points(self) -> float:
        """What the step is worth: the sum of its checks."""
        return sum(check.points for check in self.checks)

    @cached_property
    def off_limits(self) -> dict[str, tuple[str, ...]]:
        """Which families of built-ins are off limits, by public name."""
        return dict(getattr(self.checks_module, "OFF_LIMITS", {}))

    @cached_property
    def reference(self) -> ModuleType:
        """The module of the reference."""
        return importlib.import_module(f"solutions.{self.name}.reference")

    @property
    def misconceptions(self) -> list[catalogue.Misconception]:
        """The wrong ways that come with the step."""
        return catalogue.misconceptions(importlib.import_module(f"solutions.{self.name}.misconceptions"))

    @property
    def variants(self) -> list[catalogue.Variant]:
        """The right ways, other than the reference, that come with the step."""
        return catalogue.variants(importlib.import_module(f"solutions.{self.name}.variants"))

    def responder(self, replaced: dict[str, Any] | None = None, *, watched: bool = False) -> Responder:
        """What answers calls with the reference's names, some of them replaced; `watched`: off limits are enforced."""
        names = vars(self.reference) | (replaced or {})
        return Responder(names, self.off_limits if watched else None, lambda filename: "solutions" in filename)

    def stub(self) -> str:
        """The learner's file: signatures and docstrings, the bodies taken out."""
        return stub_of(self._reference_source, self.name)

    def solved(self) -> str:
        """The reference as a submission: the learner's file with everything filled in."""
        return _with_exercise_imports(_without_markers(self._reference_source))

    @cached_property
    def _reference_source(self) -> str:
        return (self.folder / "reference.py").read_text(encoding="utf-8")


def steps(solutions: Path = SOLUTIONS) -> list[Step]:
    """Every step of the course, in order."""
    folders = (folder for folder in solutions.iterdir() if folder.is_dir() and STEP_NAME.fullmatch(folder.name))
    return [Step(folder) for folder in sorted(folders)]


def find(wanted: str, among: list[Step]) -> Step:
    """The step of this name; `4`, `04`, `step04` and a unique part of the name do too. Raises UnknownStep."""
    by_number = re.fullmatch(r"(?:step)?0*(\d{1,2})", wanted)
    matches = [
        step
        for step in among
        if step.name == wanted or (by_number and step.number == int(by_number[1])) or (not by_number and wanted in step.name)
    ]
    exact = [step for step in matches if step.name == wanted]
    if len(exact or matches) != 1:
        raise UnknownStep(wanted)
    return (exact or matches)[0]


def as_check(function: Callable[..., None]) -> Check:
    """A pytest function as a check. Raises ValueError when it has no title or no points."""
    lines = (function.__doc__ or "").strip().splitlines()
    points = getattr(function, "points", None)
    if not lines or points is None:
        raise ValueError(f"{function.__name__}: a check needs a docstring and @points(...)")
    return Check(function.__name__, lines[0], points, function)


def stub_of(source: str, name: str) -> str:
    """The stub of a reference: each marked region in a function becomes `raise NotImplementedError`, others go."""
    header = f"# Generated from solutions/{name} by `make exercises`: write your code where it says NotImplementedError.\n"
    kept: list[str] = []
    for line, inside in _regions(source):
        if not inside:
            kept.append(line)
        elif line.strip() == BEGIN and line.startswith(" "):
            kept.append(line.replace(BEGIN, "raise NotImplementedError"))
    text = _with_exercise_imports("\n".join(kept))
    return header + re.sub(r"\n{4,}", "\n\n\n", text).strip() + "\n"


def is_untouched(source: str) -> bool:
    """Whether a learner's file still is a stub: no function does anything but raise NotImplementedError.

    Docstrings and `super().__init__()` do not count, nor do imports; a file that does not parse has been touched.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_is_stub_statement(statement) for statement in tree.body)


def _is_stub_statement(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.ClassDef() | ast.FunctionDef():
            return all(_is_stub_statement(inner) for inner in statement.body)
        case ast.Raise(exc=ast.Name(id="NotImplementedError")):
            return True
    return ast.unparse(statement) == "super().__init__()"


def _regions(source: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a solution region (its marker lines do)."""
    inside = False
    for line in source.splitlines():
        if line.strip() == BEGIN:
            inside = True
        yield line, inside
        if line.strip() == END:
            inside = False


def _without_markers(source: str) -> str:
    return "\n".join(line for line in source.splitlines() if line.strip() not in (BEGIN, END)) + "\n"


def _with_exercise_imports(source: str) -> str:
    return REFERENCE_IMPORT.sub(r"from exercises.\1 import", source)
