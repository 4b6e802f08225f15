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


def result(report: Report, environment: Mapping[str, str], submitted: datetime) -> dict[str, Any]:
    """The content of Classroom 50's `result.json` as a dict: one test per step, scores in hundredths of a point.
    `environment` has the variables that its runner sets (CLASSROOM, COMMIT_URL, …); raises KeyError without one."""
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
        "classroom": environment["CLASSROOM"],
        "assignment": environment["ASSIGNMENT"],
        "submission": environment["SUBMISSION_TAG"],
        "commit": environment["COMMIT_URL"],
        "release": environment["RELEASE_URL"],
        "review": environment.get("REVIEW_URL") or environment["COMMIT_URL"],
        "datetime": submitted.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }


def main(arguments: list[str]) -> int:
    """Reads the report in the JSON file `arguments[0]` and writes Classroom 50's result to the file `arguments[1]`. The
    exit status is 0; 1 if a step has no score: then nothing is written, and standard error says why."""
    report = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=Report)
    if reason := why_open(report):
        print(f"::error::no score: {reason}", file=sys.stderr)
        return 1
    Path(arguments[1]).write_bytes(msgspec.json.encode(result(report, os.environ, _committed())))
    return 0


def _committed() -> datetime:
    """The time of the last commit in the present folder; now if it is no git repository."""
    text = subprocess.run(["git", "log", "-1", "--format=%cI"], capture_output=True, text=True, check=False)
    try:
        return datetime.fromisoformat(text.stdout.strip())
    except ValueError:
        return datetime.now(UTC)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
