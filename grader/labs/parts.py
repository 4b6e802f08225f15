"""Chooses the code that a lab runs: the learner's if its step passes, else the reference, else the lab's own simple
part.

A learner's code runs in this process, outside the sandbox, ungraded. The steps that a lab needs are graded first, so
that it never measures a mistake.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from grader.base import paths
from grader.base.language import gettext as _
from grader.calls.leftovers import settings_taken_back
from grader.course import stubs, submissions
from grader.report.terminal import plain
from grader.sandbox.importer import PACKAGE, BesideImporter, SubmissionImporter

Whose = Literal["yours", "reference", "kit"]
Statuses = dict[str, tuple[str, float | None, float]]  # a step's status, its score if it has one, and the most possible


class Stop(Exception):
    """A lab can't continue: one line, which ends with the command to type next."""


@dataclass(frozen=True)
class Need:
    """A step that a lab uses, and the names in it; `own` replaces them if the step is unavailable.

    An `optional` one is left out if it is neither written nor in this copy of the kit. One that is `graded_only` is
    used by another step and not by the lab: it must pass if it is written, and is not a part itself. One with a
    `package` is compiled by it: it is used on CUDA only, and if the package is installed.
    """

    step: str
    names: tuple[str, ...]
    own: Any = None
    optional: bool = False
    graded_only: bool = False
    package: str = ""

    def is_for(self, device: str) -> bool:
        """Whether the step can be used on this device, on this machine."""
        return not self.package or (device == "cuda" and importlib.util.find_spec(self.package) is not None)


