"""The steps of the course, their order, and what belongs to each.

A step is a folder of `solutions/` whose name is `stepNN_name`. There is no registry: the number gives the order, the
first line of the reference's docstring the title, the marks on the checks the points. In a learner's kit the folders
are in `steps/`, with a stub in place of each reference. `oracle.live.Solution` knows the answers.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType

from grader.base import language
from grader.base.paths import SOLUTIONS, is_recorded, step_folders
from grader.base.syntax import parsed
from grader.course import stubs
from grader.course.check_outline import check_file


@dataclass(frozen=True)
class Check:
    """One check of a step: a pytest function, its title, its points, and the seconds of a call if it states them."""

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
    def track(self) -> str:
        """The name of its track: `core`."""
        return self.folder.parent.name

    @property
    def package(self) -> str:
        """The package of its modules: `solutions.core.step04_causal_mask`."""
        return f"{self.folder.parents[1].name}.{self.track}.{self.name}"

    @property
    def number(self) -> int:
        """4 for `step04_causal_mask`."""
        return int(self.name[4:6])

    @property
    def check_file(self) -> Path:
        """The file of its checks."""
        return check_file(self.folder)

    @property
    def is_recorded(self) -> bool:
        """Whether expected answers come from a recording, because the solutions are absent, as in a learner's kit."""
        return is_recorded(self.folder)

    @cached_property
    def title(self) -> str:
        """The first line of the reference's docstring."""
        source = self.stub() if self.is_recorded else self._reference_source
        return (ast.get_docstring(parsed(source)) or self.name).splitlines()[0]

    @cached_property
    def checks_module(self) -> ModuleType:
        """The module of the checks."""
        return importlib.import_module(f"{self.package}.{self.check_file.stem}")

    @cached_property
    def checks(self) -> list[Check]:
        """The checks, in the order they are written."""
        return [as_check(value) for name, value in vars(self.checks_module).items() if name.startswith("test_")]

    @property
    def points(self) -> float:
        """The points of the step: the sum over its checks."""
        return sum(check.points for check in self.checks)

    @cached_property
    def off_limits(self) -> dict[str, tuple[str, ...]]:
        """The groups of torch's built-ins, keys of `calls.builtins.FAMILIES`, that may not be used, by the function or
        class that is asked for. Raises ValueError for an unknown group."""
        from grader.calls.builtins import FAMILIES  # loads torch, which most commands can do without

        named = dict(getattr(self.checks_module, "OFF_LIMITS", {}))
        # Noticed only in the learner's process, which watches calls, it would count as the learner's fault.
        if unknown := {family for families in named.values() for family in families} - FAMILIES.keys():
            raise ValueError(f"{self.name}: OFF_LIMITS names {sorted(unknown)}, and there is no such family")
        return named

    @property
    def required(self) -> dict[str, str]:
        """The packages beyond the kit's own that the step needs (`triton>=3.3`), and how each is called: `REQUIRES` of
        its checks."""
        return getattr(self.checks_module, "REQUIRES", {})

    @cached_property
    def lacking(self) -> str:
        """The first of these packages that is missing here or too old, with its version, so that the step can't be
        graded; empty if none is."""
        return next((missing for name, shown in self.required.items() if (missing := _missing(name, shown))), "")

    @property
    def deadline(self) -> float | None:
        """The time limit in seconds of all calls of the step together; None if its checks state none."""
        return getattr(self.checks_module, "DEADLINE", None)

    def stub(self, spoken: str = "en") -> str:
        """The learner's file: signatures and docstrings in the language `spoken`, without the bodies."""
        return stubs.original(self.folder, spoken)

    @cached_property
    def classes(self) -> frozenset[str]:
        """The names of the classes that the step asks for."""
        return stubs.classes(self.stub())

    @cached_property
    def arguments(self) -> dict[str, list[str]]:
        """The names of the arguments of its functions and methods, as `stubs.arguments` gives them."""
        return stubs.arguments(self.stub())

    def marked(self, spoken: str = "en") -> str:
        """The reference with lines BEGIN and END SOLUTION, between which nbgrader cuts; docstrings in the language
        `spoken`."""
        with language.use(spoken):
            return stubs.marked_of(self._reference_source)

    def solved(self) -> str:
        """The reference as a submission: the learner's file, completed."""
        return stubs.solved_of(self._reference_source)

    @cached_property
    def _reference_source(self) -> str:
        return (self.folder / "reference.py").read_text(encoding="utf-8")


def steps(solutions: Path = SOLUTIONS) -> list[Step]:
    """Every step of the course, in order."""
    return [Step(folder) for folder in step_folders(solutions)]


@cache
def step_titles() -> dict[str, str]:
    """The English title of every step, by name."""
    return {step.name: step.title for step in steps()}


def lacking(names: Collection[str] = ()) -> dict[str, str]:
    """The package that is missing here for each of these steps, by default of all, that can't be run, by step."""
    return {step.name: step.lacking for step in steps() if (not names or step.name in names) and step.lacking}


def _missing(requirement: str, shown: str) -> str:
    """`shown`, the package's name in messages, if what a requirement such as `triton>=3.3` names is not installed; with
    the version if only that is wrong; empty if it is met."""
    from importlib import metadata  # most steps require nothing

    from packaging.requirements import Requirement

    wanted = Requirement(requirement)
    if importlib.util.find_spec(wanted.name) is None:
        return shown
    with contextlib.suppress(metadata.PackageNotFoundError):
        if metadata.version(wanted.name) not in wanted.specifier:
            return f"{shown} {wanted.specifier}"
    return ""


def as_check(function: Callable[..., None]) -> Check:
    """A pytest function as a check. Raises ValueError if it has no title or no points."""
    lines = (function.__doc__ or "").strip().splitlines()
    points = getattr(function, "points", None)
    if not lines or points is None:
        raise ValueError(f"{function.__name__}: a check needs a docstring and @points(...)")
    return Check(function.__name__, lines[0], points, function, getattr(function, "deadline", None))
