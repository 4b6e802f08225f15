"""The record of a class: each change of a mark is kept, once, whatever ends a run; names, times, tables, remarks."""

from __future__ import annotations

import os
import signal
import threading
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.base import files
from grader.base.results import Report
from grader.classes import class_list, class_run, hand_back, results
from grader.classes import pool as pools
from grader.cli import main
from grader.course import steps as course
from grader.feedback import table
from grader.marks import assignments
from grader.marks import marking as marks
from grader.marks.assignments import BadTerm
from tests.cheap import NAMES, RIGHT, asked, cheap, cheaply, rows, run  # noqa: F401  # a fixture
from tests.whole import WHOLE

pytestmark = pytest.mark.usefixtures("cheaply")

TERM = """
timezone = "UTC"
[assignments.scores]
steps = "1-3"
due = 2026-09-14T23:59:00
late = { per_day = 10, at_most = 50 }
"""
BEST = TERM.replace("steps =", 'attempts = "best"\nsteps =')
ON_TIME, LATE = "2026-09-14 20:00:00 UTC", "2026-09-15 20:00:00 UTC"


def hand_in(folder: Path, *numbers: int, **more: str) -> None:
    """Right answers to some steps, and other files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (folder / f"{NAMES[number]}.py").write_text(RIGHT[number], encoding="utf-8")
    for name, text in more.items():
        (folder / name.replace("_dot_", ".")).write_text(text, encoding="utf-8")


def term(folder: Path, text: str = TERM, **tables: str) -> marks.Marking:
    """The marking of the assignment `scores`, with tables beside the file."""
    (folder / "assignments.toml").write_text(text, encoding="utf-8")
    for name, content in tables.items():
        (folder / f"{name}.csv").write_text(content, encoding="utf-8")
    return marks.of(assignments.read(folder / "assignments.toml"), "scores")


# --- changes ----------------------------------------------------------------------------------------------------------


def regraded(folder: Path) -> list[tuple[str, str, str]]:
    """What the list of changes says, without when."""
    return sorted((row["student"], row["from"], row["to"]) for row in rows(folder / "changes.csv"))


def class_of(folder: Path, students: int) -> None:
    for number in range(students):
        hand_in(folder / f"s{number:02}", 1, 2, 3)


def with_less(folder: Path) -> None:
    """Everybody's second step is lost."""
    for student in folder.iterdir():
        (student / f"{NAMES[2]}.py").write_text("x = 1\n")


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_run_that_is_killed_at_any_stage_loses_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at each file that it writes, then run again: the list is that of an unbroken run."""
    class_of(tmp_path / "in", 4)
    out = tmp_path / "out"
    run(asked(tmp_path / "in", out))
    kept = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with_less(tmp_path / "in")
    written = files.write
    stage, ended = 0, False
    found = []
    while not ended:
        stage += 1 if WHOLE else 6
        for path in [path for path in out.rglob("*") if path.is_file() and path not in kept]:
            path.unlink()
        for path, content in kept.items():
            path.write_bytes(content)
        child = os.fork()
        if child == 0:
            left = iter(range(stage - 1, -1, -1))

            def write(path: Path, *content: Any, left: Iterator[int] = left, **how: Any) -> None:
                if next(left) == 0:
                    os.kill(os.getpid(), 9)
                written(path, *content, **how)

            monkeypatch.setattr(files, "write", write)
            try:
                run(asked(tmp_path / "in", out))
            finally:
                os._exit(0)
        ended = os.waitpid(child, 0)[1] == 0
        run(asked(tmp_path / "in", out))
        found.append(regraded(out))
    assert stage > 20  # files are written for each student, and for the class
    assert found == [[(f"s{number:02}", "30", "20") for number in range(4)]] * len(found)


@pytest.mark.thorough
def test_a_run_that_is_stopped_says_what_it_has_changed(tmp_path: Path) -> None:
    """Three of twelve, then Ctrl-C: three lines, and nine at the second run; the table has twelve."""
    class_of(tmp_path / "in", 12)
    run(asked(tmp_path / "in", tmp_path / "out"))
    with_less(tmp_path / "in")

    def stopping(total: int):  # type: ignore[no-untyped-def]  # a context manager
        from contextlib import nullcontext

        seen: list[str] = []

        def note(graded: object, kept: bool) -> None:
            seen.append("")
            if len(seen) == 3:
                raise KeyboardInterrupt

        return nullcontext(note)

    with pytest.raises(class_run.Stopped) as stopped:
        class_run.run(asked(tmp_path / "in", tmp_path / "out"), stopping)
    assert len(stopped.value.changes) == 3
    assert len(run(asked(tmp_path / "in", tmp_path / "out")).changes) == 9
    assert len(regraded(tmp_path / "out")) == 12
    assert (tmp_path / "out" / "changes.csv").read_bytes().startswith(b"\xef\xbb\xbf")  # as the other tables


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals go to the main thread")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_while_somebody_is_saved_counts_them(
    how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the sentence counts is what lies in the folder."""
    class_of(tmp_path / "in", 3)
    write = files.write

    def stopped(path: Path, content: bytes) -> None:
        if path.parent.name == "reports":
            os.kill(os.getpid(), how)
        write(path, content)

    monkeypatch.setattr(files, "write", stopped)
    signalled = main._stopped_by_signals()
    with signalled, pytest.raises(class_run.Stopped, match="1 of 3 are graded and saved"):
        run(asked(tmp_path / "in", tmp_path / "out"))
    assert len(list((tmp_path / "out" / "reports").glob("*.json"))) == 1


