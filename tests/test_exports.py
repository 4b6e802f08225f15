"""What other systems read of a class: the right columns, nothing that a spreadsheet runs, valid XML and JSON."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from grader import course, exports, github, gradescope, submission
from grader.results import CheckResult, Graded, Report, Status, StepResult
from grader.standings import Standing, standing

STEPS = ["step01_scores", "step02_softmax"]


def check(status: Status = "pass", points: float = 2.0, **more: object) -> CheckResult:
    """A check of two points."""
    given = {"name": "test_it", "title": "It holds.", "device": "cpu", "max_points": 2.0, **more}
    return CheckResult(status=status, points=points, **given)  # type: ignore[arg-type]


def step(name: str, *checks: CheckResult, status: Status = "pass", output: str = "") -> StepResult:
    """A step with these checks."""
    return StepResult(
        name=name, title=name, status=status, score=sum(one.points for one in checks),
        max_score=sum(one.max_points for one in checks), seconds=0.25, checks=list(checks), output=output,
    )  # fmt: skip


def report(*steps: StepResult) -> Report:
    """A report of these steps."""
    return Report(
        submission="ada", seed=7, isolation=["process"], devices={"cpu": "checked"},
        score=sum(one.score for one in steps), max_score=sum(one.max_score for one in steps), steps=list(steps),
    )  # fmt: skip


FULL = report(step(STEPS[0], check()), step(STEPS[1], check()))
ODD = "no\x00\x1b[31m\ud7ff <&>"
WRONG = check("fail", 0.0, message=ODD, misconception="a + b | a + c", hint="?")
HALF = report(
    step(STEPS[0], check(), WRONG, status="fail", output="printed\x08\n"),
    step(STEPS[1], check("todo", 0.0), status="todo"),
)


def graded(student: str, result: Report | None = FULL, error: str = "") -> Graded:
    """An entry of a class."""
    return Graded(student=student, file="file", key="", report=result, error=error)


def standings(*students: str) -> list[Standing]:
    """Students who all did the same."""
    return [standing(graded(student)) for student in students]


def table(text: str) -> list[dict[str, str]]:
    """The rows of a table."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


# --- tables ----------------------------------------------------------------------------------------------------------


def test_the_table_of_a_class() -> None:
    """One row a student, the points of each step, what was recognised; who was not graded has no score."""
    rows = table(
        exports.class_csv(
            [standing(graded("김민서")), standing(graded("b", HALF)), standing(graded("c", None, "it broke"))], STEPS
        )
    )
    assert rows[0]["student"] == "김민서" and rows[0]["score"] == "4" and rows[0]["max_score"] == "4"
    assert rows[1]["step01_scores"] == "2" and rows[1]["step02_softmax"] == "0"
    assert rows[1]["diagnoses"] == "step01_scores: a; step01_scores: b | c"
    assert (rows[2]["status"], rows[2]["score"], rows[2]["step01_scores"]) == ("error", "", "")
    assert rows[2]["error"] == "it broke"


FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    '=HYPERLINK("http://x","y")',
    "\n=1",
    "\uff1d1+1",
    "\uff20SUM(A1)",
]


