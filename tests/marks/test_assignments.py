"""A term of three assignments from one file: through `class`, and through nbgrader with the same marks."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from grader.base import paths
from grader.base.limits import Limits
from grader.base.results import (
    AssignmentMark,
    CheckResult,
    MarkChange,
    Report,
    StepMark,
    StepResult,
    TrackResult,
)
from grader.classes import class_run
from grader.classes import pool as pools
from grader.cli import assigned
from grader.cli.parser import BadInput
from grader.course import steps as course
from grader.marks import assignments, changes, ledger, moments
from grader.marks import marking as marks
from grader.marks.assignments import BadTerm, Term
from tests.whole import WHOLE

TOML = """
timezone = "Asia/Seoul"

[assignments.scores]
title = "Scores and weights"
steps = "1-2"
weights = { 2 = 2 }
opens = 2026-09-07
due = 2026-09-14T23:59:00
grace = "30 minutes"
late = { per_day = 10, at_most = 50 }

[assignments.masks]
steps = [4]
extra = "7"
due = 2026-09-28

[assignments.sums]
steps = "3"
weight = 2

[[extensions]]
student = "dora"
assignment = "scores"
until = 2026-09-17T23:59:00
reason = "ill"
"""
OVERRIDES = "assignment,student,step,points,reason\nmasks,emre,4,5.5,explained it at the board\n"
LATE = "2026-09-16 03:00:00 UTC"  # a day and twelve hours after 23:59 in Seoul: two days have begun
STEPS = {step.name: step for step in course.steps() if step.number in (1, 2, 3, 4, 7)}
WRONG_MASK = STEPS["step04_causal_mask"].solved().replace(".tril()", ".triu()")
STUDENTS = ("ada", "brook", "dora", "emre", "grace")


def answers(student: str, assignment: str) -> dict[str, str]:
    """What a student wrote, by step; nothing where it was left as it was."""
    right = {name: step.solved() for name, step in STEPS.items()}
    if student in ("brook", "grace", "emre"):
        right["step04_causal_mask"] = WRONG_MASK
    if student == "brook":
        del right["step07_heads"], right["step02_softmax"]
    return right


def hand_in(course_folder: Path, term: Term, student: str, name: str, texts: Mapping[str, str]) -> None:
    """A notebook of the assignment, as nbgrader collects it."""
    from grader.classes import release

    marking = marks.Marking(term, term.assignments[name])
    own = [step for step in course.steps() if step.name in marking.assignment.everything]
    notebook = release.notebook(own, marking)
    for cell in notebook.cells:
        step = cell.metadata.get("nbgrader", {}).get("grade_id")
        if step in STEPS:
            cell.source = f"# {step}\n{texts.get(step, STEPS[step].stub())}"
    folder = course_folder / "submitted" / student / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The term's folder: the file, the table of decisions, and what everybody handed in."""
    pytest.importorskip("nbformat", reason="what instructors need is not installed")
    folder = tmp_path_factory.mktemp("term")
    (folder / "assignments.toml").write_text(TOML, encoding="utf-8")
    (folder / "overrides.csv").write_text(OVERRIDES, encoding="utf-8")
    term = assignments.read(folder / "assignments.toml")
    for student in STUDENTS:
        for name in term.assignments:
            hand_in(folder / "course", term, student, name, answers(student, name))
    (folder / "course" / "nbgrader_config.py").write_text("", encoding="utf-8")
    for student in ("brook", "dora"):
        (folder / "course" / "submitted" / student / "scores" / "timestamp.txt").write_text(LATE)
    (folder / "course" / "submitted" / "emre" / "timestamp.txt").write_text(LATE)  # of his own
    return SimpleNamespace(folder=folder, term=term)


@pytest.fixture(scope="module")
def warm() -> Iterator[None]:
    """One warm grader for every run: in its place a class starts a pool."""

    @contextmanager
    def opened() -> Iterator[ThreadPoolExecutor]:
        with ThreadPoolExecutor(1) as executor:
            yield executor

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_run, "_pool", lambda request: nullcontext(pools.Pool(opened, 1)))
        yield
    pools.close_graders()