def test_a_mark_that_was_open_in_between_is_in_the_list(tmp_path: Path) -> None:
    """34, open, 19: two changes."""
    hand_in(tmp_path / "in" / "ada", 1, 2, 3)
    for text in (None, b"\xff\xfe", b"x = 1\n"):
        if text is not None:
            (tmp_path / "in" / "ada" / f"{NAMES[1]}.py").write_bytes(text)
        run(asked(tmp_path / "in", tmp_path / "out"))
    assert [(row["from"], row["to"]) for row in rows(tmp_path / "out" / "changes.csv")] == [("30", ""), ("", "20")]


# --- what is checked before anything is graded ------------------------------------------------------------------------


def test_too_many_points_are_refused_before_anybody_is_graded(tmp_path: Path) -> None:
    """With the file and the line, by whoever reads the term: class and term alike."""
    most = next(step.points for step in course.steps() if step.number == 2)
    good = f"student,step,points,reason\nada,2,{most:g},well said\n"
    term(tmp_path, overrides=good)
    with pytest.raises(BadTerm, match=r"overrides\.csv, line 3: .*too many"):
        term(tmp_path, overrides=good + "ada,2,25,a slip\n")
    with pytest.raises(BadTerm, match=r"remarks\.csv, line 2"):
        term(tmp_path, overrides=good, remarks="student,step,remark\nada,2,\n")


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_name_taken_apart_is_the_same_name(tmp_path: Path) -> None:
    """As a Mac writes Hangul; and a login in capitals. Both are shown as they came."""
    apart = unicodedata.normalize("NFD", "김민서")
    hand_in(tmp_path / "in" / apart, 1, 2, 3, timestamp_dot_txt=LATE)
    hand_in(tmp_path / "in" / "Ada@Uni.edu", 1)
    tables = "student,step,points,reason\n김민서,1,1,told\nada@uni.edu,2,2,told\n"
    marking = term(tmp_path, overrides=tables, remarks="student,remark\n김민서,come and see me\n")
    done = run(asked(tmp_path / "in", tmp_path / "out", marking=marking))
    assert done.unknown == [] and [one.student for one in done.standings] == ["Ada@Uni.edu", apart]
    kept = results.load(tmp_path / "out", done.standings[1].file)
    assert kept and kept.mark and kept.mark.remarks == ["Remark: come and see me"]
    assert [step.points for step in kept.mark.steps][0] == 1
    together = results.marks_of(tmp_path, assignments.read(tmp_path / "assignments.toml"))
    assert together == {}


