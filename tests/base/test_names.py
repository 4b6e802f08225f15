"""People whose names look alike: nothing in a table that names one of them is applied, in any output."""

from __future__ import annotations

import csv
import json
import unicodedata
from pathlib import Path

import msgspec
import pytest

from grader.base.downloads import people
from grader.base.names import Roll, alike, look, rows, told_apart
from grader.base.results import AssignmentMark, Graded, Report
from grader.classes import class_list, results, roster
from grader.classes.results import Plan
from grader.feedback.concerns import concerns
from grader.feedback.standings import standing
from grader.marks import assignments, marking

KELVIN = "\u212aarl"  # NFC makes it Karl
TERM = """
title = "t"
timezone = "UTC"
[assignments.a]
title = "A"
steps = "1"
due = 2026-09-14T23:59:00
[assignments.b]
title = "B"
steps = "1"
[[extensions]]
student = "NAMED"
assignment = "a"
more = "30 days"
reason = "ill: a private matter"
"""


@pytest.mark.parametrize("other", [KELVIN, "karl", "\uff2barl", "Karl\u200b", "Ka\ufe0frl", " Karl", "K\u00adarl"])
def test_names_that_look_alike(other: str) -> None:
    assert look(other) == look("Karl")
    assert alike(["Karl", "Ada", other]) == [["Karl", other]]
    assert told_apart(other) != "Karl" and told_apart(other).isascii()


def test_names_that_differ() -> None:
    names = ["Karl", "Carl", "Karla", "김민서", "김민수", "\u0410da", "Ada"]  # a Cyrillic A is another letter
    assert alike(names) == []
    roll = Roll({name: [] for name in names})
    assert [roll.own(name) for name in names] == names


def test_a_mac_takes_hangul_apart() -> None:
    apart = unicodedata.normalize("NFD", "김민서")
    roll = Roll({apart: [], "이서준": []})
    assert roll.own("김민서") == apart and not roll.is_ambiguous("김민서")


def test_logins_and_addresses_decide() -> None:
    roll = Roll({"Karl": ["karl@x"], KELVIN: ["eve@x"], "Ada": ["a1"]})
    assert roll.is_ambiguous("Karl") and roll.is_ambiguous("karl") and roll.is_ambiguous(KELVIN)
    assert roll.own("karl@x") == "Karl" and roll.own("EVE@x") == KELVIN and roll.own("A1") == "Ada"
    assert roll.shown(roll.ambiguous()[0]) == "Karl (karl@x), \\u212aarl (eve@x)"
    taken = Roll({"Karl": ["karl@x"], "karl@x": ["eve@x"], "Bo": ["b1"], "B1": ["c1"]})
    assert taken.own("karl@x") == "Karl"  # a name may be another one's address
    assert taken.is_ambiguous("b1")  # or login


def marked(points: float) -> AssignmentMark:
    return AssignmentMark(assignment="a", points=points, earned=points, out_of=6.0, steps=[])


def test_rows_of_a_term_are_one_persons(tmp_path: Path) -> None:
    (tmp_path / "assignments.toml").write_text(TERM)
    there = {
        "a": [("Karl", "karl@x", 6.0), (KELVIN, "eve@x", 0.0), ("Bo", "bo@x", 3.0), ("Ada", "", 1.0)],
        "b": [("Karl", "karl@x", 5.0), ("B\u200bo", "eve@x", 2.0), (unicodedata.normalize("NFD", "Ada"), "", 4.0)],
    }
    for name, everybody in there.items():
        (tmp_path / name / "reports").mkdir(parents=True)
        plan = Plan(seed=1, steps=[], device="cpu", language="en", kit="", assignment=name)
        (tmp_path / name / "class.json").write_bytes(msgspec.json.encode(plan))
        for place, (student, login, points) in enumerate(everybody):
            report = Report(submission="", seed=0, isolation=[], devices={}, score=0.0, max_score=0.0, steps=[])
            graded = Graded(student=student, file=str(place), key="", login=login, mark=marked(points), report=report)
            (tmp_path / name / "reports" / f"{place}.json").write_bytes(msgspec.json.encode(graded))
    read = results.marks_of(tmp_path, assignments.read(tmp_path / "assignments.toml"))
    points = {name: {row: score for row, (score, _out_of) in by_student.items()} for name, by_student in read.items()}
    assert points == {
        "a": {"Karl (karl@x)": 6.0, "\\u212aarl (eve@x)": 0.0, "Bo (bo@x)": 3.0, "Ada": 1.0},
        "b": {"Karl (karl@x)": 5.0, "B\\u200bo (eve@x)": 2.0, "Ada": 4.0},
    }


