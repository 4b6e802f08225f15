"""The rules by which a step is not run, and by which a check that passed has no points, or fails with others."""

from __future__ import annotations

from collections.abc import Sequence

from grader.base.language import gettext as _
from grader.base.results import CheckResult, Status, StepResult
from grader.checks.trial import Verdict
from grader.course.stubs import is_untouched
from grader.judge.messages import GradeRequest, StepGraded
from grader.oracle.live import Solution


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
    return StepGraded(result, [])


def count_hand_cases(results: list[CheckResult], verdicts: list[Verdict]) -> None:
    """Takes the points of passing checks without random inputs (their answers can be looked up) unless all functions
    that they call also pass with random inputs."""
    shown = {name for verdict in verdicts if verdict.drawn and verdict.status == "pass" for name in verdict.called}
    for result, verdict in zip(results, verdicts, strict=True):
        unproven = sorted(verdict.called - shown)
        if verdict.status == "pass" and not verdict.drawn and unproven:
            result.status, result.points = "skipped", 0.0
            result.message = _(
                "This is right, but its numbers are the same in every run and can be copied. It counts as soon as a "
                "check with drawn inputs passes for {names}."
            ).format(names=", ".join(f"`{name}`" for name in unproven))


def refuse_off_limits(results: list[CheckResult], verdicts: list[Verdict]) -> None:
    """Takes the points of all checks of a function that uses an off-limits built-in in one of them."""
    reasons = {verdict.failure.off_limits: verdict.message for verdict in verdicts if verdict.failure.off_limits}
    for result, verdict in zip(results, verdicts, strict=True):
        names = sorted(verdict.called & reasons.keys())
        if names and result.status != "error":
            result.status, result.points, result.off_limits = "fail", 0.0, True
            result.message = reasons[names[0]]


def need_every_device(results: list[CheckResult]) -> None:
    """Takes the points of checks that do not pass on every device they run on."""
    lost = {result.name for result in results if result.status != "pass"}
    for result in results:
        if result.name in lost:
            result.points = 0.0
