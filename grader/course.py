"""The course: which steps there are, in what order, and what belongs to each.

A step is a folder of `solutions/` whose name is `stepNN_name`. There is no registry: the number gives the order, the
first line of the reference's docstring the title, the marks on the checks the points.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from grader import catalogue
from grader.responder import Responder
from grader.stubs import is_untouched as is_untouched
from grader.stubs import regions as regions
from grader.stubs import solved_of, stub_of

ROOT = Path(__file__).resolve().parent.parent
SOLUTIONS = ROOT / "solutions"
EXERCISES = ROOT / "exercises"

STEP_NAME = re.compile(r"step\d{2}_[a-z0-9_]+")


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
        return solved_of(self._reference_source)

    @cached_property
    def _reference_source(self) -> str:
        return (self.folder / "reference.py").read_text(encoding="utf-8")


def steps(solutions: Path = SOLUTIONS) -> list[Step]:
    """Every step of the course, in order."""
    folders = (folder for folder in solutions.iterdir() if folder.is_dir() and STEP_NAME.fullmatch(folder.name))
    return [Step(folder) for folder in sorted(folders)]


def as_check(function: Callable[..., None]) -> Check:
    """A pytest function as a check. Raises ValueError when it has no title or no points."""
    lines = (function.__doc__ or "").strip().splitlines()
    points = getattr(function, "points", None)
    if not lines or points is None:
        raise ValueError(f"{function.__name__}: a check needs a docstring and @points(...)")
    return Check(function.__name__, lines[0], points, function)
