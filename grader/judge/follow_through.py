"""What a step is worth by itself: where an earlier step that it imports is wrong, or was not handed in, it is graded
again with the reference's file in that place. Without it marks would depend on what passes by luck under one seed.
Before that, what the same person handed in with an earlier assignment takes the place of what is absent.

Pure functions over reports and sources; `grader.Grader` asks for the runs.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from grader.base.language import gettext as _
from grader.base.paths import STEP_NAME, is_recorded, step_folder
from grader.base.results import StepResult, leading
from grader.course.stubs import MAX_STUB, is_untouched, solved_of
from grader.course.submissions import Submission

Sources = Mapping[str, tuple[str, str]]  # by module name: what a file is called, and its text
EXERCISES = re.compile(r"exercises\.(\w+)")
LOST = ("fail", "timeout", "todo")


@dataclass
class Earlier:
    """What keeps a step from being graded as it is: earlier steps that are `wrong`, and such that are not `here`, which
    another assignment may hold. `names` are those of both, in order."""

    wrong: list[StepResult] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The steps whose place the references take."""
        return sorted([*(step.name for step in self.wrong), *self.absent])


def imported_steps(step: str, sources: Sources) -> list[str]:
    """The other steps that the file of a step imports, itself or through what it imports, as its text says; in order.

    What a file does when it runs is nobody's word but its own.
    """
    found: set[str] = set()
    waiting = [step]
    while waiting:
        name = waiting.pop()
        modules = set(_imports(sources[name][1])) if name in sources else set()
        further = {module for module in modules if module in sources or STEP_NAME.fullmatch(module)} - found
        found |= further
        waiting += further
    return sorted(name for name in found - {step} if STEP_NAME.fullmatch(name))


def _imports(source: str) -> Iterator[str]:
    """The modules beside a file that it may import, by their bare names."""
    if len(source) > MAX_STUB:  # parsing more takes seconds that no deadline bounds
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.removeprefix("exercises.") for alias in names)
            case ast.ImportFrom(module="exercises", names=names) | ast.ImportFrom(module=None, names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield module.removeprefix("exercises.")


def earlier(step: StepResult, sources: Sources, known: Mapping[str, StepResult], wanted: list[str]) -> Earlier:
    """What a failing step waits for; `known` is what each step is worth by itself, `wanted` what was asked for."""
    found = Earlier()
    if step.status not in LOST or _is_absent(step.name, sources):
        return found
    for name in imported_steps(step.name, sources):
        other = known.get(name)
        if other is None or other.status in ("pass", "error") or other.name == step.name:
            continue
        if other.status == "todo" and name not in wanted and _is_absent(name, sources):
            found.absent.append(name)
        else:
            found.wrong.append(other)
    return found


def _is_absent(name: str, sources: Sources) -> bool:
    return name not in sources or is_untouched(sources[name][1])


def with_earlier(submission: Submission, wanted: Collection[str]) -> tuple[dict[str, tuple[str, str]], set[str]]:
    """The sources of a submission, completed by its author's earlier hand-ins, and the steps that these took.

    Only what was not asked for is taken from there: a step of this assignment is worth what was handed in with it.
    """
    taken = {
        step: source
        for step, source in submission.earlier.items()
        if step not in wanted and step not in submission.problems and _is_absent(step, submission.sources)
    }
    return submission.sources | taken, set(taken)


def note_earlier(step: StepResult, sources: Sources, taken: Collection[str]) -> StepResult:
    """The result of a step, with a note where it imports what was handed in earlier."""
    used = [name for name in imported_steps(step.name, sources) if name in taken]
    if not used or step.status == "todo":
        return step
    said = [
        _("{step} was not handed in with this assignment: your earlier one ({file}) was used.").format(
            step=name, file=sources[name][0]
        )
        for name in used
    ]
    return msgspec.structs.replace(step, note=" ".join([*said, *([step.note] if step.note else [])]))


def with_references(sources: Sources, names: list[str]) -> dict[str, tuple[str, str]] | None:
    """The sources with the references in place of these steps; None in a learner's kit, which has no references."""
    folders = [step_folder(name) for name in names]
    if any(is_recorded(folder) for folder in folders):
        return None
    references = {
        folder.name: (f"{folder.name}.py", solved_of((folder / "reference.py").read_text(encoding="utf-8")))
        for folder in folders
    }
    return dict(sources) | references


def by_itself(step: StepResult, again: StepResult, found: Earlier) -> StepResult:
    """The result of a step that was graded `again` with references in place of others: its own points, and what blocks
    it as it was handed in."""
    result = msgspec.structs.replace(again, seconds=round(step.seconds + again.seconds, 4))
    names = ", ".join(found.names)
    if not found.wrong:
        said = _("{steps} was not handed in with this step: the reference took its place.")
        return msgspec.structs.replace(result, note=said.format(steps=names))
    said = _("Graded by itself, with the reference in place of {steps}, it is worth {score} of {total}.")
    worth = said.format(steps=names, score=f"{again.score or 0.0:.4g}", total=f"{again.max_score:.4g}")
    return msgspec.structs.replace(
        result,
        status="skipped" if again.status == "pass" else again.status,
        blocked_by=found.wrong[0].name,
        note=f"{_why_blocked(found.wrong[0])} {worth}",
    )


def without_points(step: StepResult, found: Earlier) -> StepResult:
    """The result of a blocked step where no reference is: what passes in it may pass by luck, and has no points."""
    if found.wrong:
        blocker, message = found.wrong[0].name, _why_blocked(found.wrong[0])
    else:
        blocker, message = found.absent[0], _("It imports {step}, which was not handed in.")
        message = message.format(step=blocker)
    message += " " + _("What it is worth by itself can only be graded where the references are.")
    checks = [
        msgspec.structs.replace(
            check, status="skipped", points=0.0, message=message if check.status == "pass" else
            f"{message}\n{check.message}".strip(),
        )
        for check in step.checks
    ]  # fmt: skip
    return msgspec.structs.replace(
        step, status="skipped", score=0.0, checks=checks, message=message, blocked_by=blocker
    )


def _why_blocked(wrong: StepResult) -> str:
    broken = leading(wrong.checks)
    if broken is None:
        return _("Blocked by {step}, which it imports. Fix that first.").format(step=wrong.name)
    said = _("Blocked by {step}, which it imports: “{title}” ({check}) fails there. Fix that first.")
    return said.format(step=wrong.name, title=broken.title, check=broken.name)