def test_two_weeks_of_one_person_are_one_row_of_the_term(tmp_path: Path) -> None:
    """However the name is written in each."""
    (tmp_path / "assignments.toml").write_text(TERM + '[assignments.more]\nsteps = "1-3"\n')
    whole = assignments.read(tmp_path / "assignments.toml")
    for name, form in (("scores", "NFC"), ("more", "NFD")):
        hand_in(tmp_path / name / unicodedata.normalize(form, "김민서"), 1, 2, 3)
        run(asked(tmp_path / name, tmp_path / "out" / name, marking=marks.of(whole, name), assignment=name))
    lines = table.term_csv(
        table.term_rows(whole, results.marks_of(tmp_path / "out", whole)),
        list(results.marks_of(tmp_path / "out", whole)),
    ).splitlines()
    assert len(lines) == 2 and lines[1].endswith("100.00,")


# --- times ------------------------------------------------------------------------------------------------------------


def test_a_time_that_cannot_be_read_leaves_the_mark_open(tmp_path: Path) -> None:
    """Where it decides, and where no table knows better; a late one says what it cost, where the number stands."""
    submitted = tmp_path / "course" / "submitted"  # nbgrader's, whose word counts
    (tmp_path / "course" / "source").mkdir(parents=True)
    for name, when in (("ada", ON_TIME), ("brook", "yesterday evening"), ("chen", LATE), ("dora", "soon")):
        hand_in(submitted / name / "scores", 1, 2, 3, timestamp_dot_txt=when)
    marking = term(tmp_path, handed_in=f"student,time\ndora,{ON_TIME.removesuffix(' UTC')}\n")
    request = asked(submitted, tmp_path / "out", marking=marking, assignment="scores")
    done = {one.student: one for one in run(request).standings}
    marked = {name: one.score for name, one in done.items()}
    assert marked["brook"] is None and "yesterday evening" in done["brook"].error
    assert marked["ada"] == marked["dora"] and marked["chen"] == pytest.approx(0.9 * marked["ada"])
    assert done["chen"].lateness.endswith("− 10 %: 20 h 1 min late, days started: 1") and not done["ada"].lateness
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert done["chen"].lateness in page
    own = (tmp_path / "out" / "pages" / "chen.html").read_text(encoding="utf-8")
    assert "Everything passes" not in own
    assert "10 % of the points are taken off" in own
    plain = {one.student: one for one in run(asked(submitted, tmp_path / "plain", assignment="scores")).standings}
    assert plain["brook"].score == 30  # without a date nothing depends on it


# --- feedback ---------------------------------------------------------------------------------------------------------


def test_who_has_no_page_is_told_apart_from_who_has_no_name(tmp_path: Path) -> None:
    """Not graded is not “not named”."""
    submissions = tmp_path / "in"
    submissions.mkdir()
    for name in ("ada_1_11", "brook_2_12"):
        (submissions / f"{name}_{NAMES[1]}.py").write_text(RIGHT[1])
    (submissions / "chen_3_text.html").write_text("<p>no file</p>")
    hand_in(submissions / "dora", 1)
    run(asked(submissions, tmp_path / "out"))
    packed = hand_back.build(tmp_path / "feedback.zip", results.read(tmp_path / "out"), "canvas")
    assert (packed.count, packed.ungraded, packed.nameless) == (2, ["chen"], ["dora"])
    with zipfile.ZipFile(tmp_path / "feedback.zip") as archive:
        assert archive.namelist() == ["ada_1_11_feedback.html", "brook_2_12_feedback.html"]


# --- what instructors use weekly --------------------------------------------------------------------------------------


