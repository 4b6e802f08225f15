"""One answer to where a learner is: from the files and the last verdicts, the same on every screen."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.base import paths, user_key
from grader.base.results import CheckResult, StepResult
from grader.cli import main
from grader.course import choice, exercises, lessons, steps, stubs, submissions, tracks
from grader.judge import grader as grading
from grader.judge import launcher
from grader.judge.grader import Grader
from grader.learner import current, progress, verdicts
from tests.asked import Asked
from tests.watched import Session

FIRST, SECOND, MASK = "step01_scores", "step02_softmax", "step04_causal_mask"
ELECTIVE = "step16_sinusoidal"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of untouched stubs."""
    made = tmp_path / "exercises"
    made.mkdir()
    for name in choice.step_names(None, choice.CORE):
        (made / f"{name}.py").write_text(stubs.original(paths.step_folder(name)), encoding="utf-8")
    return made


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user of their own, without a key so far."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    user_key.user_key.cache_clear()
    yield
    user_key.user_key.cache_clear()


def right(name: str) -> str:
    """The reference."""
    return (paths.step_folder(name) / "reference.py").read_text(encoding="utf-8")


def result(name: str, status: str = "pass", blocked_by: str | None = None) -> StepResult:
    """A result of two points."""
    score = 2.0 if status == "pass" else 0.0
    check = CheckResult(name="test_it", title="It.", device="cpu", status=status, points=score, max_points=2.0)  # type: ignore[arg-type]
    return StepResult(
        name=name, title="A step", status=status, score=score, max_score=2.0, seconds=0.1, checks=[check],  # type: ignore[arg-type]
        blocked_by=blocked_by,
    )  # fmt: skip


def of(folder: Path, *results: StepResult) -> progress.Progress:
    """The progress by these results."""
    return progress.of(submissions.read(folder), {one.name: one for one in results})


def test_points_are_those_of_the_checks() -> None:
    """Read as text, they are what the checks give."""
    assert {step.name: progress.points(step.name) for step in steps.steps()} == {
        step.name: step.points for step in steps.steps()
    }


def test_a_track_with_a_file_is_started_and_takes_nothing_away(folder: Path) -> None:
    """The core's points stay what they were, and the electives' are counted apart."""
    before = of(folder, result(FIRST))
    exercises.begin(next(track.steps for track in tracks.tracks() if ELECTIVE in track.steps), folder)
    after = of(folder, result(FIRST))
    assert (before.core.score, before.core.most) == (after.core.score, after.core.most)
    assert before.electives == []
    assert [found.track.name for found in after.electives] == ["positions"]
    assert ELECTIVE in after.names
    assert not after.steps[ELECTIVE].is_written


def test_what_is_next(folder: Path) -> None:
    """The first that is left; after a step, what follows; a step that blocks comes first; and nothing while work waits
    that was not graded."""
    assert of(folder).next_step() == FIRST
    assert of(folder, result(FIRST)).next_step() == SECOND
    blocked = result("step03_attention", "skipped", SECOND)
    assert of(folder, result(FIRST), blocked).next_step("step03_attention") == SECOND
    (folder / f"{FIRST}.py").write_text(right(FIRST), encoding="utf-8")
    assert of(folder).next_step() is None
    assert of(folder).ungraded == [FIRST]
    assert of(folder, *map(result, of(folder).names)).next_step() is None


# --- verdicts --------------------------------------------------------------------------------------------------------


def test_a_verdict_holds_for_its_files_alone(folder: Path) -> None:
    """The step's own, and what that imports; another file changes nothing."""
    name = "step03_attention"
    source = f"from exercises.{SECOND} import softmax\n"
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    verdicts.write(folder, submissions.read(folder), [result(name), result(MASK)])
    assert set(verdicts.read(folder, submissions.read(folder))) == {name, MASK}
    (folder / f"{FIRST}.py").write_text("x = 1\n", encoding="utf-8")
    assert set(verdicts.read(folder, submissions.read(folder))) == {name, MASK}
    (folder / f"{SECOND}.py").write_text("x = 1\n", encoding="utf-8")
    assert set(verdicts.read(folder, submissions.read(folder))) == {MASK}
    (folder / verdicts.FILE).write_text("{", encoding="utf-8")
    assert verdicts.read(folder, submissions.read(folder)) == {}


