"""Classroom 50: a report as its `result.json`, schema `classroom50/result/v1`. `classroom50/autograder.py` of the kit
calls it, after its runner has said in the environment what is graded.

Source: https://github.com/foundation50/classroom50, its documentation's page Advanced-Autograding, and its
`collect_scores.py`, which accepts whole numbers only: points are in hundredths. The runner adds the owner of the
repository by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from grader.base.results import Report, leading
from grader.report.terminal import number, quoted, why_open

SCHEMA = "classroom50/result/v1"
HUNDREDTHS = 100


def result(report: Report, about: Mapping[str, str], submitted: datetime) -> dict[str, Any]:
    """Classroom 50's result: one test per step, with its points; `about` is the environment that the runner makes.
    Raises KeyError."""
    tests = [
        {
            "test-name": f"{step.name}: {number(step.score)} / {number(step.max_score)}",
            "passed": step.status == "pass",
            "score": round((step.score or 0.0) * HUNDREDTHS),
            "max-score": 0 if step.without_score else round(step.max_score * HUNDREDTHS),
            "message": quoted(first.message if (first := leading(step.checks)) else step.message),
        }
        for step in report.steps
    ]
    return {
        "schema": SCHEMA,
        "classroom": about["CLASSROOM"],
        "assignment": about["ASSIGNMENT"],
        "submission": about["SUBMISSION_TAG"],
        "commit": about["COMMIT_URL"],
        "release": about["RELEASE_URL"],
        "review": about.get("REVIEW_URL") or about["COMMIT_URL"],
        "datetime": submitted.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }


def main(arguments: list[str]) -> int:
    """Writes `result.json` for a report's JSON file: 0, or 1 if a step has no score."""
    report = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=Report)
    if reason := why_open(report):
        print(f"::error::no score: {reason}", file=sys.stderr)
        return 1
    Path(arguments[1]).write_bytes(msgspec.json.encode(result(report, os.environ, _committed())))
    return 0


def _committed() -> datetime:
    """The time of the graded commit, else the present time."""
    text = subprocess.run(["git", "log", "-1", "--format=%cI"], capture_output=True, text=True, check=False)
    try:
        return datetime.fromisoformat(text.stdout.strip())
    except ValueError:
        return datetime.now(UTC)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
