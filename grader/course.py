"""The course: which steps there are, in what order, and what belongs to each.

A step is a folder of `solutions/` whose name is `stepNN_name`. There is no registry: the number gives the order, the
first line of the reference's docstring the title, the marks on the checks the points. In a learner's copy of the kit
the folders stand in `steps/`, and what the solutions would say is read from each step's tape.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from grader import catalogue, language
from grader.diagnose import AskedHere, Witness
from grader.implementation import LocalBackend, Oracle
from grader.offlimits import FAMILIES
from grader.places import EXERCISES as EXERCISES
from grader.places import ROOT as ROOT
from grader.places import SOLUTIONS as SOLUTIONS
from grader.places import TAPE, is_recorded, step_folders
from grader.responder import Responder
from grader.stubs import is_untouched as is_untouched
from grader.stubs import marked_of, original, solved_of
from grader.stubs import regions as regions
from grader.tape import Tape


@dataclass(frozen=True)
class Check:
    """One check of a step: a pytest function, its title, its points, and the seconds of a call where it states them."""

    name: str
    title: str
    points: float
    function: Callable[..., None]
    deadline: float | None = None


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
        """Which families of built-ins are off limits, by public name. Raises ValueError for a family that is none."""
        named = dict(getattr(self.checks_module, "OFF_LIMITS", {}))
        # Found out only where calls are watched, in the learner's process, it would count as the learner's fault.
        if unknown := {family for families in named.values() for family in families} - FAMILIES.keys():
            raise ValueError(f"{self.name}: OFF_LIMITS names {sorted(unknown)}, and there is no such family")
        return named

    @property
    def deadline(self) -> float | None:
        """The seconds that all calls of the step may take together, where its checks state them."""
        return getattr(self.checks_module, "DEADLINE", None)

    @cached_property
    def reference(self) -> ModuleType:
        """The module of the reference."""
        return importlib.import_module(f"solutions.{self.name}.reference")

    @cached_property
    def misconceptions(self) -> list[catalogue.Misconception]:
        """The wrong ways that come with the step, each by itself."""
        return self.tape.misconceptions if self.is_recorded else catalogue.misconceptions(self._misconceptions_module)

    @cached_property
    def pairs(self) -> list[catalogue.Misconception]:
        """Two of the misconceptions at a time, as learners make them together."""
        if self.is_recorded:
            return self.tape.pairs
        return catalogue.pairs(self._misconceptions_module, self.misconceptions)

    @property
    def _misconceptions_module(self) -> ModuleType:
        return importlib.import_module(f"solutions.{self.name}.misconceptions")

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

    def witness(self, oracle: Oracle) -> Witness:
        """What knows the answers of the misconceptions."""
        if self.is_recorded:
            return self.tape
        checks = [check.function for check in self.checks]
        return AskedHere(lambda wrong: LocalBackend(self.responder(wrong.replaced)), oracle, checks)

    def responder(self, replaced: dict[str, Any] | None = None, *, watched: bool = False) -> Responder:
        """What answers calls with the reference's names, some of them replaced; `watched`: off limits are enforced."""
        names = self._file_with(replaced) if replaced else vars(self.reference)
        return Responder(names, self.off_limits if watched else None, lambda filename: "solutions" in filename)

    def touched(self, replaced: Collection[str]) -> set[str]:
        """The names that are replaced, and those in the reference that use one of them, directly or not."""
        touched, before = set(replaced), 0
        while len(touched) > before:
            before = len(touched)
            touched |= {name for name, used in self._used_names.items() if used & touched}
        return touched

    @cached_property
    def _used_names(self) -> dict[str, set[str]]:
        """For each function and class of the reference, the names in its code."""
        return {
            node.name: {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            for node in ast.parse(self._reference_source).body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }

    def _file_with(self, replaced: dict[str, Any]) -> dict[str, Any]:
        """The names of a file like the reference's that holds the replaced ones: what uses one of them uses that."""
        if self.touched(replaced) == replaced.keys():
            return vars(self.reference) | replaced
        known = self._files.get(id(replaced))
        if known is None:
            spec = importlib.util.spec_from_file_location(self.reference.__name__, self.folder / "reference.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            vars(module).update(replaced)
            known = self._files[id(replaced)] = (replaced, vars(module))  # with the dictionary, its id stays taken
        return known[1]

    @cached_property
    def _files(self) -> dict[int, tuple[dict[str, Any], dict[str, Any]]]:
        return {}

    def stub(self, spoken: str = "en") -> str:
        """The learner's file: signatures and docstrings in the language `spoken`, the bodies taken out."""
        return original(self.folder, spoken)

    def marked(self, spoken: str = "en") -> str:
        """The reference with its regions marked, as nbgrader cuts them; docstrings in the language `spoken`."""
        with language.use(spoken):
            return marked_of(self._reference_source)

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
    return Check(function.__name__, lines[0], points, function, getattr(function, "deadline", None))
