"""The ways in which a step is graded: decided here alone, for the process that has a submission and for its judges.

First come few messages, since in a right answer nothing has to be looked at twice. A failure is asked call by call and
diagnosed, but what rests on a step that fails too waits until that is known: it may be blocked by it. What is blocked,
or rests on a step that was not handed in, is graded on references (`follow_through.py` says when).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from grader.base.language import gettext as _
from grader.base.paths import is_recorded, step_folder
from grader.base.results import CheckResult, Status, StepResult
from grader.course.stubs import is_untouched
from grader.judge.imported_names import imported_steps
from grader.judge.messages import GradeRequest, Route, StepGraded

if TYPE_CHECKING:  # it needs torch, and a command has none
    from grader.oracle.live import Solution


def first(request: GradeRequest, device: str) -> Route:
    """The way in which the checks of a step that can be run are tried first on this device."""
    if request.references:
        return Route.ON_REFERENCES
    shares = request.run and not request.reproduce and device == "cpu"
    return Route.FEW_MESSAGES if shares else Route.CALL_BY_CALL


def of_failing(request: GradeRequest, step: str) -> Route:
    """The way in which a step with a failing check is graded, call by call."""
    if request.in_order and imported_steps(step, request.sources):
        return Route.WITHOUT_DIAGNOSIS
    return Route.ON_REFERENCES if request.references else Route.CALL_BY_CALL


def in_order(steps: Iterable[str]) -> bool:
    """True if a failing step that imports others waits for their results before it is diagnosed; False if any of
    `steps` has only a tape, as in a learner's kit: no reference can then take the place of what is wrong."""
    return not any(is_recorded(step_folder(name)) for name in steps)


def to_repeat(graded: Mapping[str, StepGraded], wanted: Collection[str]) -> list[str]:
    """The names of the steps to be graded again, each alone: they ended in a fault of ours or of the machine, perhaps
    caused by the steps running next to them."""
    return [name for name in wanted if graded[name].result.status == "error"]


def to_diagnose(graded: Mapping[str, StepGraded], wanted: Collection[str]) -> list[str]:
    """The names of the failing steps that have waited for what they import, and are blocked by nothing."""
    return [name for name in wanted if graded[name].route is Route.WITHOUT_DIAGNOSIS]


def without_running(step: Solution, devices: Sequence[str], request: GradeRequest) -> StepGraded | None:
    """The result of a step that can't be run (unusable or missing file, a stub, no such device), else None."""
    source = request.sources.get(step.name)
    if step.lacking:
        sentence = _(
            "{package} is not installed: the points of this step don't count. To add it on Linux, type: make triton"
        )
        return _not_run(step, devices, "skipped", sentence.format(package=step.lacking), score=None)
    if step.name in request.problems:
        return _not_run(step, devices, "fail", request.problems[step.name], score=None)
    if source is None or is_untouched(source[1]):
        missing = _("There is no file {file} in this submission.").format(file=f"{step.name}.py")
        return _not_run(step, devices, "todo", "" if source else missing)
    if not devices:
        return _not_run(step, devices, "skipped", _("{device}: not available").format(device=request.device))
    return None


def _not_run(
    step: Solution, devices: Sequence[str], status: Status, message: str, score: float | None = 0.0
) -> StepGraded:
    """The result of a step that is not run: each check has the status, the first check the message. No score if `score`
    is None."""
    checks = [
        CheckResult(
            name=check.name, title=_(check.title), device=device, status=status, points=0.0,
            max_points=0.0 if score is None else check.points / max(len(devices), 1),
            message=message if index == 0 or status == "skipped" else "",
        )
        for device in devices or ["cpu"]
        for index, check in enumerate(step.checks)
    ]  # fmt: skip
    result = StepResult(
        name=step.name, track=step.track, title=_(step.title), status=status, score=score, max_score=step.points,
        seconds=0.0, checks=checks, message=message,
    )  # fmt: skip
    return StepGraded(result, [], Route.NOT_RUN)