@dataclass(frozen=True)
class StepCode:
    """The code of one step by name, and its origin: the learner, the reference or the lab."""

    step: str
    whose: Whose
    names: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        """The object with this name in the step's code. Raises AttributeError."""
        try:
            return self.names[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def said(self) -> str:
        """A sentence that says that this is the learner's code, the reference's or the lab's."""
        if self.whose == "yours":
            return _("{step}: yours.", step=self.step)
        if self.whose == "reference":
            return _("{step}: the kit's reference.", step=self.step)
        return _("{step}: the lab's own simple part, as yours is not written yet.", step=self.step)


def gather(
    needs: tuple[Need, ...],
    folder: Path,
    model: Literal["mine", "kit"] | None,
    grade: Callable[[list[str]], Statuses],
    device: str = "cpu",
) -> dict[str, StepCode]:
    """The code to run for each needed step that can be used on this device, by step. `grade` returns which of the
    learner's steps pass; `model` overrides the choice between the learner's code (`mine`) and the rest (`kit`).
    Optional steps without code are left out.

    Raises Stop if a written step fails, or if `mine` is requested and a step is not written."""
    needs = tuple(need for need in needs if need.is_for(device))
    written = [need.step for need in needs if model != "kit" and is_written(folder / f"{need.step}.py")]
    for need in needs:
        if model == "mine" and need.step not in written and not (need.optional or need.graded_only):
            raise Stop(not_written(folder / f"{need.step}.py", need.step))
    _require_passes(folder, grade(written) if written else {})
    parts = {need.step: _part(need, folder, need.step in written) for need in needs if not need.graded_only}
    return {step: part for step, part in parts.items() if part is not None}


def _require_passes(folder: Path, statuses: Statuses) -> None:
    """Raises Stop for the first step that does not pass."""
    for step, (status, score, most) in statuses.items():
        if status == "pass":
            continue
        file, command = shown(folder, step), grade_command(step)
        if score is None:
            raise Stop(
                _("{file} could not be graded, so nothing is measured. Type: {command}").format(
                    file=file, command=command
                )
            )
        sentence = _("{file} does not pass yet ({score:g} of {most:g} points), so nothing is measured. Type: {command}")
        raise Stop(sentence.format(file=file, score=score, most=most, command=command))


def _part(need: Need, folder: Path, is_learners: bool) -> StepCode | None:
    """The code that a lab uses for a step: the learner's, else the reference's, else the lab's own; None for an
    optional one without any. Raises Stop for another one without any."""
    if need.package == "triton":
        os.environ["TRITON_INTERPRET"] = "0"  # Triton reads it when it is imported
    if is_learners:
        return StepCode(
            need.step, "yours", _names_of(learners(folder, need.step, need.names), need, shown(folder, need.step))
        )
    try:
        reference = paths.step_folder(need.step) / "reference.py"
    except FileNotFoundError:
        reference = None
    if reference is not None and reference.is_file():
        module = importlib.import_module(f"solutions.{reference.parent.parent.name}.{need.step}.reference")
        return StepCode(need.step, "reference", _names_of(module, need, str(reference)))
    if need.own is None:
        if need.optional:
            return None
        raise Stop(not_written(folder / f"{need.step}.py", need.step))
    return StepCode(need.step, "kit", {name: getattr(need.own, name) for name in need.names})


def _names_of(module: types.ModuleType, need: Need, file: str) -> dict[str, Any]:
    """The objects of a module that a lab needs, by name. Raises Stop, with the path `file`, if one is missing."""
    missing = [name for name in need.names if not hasattr(module, name)]
    if missing:
        sentence = _("{file} must define `{name}`, and it does not. Type: {command}")
        raise Stop(sentence.format(file=file, name=missing[0], command=grade_command(need.step)))
    return {name: getattr(module, name) for name in need.names}


def is_written(file: Path) -> bool:
    """Whether a learner's file exists and is no longer the stub."""
    return file.is_file() and not stubs.is_untouched(file.read_text(encoding="utf-8", errors="replace"))


def learners(folder: Path, step: str, names: Collection[str] = ()) -> types.ModuleType:
    """Imports a step from the learner's folder as `exercises.STEP`, whatever the folder is called, and returns the
    module; modules of another folder are forgotten. Raises Stop for a file that is no Python, or that lacks one of
    these names since a line of it raised."""
    held = _importer()
    if held is None or held.folder != folder:
        import_from(folder)
    return imported(step, names)


def import_from(folder: Path) -> None:
    """Has imports find the learner's files in this folder, by the same names as in a worker and without the lines that
    raise. Modules of any other folder are forgotten."""
    if held := _importer():
        held.forget()
        sys.meta_path[:] = [each for each in sys.meta_path if each is not held and each is not held.fallback]
    importer = FolderImporter(folder)
    sys.meta_path[:] = [importer, *sys.meta_path, importer.fallback]


def imported(step: str, names: Collection[str] = ()) -> types.ModuleType:
    """The module of a step in the folder that was given to `import_from`. Raises Stop as `learners` does."""
    importer = _importer()
    assert importer is not None
    with blamed_on(importer.folder), settings_taken_back():
        module = importlib.import_module(f"{PACKAGE}.{step}")
        errors = [each.error for each in importer.top_level.failed if each.file == module.__file__]
        if errors and isinstance(errors[0], Exception) and not all(hasattr(module, name) for name in names):
            raise errors[0]
        return module


def _importer() -> FolderImporter | None:
    """The finder that `import_from` has put in place, if any."""
    return next((finder for finder in sys.meta_path if isinstance(finder, FolderImporter)), None)


class FolderImporter(SubmissionImporter):
    """Imports a learner's files from a folder in this process, by the rules of a worker."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Modules(folder))  # type: ignore[arg-type]  # without references it only reads
        self.folder, self.fallback = folder, BesideImporter(self)


def _is_readable(file: Path) -> bool:
    """Whether it is a file, and this user may read it."""
    return file.is_file() and os.access(file, os.R_OK)


class Modules(Mapping[str, tuple[str, str]]):
    """The path and the text of each Python file in a folder that can be read, by its module's name, at the moment of
    the lookup."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, module: str) -> tuple[str, str]:
        file = self.folder / f"{module}.py"
        if not _is_readable(file):
            raise KeyError(module)
        return str(file), file.read_text(encoding="utf-8", errors="replace")

    def __iter__(self) -> Iterator[str]:
        return (file.stem for file in sorted(self.folder.glob("*.py")) if _is_readable(file))

    def __len__(self) -> int:
        return len([*self])


@contextmanager
def blamed_on(folder: Path) -> Iterator[None]:
    """Turns an error of the learner's code inside the block into a Stop with one line: file, line and error. The
    engine's own errors pass unchanged."""
    try:
        yield
    except Exception as error:
        sentence = _learners_error(error, folder.resolve())
        if sentence is None:
            raise
        raise Stop(sentence) from None


def _learners_error(error: Exception, folder: Path) -> str | None:
    """A sentence on an error in a learner's file in `folder`, with its file and line; None if it was raised
    elsewhere."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_inside(frame.filename, folder)]
    if isinstance(error, SyntaxError) and error.filename and _is_inside(error.filename, folder):
        file, line, function = error.filename, error.lineno or 0, "<module>"
    elif frames:
        file, line, function = frames[-1].filename, frames[-1].lineno or 0, frames[-1].name
    else:
        return None
    step = Path(file).stem
    if isinstance(error, NotImplementedError) and not str(error):
        return not_written(Path(folder.name, step + ".py"), step)
    message = plain(str(error).partition("\n")[0])
    return _("{file}, line {line}, in {function}: {error}. To see what is wrong, type: {command}").format(
        file=Path(folder.name, Path(file).name),
        line=line,
        function=plain(function),
        error=f"{type(error).__name__}: {message}" if message else type(error).__name__,
        command=grade_command(step),
    )


def _is_inside(filename: str, folder: Path) -> bool:
    """Whether a file is in the folder, a resolved path, or below it."""
    return Path(filename).resolve().is_relative_to(folder)


def shown(folder: Path, step: str) -> str:
    """The path of a step's file for messages: the folder's name and the file's."""
    return str(Path(folder.name, f"{step}.py"))


def not_written(file: Path, step: str) -> str:
    """The sentence on a file that is not written yet, with the next command."""
    return _("{file} is not written yet. When it is, check it with: {command}", file=file, command=grade_command(step))


def grade_command(step: str) -> str:
    """The command line that grades a step."""
    return f"python -m grader grade --step {step}"


def grading(folder: Path) -> Callable[[list[str]], Statuses]:
    """The function for `gather` that grades steps of this folder in the sandbox."""

    def grade(steps: list[str]) -> Statuses:
        """Grades these steps on the CPU: the status, score and full marks of each. Raises Stop if the grader fails."""
        from grader.judge.grader import Grader
        from grader.judge.launcher import GraderError

        try:
            with Grader(min(2, len(steps))) as grader:
                report = grader.grade(submissions.read(folder), steps, device="cpu")
        except GraderError as error:
            raise Stop(str(error)) from None
        return {step.name: (step.status, step.score, step.max_score) for step in report.steps}

    return grade
