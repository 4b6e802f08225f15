"""A term of three assignments with a roster, two sections, groups, excuses and late joiners: every cell worked out by
hand beside it."""

from __future__ import annotations

import csv
import re
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader.base import language
from grader.classes import class_run, results
from grader.classes import pool as pools
from grader.classes.results import load
from grader.cli import main as command_line
from grader.cli.parser import BadInput
from grader.feedback import history, table
from grader.marks import absence, marking, register
from grader.marks.assignments import BadTerm, read
from tests.cheap import NAMES, RIGHT, AtOnce, asked, cheaply, rows, run  # noqa: F401  # a fixture
from tests.twenty import put

pytestmark = pytest.mark.usefixtures("cheaply")

TERM = """
timezone = "UTC"
late_days = { free = 2, per_assignment = 1 }

[assignments.week1]
steps = "1-2"
due = 2024-09-14T23:59:00
grace = "30 minutes"
late = { per_day = 10, at_most = 50 }

[assignments.week2]
steps = "3"
weights = { 3 = 2 }
due = 2024-09-28T23:59:00
late = { per_day = 10, at_most = 50 }

[assignments.week3]
steps = "4"
due = 2024-10-12T23:59:00
late = { per_day = 10, at_most = 50 }
weight = 2

[[extensions]]
student = "emre@uni.edu"
assignment = "week3"
more = "5 days"
reason = "ill"

[[excused]]
student = "dora"
assignment = "week2"
reason = "jury duty"
"""
ROSTER = """name,login,address,section,from,excused
Ada,ada,ada@uni.edu,A,,
Bo,bo,,A,,
Chen,chen,,A,2024-09-20,
Dora,dora,,A,,
Emre,emre,emre@uni.edu,A,,
Finn,finn,,B,,
Gil,gil,,B,,
Hana,hana,,B,,week3
Ivo,ivo,,B,,
Jun,jun,,B,,
김민서,kim,,B,,
"""
GROUPS = "assignment,group,student\nweek2,G1,finn\nweek2,G1,gil\n"
TIMES = """assignment,student,time
week1,bo,2024-09-16T00:00:00
week1,jun,2024-09-15T12:00:00
week2,jun,2024-09-29T12:00:00
week3,jun,2024-10-13T12:00:00
week3,emre,2024-10-15T12:00:00
week1,gil,2024-09-15T00:20:00
"""
OVERRIDES = "assignment,student,step,points,reason\nweek2,bo,3,15,half of it is by hand\n"
# What each hands in: of each week the steps that are right, None for nothing, "open" for what can't be read.
HANDED_IN: dict[str, tuple[object, object, object]] = {
    "ada": ((1, 2), (3,), (4,)),
    "bo": ((1, 2), (3,), (4,)),
    "chen": (None, (3,), ()),
    "dora": ((1,), None, (4,)),
    "emre": (None, (3,), (4,)),
    "finn": ((1, 2), (3,), (4,)),
    "gil": ((1, 2), None, None),
    "hana": ((1, 2), (), None),
    "ivo": (None, None, None),
    "jun": ((1, 2), (3,), (4,)),
    "kim": ("open", (3,), (4,)),
}
# Worked out by hand: 10 points a step, step 3 twice; the weeks count 1, 1 and 2.
BY_HAND = {
    # student   week1   week2  week3   percent
    "Ada": ("20", "20", "10", "100.00"),
    "Bo": ("18", "15", "10", "91.25"),  # 1 d 1 min late: 2 days started, 1 free; (0.9 + 0.75 + 2 × 1) / 4
    "Chen": ("", "20", "0", "33.33"),  # joined on the 20th: (1 + 2 × 0) / 3
    "Dora": ("10", "", "10", "83.33"),  # excused: (0.5 + 2 × 1) / 3
    "Emre": ("0", "20", "10", "75.00"),  # absent: (0 + 1 + 2 × 1) / 4; the extension reaches
    "Finn": ("20", "20", "10", "100.00"),
    "Gil": ("20", "20", "0", "50.00"),  # within the grace; the group's; absent: (1 + 1 + 0) / 4
    "Hana": ("20", "0", "", "50.00"),  # excused on the roster: (1 + 0) / 2
    "Ivo": ("0", "0", "0", "0.00"),  # never
    "Jun": ("20", "20", "9", "95.00"),  # half a day late each: two days are free, then − 10 %
    "김민서": ("", "20", "10", ""),  # open
}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The term, graded section by section, week by week, into the same results."""
    folder = tmp_path_factory.mktemp("term")
    for name, text in (("assignments.toml", TERM), ("roster.csv", ROSTER), ("groups.csv", GROUPS),
                       ("handed_in.csv", TIMES), ("overrides.csv", OVERRIDES)):  # fmt: skip
        (folder / name).write_text(text, encoding="utf-8")
    term = read(folder / "assignments.toml")
    section = {line.split(",")[1]: line.split(",")[3] for line in ROSTER.splitlines()[1:]}
    done = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(class_run, "_pool", lambda request: nullcontext(pools.Pool(lambda: nullcontext(AtOnce()), 1)))
        with language.use("en"):
            for week, name in enumerate(term.assignments):
                marked = marking.of(term, name)
                people = register.read(folder, assignment=name)
                for part in "AB":
                    given = folder / f"{name}-{part}"
                    given.mkdir()
                    for student, weeks in HANDED_IN.items():
                        if section[student] == part and weeks[week] is not None:
                            hand_in(given / student, weeks[week], marked.assignment.steps)
                    done[name, part] = run(asked(
                        given, folder / "class" / name, assignment=name, steps=marked.assignment.everything,
                        marking=marked, register=people,
                    ))  # fmt: skip
    return SimpleNamespace(folder=folder, term=term, done=done)


def hand_in(folder: Path, what: object, steps: tuple[str, ...]) -> None:
    """The steps that are right, and wrong ones in place of the others."""
    for step in steps:
        right = isinstance(what, tuple) and int(step[4:6]) in what
        text = RIGHT[int(step[4:6])] if right else "# naïve\n" if what == "open" else "x = 1\n"
        put(folder / f"{step}.py", text.encode("latin-1" if what == "open" else "utf-8"))


def test_every_mark_is_the_one_worked_out_by_hand(played: SimpleNamespace) -> None:
    """In the table of the term: each cell, the percentage, and a reason for each zero that nobody earned."""
    people = register.read(played.folder)
    found = results.marks_of(played.folder / "class", played.term, people)
    term_rows = table.term_rows(played.term, found, people)
    read_back = list(csv.DictReader(table.term_csv(term_rows, list(found)).splitlines()))
    assert {row["student"]: (row["week1"], row["week2"], row["week3"], row["percent"]) for row in read_back} == BY_HAND
    assert {row["student"]: row["section"] for row in read_back}["Jun"] == "B"
    why = {row["student"]: row["why"] for row in read_back}
    assert why["Ada"] == "" and "week1: Excused: in the course since 2024-09-20" in why["Chen"]
    assert "week2: Excused (jury duty)." in why["Dora"] and "week3: Excused: the roster says so." in why["Hana"]
    assert "week1: Nothing was handed in, and 2024-09-15 00:29 UTC has passed: 0 points." in why["Emre"]
    assert why["Ivo"].count("0 points") == 3 and "week1: There is no mark yet" in why["김민서"]
    assert any("Ivo" in line and "0 points" in line for line in table.said(term_rows))


def test_both_sections_are_in_every_table(played: SimpleNamespace) -> None:
    """The second one leaves the first where it is, its files among them; who is absent has a row in each."""
    out = played.folder / "class" / "week1"
    for name, column in (("class.csv", "student"), ("marks.csv", "student"), ("canvas.csv", "Student"),
                         ("moodle.csv", "Full name")):  # fmt: skip
        assert {row[column] for row in rows(out / name)} - {"    Points Possible"} == set(BY_HAND), name
    scores = {row["student"]: row["score"] for row in rows(out / "class.csv")}
    assert scores == {name: cells[0] for name, cells in BY_HAND.items()}
    files = {row["student"] for row in rows(out / "files.csv")}
    assert {"Ada", "Bo", "Dora", "Jun"} <= files
    page = (out / "index.html").read_text(encoding="utf-8")
    assert all(name in page for name in BY_HAND)
    assert load(out, "Ada").report is not None  # type: ignore[union-attr]
    assert set(results.read(out).sources()) >= {"Ada", "Jun"}


def test_a_page_of_each_student_over_the_term(played: SimpleNamespace) -> None:
    """Every assignment with its points, times and rules, as the table of the term has it; and what has changed."""
    people = register.read(played.folder)
    found = results.marks_of(played.folder / "class", played.term, people)
    each = results.of_each(played.folder / "class", played.term, people)
    pages = {
        row.student: history.html(played.term, row, each.get(row.student, {}))
        for row in table.term_rows(played.term, found, people)
    }
    assert set(pages) == set(BY_HAND)
    assert "18 / 20" in pages["Bo"] and "2024-09-16 00:00 UTC" in pages["Bo"] and "91.25" in pages["Bo"]
    assert "half of it is by hand" in pages["Bo"] and "../week1/pages/Bo.html" in pages["Bo"]
    assert "Excused (jury duty)." in pages["Dora"] and pages["Ivo"].count("has passed: 0 points.") == 3


def test_the_class_page_says_what_this_run_has_changed(played: SimpleNamespace) -> None:
    """And its table can be narrowed to a section, to open, late and changed ones, without a script."""
    out = played.folder / "class" / "week1"
    page = (out / "index.html").read_text(encoding="utf-8")
    for kind, count in (("all", 11), ("open", 1), ("late", 2), ("section-0", 5), ("section-1", 6)):
        label = re.search(rf'<label for="show-{kind}">[^<]*\((\d+)\)', page)
        assert label and int(label[1]) == count, kind
    assert "<script" not in page and page.count('class="section-0"') + page.count('section-0"><th') >= 5
    changed = page.partition('id="changed"')[2].partition("</section>")[0]
    assert "6 of 11 students" in changed  # the second section is new, and the first one is where it was
    assert ">Ada<" not in changed and ">Jun<" in changed


def test_a_student_reads_the_rule(played: SimpleNamespace) -> None:
    """Each day that has begun, the free ones, and why there are no points without a hand-in."""
    pages = {week: played.folder / "class" / week / "pages" for week in ("week1", "week3")}
    bo = (pages["week1"] / "Bo.html").read_text(encoding="utf-8")
    assert "Handed in 1 d 1 min late. Each day that has started counts, here 2: 10 % of the points are taken off" in bo
    assert "1 of the free late days of the term used, 1 left." in bo
    ivo = (pages["week3"] / "Ivo.html").read_text(encoding="utf-8")
    assert "Nothing was handed in, and 2024-10-12 23:59 UTC has passed: 0 points." in ivo
    assert "no mark yet" not in ivo


def test_nothing_is_a_zero_before_its_date(tmp_path: Path) -> None:
    """Nor without a date; an extension moves it for one."""
    (tmp_path / "assignments.toml").write_text(TERM)
    term = read(tmp_path / "assignments.toml")
    before, between = (datetime(2024, 10, day, tzinfo=UTC) for day in (12, 15))

    def says(student: str, now: datetime) -> tuple[bool, bool]:
        found = absence.absence(term, "week3", student, register.NONE, now, ())
        return found.is_zero, found.is_excused

    assert says("ada", before) == (False, False) and says("ada", between) == (True, False)
    assert says("emre@uni.edu", between) == (False, False)
    assert says("dora", between) == (True, False)  # excused from another one


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Student,ID,SIS User ID,SIS Login ID,Section,Week 1 (4711)\n    Points Possible,,,,,20\n"
         "\"Lovelace, Ada\",77,u1,ada,A,\n\"Student, Test\",9,,x,A,\n", ("Ada Lovelace", ("u1", "ada"), "77", "A")),
        ("First name,Last name,ID number,Email address,Groups\nAda,Lovelace,1815,ada@uni.edu,A\n",
         ("Ada Lovelace", ("1815", "ada@uni.edu"), "", "A")),
        ("이름,성,이메일 주소,분반\n민서,김,kim@uni.edu,B\n", ("김민서", ("kim@uni.edu",), "", "B")),
        ("First Name,Last Name,SID,Email,Sections\nAda,Lovelace,1815,ada@uni.edu,A\n",
         ("Ada Lovelace", ("1815", "ada@uni.edu"), "", "A")),
        ("id,first_name,last_name,email,lms_user_id\nada,Ada,Lovelace,ada@uni.edu,\n",
         ("Ada Lovelace", ("ada", "ada@uni.edu"), "", "")),
        ("name\nAda Lovelace\n", ("Ada Lovelace", (), "", "")),
    ],
    ids=["canvas", "moodle", "moodle in Korean", "gradescope", "nbgrader", "own"],
)  # fmt: skip
def test_what_each_system_exports(text: str, found: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "roster.csv").write_text(text, encoding="utf-8-sig")
    people = register.read(tmp_path)
    (one,) = people.people.values()
    assert (one.name, one.logins, one.canvas_id, one.section) == found
    assert people.canvas_column("week1", "Week 1") == ("Week 1 (4711)" if one.canvas_id else "week1")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("who,where\nada,A\n", "line 1: the first line has to name the columns"),
        ("name,from\nada,soon\n", "line 2: “soon” is not a date"),
        ("name\nada\nAda\n", "line 3: Ada is there twice"),
    ],
)
def test_a_roster_that_says_nothing_clear_is_refused(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "roster.csv").write_text(text)
    with pytest.raises(BadTerm, match=says):
        register.read(tmp_path)


def test_a_group_of_whom_several_handed_in(tmp_path: Path) -> None:
    """Each keeps what is their own, and for the third a person must say which counts."""
    (tmp_path / "groups.csv").write_text(
        "group,student\nG,ada\nG,bo\nG,cy\nH,dora\nH,emre\nThe Team,finn\nThe Team,gil\n"
    )
    for name in ("ada", "bo", "dora", "The Team"):
        put(tmp_path / "in" / name / f"{NAMES[1]}.py", RIGHT[1].encode())
    done = run(asked(tmp_path / "in", tmp_path / "out", register=register.read(tmp_path)))
    scores = {one.student: one.score for one in done.standings}
    assert scores == {"ada": 10, "bo": 10, "cy": None, "dora": 10, "emre": 10, "finn": 10, "gil": 10}
    assert "several of the group G" in next(one.error for one in done.standings if one.student == "cy")


def week1(folder: Path, *given: Path) -> list[SimpleNamespace]:
    """The first week, graded folder by folder into the same results: each run's points, and what was said of it."""
    term, done = read(folder / "assignments.toml"), []
    for submissions in given:
        people = register.read(folder, assignment="week1")
        request = asked(submissions, folder / "class" / "week1", assignment="week1",
                        steps=[NAMES[1], NAMES[2]], marking=marking.of(term, "week1"), register=people)  # fmt: skip
        made = run(request)
        scores = {one.student: one.score for one in made.standings}
        done.append(SimpleNamespace(scores=scores, done=made, rows=table.term_rows(
            term, results.marks_of(folder / "class", term, people), people
        )))  # fmt: skip
    return done


