"""One report as the results of other graders: small pure functions from a `Report` to what each of them reads.

Otter's results are the `results.json` that `otter run` writes, as version 7 does, with its setting `show_all_public`;
PrairieLearn's are what an external grader leaves in `/grade/results/results.json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from grader.base.language import gettext as _
from grader.base.results import CheckResult, Report, StepResult
from grader.feedback.exports import gradescope
from grader.report.terminal import as_text, plain, unread, why_open


class NoReport(ValueError):
    """The file is not a report. One sentence."""


class OnlyAZero(ValueError):
    """A step has no mark yet, which the other system's results could only show as a zero. One sentence."""


def converted(file: Path, to: str) -> str:
    """The results, as JSON, of the report saved in `file`, for the grader `to`: otter, prairielearn or gradescope.
    Raises NoReport, OnlyAZero."""
    try:
        report = msgspec.json.decode(file.read_bytes(), type=Report)
    except OSError as error:
        raise NoReport(_("{file} can't be read ({reason}).").format(file=file, reason=error.strerror)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoReport(_("{file} is not a report ({reason}).").format(file=file, reason=error)) from None
    if to != "prairielearn" and (reason := why_open(report)):
        raise OnlyAZero(reason)
    results = {"otter": otter, "prairielearn": prairielearn, "gradescope": gradescope}[to](report)
    return msgspec.json.format(msgspec.json.encode(results), indent=2).decode() + "\n"


def otter(report: Report) -> dict[str, Any]:
    """Otter's results: a summary of all that is public, and one test for each step, as Otter has one for each question;
    the total is their sum, which Otter doesn't write either."""
    texts = {step.name: plain(as_text(step)) for step in report.steps}
    passed = all(step.status == "pass" for step in report.steps)
    summary = {
        "name": "Public Tests",
        "visibility": "visible",
        "output": "\n\n".join([*_sentences(report), *texts.values()]),
        "status": "passed" if passed else "failed",
    }
    tests = [
        {
            "name": step.name,
            "score": round(step.score or 0.0, 5),
            "max_score": round(step.max_score, 5),
            "visibility": "visible",
            "output": texts[step.name],
        }
        for step in report.steps
    ]
    return {"tests": [summary, *tests]}


def prairielearn(report: Report) -> dict[str, Any]:
    """The results for PrairieLearn's external grading: the score from 0 to 1, and a test for each check."""
    if reason := why_open(report):
        return {"gradable": False, "message": reason, "format_errors": [reason]}
    return {
        "gradable": True,
        "score": min(1.0, round((report.score or 0.0) / report.max_score, 6)) if report.max_score else 0.0,
        "message": "\n".join(_sentences(report)),
        "output": "",
        "tests": [_prairielearn_test(step, check) for step in report.steps for check in step.checks],
    }


def _prairielearn_test(step: StepResult, check: CheckResult) -> dict[str, Any]:
    """A check as one of PrairieLearn's tests, for JSON."""
    lines = [check.message, f"→ {check.hint}" if check.hint else ""]
    return {
        "name": f"{step.name}: {check.title}",
        "description": check.name if check.device == "cpu" else f"{check.name} ({check.device})",
        "points": check.points,
        "max_points": check.max_points,
        "output": "\n".join(part for part in lines if part),
    }


def _sentences(report: Report) -> Iterator[str]:
    """The sentences of a report that belong to no check."""
    yield from report.notes
    yield from unread(report)
    yield from (f"{step.name}: {step.note}" for step in report.steps if step.note)
