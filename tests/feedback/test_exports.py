"""What other systems read of a class: the right columns, nothing that a spreadsheet runs, valid XML and JSON."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from grader.base import language, paths
from grader.base.downloads import left_out
from grader.base.results import CheckResult, Graded, Report, Status, StepResult
from grader.classes import class_list, gradescope, roster
from grader.course import submissions
from grader.feedback import exports
from grader.feedback.standings import Standing, standing
from grader.report import classroom50, page

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
        score=sum(one.score or 0.0 for one in steps), max_score=sum(one.max_score for one in steps), steps=list(steps),
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


def written(name: str, of: Sequence[Standing], column: str = "") -> str:
    """The text of one table of a class."""
    return exports.csv_text(name, exports.WholeClass(of, STEPS, canvas_column=column))


def table(text: str) -> list[dict[str, str]]:
    """The rows of a table."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


# --- tables ----------------------------------------------------------------------------------------------------------


def test_the_table_of_a_class() -> None:
    """One row a student, the points of each step, what was recognised; who was not graded has no score."""
    rows = table(
        written(
            "class.csv",
            [standing(graded("김민서")), standing(graded("b", HALF)), standing(graded("c", None, "it broke"))],
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
    begins = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff20")
    canvas = written("canvas.csv", one, name)
    for text in (written("class.csv", one), canvas, written("moodle.csv", one)):
        for row in csv.reader(io.StringIO(text, newline="")):
            odd = [cell for cell in row if cell[:1] in begins]
            assert not odd or text is canvas and {name} == set(odd) and re.fullmatch(r"[+-]\d", name)


def test_a_login_that_looks_like_a_sum_is_what_canvas_knows() -> None:
    """It computes something and calls nothing; what could call something is quoted there too."""
    logins = {"-2+3": "-2+3", "+82-10": "+82-10", "=1+1": "'=1+1", "@SUM(1)": "'@SUM(1)", "-1|x": "'-1|x"}
    rows = list(csv.reader(io.StringIO(written("canvas.csv", [standing(graded(name)) for name in logins], "a"))))
    assert [row[3] for row in rows[2:]] == list(logins.values())


def test_no_cell_is_obeyed_by_a_terminal() -> None:
    """A reason may quote what was handed in: a command in a cell of a notebook, say."""
    one = [standing(graded("Ann", None, "line 1: `!ls \x1b[2J\x9b31m\u202e`"))]
    for text in (written("class.csv", one), written("moodle.csv", one)):
        assert not re.search(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", text)


def test_ordinary_names_are_left_as_they_are() -> None:
    """Commas, quotes and Hangul come back as they went in."""
    names = ["Kim, Minseo", 'the "best"', "김 민서", "a-b=c", "<b>"]
    assert [row["student"] for row in table(written("class.csv", standings(*names)))] == names


def test_canvas_has_its_columns() -> None:
    """Its five columns, the assignment, the line of points possible; an empty score where there is none."""
    rows = list(csv.reader(io.StringIO(written(
        "canvas.csv", [standing(graded("ada")), standing(graded("bob", None, "x"))], "attention (123)"
    ))))  # fmt: skip
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "attention (123)"]
    assert rows[1] == ["    Points Possible", "", "", "", "", "4"]
    assert rows[2] == ["ada", "", "", "ada", "", "4"] and rows[3][-1] == ""


def test_moodle_has_its_columns() -> None:
    """The worksheet's, in the language of the course; Moodle's names give the participant's number."""
    kim, *others = standings("Kim Minseo", "ada@example.org", "bob")
    kim = msgspec.structs.replace(kim, moodle_id="4711")
    rows = table(written("moodle.csv", [kim, *others]))
    with language.use("ko"):  # as `assign.php` and `importgradeslib.php` of Moodle's own have it
        (korean,) = table(written("moodle.csv", [kim]))
    assert {"식별자", "성적", "마지막 수정됨(성적)"} <= set(korean) and korean["식별자"] == "참가자4711"
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
    (row,) = table(written("class.csv", [one]))
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


@pytest.mark.thorough
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
    (place / "venv").symlink_to(paths.ROOT / ".venv")
    shutil.copytree(paths.ROOT / "examples" / "course" / "submissions" / "brook", place / "submission" / "homework")
    for extra in list((place / "submission" / "homework").glob("step0[2-9]*")):
        extra.unlink()
    done = subprocess.run(
        ["bash", place / "source" / "run_autograder"], cwd=tmp_path, capture_output=True, text=True, timeout=600,
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

    def grade(self, handed_in: submissions.Submission, steps: list[str] | None = None) -> Report:
        """A report with a step that is an error."""
        failed = msgspec.structs.replace(step(STEPS[0], check("error", 0.0), status="error"), score=None)
        return report(failed)


def test_a_fault_of_the_grader_is_no_zero_on_gradescope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There are no results then, which Gradescope shows as a failure of the autograder."""
    monkeypatch.setattr("grader.judge.grader.Grader", Failing)
    (tmp_path / "submission").mkdir()
    assert gradescope.main([str(tmp_path / "submission"), str(tmp_path / "results.json")]) == 1
    assert not (tmp_path / "results.json").exists() and STEPS[0] in capsys.readouterr().err
    assert gradescope.main([str(tmp_path / "missing"), str(tmp_path / "results.json")]) == 1


# --- Classroom 50 ----------------------------------------------------------------------------------------------------

RUNNER = {
    "CLASSROOM": "deep-learning", "ASSIGNMENT": "attention", "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d",
    "COMMIT_URL": "https://github.com/o/r/commit/a1b2c3d", "RELEASE_URL": "https://github.com/o/r/releases/tag/submit",
    "REVIEW_URL": "",
}  # fmt: skip


def test_classroom_50_reads_the_points_of_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its collector asks of a result: text that is there, whole numbers, sums, nothing above its maximum."""
    for name, value in RUNNER.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(HALF))
    assert classroom50.main([str(tmp_path / "report.json"), str(tmp_path / "result.json")]) == 0
    made = json.loads((tmp_path / "result.json").read_bytes())
    assert made["schema"] == "classroom50/result/v1" and made["classroom"] == "deep-learning"
    for field in ("assignment", "submission", "commit", "release", "review", "datetime"):
        assert isinstance(made[field], str) and made[field]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["datetime"])
    for scored in (made, *made["tests"]):
        assert type(scored["score"]) is type(scored["max-score"]) is int and 0 <= scored["score"] <= scored["max-score"]
    assert [test["score"] for test in made["tests"]] == [200, 0]
    assert made["score"] == sum(test["score"] for test in made["tests"]) == HALF.score * 100
    assert not any(test["passed"] for test in made["tests"])


def test_a_fault_of_the_grader_is_no_zero_in_classroom_50(tmp_path: Path) -> None:
    broken = msgspec.structs.replace(FULL, steps=[msgspec.structs.replace(FULL.steps[0], status="error", score=None)])
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(broken))
    assert classroom50.main([str(tmp_path / "report.json"), str(tmp_path / "result.json")]) == 1
    assert not (tmp_path / "result.json").exists()