def test_some_students_again_into_the_same_results(tmp_path: Path) -> None:
    """The others stay as they stand, changed or not; nobody is left out."""
    class_of(tmp_path / "in", 3)
    run(asked(tmp_path / "in", tmp_path / "out"))
    with_less(tmp_path / "in")
    hand_in(tmp_path / "in" / "s99", 1)
    done = run(asked(tmp_path / "in", tmp_path / "out", only=("S01",)))
    assert [(one.student, one.score) for one in done.standings] == [
        ("s00", 30), ("s01", 20), ("s02", 30), ("s99", None),
    ]  # fmt: skip
    assert len(done.changes) == 1 and "not graded yet" in done.standings[3].error
    assert done.kept == 2  # and not who was never graded
    later = run(asked(tmp_path / "in", tmp_path / "out"))
    assert [one.score for one in later.standings] == [20, 20, 20, 10] and later.kept == 1
    with pytest.raises(class_list.Impossible, match="no student nobody"):
        run(asked(tmp_path / "in", tmp_path / "out", only=("nobody",)))


@pytest.mark.parametrize(("counts", "points"), [("last", 9), ("best", 27)])
def test_the_best_or_the_last_attempt(counts: str, points: float, tmp_path: Path) -> None:
    """As the file says; nbgrader's exchange keeps them all, each with its time."""
    hand_in(tmp_path / "in" / f"ada+scores+{ON_TIME}+ab", 1, 2)
    hand_in(tmp_path / "in" / f"ada+scores+{LATE}+cd", 1, 2, 3)
    hand_in(tmp_path / "in" / "ada+scores+2026-09-15 21:00:00 UTC+ef", 1)
    marking = term(tmp_path, TERM.replace("steps =", f'attempts = "{counts}"\nsteps ='))
    done = run(asked(tmp_path / "in", tmp_path / "out", marking=marking))
    assert done.standings[0].score == points  # 30 less a day's 10 %, rather than 20
    kept = results.load(tmp_path / "out", "ada")
    assert kept and kept.attempt == (0 if counts == "last" else 1)
    best = [step.points for step in kept.mark.steps] if kept.mark else []
    assert sum(map(bool, best)) == (1 if counts == "last" else 3)
    again = run(asked(tmp_path / "in", tmp_path / "out", marking=marking))
    before = [msgspec.structs.replace(one, changed="") for one in done.standings]  # what that run had changed
    assert again.kept == 1 and again.changes == [] and again.standings == before


def test_all_attempts_of_a_student_have_the_time_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last attempt is graded first; when they have taken all the time, the older ones are no further gradings."""
    graded: list[str] = []

    def slow(task: pools.Task) -> Report:
        graded.append(task.submission.name)
        return with_first(cheap(task), seconds=100.0)

    monkeypatch.setattr("tests.cheap.cheap", slow)
    for day in range(10, 15):
        hand_in(tmp_path / "in" / f"ada+scores+2026-09-{day} 21:00:00 UTC+ab", 1, 2)
    hand_in(tmp_path / "in" / f"bob+scores+{ON_TIME}+ab", 1, 2)
    marking = term(tmp_path, BEST)
    done = run(asked(tmp_path / "in", tmp_path / "out", marking=marking))
    assert [one.score for one in done.standings] == [20, 20]
    assert len(graded) == 1 + 2, "of five attempts: three steps have 180 s, which two use up"
    kept = results.load(tmp_path / "out", "ada")
    assert kept and [one.points for one in kept.tries] == [None, None, None, 20, 20]


def test_a_kept_result_is_marked_as_the_attempt_that_counts(tmp_path: Path) -> None:
    """The first of two has the points, in time; kept by the next run, it doesn't get the time of the second one."""
    hand_in(tmp_path / "in" / f"ada+scores+{ON_TIME}+ab", 1, 2)
    hand_in(tmp_path / "in" / "ada+scores+2026-09-20 21:00:00 UTC+ab", 1)
    request = asked(tmp_path / "in", tmp_path / "out", marking=term(tmp_path, BEST))
    first, second = run(request), run(request)
    assert (second.kept, second.changes) == (1, [])
    assert [one.score for one in (*first.standings, *second.standings)] == [20, 20]
    assert first.standings[0].mark == second.standings[0].mark


def with_first(report: Report, **changed: Any) -> Report:
    """The report with another first step."""
    first, *others = report.steps
    return msgspec.structs.replace(report, steps=[msgspec.structs.replace(first, **changed), *others])


def of_another_step(report: Report) -> Report:
    return with_first(report, name="step05_dropout")


