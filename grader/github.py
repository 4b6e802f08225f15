"""GitHub Classroom: a report as what its reporter reads. `.github/workflows/classroom.yml` of the kit calls it."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import msgspec

from grader.report import number, plain
from grader.results import Report


def results(report: Report) -> dict[str, Any]:
    """A test a step, each with its points: a step that is partly right has part of them."""
    tests = [
        {
            "name": f"{step.name}: {number(step.score)} / {number(step.max_score)}",
            "status": "pass" if step.status == "pass" else "error" if step.status == "error" else "fail",
            "score": step.score,
            "message": plain(next((check.message for check in step.checks if check.status != "pass"), step.message)),
        }
        for step in report.steps
    ]
    statuses = {test["status"] for test in tests}
    status = next((status for status in ("error", "fail") if status in statuses), "pass")
    return {"version": 1, "status": status, "max_score": report.max_score, "tests": tests}


def main(arguments: list[str]) -> None:
    """Prints the output of a workflow's step, `result=…`, for a report's JSON file."""
    report = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=Report)
    print("result=" + base64.b64encode(msgspec.json.encode(results(report))).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
