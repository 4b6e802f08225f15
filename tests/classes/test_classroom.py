"""A class: who is in it, each graded once under one seed, nothing lost and nothing left behind however it ends."""

from __future__ import annotations

import csv
import dataclasses
import errno
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.base import files, paths, syntax
from grader.base.layouts import Person
from grader.base.limits import Limits
from grader.base.results import Graded, Report
from grader.classes import class_list, class_run, kit_version, one_round, results, roster
from grader.classes import pool as pools
from grader.classes.one_round import Request
from grader.classes.pool import Pool, Task
from grader.course.submissions import Submission
from grader.feedback import exports
from grader.judge.launcher import GraderError
from tests import hostile
from tests.whole import sample

STEP = "step01_scores"
RIGHT = """def dot_product_scores(q, k):
    return q @ k.mT

def scaled_scores(q, k):
    return q @ k.mT / q.shape[-1]**0.5
"""
WRONG = RIGHT.replace("**0.5", "")
SLOW = "import time\ntime.sleep(1.0)\n" + RIGHT


def hand_in(folder: Path, text: str) -> None:
    """A submission of one file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{STEP}.py").write_text(text, encoding="utf-8")


def asked(submissions: Path, out: Path, **changed: object) -> Request:
    """A class of one step."""
    plain = Request(
        submissions=submissions,
        out=out,
        steps=[STEP],
        device="cpu",
        also=tuple(exports.STUDENT_FILES),
        seed=None,
        limits=Limits(),
        jobs=2,
    )
    return dataclasses.replace(plain, **changed)  # type: ignore[arg-type]


def graded(request: Request) -> tuple[dict[str, Graded], int]:
    """What a run keeps of each student, by name, and how many of them it did not have to grade."""
    done = class_run.run(request, lambda total: nullcontext(lambda graded, kept: None))
    entries = [results.load(request.out, standing.file) for standing in done.standings]
    return {entry.student: entry for entry in entries if entry}, done.kept


def scores(entries: dict[str, Graded]) -> dict[str, float | None]:
    """The scores, None for who could not be graded."""
    return {name: entry.report.score if entry.report else None for name, entry in entries.items()}


# --- who is in it ----------------------------------------------------------------------------------------------------


def found(submissions: Path, assignment: str = "attention") -> dict[str, roster.Student]:
    """The students of a folder, by name."""
    listed = class_list.read(submissions)
    return {student.name: student for student in roster.students(submissions, listed, assignment)}


def test_of_many_files_the_list_says_how_many_more_there_are(tmp_path: Path) -> None:
    """Also of those that lie on the way to the folder that was read."""
    inside = tmp_path / "ada" / "exercises"
    inside.mkdir(parents=True)
    (inside / f"{STEP}.py").write_text(RIGHT)
    for number in range(60):
        (inside / f"{number}.txt").touch()
        (inside.parent / f"{number}.log").touch()
    submission = found(tmp_path)["ada"].submission
    shown = submission.unread.keys() - {"…"}
    assert submission.unread["…"] == f"{120 - len(shown)} more" and len(shown) == 40
    assert len(submission.files) == 121


@pytest.mark.parametrize("name", ["ada_12_34_{}\n.py", "ada_12_assignsubmission_file_{}\n.py", "a\nda_12_34_{}.py"])
def test_a_line_break_in_a_name_hides_nobody(name: str, tmp_path: Path) -> None:
    """Of a flat download."""
    (tmp_path / name.format(STEP)).write_text(RIGHT)
    (student,) = found(tmp_path).values()
    assert student.submission.files and "\n" not in student.name


@pytest.mark.parametrize("inside", ["", "exercises", "attention", "submission", "ada-main", "attention/exercises"])
def test_step_files_are_found_where_they_usually_stand(tmp_path: Path, inside: str) -> None:
    """In the folder, in one of a known name, in nbgrader's place, in the only subfolder of an unpacked archive."""
    hand_in(tmp_path / "ada" / inside, RIGHT)
    assert list(found(tmp_path)["ada"].submission.sources) == [STEP]
    assert found(tmp_path)["ada"].submission.name == "ada"


def test_a_known_folder_wins_over_others(tmp_path: Path) -> None:
    """Two subfolders: the one that learners are told to use."""
    hand_in(tmp_path / "ada" / "drafts", WRONG)
    hand_in(tmp_path / "ada" / "exercises", RIGHT)
    assert found(tmp_path)["ada"].submission.sources[STEP][1] == RIGHT


