"""A step with its source of answers: the solutions if they are present, else their tape."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from grader.base.paths import SOLUTIONS, TAPE, step_folders
from grader.calls.responder import Responder
from grader.checks import catalogue, smallest
from grader.checks.backends import LocalBackend, Oracle
from grader.course.steps import Step
from grader.oracle.tape import Tape
from grader.oracle.witness import AskedHere, Witness

if TYPE_CHECKING:
    from grader.oracle.generated import GeneratedMistakes
    from grader.oracle.wrong_ways import WrongWays

# Triton reads it when it is imported. A reference's kernels are interpreted, on whatever device the learner's run,
# unless it says 0.
os.environ.setdefault("TRITON_INTERPRET", "1")


class Solution(Step):
    """A step and its reference, misconceptions and variants; or the tape that replaces them."""

    @cached_property
    def tape(self) -> Tape:
        """The tape that replaces missing solutions. Raises DamagedTape, or OSError without a file."""
        return Tape(self.folder / TAPE)

    @cached_property
    def reference(self) -> ModuleType:
        """The module of the reference."""
        return importlib.import_module(f"{self.package}.reference")

    @property
    def misconceptions(self) -> list[catalogue.Misconception]:
        """The step's misconceptions, without their pairs."""
        return self._ways.single if self._ways else []

    @property
    def pairs(self) -> list[catalogue.Misconception]:
        """Pairs of misconceptions that learners make together."""
        return self._ways.pairs if self._ways else []

    @property
    def _ways(self) -> Tape | WrongWays | None:
        """The source of the step's mistakes: its tape, or the edits of its reference; None if it has no mistakes."""
        return self.tape if self.is_recorded else self.wrong_ways

    @cached_property
    def wrong_ways(self) -> WrongWays | None:
        """The step's mistakes as edits of its reference; None if no document of mistakes is in its folder."""
        from grader.base import mistakes  # a right answer needs none of them
        from grader.oracle.wrong_ways import WrongWays

        return WrongWays(self.folder, self.reference) if mistakes.files_of(self.folder) else None

    def generated(self, name: str) -> list[catalogue.Misconception]:
        """The mistakes that edits of many steps and operators make in a public name; those that are recorded, of a
        tape."""
        if self.is_recorded:
            return self.tape.generated(name)
        return self.operators.of(name) if self.operators else []

    @cached_property
    def operators(self) -> GeneratedMistakes | None:
        """The mistakes of operators; None for a tape, or a step without mistakes."""
        from grader.oracle.generated import GeneratedMistakes

        return GeneratedMistakes(self.wrong_ways, self.touched) if self.wrong_ways and not self.is_recorded else None

    @property
    def variants(self) -> list[catalogue.Variant]:
        """The step's right implementations other than the reference."""
        return catalogue.variants(importlib.import_module(f"{self.package}.variants"))

    @cached_property
    def small_cases(self) -> dict[str, list[smallest.Case]]:
        """The small cases of each public name in `CALLS`, from the smallest on; a tape has only those recorded."""
        calls: dict[str, smallest.Asked] = getattr(self.checks_module, "CALLS", {})
        every = {name: smallest.cases(name, how) for name, how in calls.items()}
        if self.is_recorded:
            recorded = self.tape.index.checks
            every = {name: [case for case in few if case.__name__ in recorded] for name, few in every.items()}
        return every

    def seed(self, wanted: int) -> int:
        """The seed to run under for a requested one: the same; if the step has a tape, one of those recorded."""
        return self.tape.seed(wanted) if self.is_recorded else wanted

    def oracle(self) -> Oracle:
        """The source of right answers: the reference, or the tape."""
        return self.tape if self.is_recorded else LocalBackend(self.responder(), is_right=True)

    def witness(self, oracle: Oracle) -> Witness:
        """The source of the misconceptions' answers."""
        return Witness(self.tape if self.is_recorded else self.asked_here(oracle))

    def asked_here(self, reference: Oracle) -> AskedHere:
        """The source of the misconceptions' answers that runs them; `reference` answers what their checks compare
        with."""
        checks = [check.function for check in self.checks]
        return AskedHere(self._asked, reference, checks, self.touched)

    def _asked(self, wrong: catalogue.Misconception, alone: bool) -> LocalBackend | None:
        """A backend for a misconception in the reference's file, in which other names use it; `alone`: they don't. None
        if `alone` and no other name uses it anyway."""
        if not alone:
            return LocalBackend(self.responder(wrong.replaced))
        if self.touched(wrong.replaced) == wrong.replaced.keys():
            return None
        return LocalBackend(Responder({**vars(self.reference), **wrong.replaced}, None, _of_a_solution))

    def responder(self, replaced: Mapping[str, Any] | None = None, *, watched: bool = False) -> Responder:
        """A responder with the reference's names, some of them replaced; other names use the replacements. `watched`:
        what is off limits is refused."""
        names = self._file_with(replaced) if replaced else vars(self.reference)
        return Responder(names, self.off_limits if watched else None, _of_a_solution)

    def touched(self, replaced: Collection[str]) -> set[str]:
        """The names that are replaced, and those of the reference's functions and classes that use one of them,
        directly or not."""
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

    def _file_with(self, replaced: Mapping[str, Any]) -> dict[str, Any]:
        """The names of the reference's file with some replaced: whatever uses one of them uses the replacement."""
        if self.touched(replaced) == replaced.keys():
            return {**vars(self.reference), **replaced}
        file = self._files.get(id(replaced))
        if file is None:
            spec = importlib.util.spec_from_file_location(self.reference.__name__, self.folder / "reference.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            vars(module).update(replaced)
            file = self._files[id(replaced)] = replaced, vars(module)  # its id is not used again
        return file[1]

    @cached_property
    def _files(self) -> dict[int, tuple[Mapping[str, Any], dict[str, Any]]]:
        """The names of the edited files by the id of what is replaced in them, which is in the entry to keep the id in
        use."""
        return {}


def _of_a_solution(filename: str) -> bool:
    """Whether a file is one of the course's solutions."""
    return "solutions" in filename


def solutions(folder: Path = SOLUTIONS) -> list[Solution]:
    """Every step of the course, in order."""
    return [Solution(step) for step in step_folders(folder)]