def test_no_name_takes_the_row_of_two_others() -> None:
    seen = {"a": [("Karl", "karl@x"), (KELVIN, "eve@x"), ("Karl (karl@x)", "z@x")], "b": [("Karl", "karl@x")]}
    assert len(set(rows(seen).values())) == 3


@pytest.mark.parametrize("named, more", [("Karl", False), ("karl", False), ("karl@x", True)])
def test_tables_are_applied_to_one_person(tmp_path: Path, named: str, more: bool) -> None:
    (tmp_path / "assignments.toml").write_text(TERM.replace("NAMED", named))
    (tmp_path / "overrides.csv").write_text(f"student,step,points,reason\n{named},1,6,oral exam\n")
    (tmp_path / "remarks.csv").write_text(f"student,step,remark,request\n{named},,Private,\n")
    (tmp_path / "handed_in.csv").write_text(f"student,time\n{named},2026-09-20T10:00:00\n")
    whole = marking.of(assignments.read(tmp_path / "assignments.toml"), "a")
    own = whole.for_class(Roll({"Karl": ["karl@x"], KELVIN: ["eve@x"]}))
    given = [own.overrides, own.times, own.remarks, own.term.extras]
    assert [len(table) for table in given] == [int(more)] * 4
    assert own.not_applied == (() if more else (named,))
    assert not any(KELVIN in str(table) for table in given)


def exported(folder: Path, everybody: dict[str, tuple[str, str, str]]) -> list[str]:
    about = {}
    for name, (called, email, number) in everybody.items():
        (folder / name).mkdir()
        about[name] = {":submitters": [{":name": called, ":email": email, ":sid": number}]}
    (folder / "submission_metadata.yml").write_text(json.dumps(about))
    return sorted(people(folder))


def test_gradescopes_names_are_whatever_their_owners_like(tmp_path: Path) -> None:
    everybody = {
        "submission_1": ("Ada", "", "1"),
        "submission_2": ("\uff21da", "", "2"),
        "submission_3": ("Ada (1)", "", "3"),  # what the first is called
        "submission_4": ("Bo", "", "4"),
        "submission_5": ("4", "", "5"),  # another one's login
        "submission_6": ("Cy", "", ""),
        "submission_7": ("Cy", "", ""),
    }
    names = exported(tmp_path, everybody)
    assert "Ada (1)" in names and "Ada (1) (3)" in names and "4 (5)" in names
    assert len(names) == len(everybody)


def test_a_name_without_what_tells_people_apart(tmp_path: Path) -> None:
    exported(tmp_path, {"submission_1": ("Karl", "karl@x", "1"), "submission_2": (KELVIN, "eve@x", "2")})
    (tmp_path / "Ada Kim_123_assignsubmission_file_").mkdir()
    roll = class_list.roll(class_list.read(tmp_path))
    assert roll.is_ambiguous("Karl") and roll.own("karl@x") == "Karl (karl@x)"
    assert roll.ambiguous() == [["Karl (karl@x)", f"{KELVIN} (eve@x)"]]
    assert roll.own("Ada Kim") == "Ada Kim"


def test_an_earlier_assignment_is_ones_own(tmp_path: Path) -> None:
    now, before = tmp_path / "now", tmp_path / "before"
    for folder in (now, before):
        folder.mkdir()
    exported(now, {"submission_1": (KELVIN, "eve@x", "2"), "submission_2": ("Ada", "ada@x", "3")})
    exported(before, {"submission_1": ("Karl", "karl@x", "1"), "submission_2": ("Ada", "ada@x", "3")})
    for number in (1, 2):
        (before / f"submission_{number}" / "step01_scores.py").write_text("def dot_product_scores(q, k): return q\n")
    students = {student.name: student for student in roster.students(now, people(now).values(), "attention", [before])}
    assert not students[KELVIN].submission.earlier
    assert students["Ada"].submission.earlier


def test_a_person_sees_both() -> None:
    entries = [
        Graded(student=name, file=name, key="", login=login, error="x")
        for name, login in (("Karl", "karl@x"), (KELVIN, "eve@x"), ("Ada", ""))
    ]
    listed = {concern.reason: concern.students for concern in concerns([standing(entry) for entry in entries])}
    about = next(students for reason, students in listed.items() if "looks like another" in reason)
    assert [(one.student, said) for one, said in about] == [
        (name, "Karl (karl@x), \\u212aarl (eve@x)") for name in ("Karl", KELVIN)
    ]


def test_one_word_in_a_table_is_one_cell(tmp_path: Path) -> None:
    rows_of = list(csv.reader([told_apart("a\u2028b", "c")]))
    assert rows_of == [["a\\u2028b (c)"]]