def test_what_is_no_student_is_left_out(tmp_path: Path) -> None:
    """Files, hidden folders and what archives leave behind."""
    hand_in(tmp_path / "ada", RIGHT)
    for name in (".git", "__MACOSX", "__pycache__"):
        hand_in(tmp_path / name, RIGHT)
    (tmp_path / "roster.csv").write_text("ada")
    assert list(found(tmp_path)) == ["ada"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A student's folder that is a link is said to be one; a link inside is not entered."""
    hand_in(tmp_path / "elsewhere" / "x", RIGHT)
    (tmp_path / "class" / "ada").mkdir(parents=True)
    (tmp_path / "class" / "ada" / "exercises").symlink_to(tmp_path / "elsewhere" / "x")
    (tmp_path / "class" / "mallory").symlink_to(tmp_path / "elsewhere" / "x")
    both = found(tmp_path / "class")
    assert both["ada"].submission.sources == {}
    assert both["mallory"].submission.sources == {} and "link" in both["mallory"].problem


ODD_NAMES = [
    "김민서", "chen wei", "=1+1", "<b>bob</b>", "a&b;c", 'quo"te', "back\\slash", "CON", "nul.txt", "dot.", "~tilde",
    "x" * 200, "김" * 80, "100%", "a|b", "right\u202eleft", "new\nline", "tab\there", "-rf", "{braces}",
]  # fmt: skip


def test_every_name_gets_a_file_name_of_its_own(tmp_path: Path) -> None:
    """None leads out of the folder, none is refused by Windows, no two are one, and an ordinary one is itself."""
    names = [roster.file_name(name) for name in ODD_NAMES]
    assert len({name.casefold() for name in names}) == len(names)
    for name in names:
        assert not set(name) & set('<>:"/\\|?*\n\t') and name.strip(". ") == name
        assert not roster.RESERVED.fullmatch(name)
        assert len(name.encode()) + len(".html") < 255
        (tmp_path / f"{name}.json").write_text("")
    assert [roster.file_name(name) for name in ("ada", "김민서", "chen wei", "=1+1")] == ODD_NAMES_KEPT
    assert len(list(tmp_path.iterdir())) == len(names)


ODD_NAMES_KEPT = ["ada", "김민서", "chen wei", "=1+1"]


@pytest.mark.parametrize("name", ["..", ".", "../../x", "/etc/passwd", "..\\x", "", "a/../b"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    """Whatever a folder could be called elsewhere."""
    assert (tmp_path / roster.file_name(name)).resolve().parent == tmp_path.resolve()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_not_utf_8_is_graded_too(tmp_path: Path) -> None:
    """Its bytes are shown as escapes, in the report and in what its files are called."""
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")).joinpath(f"{STEP}.py").write_text(RIGHT)
    [student] = found(tmp_path).values()
    assert student.name == "caf\\xe9" and student.submission.sources[STEP][0] == f"caf\\xe9/{STEP}.py"
    msgspec.json.encode([student.name, student.file])


# --- one run, and the next -------------------------------------------------------------------------------------------


def test_a_class_from_first_run_to_last(tmp_path: Path) -> None:
    """Graded once under one seed; then what changed, under a new one; a seed repeats a run; an error is no zero."""
    submissions, out = tmp_path / "handed in", tmp_path / "out"
    hand_in(submissions / "ada", RIGHT)
    hand_in(submissions / "김민서" / "exercises", WRONG)
    hand_in(submissions / "<b>&", RIGHT)
    (submissions / "empty").mkdir()
    (submissions / "link").symlink_to(submissions / "ada")

    first, kept = graded(asked(submissions, out))
    assert scores(first) == {"ada": 6.0, "김민서": 2.0, "<b>&": 6.0, "empty": 0.0, "link": None}
    assert kept == 0 and "link" in first["link"].error
    seeds = {entry.report.seed for entry in first.values() if entry.report}
    assert len(seeds) == 1
    named = {entry.file for entry in first.values() if entry.report}
    for kind, ending in (("pages", "html"), ("gradescope", "json"), ("junit", "xml")):
        assert {path.name for path in (out / kind).iterdir()} >= {f"{file}.{ending}" for file in named}
    assert not (out / "pages" / "link.html").exists()
    assert {"index.html", "class.csv", "canvas.csv", "moodle.csv", "class.json"} <= set(os.listdir(out))

    hand_in(submissions / "김민서" / "exercises", RIGHT)
    second, kept = graded(asked(submissions, out, jobs=1))
    assert kept == 3 and scores(second)["김민서"] == 6.0  # neither the changed one nor the link
    assert second["ada"] == first["ada"]
    changed = second["김민서"].report
    assert changed and changed.seed not in seeds  # nobody has read what is drawn under it

    (submissions / "link").unlink()
    kept_all, kept = graded(asked(submissions, out, jobs=1))
    assert kept == 4 and kept_all == {name: entry for name, entry in second.items() if name != "link"}
    assert msgspec.json.decode((out / "class.json").read_bytes())["seed"] == changed.seed

    third, kept = graded(asked(submissions, out, again=True, jobs=1))
    once = {entry.report.seed for entry in third.values() if entry.report}
    assert kept == 0 and len(once) == 1 and not once & {*seeds, changed.seed}

    other, kept = graded(asked(submissions, out, seed=5))
    assert kept == 0 and {entry.report.seed for entry in other.values() if entry.report} == {5}
    repeated, _kept = graded(asked(submissions, tmp_path / "elsewhere", seed=5))
    assert [without_times(entry) for entry in repeated.values()] == [without_times(entry) for entry in other.values()]


def without_times(entry: Graded) -> object:
    """A report without what no seed repeats."""
    plain = msgspec.to_builtins(msgspec.structs.replace(entry, changes=[], digest=""))
    for step in (plain["report"] or {"steps": []})["steps"]:
        step["seconds"] = 0
    return plain


@pytest.mark.thorough
@pytest.mark.parametrize("edited", sample(["no steps", "another student", "points"]))
def test_a_kept_report_that_was_edited_is_graded_anew(edited: str, tmp_path: Path) -> None:
    """What is read back was lying in a folder: it counts when it is about this student and these steps."""
    hand_in(tmp_path / "class" / "ada", RIGHT)
    hand_in(tmp_path / "class" / "bob", WRONG)
    request = asked(tmp_path / "class", tmp_path / "out", jobs=1)
    before, _kept = graded(request)
    bob, worth = before["bob"], scores(before)
    assert bob.report
    if edited == "no steps":
        bob.report.steps.clear()
    elif edited == "another student":
        bob.student = "ada"
    else:
        (step,) = bob.report.steps
        bob.report.score = step.max_score
        bob.report.steps = [msgspec.structs.replace(step, score=step.max_score)]
    results.path(request.out, results.REPORTS, bob.file).write_bytes(msgspec.json.encode(bob))
    after, kept = graded(request)
    assert kept == 1
    assert scores(after) == worth


def test_the_key_is_all_that_a_report_depends_on(tmp_path: Path) -> None:
    """Another source, seed, device, step, language, kit or limit is another key."""
    student = roster.Student(Person("ada"), Submission("ada", {STEP: ("ada/x.py", RIGHT)}))
    plan = results.Plan(seed=1, steps=[STEP], device="cpu", language="en", kit="1", assignment="attention")
    key = one_round._key(student, plan, Limits())
    other = dataclasses.replace(student, submission=Submission("ada", {STEP: ("ada/x.py", WRONG)}))
    assert one_round._key(other, plan, Limits()) != key
    for changed in ({"seed": 2}, {"steps": []}, {"device": "all"}, {"language": "ko"}, {"kit": "2"}):
        assert one_round._key(student, msgspec.structs.replace(plan, **changed), Limits()) != key
    assert one_round._key(student, plan, Limits(patience=2.0)) != key
    assert one_round._key(student, msgspec.structs.replace(plan, assignment="other"), Limits()) == key


@pytest.mark.thorough
def test_two_classes_at_once_have_the_marks_of_each_alone(tmp_path: Path) -> None:
    """They share a machine and nothing else."""
    texts = {"one": {"ada": RIGHT, "bob": WRONG}, "other": {"ada": WRONG, "carl": RIGHT}}
    for name, students in texts.items():
        for student, text in students.items():
            hand_in(tmp_path / name / student, text)
    running = [command(tmp_path / name, tmp_path / f"{name} out", "--seed", "5") for name in texts]
    assert [ended(process)[0] for process in running] == [0, 0]
    for name, students in texts.items():
        kept = {student: results.load(tmp_path / f"{name} out", student) for student in students}
        assert {student: (entry.report or pytest.fail(student)).score for student, entry in kept.items() if entry} == {
            student: 6.0 if text == RIGHT else 2.0 for student, text in students.items()
        }


@pytest.mark.thorough
@pytest.mark.parametrize("kind", sample(results.FOLDERS))
def test_a_disk_that_is_full_in_the_middle_costs_nobody_a_mark(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence; what was written stays, nobody has a zero, and the same run goes on from there."""
    for student in ("ada", "bob", "carl"):
        hand_in(tmp_path / "in" / student, RIGHT)
    request, write = asked(tmp_path / "in", tmp_path / "out", jobs=1), files.write
    full = {results.path(request.out, kind, "bob"): True}

    def written(path: Path, *given: Any, **named: Any) -> None:
        if full.get(path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, *given, **named)

    monkeypatch.setattr(files, "write", written)
    with pytest.raises(class_run.Impossible, match="No space left on device"):
        graded(request)
    assert results.load(request.out, "bob") is None
    full.clear()
    entries, kept = graded(request)
    assert set(scores(entries).values()) == {6.0} and len(entries) == 3 and kept >= 1


@pytest.mark.thorough
@pytest.mark.parametrize("processes", sample([3, 4]))
def test_a_process_that_can_not_be_started_costs_nobody_a_mark(processes: int, tmp_path: Path) -> None:
    """As where memory is short: of so few processes the judge can't be started, or no worker. Then there is no mark,
    and the reason; the same run goes on once there are enough."""
    try:
        hostile.require_ordinary_user()
        if os.geteuid() != 0 or not shutil.which("prlimit"):
            pytest.skip("nobody here can say how many processes another user may have")
    except hostile.NoOtherUser as reason:
        pytest.skip(str(reason))
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder.is_relative_to(tempfile.gettempdir()):
            folder.chmod(0o777)
    for student in ("ada", "bob"):
        hand_in(tmp_path / "in" / student, RIGHT)
    grade = ["env", "KIT_LANG=en", sys.executable, "-m", "grader", "class", str(tmp_path / "in"), "--jobs", "1"]
    grade += ["--step", "1", "--out", str(tmp_path / "out")]

    def marks(*limited: str) -> tuple[int, set[str]]:
        done = subprocess.run(
            hostile.as_an_ordinary_user([*limited, *grade]), cwd=paths.ROOT, capture_output=True, text=True
        )
        with (tmp_path / "out" / "class.csv").open(encoding="utf-8-sig") as table:
            return done.returncode, {row["score"] for row in csv.DictReader(table)}

    assert marks("prlimit", f"--nproc={processes}") == (1, {""})
    assert marks() == (0, {"6"})


def test_no_time_limit_reads_the_clock_on_the_wall() -> None:
    """That one may jump; what it is read for is a date that somebody reads."""
    wall = re.compile(r"time\.(time|time_ns|localtime|gmtime|ctime)\(|datetime\.(now|today|utcnow)|CLOCK_REALTIME")
    reading = {
        path.relative_to(paths.ROOT / "grader").as_posix()
        for path in (paths.ROOT / "grader").rglob("*.py")
        if wall.search(path.read_text(encoding="utf-8"))
    }
    assert reading == {
        "course/lab_log.py", "course/lessons.py", "feedback/table.py", "marks/ledger.py", "report/classroom50.py",
    }  # fmt: skip


# --- when something fails --------------------------------------------------------------------------------------------


def task(name: str) -> tuple[str, Task]:
    """A task that a stand-in for the grader knows by its name."""
    return name, Task(Submission(name), [STEP], "cpu", 1, "en", Limits(), kit_version.kit_version())


def threads(grade: Callable[[Task], Report], monkeypatch: pytest.MonkeyPatch) -> Pool:
    """A pool of threads in which `grade` stands for the grader."""
    monkeypatch.setattr(pools, "grade", grade)
    return Pool(lambda: ThreadPoolExecutor(2), 2)


def test_what_fails_is_tried_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that goes away is no fault; one that stays is an error of that submission, and of no other."""
    tried: list[str] = []

    def grade(asked: Task) -> Report:
        name = asked.submission.name
        tried.append(name)
        if name == "always" or (name == "once" and tried.count("once") == 1):
            raise GraderError("the judge failed")
        if name == "raises":
            raise RuntimeError("unforeseen")
        return Report(submission=name, seed=1, isolation=[], devices={}, score=1.0, max_score=1.0, steps=[])

    names = ["a", "once", "always", "raises", "b", "c"]
    answers = dict(pools.answers(threads(grade, monkeypatch), map(task, names)))
    assert {name for name, answer in answers.items() if isinstance(answer, Report)} == {"a", "once", "b", "c"}
    assert answers["always"] == "the judge failed" and "unforeseen" in str(answers["raises"])
    assert {name: tried.count(name) for name in names} == {"a": 1, "once": 2, "always": 2, "raises": 2, "b": 1, "c": 1}


def test_what_a_worker_of_others_answers_is_a_report_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cluster anything may come back; here the report is our own, and is taken as it is."""
    right = Report(submission="a", seed=1, isolation=[], devices={}, score=1.0, max_score=1.0, steps=[])
    odd = {"score": msgspec.structs.replace(right, score="much"), "kind": "no report", "right": right}  # type: ignore[arg-type]
    pool = threads(lambda asked: odd[asked.submission.name], monkeypatch)  # type: ignore[arg-type, return-value]
    answers = dict(pools.answers(dataclasses.replace(pool, is_remote=True), map(task, odd)))
    assert answers["right"] == right
    assert all(str(answers[name]).startswith("The grader failed: Expected `") for name in ("score", "kind"))
    assert dict(pools.answers(pool, map(task, ["right"])))["right"] is right


def test_a_refusal_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody can be graded without is not said of each student in turn."""

    def grade(asked: Task) -> Report:
        raise pools.NobodyGraded("no landlock here")

    pool = threads(grade, monkeypatch)
    with pytest.raises(pools.NobodyGraded, match="no landlock"):
        list(pools.answers(pool, map(task, "abc")))


def test_another_version_of_the_kit_is_refused() -> None:
    """A worker of a cluster that grades by other checks grades nobody."""
    named = dataclasses.replace(task("a")[1], kit="another")
    with pytest.raises(pools.NobodyGraded, match="a different copy"):
        pools.grade(named)


class Counted:
    """Stands for a grader or a source of judges, and notes when it is closed or stopped."""

    def __init__(self, **given: object) -> None:
        self.source = given.get("source")
        self.closed = self.stopped = False
        self.alive = True

    def close(self) -> None:
        """Notes it."""
        self.closed = True

    def stop(self) -> None:
        """Notes it."""
        self.stopped = True


@pytest.fixture
def graders(monkeypatch: pytest.MonkeyPatch) -> pools._Graders:
    """Graders that are stand-ins, as are their sources."""
    monkeypatch.setattr(pools, "Grader", Counted)
    monkeypatch.setattr(pools.launcher, "start", Counted)
    return pools._Graders()


def test_calls_at_the_same_time_have_graders_of_their_own(graders: pools._Graders) -> None:
    """A grader is kept for the next call, unless it has failed."""
    with graders.lend(Limits()) as first, graders.lend(Limits()) as second:
        assert first is not second
    with graders.lend(Limits()) as again:
        assert again in (first, second)
    with graders.lend(Limits(patience=2.0)) as other:
        assert other not in (first, second)
    with pytest.raises(GraderError), graders.lend(Limits()) as failing:
        raise GraderError
    assert failing.closed  # type: ignore[attr-defined]  # it is the stand-in
    with graders.lend(Limits()) as fresh:
        assert fresh is not failing
    graders.close()
    assert all(grader.closed for grader in (first, second, other))  # type: ignore[attr-defined]


def test_graders_share_a_source_until_it_is_dead_or_busy(graders: pools._Graders) -> None:
    """One import of torch for several judges; all of them end with the class, or when it is stopped."""
    with ExitStack() as stack:
        made = [stack.enter_context(graders.lend(Limits())) for _ in range(pools.JUDGES_OF_A_SOURCE + 1)]
        sources = [grader.source for grader in made]  # type: ignore[attr-defined]
        assert len(set(sources)) == 2 and sources.count(sources[0]) == pools.JUDGES_OF_A_SOURCE
        sources[-1].alive = False
        living = stack.enter_context(graders.lend(Limits())).source  # type: ignore[attr-defined]
        assert living not in sources
        graders.stop()
        assert all(source.stopped for source in (*sources, living))
    graders.close()
    assert all(source.closed for source in (*sources, living))


def test_a_dead_source_takes_its_idle_graders_along(graders: pools._Graders) -> None:
    """Else each of them would fail a submission, and then the same one when it is tried once more."""
    with graders.lend(Limits()) as first, graders.lend(Limits()) as second:
        pass
    source = first.source  # type: ignore[attr-defined]
    source.alive = False
    with graders.lend(Limits()) as third:
        assert third not in (first, second)
    assert first.closed and second.closed and source.closed  # type: ignore[attr-defined]


def test_sources_do_not_add_up_when_graders_fail(graders: pools._Graders) -> None:
    """What counts is how many judges a source has, not how many it has had."""
    sources = set()
    for _failure in range(3 * pools.JUDGES_OF_A_SOURCE):
        with suppress(RuntimeError), graders.lend(Limits()) as grader:
            sources.add(grader.source)  # type: ignore[attr-defined]
            raise RuntimeError
    assert len(sources) == 1


def test_the_end_of_a_class_leaves_another_alone(graders: pools._Graders) -> None:
    """What it is using ends when it is done with it."""
    with graders.lend(Limits()) as used:
        source = used.source  # type: ignore[attr-defined]
        graders.close()
        assert not used.closed and not source.closed  # type: ignore[attr-defined]
        with graders.lend(Limits()) as after:
            assert after.source is not source  # type: ignore[attr-defined]
    assert used.closed and source.closed  # type: ignore[attr-defined]
    assert not after.source.closed  # type: ignore[attr-defined]


def test_nothing_starts_after_a_stop(graders: pools._Graders) -> None:
    """A thread that comes late must not begin with a new process, for which everyone then waits."""
    with graders.lend(Limits()) as grader:
        graders.stop()
        grader.source.alive = False  # type: ignore[attr-defined]
        with pytest.raises(GraderError), graders.lend(Limits()):
            pass
    graders.close()
    with graders.lend(Limits()):
        pass


def test_a_new_pool_looks_at_the_kit_again(graders: pools._Graders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its judges read the checks as they are by now."""
    monkeypatch.setattr(pools, "GRADERS", graders)
    kit_version.kit_version()
    with pools.processes(1, Limits()).opened():
        assert kit_version.kit_version.cache_info().currsize == 0


# --- the command, with real processes --------------------------------------------------------------------------------


def command(submissions: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    """`python -m grader class` in a process group of its own."""
    arguments = [str(submissions), "--out", str(out), "--step", "1", "--jobs", "2", "--device", "cpu", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "grader", "class", *arguments],
        cwd=paths.ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "100", "NO_COLOR": "1", "LANG": "C.UTF-8", "HOME": str(out.parent)},
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code and all it said."""
    out, err = process.communicate(timeout=600)
    return process.returncode, out + err


def processes() -> dict[int, int]:
    """Every process and its parent."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def descendants(pid: int) -> set[int]:
    """Every process below one."""
    parents = processes()
    below, level = set[int](), {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        below |= level
    return below


def until(holds: Callable[[], object], seconds: float = 300.0) -> None:
    """Waits until something holds; fails when it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(0.05)


def gone(pids: set[int]) -> bool:
    """Whether none of these processes is there any more."""
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def reports(out: Path) -> int:
    """How many reports are there."""
    return len(list((out / "reports").glob("*.json"))) if (out / "reports").is_dir() else 0


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


@pytest.fixture
def slow_class(tmp_path: Path) -> Path:
    """Six submissions that take a second each."""
    for number in range(6):
        hand_in(tmp_path / "slow" / f"student{number}", SLOW)
    return tmp_path / "slow"


@pytest.mark.thorough
@needs_proc
@pytest.mark.parametrize("how", sample([signal.SIGTERM, signal.SIGINT, signal.SIGKILL]))
def test_a_run_that_is_stopped_leaves_nothing_and_goes_on(
    slow_class: Path, tmp_path: Path, how: signal.Signals
) -> None:
    """Ctrl-C, an end from outside, a sudden death: no process is left, and the next run grades only the rest."""
    process = command(slow_class, tmp_path / "out")
    until(lambda: reports(tmp_path / "out") >= 2)
    below = descendants(process.pid)
    if how is signal.SIGINT:
        os.killpg(process.pid, how)  # a terminal sends it to all of them
    else:
        process.send_signal(how)
    code, said = ended(process)
    until(lambda: gone(below), 10.0)
    kept = reports(tmp_path / "out")
    assert 2 <= kept < 6, (code, said)
    if how is not signal.SIGKILL:
        assert code == 130 and f"{kept} of 6" in said and "Traceback" not in said
    else:  # the hardest way to stop
        again, said = ended(command(slow_class, tmp_path / "out"))
        assert again == 0 and f"6 were graded ({kept} of them in an earlier run)" in said


@pytest.mark.thorough
@needs_proc
@pytest.mark.parametrize("what", sample(["judge", "zygote"]))
def test_a_killed_process_of_the_pool_loses_nobody(what: str, slow_class: Path, tmp_path: Path) -> None:
    """It is as when memory runs out: the run goes on with new ones, and at the end nothing is left."""
    process = command(slow_class, tmp_path / "out")
    until(lambda: reports(tmp_path / "out") >= 1)
    parents = processes()
    (zygote,) = [pid for pid, parent in parents.items() if parent == process.pid and pid in parents.values()]
    judge = min(pid for pid, parent in processes().items() if parent == zygote)  # it forks them first
    below = descendants(process.pid)
    os.kill(judge if what == "judge" else zygote, signal.SIGKILL)
    code, said = ended(process)
    assert code == 0 and "6 were graded" in said and "0 could not be graded" in said, said
    until(lambda: gone(below), 10.0)


@needs_proc
def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    """The second says so in one line; when the first is over, or was killed, the folder is free."""
    hand_in(tmp_path / "in" / "ada", RIGHT)
    first = asked(tmp_path / "in", tmp_path / "out")
    with class_run._locked(first):
        code, said = ended(command(tmp_path / "in", tmp_path / "out"))
    assert code == 2 and "Another run" in said and len(said.splitlines()) == 1
    with class_run._locked(first):
        pass


@pytest.mark.parametrize(
    ("folder", "more", "says"),
    [
        ("missing", [], "There is no folder missing"),
        ("README.md", [], "is not a readable folder"),
        ("docs/images", [], "contains no student folders"),
        ("exercises", [], "is a single submission"),
        ("examples/course/submissions", ["--out", "examples/course/submissions/x"], "can't go inside"),
        ("examples/course/submissions", ["--step", "nosuch"], "There is no step nosuch"),
        ("examples/course/submissions", ["--require-isolation", "walls"], "There is no layer"),
        ("examples/course/submissions", ["--out", "README.md/x"], "can't be written"),
        ("examples/course/submissions", ["--jobs", "0"], "--jobs"),
        ("examples/course/submissions", ["--earlier", "nowhere"], "nowhere is not a readable folder"),
    ],
)
def test_bad_input_is_one_line(folder: str, more: list[str], says: str, tmp_path: Path) -> None:
    """And it ends in the command to type."""
    code, said = ended(command(Path(folder), tmp_path / "out", *more))
    assert code == 2 and says in said and "Type: python -m grader" in said
    assert len(said.splitlines()) == 1 and "Traceback" not in said


@pytest.mark.thorough
def test_who_could_not_be_graded_is_seen(tmp_path: Path) -> None:
    """In the table on the screen and in what it says; in the exit code where a script asks for it."""
    hand_in(tmp_path / "in" / "ada", RIGHT)
    (tmp_path / "in" / "link").symlink_to(tmp_path / "in" / "ada")
    code, said = ended(command(tmp_path / "in", tmp_path / "out"))
    assert code == 0 and "1 could not be graded" in said and "links are not followed" in said
    assert "A person must look at 1" in said
    assert ended(command(tmp_path / "in", tmp_path / "out", "--strict"))[0] == 1


@pytest.mark.thorough
def test_what_was_handed_in_packed_or_beside_the_folders_is_told_of(tmp_path: Path) -> None:
    """An archive that nobody has unpacked is an error and no zero; a loose file is named, and so is a class of them."""
    hand_in(tmp_path / "in" / "ada", RIGHT)
    (tmp_path / "in" / "bob" / "work").mkdir(parents=True)
    (tmp_path / "in" / "bob" / "work" / "mine.ZIP").write_bytes(b"PK")
    (tmp_path / "in" / "ada" / "pictures.zip").write_bytes(b"PK")
    for loose in ("carl_12_attention.ipynb", "dora.tar.gz", "notes.txt"):
        (tmp_path / "in" / loose).write_text("")
    silent = nullcontext(lambda graded, kept: None)
    done = class_run.run(asked(tmp_path / "in", tmp_path / "out"), lambda total: silent)
    assert [(one.student, one.score, one.error) for one in done.standings] == [
        ("ada", 6.0, ""),
        ("bob", None, "bob holds an archive and no answer: unpack mine.ZIP there."),
    ]
    assert done.left_out == ["carl_12_attention.ipynb", "dora.tar.gz", "notes.txt"]
    for folder in ("ada", "bob"):
        shutil.rmtree(tmp_path / "in" / folder)
    with pytest.raises(class_list.Impossible, match="each student needs a folder"):
        graded(asked(tmp_path / "in", tmp_path / "out"))


@pytest.mark.parametrize(
    "file",
    ["a/b/c/d/step01_scores.py", "report.docx", "other.ipynb", ".hidden/step01_scores.py"],
)
def test_files_and_no_answer_are_no_zero(file: str, tmp_path: Path) -> None:
    """They may be everything, under a name that a browser gave them: an error that says what is there."""
    (tmp_path / "bob" / file).parent.mkdir(parents=True)
    (tmp_path / "bob" / file).write_text('{"cells": []}' if file.endswith(".ipynb") else RIGHT)
    problem = found(tmp_path)["bob"].problem
    named = {"a": "d/", ".hidden": ".hidden/"}.get(Path(file).parts[0], file)
    assert problem.startswith(f"No answer was found in bob, only {named} (it ")


def test_an_empty_folder_is_a_zero(tmp_path: Path) -> None:
    """Nothing was handed in; with anything in it, a person must look."""
    (tmp_path / "bob").mkdir()
    assert found(tmp_path)["bob"].problem == ""
    (tmp_path / "bob" / "timestamp.txt").write_text("x")
    assert "timestamp.txt" in found(tmp_path)["bob"].problem


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("ada/step04_causal_mask.py", f"ada/{STEP}.py"),
        ("Ada L_77_assignsubmission_file_/step04_causal_mask.py", f"Ada L_98_assignsubmission_file_/{STEP}.py"),
        ("ada_12_345_step04_causal_mask.py", f"ada_LATE_12_789_{STEP}-1.py"),
    ],
)
def test_an_earlier_assignment_is_found_by_person(before: str, now: str, tmp_path: Path) -> None:
    """In the folders of an earlier week, whatever number Moodle gives there; of two of one name, neither is taken."""
    for folder, name in (("week1", before), ("week2", now)):
        hand_in_file(tmp_path / folder / name)
    week2 = tmp_path / "week2"
    (one,) = roster.students(week2, class_list.read(week2), "attention", [tmp_path / "week1"])
    assert [name for name in one.submission.earlier if name.startswith("step")] == ["step04_causal_mask"]
    assert one.submission.earlier["step04_causal_mask"][0].startswith("week1/")
    assert [name for name in one.submission.sources if name.startswith("step")] == [STEP]


def hand_in_file(path: Path) -> None:
    """A file with an answer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(RIGHT)


def test_a_folder_of_assignments(tmp_path: Path) -> None:
    """As nbgrader keeps them: others stand in, the last before this one first; who has none of this one has nothing."""
    for name in ("ada/week1", "ada/week2", "ada/week10", "ada/week11", "bob/week1"):
        hand_in_file(tmp_path / name / "step04_causal_mask.py")
    hand_in_file(tmp_path / "ada" / "week10" / f"{STEP}.py")
    ada, bob = roster.students(tmp_path, class_list.read(tmp_path), "week10")
    assert ada.submission.earlier["step04_causal_mask"][0] == "week2/step04_causal_mask.py"
    assert (bob.submission.sources, bob.problem) == ({}, "")


def test_what_is_to_be_typed_can_be_typed(tmp_path: Path) -> None:
    """A folder's name with a space stands between quotes, and a run is repeated where its results are."""
    hand_in(tmp_path / "my class" / "ada", RIGHT)
    graded(asked(tmp_path / "my class", tmp_path / "out"))
    page = html.unescape((tmp_path / "out" / "index.html").read_text(encoding="utf-8"))
    assert f"class '{tmp_path / 'my class'}' --out {tmp_path / 'out'} --step {STEP} --seed" in page
    with pytest.raises(class_list.Impossible, match="class '.*my class' --out dist/class"):
        graded(asked(tmp_path / "my class", tmp_path / "my class" / "out"))


# --- on a cluster ----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@needs_proc
def test_a_dask_cluster_gives_the_same_reports(tmp_path: Path) -> None:
    """Two worker processes; afterwards no grader is left in them."""
    distributed = pytest.importorskip("distributed")
    for number, text in enumerate((RIGHT, WRONG, "def (", RIGHT, WRONG)):
        hand_in(tmp_path / "in" / f"student{number}", text)
    here, _kept = graded(asked(tmp_path / "in", tmp_path / "here", seed=3, jobs=1))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        workers = descendants(os.getpid())
        request = asked(tmp_path / "in", tmp_path / "there", seed=3, scheduler=cluster.scheduler_address)
        there, _kept = graded(request)
        until(lambda: descendants(os.getpid()) <= workers, 10.0)
    assert [without_times(entry) for entry in there.values()] == [without_times(entry) for entry in here.values()]


def dask_process(kind: str, *arguments: str, with_kit: bool = True) -> subprocess.Popen[bytes]:
    """`dask scheduler` or `dask worker`, as they are typed; or without the kit.

    The kit's own .venv finds the kit even where nobody set PYTHONPATH, by a .pth file, which `-S` passes over.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments]
    if with_kit:
        environment["PYTHONPATH"] = str(paths.ROOT)
    else:
        packages = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        code = f"import sys; sys.path += {packages}; from distributed.cli.dask_{kind} import main; main()"
        command = [sys.executable, "-S", "-c", code, *arguments]
    return subprocess.Popen(command, env=environment, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.thorough
@pytest.mark.parametrize("with_kit", [True, False])
def test_dask_as_it_is_documented(with_kit: bool, tmp_path: Path) -> None:
    """A scheduler and two workers, each a program of its own; a scheduler without the kit is refused in one line."""
    pytest.importorskip("distributed")
    hand_in(tmp_path / "in" / "ada", RIGHT)
    file = tmp_path / "scheduler.json"
    started = [
        dask_process("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file), with_kit=with_kit)
    ]
    try:
        until(lambda: file.is_file() and file.read_text().rstrip().endswith("}"), 60.0)  # the whole of it
        address = json.loads(file.read_text())["address"]
        for _number in range(2 if with_kit else 0):
            started.append(dask_process("worker", address, "--nthreads", "1", "--no-dashboard"))
        request = asked(tmp_path / "in", tmp_path / "out", seed=3, scheduler=address)
        if with_kit:
            with distributed_client(address) as client:
                client.wait_for_workers(2, timeout=600)
            entries, _kept = graded(request)
            assert [entry.error for entry in entries.values()] == [""]
        else:
            with pytest.raises(class_list.Impossible, match="The scheduler at .* does not have this version"):
                graded(request)
    finally:
        for process in started:
            process.terminate()
            process.wait(30)


def distributed_client(address: str) -> Any:
    """A client that waits for workers."""
    from distributed import Client

    return Client(address, set_as_default=False)


def test_a_scheduler_that_is_not_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to type."""
    pytest.importorskip("distributed")
    monkeypatch.setattr(pools, "BEGINNING", 0.5)
    hand_in(tmp_path / "in" / "ada", RIGHT)
    with pytest.raises(class_list.Impossible, match="Type: dask scheduler"):
        graded(asked(tmp_path / "in", tmp_path / "out", scheduler="tcp://127.0.0.1:9"))


@pytest.mark.parametrize("address", ["", "here", "http://127.0.0.1:9", "tcp://here:x"])
def test_what_is_no_address_of_a_scheduler(address: str, tmp_path: Path) -> None:
    """It is told at once, before Dask makes a client of it."""
    pytest.importorskip("distributed")
    hand_in(tmp_path / "in" / "ada", RIGHT)
    with pytest.raises(
        class_list.Impossible, match="is not the address of a Dask scheduler .*--scheduler tcp://HOST:8786"
    ):
        graded(asked(tmp_path / "in", tmp_path / "out", scheduler=address))


def test_without_dask_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class needs it only with --scheduler."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    hand_in(tmp_path / "in" / "ada", RIGHT)
    with pytest.raises(class_list.Impossible, match="pip install distributed"):
        graded(asked(tmp_path / "in", tmp_path / "out", scheduler="tcp://127.0.0.1:9"))


# --- nbgrader's gradebook --------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_gradebook_says_the_same(tmp_path: Path) -> None:
    """The same points, and for who could not be graded no mark but a person's turn."""
    nbgrader = pytest.importorskip("nbgrader.api")
    hand_in(tmp_path / "in" / "ada", RIGHT)
    hand_in(tmp_path / "in" / "김민서", WRONG)
    (tmp_path / "in" / "link").symlink_to(tmp_path / "in" / "ada")
    url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    entries, _kept = graded(asked(tmp_path / "in", tmp_path / "out", jobs=1, gradebook=url))
    with nbgrader.Gradebook(url) as gradebook:
        found = {one.student.id: one for one in gradebook.assignment_submissions("attention")}
        assert {name: one.score for name, one in found.items()} == {"ada": 6.0, "김민서": 2.0, "link": 0.0}
        assert found["link"].needs_manual_grade
    assert scores(entries) == {"ada": 6.0, "김민서": 2.0, "link": None}


@pytest.mark.thorough
def test_a_gradebook_that_can_not_be_written_is_one_line(tmp_path: Path) -> None:
    """What was graded is kept, and the line says where."""
    pytest.importorskip("nbgrader.api")
    (tmp_path / "in" / "ada").mkdir(parents=True)
    with pytest.raises(class_list.Impossible, match="Everything is in .*Type: python -m grader class"):
        graded(asked(tmp_path / "in", tmp_path / "out", jobs=1, gradebook="nonsense://x"))
    assert (tmp_path / "out" / "index.html").is_file()


def test_threads_parse_one_at_a_time() -> None:
    """A class is graded by threads, each of which reads a submission's files: none of them gets another's error."""

    class Slow:
        def __del__(self) -> None:  # gives way to the other threads in the midst of parsing
            sum(range(50))

    source = f"x = {'(' * 60}1{')' * 60}\n" + "def f(a):\n    return (a + 1) * a[1:] if a else lambda q: [q]\n" * 60

    def parse(_turn: int) -> int:
        slow = Slow()
        slow.__dict__["itself"] = slow
        return len(syntax.parsed(source).body)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert set(threads.map(parse, range(200))) == {61}
    finally:
        sys.setswitchinterval(before)
