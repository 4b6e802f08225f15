"""Watch mode: real sessions in a pseudo-terminal and in a pipe, and the parts that need no torch."""

from __future__ import annotations

import io
import os
import pty
import random
import re
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from grader.base import language, paths
from grader.base.limits import Limits
from grader.base.results import CheckResult, Report, StepResult
from grader.course import choice, lessons, stubs, submissions
from grader.learner import background, cell_checks, keyboard, saves, watch_keys
from grader.learner import watch as watching
from grader.learner import watch_view as boards
from grader.learner.background import BackgroundGrader, Dropped, Key, Look, StepDone
from grader.learner.syntax import half_written
from grader.learner.watch import Watch
from grader.web import verdict
from tests.hostile import alive, eventually
from tests.watched import CONTROL, PATIENCE, Session, core_points, descendants

STEP = "step04_causal_mask"
RIGHT = (paths.ROOT / "solutions" / "core" / STEP / "reference.py").read_text(encoding="utf-8")
WRONG = RIGHT.replace(".tril()", ".triu()")
HALF = RIGHT.replace(".tril()", ".tril(")
ENDLESS = RIGHT.replace("return torch.ones(", "while True: pass\n    return torch.ones(")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are not to be had")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of untouched stubs."""
    exercises = tmp_path / "exercises"
    exercises.mkdir()
    for name in choice.step_names(None, choice.CORE):
        (exercises / f"{name}.py").write_text(
            stubs.original(paths.ROOT / "solutions" / "core" / name), encoding="utf-8"
        )
    return exercises


@pytest.fixture
def start() -> Iterator[Callable[..., Session]]:
    """Starts sessions, and ends those that a failed test has left."""
    sessions: list[Session] = []

    def begin(*arguments: object, **options: object) -> Session:
        sessions.append(Session(*arguments, **options))  # type: ignore[arg-type]
        return sessions[-1]

    yield begin
    for session in sessions:
        session.close()


# --- whole sessions --------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_session_in_a_terminal(folder: Path, start: Callable[..., Session]) -> None:
    """Saves are graded, keys answer, code that never ends holds up nothing, and `q` leaves nothing behind."""
    file = folder / f"{STEP}.py"
    session = start(folder, "4", terminal=True)
    session.until("to do", f"of {core_points()} points", "h hint")

    file.write_text(WRONG)
    session.until("✗ fail", "test_mask_by_hand")
    seen = len(session.shown)
    file.write_text(HALF)
    assert "was never closed" in " ".join(session.until("not valid Python", "q quit", after=seen).split())
    file.write_text(RIGHT)
    session.until("✓ pass", "Next is step05_dropout", "1 of 12 steps pass", after=seen)

    session.until("Press x again", after=session.press("x"))
    session.until("your work", "is kept in", "to do", after=session.press("x"))
    assert stubs.is_untouched(file.read_text())
    assert [path.read_text() for path in (folder / ".backup").iterdir()] == [RIGHT]

    seen = len(session.shown)
    file.write_text(ENDLESS)
    session.until("grading step04_causal_mask", after=seen)
    pressed = time.monotonic()
    session.until("Hint 1 of 3", "grading", after=session.press("h"))
    below = descendants(session.process.pid)
    session.press("q")
    assert session.ended() == 0
    assert time.monotonic() - pressed < 60  # far from the deadlines of what it was running, on any machine
    assert termios.tcgetattr(session.end) == session.before
    assert below
    assert eventually(lambda: not alive(below))


