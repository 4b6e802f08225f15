"""One report as the results of other graders: small pure functions from a `Report` to what each of them reads.

Otter's results are those that it writes for Gradescope; PrairieLearn's are what an external grader leaves in
`/grade/results/results.json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from grader.base.language import gettext as _
from grader.base.results import CheckResult, Report, StepResult
from grader.instructor.exports import gradescope
from grader.report.terminal import as_text, plain, unread


class NoReport(ValueError):
    """The file is not a report. One sentence."""


def converted(file: Path, to: str) -> str:
    """The results, as JSON, of a report that was saved. Raises NoReport."""
    try:
        report = msgspec.json.decode(file.read_bytes(), type=Report)
    except OSError as error:
        raise NoReport(_("{file} can't be read ({reason}).").format(file=file, reason=error.strerror)) from None
    except msgspec.DecodeError as error:
        raise NoReport(_("{file} is not a report ({reason}).").format(file=file, reason=error)) from None
    made = {"otter": otter, "prairielearn": prairielearn, "gradescope": gradescope}[to](report)
    return msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n"


def otter(report: Report) -> dict[str, Any]:
    """As `otter run` writes `results.json`: one test for each step, as Otter has one for each question.

    A step that could not be graded has no score, and no total is given then: it is no zero.
    """
    tests = [
        {
            "name": step.name,
            "score": step.score,
            "max_score": step.max_score,
            "status": "passed" if step.status == "pass" else "failed",
            "visibility": "visible",
            "output": plain(as_text(step)),
        }
        for step in report.steps
        if step.score is not None
    ]
    found = {"tests": tests, "output": "\n".join(_said(report)), "stdout_visibility": "hidden"}
    return found if _open(report) else found | {"score": report.score}


def prairielearn(report: Report) -> dict[str, Any]:
    """What PrairieLearn's external grading reads: the score from 0 to 1, and a test for each check.

    Where the grader itself failed it is not gradable, so that it costs the student no attempt.
    """
    if failed := _open(report):
        said = _("The grader itself failed in {steps}.").format(steps=", ".join(failed))
        return {"gradable": False, "message": said, "format_errors": [said]}
    return {
        "gradable": True,
        "score": min(1.0, round(report.score / report.max_score, 6)) if report.max_score else 0.0,
        "message": "\n".join(_said(report)),
        "output": "",
        "tests": [_prairielearn_test(step, check) for step in report.steps for check in step.checks],
    }


def _prairielearn_test(step: StepResult, check: CheckResult) -> dict[str, Any]:
    said = [check.message, f"→ {check.hint}" if check.hint else ""]
    return {
        "name": f"{step.name}: {check.title}",
        "description": check.name if check.device == "cpu" else f"{check.name} ({check.device})",
        "points": check.points,
        "max_points": check.max_points,
        "output": "\n".join(part for part in said if part),
    }


def _said(report: Report) -> Iterator[str]:
    yield from report.notes
    yield from unread(report)
    yield from (f"{step.name}: {step.note}" for step in report.steps if step.note)


def _open(report: Report) -> list[str]:
    """The steps that the grader itself could not grade."""
    return [step.name for step in report.steps if step.score is None]