def test_its_autograder_calls_what_there_is() -> None:
    autograder = (paths.ROOT / "grader" / "author" / "templates" / "classroom50_autograder.py").read_text()
    for module in re.findall(r'run\("(grader[.\w]*)"', autograder):
        assert (paths.ROOT / f"{module.replace('.', '/')}.py").is_file() or module == "grader"


def test_a_standing_keeps_what_a_diagnosis_says() -> None:
    """Of alternatives, what all have in common is certain; the rest stays a choice."""
    assert standing(graded("b", HALF)).steps[0].diagnoses == (("a",), ("b", "c"))


# --- what platforms hand out -----------------------------------------------------------------------------------------


def test_a_flat_download_of_canvas(tmp_path: Path) -> None:
    """Each student once, with the ID and whether it was late, also two of one login; canvas.csv finds them by ID."""
    for name in (
        "kimminseo_LATE_1235_98766_step01_scores-1.py",
        "kimminseo_LATE_1235_98767_step02_softmax.py",
        "leejun_77_98768_attention (1).ipynb",
        "leejun_78_98769_step01_scores.py",
        "park_79_98770_work.zip",
    ):
        (tmp_path / name).write_text("x = 1\n")
    listed = class_list.read(tmp_path)
    assert [person.name for person in listed] == ["kimminseo", "leejun_77", "leejun_78", "park"]
    assert left_out(tmp_path) == []
    found = list(roster.students(tmp_path, listed, "attention"))
    assert [(one.person.canvas_id, one.person.late) for one in found] == [
        ("1235", True),
        ("77", False),
        ("78", False),
        ("79", False),
    ]
    assert {"step01_scores", "step02_softmax"} <= found[0].submission.sources.keys()
    assert "work.zip" in found[3].problem
    kim = standing(Graded(student="kimminseo", file="kimminseo", key="", report=FULL, canvas_id="1235", late=True))
    row = table(written("canvas.csv", [kim, standing(graded("ada"))], "attention"))[1:]
    assert [(one["ID"], one["SIS Login ID"]) for one in row] == [("1235", ""), ("", "ada")]
    assert table(written("class.csv", [kim]))[0]["late"] == "late"


