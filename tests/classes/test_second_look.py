"""A second look, remarks on single lines, and what stands on a student's page of it."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from grader.base.results import LineRemark
from grader.classes.results import load
from grader.marks import marking, second_look
from grader.marks.assignments import BadTerm, read
from tests.cheap import NAMES, RIGHT, asked, cheaply, rows, run  # noqa: F401  # a fixture
from tests.twenty import put

pytestmark = pytest.mark.usefixtures("cheaply")

TERM = """
contact = "staff@uni.edu"
[assignments.week1]
title = "Week 1 & more"
steps = "1-3"
"""
ASK = "1: =1+1 is what the sheet asks\nand more of it\nstep 2: please look at line 3\n"


def played(folder: Path, remarks: str = "") -> Path:
    """A class of one who asks; the results, after the tables were read."""
    (folder / "assignments.toml").write_text(TERM, encoding="utf-8")
    if remarks:
        (folder / "remarks.csv").write_text("student,step,line,remark,request,points\n" + remarks, encoding="utf-8")
    for number in (1, 3):
        put(folder / "in" / "ada" / f"{NAMES[number]}.py", RIGHT[number].encode() if number == 1 else b"x = 1\ny = 2\n")
    put(folder / "in" / "ada" / "second_look.txt", ASK.encode())
    marked = marking.of(read(folder / "assignments.toml"), "week1")
    run(asked(folder / "in", folder / "out", assignment="week1", marking=marked))
    return folder / "out"


def page(out: Path) -> str:
    """The student's page, as it is read."""
    return html.unescape((out / "pages" / "ada.html").read_text(encoding="utf-8"))


def test_a_request_in_a_file_waits_and_is_answered(tmp_path: Path) -> None:
    """It is no file that was not read; staff get a table to answer in, harmless in a spreadsheet; the answer, with a
    new mark or not, stands on the page."""
    out = played(tmp_path)
    waiting = rows(out / "requests.csv")
    assert [(row["student"], row["step"], row["request"]) for row in waiting] == [
        ("ada", NAMES[1], "'=1+1 is what the sheet asks and more of it"),
        ("ada", NAMES[2], "please look at line 3"),
    ]
    (files,) = [row for row in rows(out / "files.csv") if row["file"] == "second_look.txt"]
    assert files["what became of it"] == "a request for a second look"
    assert "Handed in and not read" not in page(out)
    assert "A second look was asked for" in (out / "index.html").read_text(encoding="utf-8")
    assert f"A second look was asked for: {NAMES[2]}: please look at line 3" in page(out)
    out = played(tmp_path, "ada,1,,It is right as it stands,,\nada,2,,You are right,please look at line 3,7\n")
    assert rows(out / "requests.csv") == []
    said = page(out)
    assert "Remark: It is right as it stands" in said and "Answer: You are right" in said
    assert f"{NAMES[2]}: Decided by the staff: 7 of 10 points (You are right)" in said.partition("What to do next")[0]
    assert rows(out / "class.csv")[0]["score"] == "17"


def test_the_page_has_a_link_to_ask(tmp_path: Path) -> None:
    """To the address of the term, with the assignment and the name, each letter of them safe in an address."""
    assert 'href="mailto:staff@uni.edu?subject=A%20second%20look%3A%20Week%201%20%26%20more%2C%20ada&body=' in page(
        played(tmp_path)
    )
    assert second_look.link("", "x", "y") == ""


def test_a_remark_on_a_line_stands_beside_that_line(tmp_path: Path) -> None:
    """Above what the checks say; a line that is not there is shown without one."""
    out = played(tmp_path, "ada,3,2,why `y`?,,\nada,3,99,beyond,,\n")
    graded = load(out, "ada")
    assert graded is not None and graded.mark is not None
    (step,) = [step for step in graded.mark.steps if step.step == NAMES[3]]
    assert step.lines == [
        LineRemark(line=2, code="y = 2", text="Remark: why `y`?"),
        LineRemark(line=99, code="", text="Remark: beyond"),
    ]
    assert "2  y = 2</code>" in page(out) and "why" in page(out)


@pytest.mark.parametrize(
    ("row", "says"),
    [("ada,,3,text,,", "“3” is not the number of a line of a step"), ("ada,1,x,text,,", "“x” is not the number"),
     ("ada,,,text,,3", "points need a step"), ("ada,1,,,please,3", "points need a step, and a remark"),
     ("ada,1,,text,,many", "“many” is not a number of points")],
)  # fmt: skip
def test_a_table_that_says_nothing_clear_is_refused(row: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "assignments.toml").write_text(TERM, encoding="utf-8")
    (tmp_path / "remarks.csv").write_text(f"student,step,line,remark,request,points\n{row}\n", encoding="utf-8")
    with pytest.raises(BadTerm, match=says):
        marking.of(read(tmp_path / "assignments.toml"), "week1")


@pytest.mark.parametrize(
    ("text", "found"),
    [("", []), ("please\n", [("", "please")]), ("4: a\nb\n", [(NAMES[4], "a b")]), ("step04: a", [(NAMES[4], "a")]),
     ("99: a\n", [("", "99: a")]), ("\n".join(f"{n % 3 + 1}: x" for n in range(99)), None), ("x" * 9999, None)],
)  # fmt: skip
def test_what_is_read_of_a_request(text: str, found: list[tuple[str, str]] | None) -> None:
    """Anyone may have made it: it is short in the end."""
    requests = second_look.appeals_in(text)
    assert len(requests) <= second_look.MOST and all(len(one.text) <= second_look.LONGEST for one in requests)
    if found is not None:
        assert [(one.step, one.text) for one in requests] == found


def test_a_push_is_the_classrooms_word(tmp_path: Path) -> None:
    """GitHub Classroom's own export says when; `handed_in.csv` counts before it, and a table of another kind is
    refused."""
    (tmp_path / "assignments.toml").write_text(TERM + "due = 2026-09-14\nlate = { per_day = 10 }\n", encoding="utf-8")
    header = "assignment_name,github_username,roster_identifier,submission_timestamp\n"
    rest = "Week 1 & more,ada-l,Ada Lovelace,2026-09-15 10:00:00 UTC\nOther,bo,Bo,2026-09-15 10:00:00 UTC\n"
    (tmp_path / "grades.csv").write_text(header + rest, encoding="utf-8")
    (tmp_path / "handed_in.csv").write_text("student,time\ncy,2026-09-20\n", encoding="utf-8")
    marked = marking.of(read(tmp_path / "assignments.toml"), "week1")
    assert set(marked.pushed) == {"ada-l", "Ada Lovelace"} and set(marked.times) == {"cy"}
    when, source = marked._hand_in_time("ada-l", None, "")
    assert when is not None and (when.day, source) == (15, "grades.csv")
    assert (
        marked._hand_in_time("bo", None, "") == (None, "")
        and marked._hand_in_time("cy", when, "")[1] == "handed_in.csv"
    )
    (tmp_path / "grades.csv").write_text("student,time\nada,2026-09-15\n", encoding="utf-8")
    with pytest.raises(BadTerm, match="has to name the columns assignment_name"):
        marking.of(read(tmp_path / "assignments.toml"), "week1")
