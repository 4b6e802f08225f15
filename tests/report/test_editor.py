"""What editors and other programs read: marks at the learner's code, the report's schema, tasks and containers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

from grader.author import pages
from grader.base import paths, results
from grader.base.results import CheckResult, Report, StepResult
from grader.report import editor

CODE = "import torch\n\n\ndef first(x):\n    return x\n\n\ndef second(x):\n    return -x\n"


def report(check: CheckResult, status: str = "fail") -> Report:
    """Of one step with one check."""
    step = StepResult(
        name="step02_softmax", title="Softmax", status=status, score=0.0, max_score=2.0, seconds=0.1, checks=[check]
    )  # type: ignore[arg-type]
    return Report(submission="x", seed=1, isolation=[], devices={}, score=0.0, max_score=2.0, steps=[step])


def check(**more: object) -> CheckResult:
    """One that fails."""
    given = {
        "name": "test_a",
        "title": "It holds.",
        "device": "cpu",
        "status": "fail",
        "points": 0.0,
        "max_points": 2.0,
    }
    return CheckResult(**(given | more))  # type: ignore[arg-type]


def test_a_failing_check_is_a_mark_at_its_function(tmp_path: Path) -> None:
    """In one line, which the task's problem matcher takes apart."""
    file = tmp_path / "step02_softmax.py"
    file.write_text(CODE, encoding="utf-8")
    (line,) = editor.lines(report(check(about="second", message="expected 1\ngot 2\u202e")), tmp_path)
    assert line == f"{file}:8: error: It holds.: expected 1 got 2"
    tasks = json.loads((paths.ROOT / ".vscode" / "tasks.json").read_text(encoding="utf-8"))["tasks"]
    matched = re.match(tasks[0]["problemMatcher"]["pattern"]["regexp"], line)
    assert matched is not None and matched.groups() == (str(file), "8", "error", "It holds.: expected 1 got 2")


def test_marks_of_files_that_do_not_run(tmp_path: Path) -> None:
    """A syntax error at its line; an absent file and a name that it does not define at its first line."""
    file = tmp_path / "step02_softmax.py"
    assert editor.line_of(file, "first") == 1
    file.write_text("x = 1\ndef f(:\n", encoding="utf-8")
    assert editor.line_of(file, "f") == 2
    file.write_text(CODE, encoding="utf-8")
    assert editor.line_of(file, "third") == 1


def test_nothing_is_marked_that_is_not_wrong(tmp_path: Path) -> None:
    """What is right, and what is not written yet."""
    for status in ("pass", "todo", "skipped", "error"):
        assert list(editor.lines(report(check(), status), tmp_path)) == []


def test_the_schema_is_that_of_the_report() -> None:
    """The file in docs/ is what `make readme` would write, and a report of ours has the keys that it names."""
    assert pages.SCHEMA.read_text(encoding="utf-8") == results.schema()
    described = json.loads(results.schema())
    assert described["$id"].endswith(results.SCHEMA) and results.SCHEMA.count(".") == 2
    properties = described["$defs"]["Report"]["properties"]
    assert set(msgspec.json.decode(results.as_json(report(check())))) == set(properties)
    assert properties["version"]["default"] == results.VERSION


def test_the_container_runs_what_the_readme_says() -> None:
    """Its files are what the editor reads, and name files and commands that exist."""
    container = json.loads((paths.ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert (paths.ROOT / ".devcontainer" / container["build"]["dockerfile"]).is_file()
    target = container["postCreateCommand"].removeprefix("make ")
    assert re.search(rf"^{target}:", (paths.ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
