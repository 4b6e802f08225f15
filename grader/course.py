"""The course: which steps there are, in what order, and what belongs to each.

A step is a folder of `solutions/` whose name is `stepNN_name`. There is no registry: the number gives the order, the
first line of the reference's docstring the title, the marks on the checks the points. In a learner's copy of the kit
the folders stand in `steps/`, and what the solutions would say is read from each step's tape.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from grader import catalogue
from grader.diagnose import AnswersAlike, asked_here
from grader.implementation import LocalBackend, Oracle
from grader.places import EXERCISES as EXERCISES
from grader.places import ROOT as ROOT
from grader.places import SOLUTIONS as SOLUTIONS
from grader.places import TAPE, is_recorded, step_folders
from grader.responder import Responder
from grader.stubs import is_untouched as is_untouched
from grader.stubs import original, solved_of
from grader.stubs import regions as regions
from grader.tape import Tape


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

    @property
    def is_recorded(self) -> bool:
        """Whether the step is answered by its tape: its solutions are not there."""
        return is_recorded(self.folder)

    @cached_property
    def tape(self) -> Tape:
        """What stands for the solutions where they are not. Raises DamagedTape, or OSError without a file."""
        return Tape(self.folder / TAPE)

    @cached_property
    def title(self) -> str:
        """The first line of the reference's docstring."""
        if self.is_recorded:
            return self.tape.index.title
        return (ast.get_docstring(ast.parse(self._reference_source)) or self.name).splitlines()[0]

    @cached_property
    def checks_module(self) -> ModuleType:
        """The module of the checks."""
        return importlib.import_module(f"{self.folder.parent.name}.{self.name}.{self.check_file.stem}")

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
        if self.is_recorded:
            return self.tape.misconceptions
        return catalogue.misconceptions(importlib.import_module(f"solutions.{self.name}.misconceptions"))

    @property
    def variants(self) -> list[catalogue.Variant]:
        """The right ways, other than the reference, that come with the step."""
        return catalogue.variants(importlib.import_module(f"solutions.{self.name}.variants"))

    def seed(self, asked: int) -> int:
        """The seed to run under when this one was asked for: itself, or one of the tape's."""
        return self.tape.seed(asked) if self.is_recorded else asked

    def oracle(self) -> Oracle:
        """What knows the right answers: the reference, or the tape."""
        return self.tape if self.is_recorded else LocalBackend(self.responder())

    def answers_alike(self, oracle: Oracle) -> AnswersAlike:
        """What knows whether a misconception gives a student's answers."""
        if self.is_recorded:
            return self.tape.answers_alike
        return asked_here(lambda wrong: LocalBackend(self.responder(wrong.replaced)), oracle)

    def responder(self, replaced: dict[str, Any] | None = None, *, watched: bool = False) -> Responder:
        """What answers calls with the reference's names, some of them replaced; `watched`: off limits are enforced."""
        names = vars(self.reference) | (replaced or {})
        return Responder(names, self.off_limits if watched else None, lambda filename: "solutions" in filename)

    def stub(self) -> str:
        """The learner's file: signatures and docstrings, the bodies taken out."""
        return original(self.folder)

    def solved(self) -> str:
        """The reference as a submission: the learner's file with everything filled in."""
        return solved_of(self._reference_source)

    @cached_property
    def _reference_source(self) -> str:
        return (self.folder / "reference.py").read_text(encoding="utf-8")


def steps(solutions: Path = SOLUTIONS) -> list[Step]:
    """Every step of the course, in order."""
    return [Step(folder) for folder in step_folders(solutions)]


def as_check(function: Callable[..., None]) -> Check:
    """A pytest function as a check. Raises ValueError when it has no title or no points."""
    lines = (function.__doc__ or "").strip().splitlines()
    points = getattr(function, "points", None)
    if not lines or points is None:
        raise ValueError(f"{function.__name__}: a check needs a docstring and @points(...)")
    return Check(function.__name__, lines[0], points, function)