def graded(played: SimpleNamespace, name: str, **changed: object) -> class_run.Done:
    """One assignment through `class`, as the command has it."""
    term = assignments.read(played.folder / "assignments.toml")
    marking = marks.of(term, name)
    request = class_run.Request(
        submissions=played.folder / "course" / "submitted", out=played.folder / "class" / name,
        steps=marking.assignment.everything, device="cpu", seed=7, limits=Limits(), assignment=name, jobs=1,
        marking=marking, also=("gradescope", "junit"),
    )  # fmt: skip
    request = dataclasses.replace(request, **changed)  # type: ignore[arg-type]
    return class_run.run(request, lambda total: nullcontext(lambda graded, kept: None))


def points(played: SimpleNamespace, name: str) -> dict[str, float]:
    """The marks of an assignment in its table."""
    with (played.folder / "class" / name / "marks.csv").open(encoding="utf-8-sig") as file:
        return {row["student"]: float(row["points"]) for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def through_class(played: SimpleNamespace, warm: None) -> SimpleNamespace:
    """All three assignments graded, then `grace` handed in again and a decision added, and the second one regraded."""
    done = {name: graded(played, name) for name in played.term.assignments}
    first = {name: points(played, name) for name in done}
    hand_in(played.folder / "course", played.term, "grace", "masks", answers("ada", "masks"))
    with (played.folder / "overrides.csv").open("a") as file:
        file.write("masks,ada,7,1,copied from the lecture\n")
    again = graded(played, "masks")
    third = graded(played, "masks")
    return SimpleNamespace(first=first, again=again, third=third, done=done, played=played)


@pytest.mark.thorough
def test_every_rule_counts(through_class: SimpleNamespace) -> None:
    """Weights, extra credit, lateness with and without more time, and what a person decided."""
    worth = {name: step.points for name, step in STEPS.items()}
    scores, masks = through_class.first["scores"], through_class.first["masks"]
    full = worth["step01_scores"] + 2 * worth["step02_softmax"]
    assert scores["ada"] == scores["dora"] == scores["emre"] == full
    assert scores["brook"] == pytest.approx(0.8 * worth["step01_scores"])
    assert masks["ada"] == worth["step04_causal_mask"] + worth["step07_heads"]
    assert masks["emre"] == 5.5 + worth["step07_heads"]
    assert 0 < masks["brook"] < worth["step04_causal_mask"]
    ada = next(one for one in through_class.done["masks"].standings if one.student == "ada")
    assert (ada.score, ada.max_score) == (masks["ada"], worth["step04_causal_mask"])
    assert through_class.first["sums"]["brook"] == worth["step03_attention"]


def test_a_regrade_says_which_marks_changed_and_why(through_class: SimpleNamespace) -> None:
    """Handed in again, and decided: no other mark changes, and a third run changes none; decisions survive it."""
    said = {one.student: one for one in through_class.again.changes}
    assert set(said) == {"ada", "grace"}
    assert said["grace"].before < said["grace"].after
    before = said["grace"].before - STEPS["step07_heads"].points
    graded_again = f"step04_causal_mask: graded 8 instead of {before:g}"
    assert said["grace"].reasons == [f"{graded_again} (the file was handed in again)"]
    assert said["ada"].reasons == ["step07_heads: 1 points decided by the staff (copied from the lecture)"]
    assert through_class.third.changes == [] and through_class.third.kept == len(STUDENTS)
    lines = list(changes.lines(through_class.again.changes))
    assert "2" in lines[0] and "ada" in lines[1] and "copied from the lecture" in lines[1]
    out = through_class.played.folder / "class" / "masks"
    table = (out / "changes.csv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 3 and "handed in again" in table[2]
    page = (out / "pages" / "emre.html").read_text(encoding="utf-8")
    assert "explained it at the board" in page and "5.5 of" in page
    late = (through_class.played.folder / "class" / "scores" / "pages" / "brook.html").read_text(encoding="utf-8")
    assert "20 % of the points are taken off" in late
    gradescope = json.loads((out / "gradescope" / "emre.json").read_bytes())
    assert gradescope["score"] == points(through_class.played, "masks")["emre"]


def test_one_table_of_the_term(through_class: SimpleNamespace) -> None:
    """The shares of the assignments, each with its weight."""
    from grader.classes import results
    from grader.feedback import table

    term = through_class.played.term
    found = results.marks_of(through_class.played.folder / "class", term)
    rows = list(csv.DictReader(table.term_csv(table.term_rows(term, found), list(found)).splitlines()))
    ada = next(row for row in rows if row["student"] == "ada")
    shares = [float(ada[name]) / out_of for name, (_none, out_of) in results.totals(term).items()]
    assert float(ada["percent"]) == pytest.approx(100 * (shares[0] + shares[1] + 2 * shares[2]) / 4, abs=0.01)
    assert shares[1] == pytest.approx((STEPS["step04_causal_mask"].points + 1) / STEPS["step04_causal_mask"].points)


@pytest.mark.skipif(not WHOLE, reason="nbgrader takes a minute; make check plays it")
def test_nbgrader_gives_the_same_marks(through_class: SimpleNamespace) -> None:
    """Released, graded and regraded through nbgrader, under the same seed; it logs what changes, and why."""
    from grader.classes import release
    from grader.classes.last_report import SEED_FILE
    from tests.classes.test_nbgrader import nbgrader

    folder, term = through_class.played.folder / "course", through_class.played.term
    for name in term.assignments:
        release.build(folder, marking=marks.of(term, name))
        nbgrader(folder, "generate_assignment", name)
    (folder / SEED_FILE).write_text("7\n")
    for name in term.assignments:
        nbgrader(folder, "autograde", name)
    assert gradebook_marks(folder, term) == {
        (name, student): pytest.approx(mark)
        for name in term.assignments
        for student, mark in points(through_class.played, name).items()
    }
    with (through_class.played.folder / "overrides.csv").open("a") as file:
        file.write("sums,brook,3,2,an oral exam\n")
    said = nbgrader(folder, "autograde", "sums", "--force")
    assert "brook: " in said and "an oral exam" in said
    assert not [line for line in said.splitlines() if "ada: " in line]
    assert gradebook_marks(folder, term)["sums", "brook"] == 2


def gradebook_marks(folder: Path, term: Term) -> dict[tuple[str, str], float]:
    """What nbgrader's gradebook holds, by assignment and student."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        return {
            (name, one.student.id): one.score - one.late_submission_penalty
            for name in term.assignments
            for one in book.assignment_submissions(name)
        }


# --- decisions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "points"), [("scores,ada,1,4,read by eye\nscores,ada,2,9,read by eye\n", 13.0),
                                              ("scores,ada,1,4,read by eye\n", None), ("", None)])  # fmt: skip
def test_decisions_count_where_nothing_could_be_graded(rows: str, points: float | None, tmp_path: Path) -> None:
    """All of them make a mark; where one is missing, the mark stays open."""
    (tmp_path / "assignments.toml").write_text(TOML, encoding="utf-8")
    (tmp_path / "overrides.csv").write_text(OVERRIDES + rows, encoding="utf-8")
    mark = ledger.Ledger(marks.of(assignments.read(tmp_path / "assignments.toml"), "scores")).mark("", "ada", None)
    assert (mark.points if mark else None) == points


def test_weights_count_in_a_kernel_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A locked cell gives what its step counts in the assignment, of the points that nbgrader knows for it."""
    pytest.importorskip("nbformat", reason="what instructors need is not installed")
    from grader.classes import release

    (tmp_path / "assignments.toml").write_text(TOML, encoding="utf-8")
    term = assignments.read(tmp_path / "assignments.toml")
    results = {
        step.name: SimpleNamespace(without_score=False, score=0.5 * step.points, max_score=step.points)
        for step in course.steps()
    }
    known = SimpleNamespace(latest=lambda name: SimpleNamespace(steps=[results[name]]))
    monkeypatch.setattr("grader.learner.cell_checks._warm_grader", lambda: known)
    given = {}
    for name in ("scores", "masks"):
        one = term.assignments[name]
        steps = [step for step in course.steps() if step.name in one.everything]
        for cell in release.notebook(steps, marks.Marking(term, one)).cells:
            marked = cell.metadata.get("nbgrader", {})
            if marked.get("grade"):
                exec(cell.source.rpartition("\n")[0], space := {})
                given[marked["grade_id"]] = (eval(cell.source.rpartition("\n")[2], space), marked["points"])
    assert given == {
        "step01_scores_points": (3.0, 6.0),
        "step02_softmax_points": (8.0, 16.0),
        "step04_causal_mask_points": (4.0, 8.0),
        "step07_heads_points": (0.0, 0.0),
    }


# --- the file --------------------------------------------------------------------------------------------------------

FIRST = '[assignments.a]\nsteps = "1"\n'
BAD = {
    "title = 'x'": "has no assignment",
    "[assignments.a": "is not valid TOML",
    f"titel = 'x'\n{FIRST}": "the nearest is title",
    "[assignments.a]\ntitle = 'x'": "it has no steps",
    "[assignments.a]\nsteps = '99'": "There is no step 99",
    "[assignments.a]\nsteps = 1.5": "it has to be steps",
    "[assignments.'a b']\nsteps = '1'": "folders are named so",
    f"{FIRST}due = 'tomorrow'": "is not a date",
    f"{FIRST}due = 2026-01-01\nopens = 2026-01-02": "it is due before it opens",
    f"{FIRST}grace = 3": "is not a length of time",
    f"{FIRST}late = {{ per_day = 200 }}": "a number from 0 to 100",
    f"{FIRST}late = {{ a_day = 10 }}": "the nearest is per_day",
    f"{FIRST}weights = {{ 2 = 1 }}": "is not a step of this assignment",
    f"{FIRST}weights = {{ 1 = 'x' }}": "a number from 0",
    f"{FIRST}stand_ins = 'mine'": "choose from",
    f"timezone = 'Mars'\n{FIRST}": "is not a time zone",
    f"{FIRST}[extensions]\nstudent = 'x'": "two brackets",
    f"{FIRST}[[extensions]]\nstudent = 'x'\nassignment = 'b'\nmore = '1 day'": "only a",
    f"{FIRST}[[accommodations]]\nstudent = 'x'": "say how long",
    f"{FIRST}[[accommodations]]\nmore = '1 day'": "text in quotes",
}


@pytest.mark.parametrize(("text", "said"), BAD.items(), ids=list(BAD.values()))
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    """It names the file and the place; on the command line the command that checks it follows."""
    file = tmp_path / "assignments.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadTerm, match=said) as bad:
        assignments.read(file)
    assert str(bad.value).startswith(str(file)) and "\n" not in str(bad.value)
    with pytest.raises(BadInput, match=r"Type: python -m grader term --assignments \S+$"):
        assigned.term(file)


BAD_TABLES = {
    "student,step\nada,1": "the first line has to name the columns",
    "assignment,student,step,points,reason\nscores,ada,9,1,x": "is not a step of scores",
    "assignment,student,step,points,reason\nscores,ada,99,1,x": "There is no step 99",
    "assignment,student,step,points,reason\nquiz,ada,1,1,x": "there is no “quiz”",
    "student,step,points,reason\nada,1,many,x": "is not a number of points",
    "student,step,points,reason\nada,1,nan,x": "is not a number of points",
    "student,step,points,reason\nada,1,-0.5,x": "is not a number of points",
    "student,step,points,reason\nada,1,1e6,x": "is not a number of points",
    "student,step,points,reason\nada,1,2,": "the reason is missing",
    "student,step,points,reason\n,1,2,x": "the student is missing",
    "student,step,points,reason\nada,1,2,x, y": "put a comma inside quotes",
}


@pytest.mark.parametrize(("text", "said"), BAD_TABLES.items(), ids=list(BAD_TABLES.values()))
def test_a_bad_table_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    """It names the file and the line."""
    (tmp_path / "assignments.toml").write_text(TOML, encoding="utf-8")
    (tmp_path / "overrides.csv").write_text(text, encoding="utf-8")
    with pytest.raises(BadTerm, match=said) as bad:
        marks.of(assignments.read(tmp_path / "assignments.toml"), "scores")
    assert "overrides.csv, line " in str(bad.value) and "\n" not in str(bad.value)


def test_the_example_is_right() -> None:
    """The file that is there to be copied."""
    term = assignments.read(paths.ROOT / "examples" / "course" / "assignments.toml")
    assert list(term.assignments) == ["scores", "masks", "heads"]
    assert term.deadline("scores", "dora") == assignments.Deadline(
        moments.moment("2026-09-17T23:59:00", term.local), "ill"
    )
    nina = term.deadline("heads", "nina")
    assert nina and nina.until - moments.moment("2026-10-12T23:59:00", term.local) == timedelta(days=2)


def test_which_assignment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file is, a name is asked for; steps that were asked for need none; without a file nothing changes."""
    given = SimpleNamespace(assignment=None, assignments=None, step=[], track=[])
    monkeypatch.chdir(tmp_path)
    assert assigned.marking(given, "kit") is None  # type: ignore[arg-type]
    (tmp_path / "assignments.toml").write_text(TOML, encoding="utf-8")
    with pytest.raises(BadInput, match=r"has scores, masks, sums. Type: python -m grader kit --assignment scores$"):
        assigned.marking(given, "kit")  # type: ignore[arg-type]
    assert assigned.marking(SimpleNamespace(**vars(given) | {"step": ["1"]}), "kit") is None  # type: ignore[arg-type]
    one = assigned.marking(SimpleNamespace(**vars(given) | {"assignment": "masks"}), "kit")  # type: ignore[arg-type]
    assert one and one.assignment.everything == ["step04_causal_mask", "step07_heads"]
    for wrong in ({"assignment": "x"}, {"assignment": "masks", "step": ["1"]}, {"assignments": Path("none.toml")}):
        with pytest.raises(BadInput, match="Type: "):
            assigned.marking(SimpleNamespace(**vars(given) | wrong), "kit")  # type: ignore[arg-type]


# --- marks -----------------------------------------------------------------------------------------------------------


def report(score: float | None = 4.0) -> Report:
    """A report of one step of four points."""
    check = CheckResult(name="test_a", title="A.", device="cpu", status="pass", points=4.0, max_points=4.0)
    step = StepResult(
        name="step01_scores", title="S", status="pass", score=score, max_score=4.0, seconds=0.0, checks=[check]
    )
    return Report(submission="ada", seed=7, isolation=[], devices={}, score=score or 0.0, max_score=4.0, steps=[step])


@pytest.mark.parametrize(
    ("hours", "share"), [(-1, 0), (0, 0), (0.5, 0), (0.51, 0.1), (24, 0.1), (24.01, 0.2), (24 * 30, 0.5)]
)
def test_lateness(tmp_path: Path, hours: float, share: float) -> None:
    """Within the grace nothing, beyond it each day that has begun, at most so much."""
    (tmp_path / "assignments.toml").write_text(TOML, encoding="utf-8")
    marking = marks.of(assignments.read(tmp_path / "assignments.toml"), "scores")
    due = marking.assignment.due
    assert due
    mark = marking.mark("ada", report(), due + timedelta(hours=hours))
    assert (mark.late, mark.points) == (pytest.approx(share), pytest.approx(4 * (1 - share)))
    assert any("late" in line for line in marks.sentences(mark)) == (share > 0)


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    """Late by Canvas's word alone costs nothing and is said; a step that the grader could not grade leaves no mark."""
    (tmp_path / "assignments.toml").write_text(TOML, encoding="utf-8")
    marking = marks.of(assignments.read(tmp_path / "assignments.toml"), "scores")
    unsure = marking.mark("ada", report(), late=True)
    assert unsure.points == 4 and "not when" in marks.sentences(unsure)[0]
    assert marking.mark("ada", report(score=None)).points is None


def test_both_times_of_a_mark_are_in_the_zone_of_the_course(tmp_path: Path) -> None:
    """A platform may say its own in another one."""
    (tmp_path / "assignments.toml").write_text(TOML, encoding="utf-8")
    term = assignments.read(tmp_path / "assignments.toml")
    marking = marks.Marking(term, term.assignments["scores"])
    mark = marking.mark("ada", report(), moments.moment(LATE, UTC))
    assert (mark.handed_in, mark.until) == ("2026-09-16T12:00:00+09:00", "2026-09-14T23:59:00+09:00")


def test_moments() -> None:
    """As nbgrader writes them, as TOML has them, and as people do."""
    seoul = moments.zone("Asia/Seoul")
    assert moments.moment("2026-09-14 23:59:00.5 UTC", seoul) == datetime(2026, 9, 14, 23, 59, 0, 500000, UTC)
    assert moments.moment("2026-09-14T23:59:00+09:00", UTC) == moments.moment("2026-09-14 23:59", seoul)
    assert moments.moment("2026-09-14", seoul, end=True).hour == 23
    for bad in ("soon", "2026-13-01", "2026-01-01 10:00 Mars/Base", "", "2026-01-01 25:00"):
        with pytest.raises(moments.NoMoment):
            moments.moment(bad, seoul)


@pytest.mark.parametrize(
    ("minutes", "said"), [(0, "0 h 0 min"), (59.6, "1 h 0 min"), (61.4, "1 h 1 min"), (24 * 60 - 1, "23 h 59 min"),
                          (24 * 60, "1 d 0 h"), (51 * 60 + 59, "2 d 3 h")],
)  # fmt: skip
def test_a_length_of_time_has_its_two_largest_units(minutes: float, said: str) -> None:
    """Rounded to the minute before it is taken apart."""
    assert moments.said(timedelta(minutes=minutes)) == said


@pytest.mark.parametrize(("earlier", "changed"), [([], []), ([4.0], []), ([4.0, None], [4.0]), ([None, 2.0], [])])
def test_a_first_mark_is_a_change_where_the_last_one_was_taken_away(
    earlier: list[float | None], changed: list[float], tmp_path: Path
) -> None:
    """Whoever had a mark, then none, and has one again is in the list; whoever never had one is not."""
    (tmp_path / "assignments.toml").write_text(TOML, encoding="utf-8")
    book = ledger.Ledger(marks.of(assignments.read(tmp_path / "assignments.toml"), "scores"))
    book.facts["ada"] = ledger.Facts(changes=[MarkChange("before", None, points, "") for points in earlier])
    changes = book.changes_with("ada", "ada", book.mark("ada", "ada", report()))
    assert [change.after for change in book.changes] == changed
    assert [change.after for change in changes] == earlier + changed


def test_a_name_that_nobody_in_the_class_has_is_named(tmp_path: Path) -> None:
    """In a table of this assignment, or in extra time for it or for all of them; another assignment's are not asked."""
    extra = '[[accommodations]]\nstudent = "always"\nmore = "1 day"\n[[extensions]]\nstudent = "others"\n'
    (tmp_path / "assignments.toml").write_text(
        TOML + extra + 'assignment = "masks"\nuntil = 2026-10-01\n', encoding="utf-8"
    )
    (tmp_path / "overrides.csv").write_text(OVERRIDES + "scores,decided,1,4,x\n", encoding="utf-8")
    book = ledger.Ledger(marks.of(assignments.read(tmp_path / "assignments.toml"), "scores"))
    assert book.unknown(["ada"]) == ["always", "decided", "dora"]
    assert book.unknown(["ada", "always", "decided", "dora"]) == []


def test_the_total_of_a_track_is_of_its_own_steps(tmp_path: Path) -> None:
    """What counts, scaled and rounded, and not what was graded; nothing of a step of another track."""
    (tmp_path / "assignments.toml").write_text(TOML, encoding="utf-8")
    marking = marks.of(assignments.read(tmp_path / "assignments.toml"), "scores")
    scores = (("step01_scores", "core", 1.1, 4.0), ("step02_softmax", "other", 0.7, 3.0))
    steps = [
        StepResult(name=name, track=track, title="", status="fail", score=score, max_score=most, seconds=0.0, checks=[])
        for name, track, score, most in scores
    ]
    tracks = [TrackResult(name=name, title="", score=0.0, max_score=0.0) for name in ("core", "other", "third")]
    graded = msgspec.structs.replace(report(), steps=steps, tracks=tracks)
    totals = marks.marked(graded, marking.mark("ada", graded)).tracks
    assert {track.name: (track.score, track.max_score) for track in totals} == {
        "core": (1.1, 4.0),
        "other": (1.4, 6.0),
        "third": (0.0, 0.0),
    }  # step 2 counts twice


REASONS = {
    "the kit has changed": {"kit": "b"},
    "other random draws: the seed has changed": {"seed": 8},
    "an earlier step": {},
}


@pytest.mark.parametrize(("said", "changed"), REASONS.items(), ids=list(REASONS))
def test_why_a_mark_changed(said: str, changed: dict[str, object]) -> None:
    """The first thing that is another one is the reason that is given."""

    def mark(points: float, **changed: object) -> AssignmentMark:
        step = StepMark(step="step01_scores", worth=4.0, graded=points, points=points, work="w")
        plain = {"kit": "a", "seed": 7} | changed
        return AssignmentMark(assignment="a", points=points, earned=points, out_of=4.0, steps=[step], **plain)  # type: ignore[arg-type]

    found = changes.change("ada", mark(2.0), mark(3.0, **changed))
    assert found and said in found.reasons[0]
    assert changes.change("ada", mark(2.0), mark(2.0, **changed)) is None
    assert changes.change("ada", None, mark(2.0)) is None


def marked(points: float = 2.0, late: float = 0.0, **named: Any) -> AssignmentMark:
    """A mark with one step; what is in `step` is about that."""
    about = {"worth": 4.0, "graded": points, "points": points, "work": "w"} | named.pop("step", {})
    steps = [StepMark(step=name, **about) for name in named.pop("steps", ("step01_scores",))]
    return AssignmentMark(
        assignment="a", points=points, earned=points, out_of=4.0, late=late, steps=steps, kit="a", **named
    )


TOLD = {
    "late: 0 % were taken off, now 10 % (handed in at another time)": (marked(), marked(late=0.1, handed_in="2")),
    "late: 20 % were taken off, now 10 % (another date)": (marked(late=0.2), marked(late=0.1, until="2")),
    "now 0 % (ill)": (marked(late=0.2), marked(until="2", extended="ill")),
    "now 5 % (another penalty)": (marked(late=0.2), marked(late=0.05)),
    "step02_softmax: it is part of the assignment now": (
        marked(), marked(steps=("step01_scores", "step02_softmax")),
    ),
    "step02_softmax: it is no longer part of the assignment": (
        marked(steps=("step01_scores", "step02_softmax")), marked(),
    ),
    "it is worth 8 points instead of 4": (marked(), marked(step={"worth": 8.0, "graded": 4.0})),
    "graded 3 instead of 2 (the file was handed in again)": (marked(), marked(3.0, step={"work": "v"})),
    "1 points decided by the staff (by eye)": (marked(), marked(1.0, step={"graded": 2.0, "reason": "by eye"})),
    "3 points decided by the staff (by eye)": (
        marked(1.0, step={"graded": 2.0, "reason": "by eye"}), marked(3.0, step={"graded": 2.0, "reason": "by eye"}),
    ),
    "a decision of the staff was withdrawn (by eye)": (marked(step={"reason": "by eye"}), marked()),
}  # fmt: skip


@pytest.mark.parametrize("told", TOLD)
def test_what_has_changed_in_a_mark(told: str) -> None:
    """One reason, and nothing else."""
    found = changes.change("ada", *TOLD[told])
    assert found and len(found.reasons) == 1 and found.reasons[0].endswith(told)


def test_a_long_list_of_changes_is_cut() -> None:
    """The screen has a line for each of so many, and says how many more there are."""
    one = changes.change("ada", marked(), None, reopened=True)
    assert one and changes.change("ada", None, marked(), reopened=True)
    assert list(changes.lines([])) == []
    assert len(list(changes.lines([one] * changes.SHOWN))) == changes.SHOWN + 1
    assert list(changes.lines([one] * (changes.SHOWN + 2)))[-1] == "  … and 2 more, in changes.csv"


# --- other ways to hand in -------------------------------------------------------------------------------------------


def test_gradescope_gives_the_same_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is that of the submission, and a student is known by mail address; without what is needed, no score."""
    from grader.classes import gradescope

    (tmp_path / "assignments.toml").write_text(TOML.replace('"dora"', '"dora@example.org"'), encoding="utf-8")
    (tmp_path / "assignment.txt").write_text("scores")
    monkeypatch.setattr(gradescope, "ROOT", tmp_path)
    about = tmp_path / "submission_metadata.json"
    for mail, expected in (("ada@example.org", 3.2), ("dora@example.org", 4.0)):
        users = [{"email": mail, "name": "X", "id": 3, "sid": None}]
        about.write_text(json.dumps({"created_at": "2026-09-16T03:00:00.000000-00:00", "users": users, "id": 1}))
        assert gradescope._marked(report(), about).score == pytest.approx(expected)
    about.unlink()
    with pytest.raises(gradescope.NotGraded):
        gradescope._marked(report(), about)


def test_times_from_a_table_count_before_what_lies_in_the_folder(tmp_path: Path) -> None:
    """`handed_in.csv`, with the names of our own tables, which keep formulas away by an apostrophe."""
    (tmp_path / "assignments.toml").write_text(TOML, encoding="utf-8")
    (tmp_path / "handed_in.csv").write_text(
        "student,time,assignment\n'=oskar,2026-09-15 12:00,scores\n", encoding="utf-8"
    )
    marking = marks.of(assignments.read(tmp_path / "assignments.toml"), "scores")
    assert marking.mark("=oskar", report(), moments.moment("2026-09-01", moments.zone("UTC"))).late == pytest.approx(
        0.1
    )
    (tmp_path / "handed_in.csv").write_text("student,time,assignment\nada,soon,scores\n", encoding="utf-8")
    with pytest.raises(BadTerm, match=r"handed_in.csv, line 2: “soon” is not a date"):
        marks.of(assignments.read(tmp_path / "assignments.toml"), "scores")


def test_a_students_own_earlier_steps_stand_in(tmp_path: Path) -> None:
    """Only where the file says so; the grader takes from them what this assignment lacks."""
    from grader.course.submissions import Submission
    from grader.marks import ledger

    (tmp_path / "assignments.toml").write_text(TOML.replace("extra =", 'stand_ins = "own"\nextra ='), encoding="utf-8")
    term = assignments.read(tmp_path / "assignments.toml")
    (tmp_path / "ada" / "scores").mkdir(parents=True)
    for step in ("step01_scores", "step02_softmax", "step04_causal_mask"):
        (tmp_path / "ada" / "scores" / f"{step}.py").write_text(f"# {step}\nx = 1\n")
    for name, expected in (("masks", ["step01_scores", "step02_softmax", "step04_causal_mask"]), ("sums", [])):
        handed_in = Submission("ada", {"step02_softmax": ("new.py", "x = 2\n")})
        ledger.add_own_earlier(handed_in, tmp_path / "ada", marks.Marking(term, term.assignments[name]))
        assert sorted(handed_in.earlier) == expected
        assert handed_in.sources == {"step02_softmax": ("new.py", "x = 2\n")}  # what was handed in stays as it was
