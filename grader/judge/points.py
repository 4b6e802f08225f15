"""The rules by which a check that passed has no points, or fails with others."""

from __future__ import annotations

from grader.base.language import gettext as _
from grader.base.results import CheckResult
from grader.checks.trial import Verdict


def count_hand_cases(results: list[CheckResult], verdicts: list[Verdict]) -> None:
    """A check that draws nothing asks what anyone can look up: it counts only where drawn inputs show that the
    functions it calls work."""
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
    """A function that uses an off-limits built-in in any check loses the points of all its checks."""
    reasons = {verdict.failure.off_limits: verdict.message for verdict in verdicts if verdict.failure.off_limits}
    for result, verdict in zip(results, verdicts, strict=True):
        names = sorted(verdict.called & reasons.keys())
        if names and result.status != "error":
            result.status, result.points, result.off_limits = "fail", 0.0, True
            result.message = reasons[names[0]]


def need_every_device(results: list[CheckResult]) -> None:
    """A check earns points only if it passes on every device it runs on."""
    lost = {result.name for result in results if result.status != "pass"}
    for result in results:
        if result.name in lost:
            result.points = 0.0