@pytest.mark.parametrize("name", FORMULAS)
def test_no_cell_is_a_formula(name: str) -> None:
    """A student's name, and a reason, are text in every table."""
    one = [standing(graded(name)), standing(graded(name, None, name))]
    for text in (exports.class_csv(one, STEPS), exports.canvas_csv(one, name, 4.0), exports.moodle_csv(one)):
        for row in csv.reader(io.StringIO(text, newline="")):
            assert not any(cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff20") for cell in row)


def test_no_cell_is_obeyed_by_a_terminal() -> None:
    """A reason may quote what was handed in: a command in a cell of a notebook, say."""
    one = [standing(graded("Ann", None, "line 1: `!ls \x1b[2J\x9b31m\u202e`"))]
    for text in (exports.class_csv(one, STEPS), exports.moodle_csv(one)):
        assert not re.search(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", text)


def test_ordinary_names_are_left_as_they_are() -> None:
    """Commas, quotes and Hangul come back as they went in."""
    names = ["Kim, Minseo", 'the "best"', "김 민서", "a-b=c", "<b>"]
    assert [row["student"] for row in table(exports.class_csv(standings(*names), STEPS))] == names


def test_canvas_has_its_columns() -> None:
    """Its five columns, the assignment, the line of points possible; an empty score where there is none."""
    rows = list(csv.reader(io.StringIO(exports.canvas_csv(
        [standing(graded("ada")), standing(graded("bob", None, "x"))], "attention (123)", 4.0
    ))))  # fmt: skip
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "attention (123)"]
    assert rows[1] == ["    Points Possible", "", "", "", "", "4"]
    assert rows[2] == ["ada", "", "", "ada", "", "4"] and rows[3][-1] == ""


def test_moodle_has_its_columns() -> None:
    """The worksheet's; a folder that Moodle has named gives the participant's number."""
    rows = table(exports.moodle_csv(standings("Kim Minseo_4711_assignsubmission_file", "ada@example.org", "bob")))
    assert list(rows[0])[:5] == ["Identifier", "Full name", "Email address", "Grade", "Maximum Grade"]
    assert {"Identifier", "Grade", "Last modified (grade)"} <= set(rows[0])  # without these Moodle refuses the file
    assert (rows[0]["Identifier"], rows[0]["Full name"]) == ("Participant 4711", "Kim Minseo")
    assert rows[1]["Email address"] == "ada@example.org" and rows[2]["Identifier"] == ""
    assert rows[2]["Grade"] == "4" and "step01_scores: 2 / 2" in rows[2]["Feedback comments"]


def test_a_file_that_could_not_be_used_is_told_of() -> None:
    """Once for all its steps, beside the points: it is no zero like another."""
    reason = "attention.ipynb is damaged. Save it again."
    unusable = [
        msgspec.structs.replace(step(name, check("fail", 0.0), status="fail"), message=reason) for name in STEPS
    ]
    one = standing(graded("ada", report(*unusable)))
    (row,) = table(exports.class_csv([one], STEPS))
    assert (row["status"], row["score"], row["error"]) == ("graded", "0", reason)
    assert not any(step.unexplained for step in one.steps)


# --- JUnit -----------------------------------------------------------------------------------------------------------

# The schema that Jenkins, GitLab and others read, as far as it is used: what may stand in what, and which attributes
# are whole numbers.
ALLOWED = {
    "testsuites": ({"name"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time"}, {"testcase", "system-out"}),
    "testcase": ({"name", "classname", "time"}, {"failure", "error", "skipped"}),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "skipped": ({"message"}, set()),
    "system-out": (set(), set()),
}


def checked(element: ElementTree.Element) -> None:
    """Follows the schema all the way down."""
    attributes, children = ALLOWED[element.tag]
    assert set(element.attrib) <= attributes
    assert {child.tag for child in element} <= children
    if element.tag == "testsuite":
        counts = {tag: len(element.findall(f"testcase/{tag}")) for tag in ("failure", "error", "skipped")}
        wanted = {"tests": len(element.findall("testcase")), "failures": counts["failure"], "errors": counts["error"]}
        assert {name: int(element.attrib[name]) for name in wanted} == wanted
        assert int(element.attrib["skipped"]) == counts["skipped"] and float(element.attrib["time"]) >= 0
    for child in element:
        checked(child)


@pytest.mark.parametrize("entry", [graded("<ada> & \x0b"), graded("b", HALF), graded("c", None, "it\x00broke")])
def test_junit_is_valid(entry: Graded) -> None:
    """Whatever a learner printed or is called, it parses, and says the same."""
    tree = ElementTree.fromstring(exports.junit_xml(entry))
    checked(tree)
    assert tree.tag == "testsuites"


def test_junit_says_what_happened() -> None:
    """A failure with its message, a step that was not begun as skipped, no report as an error."""
    tree = ElementTree.fromstring(exports.junit_xml(graded("b", HALF)))
    assert [suite.attrib["name"] for suite in tree] == STEPS
    assert "<&>" in (tree.findtext("testsuite/testcase/failure") or "")
    assert tree[1].attrib["skipped"] == "1" and tree[0].findtext("system-out") is not None
    none = ElementTree.fromstring(exports.junit_xml(graded("c", None, "it broke")))
    assert none.find("testsuite/testcase/error").attrib["message"] == "it broke"  # type: ignore[union-attr]


# --- Gradescope ------------------------------------------------------------------------------------------------------


def test_gradescope_results_follow_its_schema() -> None:
    """The names and the kinds of value that its documentation gives."""
    results = json.loads(msgspec.json.encode(exports.gradescope(HALF)))
    assert results["score"] == 2.0 and results["output_format"] == "text"
    assert sum(test["max_score"] for test in results["tests"]) == HALF.max_score
    assert sum(test["score"] for test in results["tests"]) == results["score"]
    for test in results["tests"]:
        assert test["status"] in ("passed", "failed") and test["visibility"] == "visible"
        assert isinstance(test["name"], str) and isinstance(test["output"], str)
        assert all(isinstance(tag, str) for tag in test["tags"])
    assert [test["number"] for test in results["tests"]] == ["1.1", "1.2", "2.1"]


@pytest.mark.skipif(sys.platform == "win32", reason="Gradescope's machines run Linux")
def test_the_autograder_runs_as_gradescope_runs_it(tmp_path: Path) -> None:
    """A folder stands for /autograder: unpacked, one submission there, run_autograder called."""
    gradescope.build(tmp_path / "autograder.zip")
    again = tmp_path / "again.zip"
    gradescope.build(again)
    assert again.read_bytes() == (tmp_path / "autograder.zip").read_bytes()
    place = tmp_path / "autograder"
    with zipfile.ZipFile(tmp_path / "autograder.zip") as archive:
        archive.extractall(place / "source")
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    assert modes["setup.sh"] & modes["run_autograder"] & 0o111
    assert subprocess.run(["bash", "-n", place / "source" / "setup.sh"]).returncode == 0
    (place / "venv").symlink_to(course.ROOT / ".venv")
    shutil.copytree(course.ROOT / "examples" / "course" / "submissions" / "brook", place / "submission" / "homework")
    for extra in list((place / "submission" / "homework").glob("step0[2-9]*")):
        extra.unlink()
    done = subprocess.run(
        ["bash", place / "source" / "run_autograder"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={"PATH": os.environ["PATH"], "AUTOGRADER": str(place), "LANG": "C.UTF-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads((place / "results" / "results.json").read_text())
    assert results["score"] == 6.0 and len(results["tests"]) > 50


class Failing:
    """A grader whose judge failed in one step."""

    def __enter__(self) -> Failing:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def grade(self, handed_in: submission.Submission) -> Report:
        """A report with a step that is an error."""
        return report(step(STEPS[0], check("error", 0.0), status="error"))


def test_a_fault_of_the_grader_is_no_zero_on_gradescope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There are no results then, which Gradescope shows as a failure of the autograder."""
    monkeypatch.setattr("grader.gradescope.grading.Grader", Failing)
    (tmp_path / "submission").mkdir()
    assert gradescope.main([str(tmp_path / "submission"), str(tmp_path / "results.json")]) == 1
    assert not (tmp_path / "results.json").exists() and STEPS[0] in capsys.readouterr().err
    assert gradescope.main([str(tmp_path / "missing"), str(tmp_path / "results.json")]) == 1


# --- GitHub Classroom ------------------------------------------------------------------------------------------------


def test_github_classroom_reads_the_points_of_each_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for a workflow's outputs; its tests add up to the score, part of a step's points included."""
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(HALF))
    github.main([str(tmp_path / "report.json")])
    [line] = capsys.readouterr().out.splitlines()
    results = json.loads(base64.b64decode(line.removeprefix("result=")))
    assert results["max_score"] == HALF.max_score and results["status"] == "fail"
    assert [test["score"] for test in results["tests"]] == [2.0, 0.0]
    assert github.results(FULL)["status"] == "pass"


def test_the_workflow_calls_what_there_is() -> None:
    """Its commands are this kit's, and the reporter is given the name under which the result is put out."""
    workflow = (course.ROOT / "grader" / "templates" / "classroom.yml").read_text()
    [runner] = re.findall(r"runners: (\w+)", workflow)
    assert (
        f"id: {runner}" in workflow
        and f"{runner.upper()}_RESULTS: ${{{{ steps.{runner}.outputs.result }}}}" in workflow
    )
    for module in re.findall(r"python -m (grader\S*)", workflow):
        assert (course.ROOT / f"{module.replace('.', '/')}.py").is_file() or module == "grader"


def test_a_standing_keeps_what_a_diagnosis_says() -> None:
    """Of alternatives, what all have in common is certain; the rest stays a choice."""
    assert standing(graded("b", HALF)).steps[0].diagnoses == (("a",), ("b", "c"))