def test_a_section_that_is_not_graded_yet_has_no_zeros(tmp_path: Path) -> None:
    """Its folder is another one: until then its cells are empty, with the reason, and its marks do not change after."""
    for name, text in (("assignments.toml", TERM), ("roster.csv", ROSTER)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    for section, student in (("A", "ada"), ("B", "finn")):
        hand_in(tmp_path / section / student, (1, 2), (NAMES[1], NAMES[2]))
    first, second = week1(tmp_path, tmp_path / "A", tmp_path / "B")
    assert first.scores == {"Ada": 20, "Bo": 0, "Emre": 0, "Dora": 0} | dict.fromkeys(
        ("Chen", "Finn", "Gil", "Hana", "Ivo", "Jun", "김민서")
    )
    said = {row.student: row.notes.get("week1", "") for row in first.rows}
    assert said["Jun"] == "Nothing of section B was graded so far: there is no mark yet."
    assert {row.student: row.percent for row in first.rows}["Jun"] == ""
    assert second.scores["Finn"] == 20 and second.scores["Jun"] == 0 and second.scores["Ada"] == 20
    assert second.done.changes == []


def test_a_repository_is_its_students_and_a_group_has_one_time(tmp_path: Path) -> None:
    """GitHub's export says who on the roster has a name there, and when they pushed; each of a group was as late as the
    group, with late days of their own."""
    hub = "assignment_name,github_username,roster_identifier,submission_timestamp\n"
    pushes = "week1,adal,ada,2024-09-16 12:00:00 UTC\nweek1,blue,,2024-09-15 12:00:00 UTC\nweek1,fh,finn@x,\n"
    groups = "group,student\nred,ada\nred,bo\nblue,Dora\nblue,emre\n"
    term = TERM.replace("free = 2, per_assignment = 1", "free = 1")
    for name, text in (("assignments.toml", term), ("roster.csv", ROSTER), ("grades.csv", hub + pushes),
                       ("groups.csv", groups)):  # fmt: skip
        (tmp_path / name).write_text(text, encoding="utf-8")
    for repository in ("week1-adal", "week1-blue", "week1-fh"):
        hand_in(tmp_path / "in" / repository, (1, 2), (NAMES[1], NAMES[2]))
    (made,) = week1(tmp_path, tmp_path / "in")
    late = {one.student: one.lateness for one in made.done.standings if one.lateness}
    assert late == {
        "Ada": "20 − 10 %: 1 d 12 h late, days started: 2, 1 of them free",
        "Bo": "20 − 10 %: 1 d 12 h late, days started: 2, 1 of them free",
        "Dora": "12 h 1 min late, days started: 1, all of them free",
        "Emre": "12 h 1 min late, days started: 1, all of them free",
    }
    assert made.scores["Bo"] == made.scores["Ada"] == 18 and made.scores["Dora"] == made.scores["Emre"] == 20
    assert made.scores["week1-fh"] == 20 and made.scores["Finn"] is None  # nobody is meant by that address


def test_an_absence_uses_no_late_day(tmp_path: Path) -> None:
    """And is not late, whatever a table says of a time."""
    for name, text in (("assignments.toml", TERM), ("roster.csv", ROSTER), ("handed_in.csv", TIMES)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    hand_in(tmp_path / "A" / "ada", (1, 2), (NAMES[1], NAMES[2]))
    (made,) = week1(tmp_path, tmp_path / "A")
    assert made.scores["Bo"] == 0 and not any(one.lateness for one in made.done.standings)
    bo = load(tmp_path / "class" / "week1", "Bo")
    assert bo is not None and bo.mark is not None and (bo.mark.free_days, bo.mark.days_left) == (0, 2)


def test_who_is_excused_and_hands_in_is_marked(tmp_path: Path) -> None:
    """Nothing is expected of them, and what they did is theirs."""
    (tmp_path / "assignments.toml").write_text(TERM, encoding="utf-8")
    (tmp_path / "roster.csv").write_text("name,login,excused\nAda,ada,week1\nBo,bo,week1\n")
    hand_in(tmp_path / "A" / "ada", (1,), (NAMES[1], NAMES[2]))
    (made,) = week1(tmp_path, tmp_path / "A")
    assert made.scores == {"Ada": 10, "Bo": None}
    assert {row.student: row.percent for row in made.rows} == {"Ada": "50.00", "Bo": ""}


def test_a_person_is_called_what_the_roster_calls_them(tmp_path: Path) -> None:
    """Also where a file is named: never by the folder that a platform has made, in which a Korean name has a space, and
    may have the family name last. Two who may be meant keep the names that they came with."""
    (tmp_path / "roster.csv").write_text("name\n김민서\n이준호\n박하늘\n", encoding="utf-8")
    for number, name in enumerate(("김 민서", "준호 이", "박 하늘", "하늘 박", "Ha-neul Pak"), 70123):
        put(tmp_path / "in" / f"{name}_{number}_assignsubmission_file_" / "attention.ipynb", b"")
    done = run(asked(tmp_path / "in", tmp_path / "out", register=register.read(tmp_path)))
    said = {one.student: one.error.partition(" is empty")[0] for one in done.standings if not one.absence}
    assert said == {
        name: f"{name}/attention.ipynb" for name in ("김민서", "이준호", "박 하늘", "하늘 박", "Ha-neul Pak")
    }


def test_gradescope_refuses_late_days_of_the_whole_term(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its autograder sees one assignment alone: only in the first one are all of them left."""
    (tmp_path / "assignments.toml").write_text(TERM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KIT_LANG", "en")
    with pytest.raises(BadInput, match="can't count late_days of the whole term"):
        command_line.run(["gradescope", "--assignment", "week2", "--out", "a.zip"])
    assert not Path("a.zip").exists()
    assert command_line.run(["gradescope", "--assignment", "week1", "--out", "a.zip"]) == 0
    assert "Gradescope: the assignment, Configure Autograder" in capsys.readouterr().out and Path("a.zip").exists()


def test_a_notebook_says_how_many_late_days_cost_nothing(tmp_path: Path) -> None:
    """Next to what each other one costs."""
    pytest.importorskip("nbformat", reason="what instructors need is not installed")
    from grader.classes import release

    (tmp_path / "assignments.toml").write_text(TERM, encoding="utf-8")
    with language.use("en"):
        said = release._what_counts([], marking.of(read(tmp_path / "assignments.toml"), "week1"))
    assert "Late days for nothing in the whole term: 2, of which at most 1 in one assignment." in said