def vast(report: Report) -> Report:
    return with_first(report, score=1e300)


def of_another_type(report: Report) -> Report:
    return with_first(report, message=7)


@pytest.mark.parametrize("forged", [of_another_step, vast, of_another_type, lambda _report: {"score": 1}])
def test_a_worker_that_forges_reaches_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: Callable[[Any], Any]
) -> None:
    """As one of a cluster can: that student has an error, and the others have their marks."""

    def answered(task: pools.Task) -> Any:
        honest = cheap(task)
        return forged(honest) if task.submission.name == "eve" else honest

    monkeypatch.setattr("tests.cheap.cheap", answered)
    for name in ("ada", "eve", "zoe"):
        hand_in(tmp_path / "in" / name, 1, 2)
    done = run(asked(tmp_path / "in", tmp_path / "out"))
    assert [(one.student, one.score) for one in done.standings] == [("ada", 20), ("eve", None), ("zoe", 20)]
    kept = results.load(tmp_path / "out", "eve")
    assert kept and kept.error.startswith("The grader failed")


def test_any_two_of_a_list(tmp_path: Path) -> None:
    """The best count, each worth the same; the total is the same for everybody."""
    electives = 'electives = { count = 1, steps = "2-3", points = 4 }'
    marking = term(tmp_path, TERM.replace('"1-3"', f'"1"\n{electives}'))
    hand_in(tmp_path / "in" / "both", 1, 2, 3)
    hand_in(tmp_path / "in" / "one", 1, 3)
    hand_in(tmp_path / "in" / "none", 1)
    done = run(asked(tmp_path / "in", tmp_path / "out", marking=marking)).standings
    assert [(one.student, one.score, one.max_score) for one in done] == [
        ("both", 14, 14),
        ("none", 10, 14),
        ("one", 14, 14),
    ]
    with pytest.raises(BadTerm, match="electives.count"):
        term(tmp_path, TERM.replace('"1-3"', '"1"\nelectives = { count = 3, steps = "2-3" }'))


def test_a_remark_and_a_request_for_a_second_look(tmp_path: Path) -> None:
    """On the student's page, for a step or for all; a request without an answer is listed."""
    hand_in(tmp_path / "in" / "ada", 1, 2, 3)
    hand_in(tmp_path / "in" / "brook", 1)
    said = "assignment,student,step,remark,request\nscores,ada,,well done,\nscores,ada,2,see line 3,why not 10?\n"
    marking = term(tmp_path, remarks=said + "scores,brook,3,,please look again\n")
    done = run(asked(tmp_path / "in", tmp_path / "out", marking=marking))
    assert [(one.student, one.requests) for one in done.standings] == [("ada", []), ("brook", ["please look again"])]
    page = (tmp_path / "out" / "pages" / "ada.html").read_text(encoding="utf-8")
    for sentence in ("Remark: well done", "A second look was asked for: why not 10?", "Answer: see line 3"):
        assert sentence in page
    assert "please look again" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert done.changes == []


@pytest.mark.thorough
def test_a_name_longer_than_a_column_is_one_students_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL refuses it: one line that names the student, and the others have their marks."""
    pytest.importorskip("nbgrader", reason="what instructors need is not installed")
    from nbgrader.api import Gradebook
    from sqlalchemy.exc import DataError

    from grader.classes import gradebook

    whole = Gradebook.update_or_create_student

    def strict(self: Gradebook, name: str, **more: object) -> object:
        if len(name) > 128:
            raise DataError("INSERT", {}, Exception("value too long for type character varying(128)"))
        return whole(self, name, **more)

    monkeypatch.setattr(Gradebook, "update_or_create_student", strict)
    long = "x" * 200
    entries = [(name, None, "damaged", None) for name in (long, "ada")]
    url = f"sqlite:///{tmp_path}/gradebook.db"
    with pytest.raises(gradebook.NoGradebook, match=f"{long}.*too long"):
        gradebook.save(url, "attention", entries, [NAMES[1]])
    with Gradebook(url) as book:
        assert [student.id for student in book.students] == ["ada"]