def test_names_of_canvas_with_an_underscore_and_without_names(tmp_path: Path) -> None:
    """As Canvas's `ContentZipper` does it: a name keeps its `_`; an anonymous one has no ID, and `LATE` in front."""
    for name in (
        "kim_min_LATE_1235_98766_step01_scores.py",
        "anon_x7Ab2_98767_step01_scores.py",
        "LATE_anon_12345_98768_step01_scores.py",
    ):
        (tmp_path / name).write_text("x = 1\n")
    listed = class_list.read(tmp_path)
    found = list(roster.students(tmp_path, listed, "attention"))
    assert [(one.name, one.person.canvas_id, one.person.late) for one in found] == [
        ("anon_12345", "", True),
        ("anon_x7Ab2", "", False),
        ("kim_min", "1235", True),
    ]
    assert all("step01_scores" in one.submission.sources for one in found)


def test_a_flat_download_of_moodle(tmp_path: Path) -> None:
    """“Download submissions in folders” is a choice of the teacher's: without it the folder's name stands in front."""
    for name in ("Ada Lovelace_12_assignsubmission_file_", "김민서_13_assignsubmission_file_"):
        (tmp_path / f"{name}step01_scores.py").write_text("x = 1\n")
    (tmp_path / "김민서_13_assignsubmission_file_step02_softmax.py").write_text("x = 1\n")
    listed = class_list.read(tmp_path)
    assert [person.name for person in listed] == ["Ada Lovelace", "김민서"]
    assert left_out(tmp_path) == []
    ada, kim = roster.students(tmp_path, listed, "attention")
    assert {
        "step01_scores",
        "step02_softmax",
    } <= kim.submission.sources.keys() and not ada.problem + ada.person.canvas_id
    one = Graded(student=ada.name, file=ada.file, key="", report=FULL, moodle_id=ada.person.moodle_id)
    rows = table(written("moodle.csv", [standing(one)]))
    assert (rows[0]["Identifier"], rows[0]["Full name"]) == ("Participant 12", "Ada Lovelace")


def test_a_file_and_a_text_in_moodle_are_one_row(tmp_path: Path) -> None:
    for kind in ("file", "onlinetext"):
        (tmp_path / f"Ada_12_assignsubmission_{kind}").mkdir()
    (tmp_path / "Bo_13_assignsubmission_onlinetext").mkdir()
    (tmp_path / "Ada_12_assignsubmission_file" / "step01_scores.py").write_text("x = 1\n")
    listed = class_list.read(tmp_path)
    assert [person.name for person in listed] == ["Ada", "Bo"]
    ada = next(iter(roster.students(tmp_path, listed, "attention")))
    assert list(ada.submission.unread) == ["Ada_12_assignsubmission_onlinetext/"]


def test_what_a_student_reads_names_the_student_and_no_seed() -> None:
    """Neither the seed of the class nor a command of the instructor's."""
    result = msgspec.structs.replace(HALF, submission="ada", seed=987654321)
    with language.use("en"):
        read = page.html(result, of_class=True)
    assert "ada" in read and "987654321" not in read and "python -m" not in read and "make grade" not in read
    assert "987654321" not in str(exports.gradescope(result))
    assert "987654321" not in page.fragment(result)