def test_verdicts_from_elsewhere_count_for_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that brings its verdicts along is graded: what passes may run outside the sandbox."""
    read = submissions.read(folder)
    verdicts.write(folder, read, [result(MASK)])
    held = json.loads((folder / verdicts.FILE).read_text())
    (folder / verdicts.FILE).write_text(json.dumps({FIRST: held[MASK] | {"about": verdicts.digest(read, FIRST)}}))
    assert verdicts.read(folder, read) == {}
    (folder / verdicts.FILE).write_text(json.dumps({MASK: held[MASK] | {"signature": ""}}))
    assert verdicts.read(folder, read) == {}
    (folder / verdicts.FILE).write_text(json.dumps(held))
    assert set(verdicts.read(folder, read)) == {MASK}
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    user_key.user_key.cache_clear()
    assert verdicts.read(folder, read) == {}


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    """Nor a link, nor half of one; the file is for this user alone."""
    key = user_key.user_key()
    file = tmp_path / "state" / user_key.NAME / "key"
    assert key == file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    for spoil in (lambda: file.chmod(0o644), lambda: (file.chmod(0o600), file.write_bytes(b"short"))):
        spoil()
        user_key.user_key.cache_clear()
        assert user_key.user_key() is None
        assert user_key.signed("page", b"x") is None


# --- every screen ----------------------------------------------------------------------------------------------------


class Screens:
    """`make tracks`, `make grade` and `make hint` over one folder, and what each says: run here, by one warm grader,
    since starting three graders after each event would take minutes."""

    def __init__(self, folder: Path, warm: Grader, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        for name, value in {"KIT_LANG": "en", "COLUMNS": "200"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(launcher, "start", lambda _early: contextlib.ExitStack())
        for module in (grading, current):
            monkeypatch.setattr(module, "Grader", lambda *_given, **_named: contextlib.nullcontext(warm))

    def run(self, *words: str, status: int = 0) -> str:
        """What a command prints."""
        self.monkeypatch.setattr(sys, "argv", ["grader", *words, "--submission", str(self.folder)])
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            assert main.main() == status, said.getvalue()
        return said.getvalue()

    def hint(self, following: object) -> bool:
        """Whether `make hint` is about the step that is next, or says that none is."""
        text = self.run("hint", status=0 if following else 2)
        return f"The current step: {following}" in text if following else "Every step passes" in text

    def tracks(self) -> dict[str, object]:
        """What `make tracks` says: the points, the next step, and how far each track is."""
        text = self.run("tracks")
        points = next(line for line in text.splitlines() if line.startswith("core: "))
        following = re.search(r"^next is (\w+)", text, re.MULTILINE)
        passed = dict(re.findall(r"^(\w+)  .*\n +steps [-, \d]+ · (\d+ of \d+|not started)", text, re.MULTILINE))
        return {"points": points, "next": following and following[1], "passed": passed}

    def grade(self) -> dict[str, object]:
        """What `make grade` says."""
        text = self.run("grade")
        points = next((line for line in text.splitlines() if line.startswith("core: ")), None)
        if points is None:
            points = "core: {} of {} points".format(*re.search(r"([\d.]+) / ([\d.]+) +[█░]+\s*$", text, re.M).groups())
        following = re.search(r"^next is (\w+)|: (?:next is|start with) (\w+)|: (\w+) does not pass yet", text, re.M)
        return {"points": points, "next": following and next(filter(None, following.groups()))}


def settled(page: Asked) -> dict[str, Any]:
    """What the page says once nothing is being graded."""
    state = page.settled()
    return {
        "points": state["points"],
        "next": state["next"],
        "passed": {
            track["name"]: f"{track['passed']} of {len(track['steps'])}" if track["started"] else "not started"
            for track in state["tracks"]
        },
    }


def last_line(session: Session) -> str:
    """The points in the last progress that the terminal shows; the electives have a line of their own."""
    while select.select([session.read_from], [], [], 0.5)[0]:
        session._take(os.read(session.read_from, 1 << 16))
    core, electives = re.findall(r"steps pass · (.*)\n(electives: .*)?", session.shown)[-1]
    return " · ".join(filter(None, (core, electives)))


def events(folder: Path) -> Iterator[tuple[str, bool]]:
    """Twenty things that happen to a folder, each by name, and whether the page and watch are started again."""
    file = {name: folder / f"{name}.py" for name in choice.step_names()}
    own = {track.name: track.steps for track in tracks.tracks()}
    positions = next(names for names in own.values() if ELECTIVE in names)

    def save(name: str, text: str) -> None:
        file[name].write_text(text, encoding="utf-8")

    yield "nothing yet", False
    yield save(FIRST, right(FIRST)) or "a right save", False
    yield save(SECOND, "def softmax(x, dim=-1):\n    return x\n") or "a wrong save", False
    yield "a restart", True
    yield save(SECOND, right(SECOND)) or "mended", False
    yield exercises.begin(positions, folder) and "a track is started", False
    yield "a restart with an untouched track", True
    yield save(ELECTIVE, right(ELECTIVE)) or "a right elective", False
    yield file[FIRST].unlink() or "a file of the core is deleted", False
    yield "a restart without it", True
    yield lessons.reset(FIRST, folder) and "its stub is put back", False
    yield save(FIRST, "") or "an empty file", False
    yield file[FIRST].write_bytes("# 한글\n".encode("cp949")) and "not UTF-8", False
    yield save(FIRST, "def dot_product_scores(:\n") or "half written", False
    yield save(FIRST, right(FIRST)) or "right again", False
    yield save(MASK, right(MASK)) or "a later step", False
    yield "a restart once more", True
    yield lessons.reset(MASK, folder) and "a step is reset", False
    yield [file[name].unlink() for name in positions] and "the track is deleted", False
    yield save("step03_attention", right("step03_attention").replace("softmax(", "softmax(2 * ", 1)) or "wrong", False
    yield [save(name, right(name)) for name in own["core"]] and "the whole core", True


@pytest.mark.thorough
def test_every_screen_says_the_same(folder: Path, grader: Grader, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page, watch mode, `make tracks`, `make grade` and `make hint`, after each of twenty events: points, what
    passes, and what is next; and Explore at the end, of whose code it takes."""
    screens, session, page = Screens(folder, grader, monkeypatch), None, None
    count = 0
    try:
        for what, again in events(folder):
            count += 1
            if session is None or again:
                if session is not None:
                    session.close()
                session = Session(folder, command="course", terminal=False, BROWSER="true")
                page = Asked(session)
            said = settled(page)
            listed = screens.tracks()
            assert listed == said, what
            assert screens.grade() == {"points": said["points"], "next": said["next"]}, what
            assert last_line(session) == said["points"], what
            assert screens.hint(said["next"]), what
        assert page is not None
        about = json.loads(page.post("/data/explore/about", {})[4:])  # behind its length
        passed = [whose for whose in about["whose"].values() if whose == "yours"]
        assert said["passed"]["core"] == f"{len(passed)} of 12"
    finally:
        if session is not None:
            session.close()
    assert count >= 20