@pytest.mark.thorough
def test_session_in_a_pipe(folder: Path, start: Callable[..., Session]) -> None:
    """Without a terminal: lines are appended, and a save within the same second is seen."""
    session = start(folder, "4", terminal=False)
    session.until("to do", f"of {core_points()} points")
    (folder / f"{STEP}.py").write_text(HALF)
    time.sleep(0.3)
    (folder / f"{STEP}.py").write_text(f"{RIGHT}\n\nraise RuntimeError('mine')\n")
    session.until("✓ pass", "RuntimeError('mine')`", "1 of 12 steps pass")
    assert "\x1b" not in session.shown
    assert "q quit" not in session.shown
    session.process.send_signal(signal.SIGTERM)
    assert session.ended() == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("signalled", "status"), [(None, 0), (signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_ended_while_torch_loads(
    folder: Path, start: Callable[..., Session], signalled: signal.Signals | None, status: int
) -> None:
    """`q`, Ctrl-C and SIGTERM end it at once, and the terminal is what it was."""
    session = start(folder, terminal=True)
    session.until("Loading torch", "q quit")
    assert termios.tcgetattr(session.end) != session.before
    if signalled is None:
        session.press("ㅂ")  # q, on a Korean keyboard
    else:
        session.process.send_signal(signalled)
    assert session.ended() == status
    assert termios.tcgetattr(session.end) == session.before


def test_notes_on_a_file_are_shown_wherever_its_verdict_is(tmp_path: Path) -> None:
    """The file that was taken for the step, and each line that was left out; the rest in one line."""
    lines = [f"Line {number} of `{STEP}.py` raised <b>." for number in range(20)]
    passed = StepResult(
        name=STEP, title="", status="pass", score=1.0, max_score=1.0, seconds=0.0, checks=[], left_out=lines
    )
    read = submissions.Submission("", taken={STEP: "Cell 3 was taken."})
    board = boards.Board(tmp_path, [STEP], current=STEP, results={STEP: passed}, read=read)
    assert board.notes(STEP) == ["Cell 3 was taken.", *lines[:12], "8 more lines were left out."]
    console = Console(file=io.StringIO(), width=200)
    console.print(boards.verdict(board))
    page = verdict.html(STEP, "", tmp_path / f"{STEP}.py", RIGHT, passed, notes=board.notes(STEP))
    report = Report(
        submission="", seed=1, isolation=[], devices={}, score=1.0, max_score=1.0, steps=[passed],
        notes=board.notes(STEP),
    )  # fmt: skip
    cell = cell_checks.CheckedSteps(report, "en")
    for shown in (console.file.getvalue(), page, repr(cell), cell._repr_html_()):  # type: ignore[attr-defined]
        assert all(said in shown for said in ("Cell 3 was taken.", "Line 11 of", "8 more lines")), shown
        assert "Line 12 of" not in shown
    assert "raised <b>" not in page + cell._repr_html_()


# --- what is graded, and in what order -------------------------------------------------------------------------------


class FakeGrader:
    """Notes what it is asked to grade."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.dropped = 0

    def drop(self) -> None:
        """Counts."""
        self.dropped += 1

    def prepare(self, names: list[str], seed: int) -> None:
        """Nothing."""

    def grade(self, read: submissions.Submission, name: str, seed: int) -> None:
        """Notes the step and the source it was given."""
        self.asked.append((name, read.sources[name][1]))


def result(name: str, status: str = "pass") -> StepResult:
    """A result of two points."""
    points = 2.0 if status == "pass" else 0.0
    check = CheckResult(
        name="test_it", title="It is right.", device="cpu", status=status, points=points, max_points=2.0
    )  # type: ignore[arg-type]
    return StepResult(
        name=name, title="A step", status=status, score=points, max_score=2.0, seconds=0.1, checks=[check]
    )  # type: ignore[arg-type]


@pytest.fixture
def watch(folder: Path) -> Watch:
    """A session that nothing runs, into a pipe."""
    return Watch(folder, STEP, "cpu", Console(file=io.StringIO(), width=80, height=24))


def test_newest_save_wins(folder: Path, watch: Watch) -> None:
    """What was saved while a step was graded is graded next, as it is by then, before all that waited."""
    grading = FakeGrader()
    watch.start_next(grading)  # type: ignore[arg-type]
    assert [name for name, _source in grading.asked] == [STEP]
    for text in ("first = 1\n", "second = 2\n", "third = 33\n"):
        (folder / "step09_fused_qkv.py").write_text(text)
        watch.take(Look())
    watch.start_next(grading)  # type: ignore[arg-type]
    assert len(grading.asked) == 1
    watch.take(StepDone(STEP, result(STEP)))
    watch.start_next(grading)  # type: ignore[arg-type]
    assert grading.asked[1:] == [("step09_fused_qkv", "third = 33\n")]
    assert watch.board.current == "step09_fused_qkv"


def test_a_mended_loop_is_not_waited_for(folder: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The save that mends it ends the run that hangs, long before its deadline."""
    monkeypatch.setattr(background, "LIMITS", Limits(call_seconds=600.0, step_seconds=600.0))
    file = folder / f"{STEP}.py"
    grading = BackgroundGrader(watch.events.put, "cpu")
    watch.waiting = [STEP]

    def until(met: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not met():
            assert time.monotonic() < deadline
            watch.start_next(grading)
            watch.take(watch._event())

    try:
        until(lambda: STEP in watch.board.results)
        file.write_text(ENDLESS)
        until(lambda: watch.grading == STEP and time.monotonic() - watch.since > watching.LONG)
        before = watch.since
        file.write_text(RIGHT)
        until(lambda: watch.grading is None and not watch.waiting and watch.since > before)
        assert watch.board.results[STEP].status == "pass"
        assert not watch.dropped
    finally:
        grading.close()


def test_no_save_is_lost_whenever_it_comes(folder: Path, watch: Watch) -> None:
    """Each ends the grading of the one before, at any moment of that; the last of each step is graded."""
    draws = random.Random(5)
    steps = [STEP, "step01_scores", "step02_softmax"]
    texts = {name: (paths.step_folder(name) / "reference.py").read_text(encoding="utf-8") for name in steps}
    grading = BackgroundGrader(watch.events.put, "cpu")
    watch.waiting = [STEP]

    def step_on(until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not until():
            assert time.monotonic() < deadline, (watch.grading, watch.waiting, watch.asked, watch.board.results.keys())
            watch.start_next(grading)
            watch.take(watch._event())

    try:
        step_on(lambda: STEP in watch.board.results)
        for number in range(40):
            name = draws.choice(steps)
            (folder / f"{name}.py").write_text(f"{texts[name]}\n# {number}\n", encoding="utf-8")
            ends = time.monotonic() + draws.choice([0.0, 0.02, 0.06, 0.15, 0.4])
            step_on(lambda ends=ends: time.monotonic() >= ends)
        for name in steps:
            (folder / f"{name}.py").write_text(texts[name], encoding="utf-8")
        watch.take(Look())  # else all may be graded and pass as they were before these
        step_on(lambda: not watch.grading and not watch.waiting and all(map(watch.board.passes, steps)))
        assert not watch.asked
        assert watch.graded.sources[watch.board.current][1] == texts[watch.board.current]
    finally:
        grading.close()


def test_a_newer_save_ends_the_older_grading(folder: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, also that of another step; two in a row only after a while: an editor may save all the time."""
    monkeypatch.setattr(watching, "LONG", 600.0)
    grading = FakeGrader()
    watch.start_next(grading)  # type: ignore[arg-type]
    (folder / "step02_softmax.py").write_text("other = 1\n")
    watch.take(Look())
    watch.start_next(grading)  # type: ignore[arg-type]
    assert grading.dropped == 1
    watch.take(Dropped(STEP))
    for _save in range(3):
        watch.start_next(grading)  # type: ignore[arg-type]
        watch.take(Key("r"))
    assert grading.asked[-1][0] == "step02_softmax"
    assert grading.dropped == 1
    monkeypatch.setattr(watching, "LONG", 0.0)
    watch.start_next(grading)  # type: ignore[arg-type]
    assert grading.dropped == 2
    watch.take(Dropped("step02_softmax"))
    for _look in range(3):  # what waits was saved before this grading began, and waits its turn
        watch.start_next(grading)  # type: ignore[arg-type]
    assert watch.waiting
    assert grading.dropped == 2


def test_a_stop_ends_it_and_nothing_follows(watch: Watch) -> None:
    """`s`, and the page's button: the step is not graded again until it is saved or asked for."""
    grading = FakeGrader()
    watch.waiting = [STEP]
    watch.start_next(grading)  # type: ignore[arg-type]
    watch.take(Key("s"))
    watch.start_next(grading)  # type: ignore[arg-type]
    assert grading.dropped == 1
    watch.take(Dropped(STEP))
    watch.start_next(grading)  # type: ignore[arg-type]
    assert (watch.board.stopped, watch.grading, len(grading.asked)) == (STEP, None, 1)
    watch.take(Key("r"))
    watch.start_next(grading)  # type: ignore[arg-type]
    assert (watch.board.stopped, watch.grading) == ("", STEP)


@pytest.mark.thorough
def test_a_typed_line_stops_a_loop_without_a_terminal(folder: Path, start: Callable[..., Session]) -> None:
    """As in an editor's console: what is graded is said with the way to stop it, and the session goes on."""
    (folder / f"{STEP}.py").write_text("while True: pass\n", encoding="utf-8")
    session = start(folder, "4", terminal=False)
    session.until("type s and Enter")
    assert session.process.stdin is not None
    session.process.stdin.write(b"s\n")
    session.process.stdin.flush()
    session.until("Stopped.")
    session.process.stdin.close()  # its end is no key
    time.sleep(0.5)
    assert session.process.poll() is None


def test_step_that_came_right_reopens_what_imports_it(watch: Watch) -> None:
    """Steps with work that import one are looked at again when it changes sides; untouched ones are not."""
    watch.waiting.clear()
    watch.board.read.sources["step06_causal_attention"] = ("x", f"from exercises.{STEP} import causal_mask\n")
    for name in watch.board.names:
        watch.board.results[name] = result(name, "fail" if name in (STEP, "step06_causal_attention") else "todo")
    watch.take(StepDone(STEP, result(STEP)))
    assert watch.waiting == ["step06_causal_attention"]
    watch.waiting.clear()
    watch.take(StepDone(STEP, result(STEP)))
    assert watch.waiting == []


def test_grader_that_fails_does_not_end_the_session(watch: Watch) -> None:
    """A fault of ours is said, and the next save is graded."""
    watch.grading = STEP
    watch.take(StepDone(STEP, None, "its process has ended"))
    assert "its process has ended" in watch.board.notice
    assert watch.grading is None
    watch.take(Key("r"))
    assert watch.waiting == [STEP]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def f(:\n", "line 1"),
        ("def f():\n    return (1 +\n", "was never closed).\n    return (1 +\n           ^"),
        ("한글 = (1, ]\n", "\n    한글 = (1, ]\n               ^"),
        ("x = 1\n  y = 2\n", "line 2"),
        ("return 1\n", ""),  # a line at the top level that is left out
        ("x = '\\d'\n", ""),
        ("x = 1 \u202e\n", "U+202E"),
        ("def f():\n    return 1\n", ""),
    ],
)
def test_half_written(source: str, said: str) -> None:
    """What does not parse yet is a sentence, the line and a caret; a warning is nothing."""
    line = half_written(submissions.Submission("ex", {STEP: ("ex/a.py", source)}), STEP)
    assert bool(line) == bool(said)
    assert said in line
    assert not line or len(line.splitlines()) in (1, 3)


def test_a_blocked_step_leads_to_the_one_that_blocks(watch: Watch) -> None:
    """It is named, and `n` goes there."""
    watch.board.current = "step09_fused_qkv"
    blocked = msgspec.structs.replace(result("step09_fused_qkv", "skipped"), blocked_by="step02_softmax")
    watch.board.results = {"step09_fused_qkv": blocked}
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as captured:
        console.print(boards.verdict(watch.board))
    assert "Next is step02_softmax" in captured.get()
    watch.take(Key("n"))
    assert watch.board.current == "step02_softmax"


def test_a_number_goes_to_its_step(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once where no other step begins so; 1 waits for a second digit, Enter or a second."""
    watch.take(Key("7"))
    assert watch.board.current == "step07_heads"
    assert watch.waiting[0] == "step07_heads"
    watch.take(Key("1"))
    assert watch.board.current == "step07_heads"
    watch.take(Key("2"))
    assert watch.board.current == "step12_gpt"
    watch.take(Key("1"))
    watch.take(Key("\n"))
    assert watch.board.current == "step01_scores"
    watch.take(Key("1"))
    monkeypatch.setattr(watch_keys, "DIGITS_SECONDS", -1.0)
    watch.board.current = "step07_heads"
    watch.take(Look())
    assert watch.board.current == "step01_scores"
    watch.take(Key("9"))
    watch.take(Key("9"))
    assert watch.board.current == "step09_fused_qkv"
    watch.take(Key("0"))
    watch.take(Key("q"))  # what is no digit forgets what was typed
    assert watch.keys.digits == ""


def test_space_turns_pages(folder: Path) -> None:
    """Space, PgDn and `l` go on, `b` and PgUp back, and the last page leads back to the verdict."""
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    watch = Watch(folder, STEP, "cpu", console)
    watch.take(Key(" "))
    assert watch.board.view == "verdict"
    watch.take(Key("l"))
    assert not watch._ends("q")
    assert watch._ends("\x04")
    watch.take(Key("q"))
    assert watch.board.view == "verdict"
    watch.take(Key("l"))
    pages = len(boards.pages(watch.board, console))
    assert pages > 1
    watch.take(Key(keyboard.PAGE_DOWN))
    watch.take(Key("ㅠ"))
    watch.take(Key(" "))
    assert (watch.board.view, watch.board.page) == ("lesson", 1)
    for _page in range(pages - 1):
        watch.take(Key(" "))
    assert watch.board.view == "verdict"


# --- saves and keys --------------------------------------------------------------------------------------------------


def test_folder_names_what_changed(folder: Path) -> None:
    """Written, made, replaced and removed files are named once, the last one first; what is no step file never is."""
    seen = saves.Folder(folder)
    (folder / "step01_scores.py").write_text("a = 1\n")
    time.sleep(0.02)
    (folder / "helper.py").write_text("b = 2\n")
    (folder / ".step01_scores.py.swp").write_text("")
    (folder / "notes.txt").write_text("")
    assert seen.changed() == ["helper", "step01_scores"]
    assert seen.changed() == []
    (folder / "new").write_text("c = 3\n")
    (folder / "new").replace(folder / "helper.py")
    (folder / "step02_softmax.py").unlink()
    assert seen.changed() == ["helper", "step02_softmax"]
    (folder / "helper.py").unlink()
    seen.changed()
    folder.rename(folder.with_name("gone"))
    assert len(seen.changed()) == len(choice.step_names(None, choice.CORE)) - 1


def test_terminal_is_put_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends the block, lines and echo are as before; arrows are no keys; PgDn, PgUp and Korean letters are."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    heard: list[str] = []
    with os.fdopen(theirs, "r", closefd=False) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        with pytest.raises(ZeroDivisionError), keyboard.listening(heard.append) as there:
            assert there
            for sequence in (b"\x1b[A", b"\x1b[6~", b"\x1b[5~"):
                os.write(ours, sequence)
                time.sleep(0.1)
            os.write(ours, "hㅜ귀".encode())
            deadline = time.monotonic() + PATIENCE
            while len(heard) < 7 and time.monotonic() < deadline:
                time.sleep(0.01)
            1 / 0  # noqa: B018
        monkeypatch.undo()
    assert [keyboard.meaning(key) for key in heard] == [" ", "b", "h", "n", "r", "n", "l"]
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_no_keys_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input that is no terminal gives no keys and is not read."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("q"))
    with keyboard.listening(lambda key: pytest.fail(key)) as there:
        assert not there


# --- what is shown ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("speech", language.LANGUAGES)
@pytest.mark.parametrize("view", ["verdict", "hints", "all", "lesson"])
@pytest.mark.parametrize("status", ["pass", "fail", "todo"])
def test_screens_fit(speech: str, view: boards.View, status: str) -> None:
    """No screen is wider than 80 columns or, apart from a long message, higher than 24 lines; none needs colour."""
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True, no_color=True)
    board = boards.Board(Path("exercises"), choice.step_names(None, choice.CORE), keys=True, current=STEP, view=view)
    board.results = {name: result(name, status) for name in board.names}
    board.busy, board.notice, board.at = STEP, "A notice.", "12:00:00"
    with language.use(speech), console.capture() as captured:
        board.hints = lessons.Hints(lessons.hints(STEP), 3, is_new=False)
        console.print(boards.screen(board, console))
    lines = CONTROL.sub("", captured.get()).splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert len(lines) <= 23
    assert "  q " in lines[-1]
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", captured.get())
