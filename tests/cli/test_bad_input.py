"""Bad input: one line that ends in what to type, before anything is graded, and never a traceback."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from grader.base import files, language, untrusted
from grader.base.paths import ROOT
from grader.classes import results
from grader.cli import common, instructor, main
from grader.cli.parser import BadInput
from grader.course import lab_log, submissions
from grader.feedback import adapters
from grader.marks import assignments, sheets


def typed(words: str, shell: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """A command as it is typed, perhaps with its output redirected."""
    given = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "KIT_LANG": "en"} | environment
    command = f"{sys.executable} -m grader {words} {shell}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, timeout=600, env=given)


def refused(words: str, shell: str = "", **environment: str) -> str:
    """What a refused command says: one line."""
    done = typed(words, shell, **environment)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("grade --step 1 --json nowhere/report.json", "report.json can't be written (No such file or directory)"),
        ("grade --step 1 --html nowhere/report.html", "report.html can't be written (No such file or directory)"),
        ("grade --step 1 --html .", ". can't be written (Is a directory)"),
        ("class examples/course/submissions --gradebook sqlite:///nowhere/g.db", "nowhere/g.db can't be written"),
        ("class examples/course/submissions --gradebook nonsense://x", "The gradebook can't be opened ("),
        ("class examples/course/submissions --out README.md", "README.md can't be written (File exists). Type: "),
        ("class examples/course/submissions --out README.md/a", "README.md/a can't be written (Not a directory)"),
        ("class ''", "The argument SUBMISSIONS is missing."),
        ("release --assignment ../week1", "--assignment: letters, digits, - and _ only. Type: "),
        ("release-kit --folder ''", "The option --folder needs a value."),
        ("release-kit --folder README.md", "README.md can't be written (File exists). Type: "),
        ("similar MISSING", "There is no folder MISSING. Type: python -m grader similar SUBMISSIONS"),
        ("train --out README.md", "README.md can't be written (File exists). Type: python -m grader train --out OTHER"),
        ("train --text docs", "docs is a folder, not a text."),
        ("generate --checkpoint README.md", "README.md is not a checkpoint of make train (SafetensorError: "),
        ("begin position", "There is no track position."),
        ("messages 99", "Type: python -m grader messages step01_scores"),
    ],
)
def test_it_is_refused_before_anything_is_graded(words: str, says: str) -> None:
    """In a line of ours, with the system's reason."""
    assert says in refused(words)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there are no such devices")
def test_a_device_is_written_to_and_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--json /dev/stdout`, typed by root: a file of ours must not take the place of a device."""
    monkeypatch.setattr(Path, "replace", lambda *_paths: pytest.fail("it was replaced"))
    files.write(Path("/dev/../dev/null"), "{}")
    with pytest.raises(OSError, match="No space left"):
        files.write(Path("/dev/full"), b"{}")


@pytest.mark.parametrize("command", ["grade", "tracks", "hint"])
def test_a_folder_that_may_not_be_read(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever runs the tests may read every folder, so the refusal is the system's in name only."""

    def forbidden(folder: Path) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", forbidden)
    with pytest.raises(BadInput, match=rf"can't be read \(Permission denied\)\. Type: python -m grader {command} "):
        common.require_folder(tmp_path, command)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            PermissionError(13, "Permission denied", "a b/reference.py"),
            "(Permission denied). Type: ls -ld 'a b/reference",
        ),
        (
            IsADirectoryError(21, "Is a directory", b"a/marks.csv"),
            "a/marks.csv can't be read or written (Is a directory)",
        ),
    ],
)
def test_a_file_that_may_not_be_read_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError, says: str
) -> None:
    """Whichever command reads it, before every step is looked through; someone who looks for a fault sees where."""

    def unread(_words: list[str], _early: object) -> int:
        raise error

    monkeypatch.setattr(main, "run", unread)
    monkeypatch.setattr(main, "report_faulty_steps", lambda: pytest.fail("it looked"))
    assert main._run(["tracks"], None) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    monkeypatch.setenv("KIT_DEBUG", "1")
    monkeypatch.setattr(main, "report_faulty_steps", lambda: False)
    with pytest.raises(type(error)):
        main._run(["tracks"], None)


@pytest.mark.parametrize("words", ["tracks", "lesson 1", "--help"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_stream_that_is_closed(words: str, closed: str) -> None:
    """Nobody wants to read it: nothing is said of it."""
    done = typed(words, closed)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a full device")
@pytest.mark.parametrize("words", ["tracks", "lesson 1", "--help"])
def test_a_full_device(words: str) -> None:
    """It is said, in one line."""
    assert (
        refused(words, "> /dev/full") == "Standard output can't be written (No space left on device). Type: make doctor"
    )


def test_what_is_nested_without_end_is_damaged_and_no_more(tmp_path: Path) -> None:
    """Each of these is somebody's file; the one of labs is a student's, and must not end the run of a class."""
    deep = "[" * 200_000
    (tmp_path / "assignments.toml").write_text(f"a = {deep}", encoding="utf-8")
    with pytest.raises(assignments.BadTerm, match="is not valid TOML"):
        assignments.read(tmp_path / "assignments.toml")
    (tmp_path / lab_log.FILE).write_text(f'[{{"x": {deep}', encoding="utf-8")
    assert lab_log.read(tmp_path) == []
    (tmp_path / "class.json").write_text(f'{{"x": {deep}', encoding="utf-8")
    with pytest.raises(results.NoResults):
        results.read(tmp_path)
    with pytest.raises(adapters.NoReport, match="is not a report"):
        adapters.converted(tmp_path / "class.json", "otter")
    (tmp_path / "n.ipynb").write_text(f'{{"x": {deep}', encoding="utf-8")
    with pytest.raises(untrusted.Unusable, match="is cut off|is damaged"):
        submissions.notebook_answers(tmp_path / "n.ipynb")


def test_a_cell_may_be_as_long_as_a_table(tmp_path: Path) -> None:
    """As behind a quotation mark that nobody closed: the module csv has a limit of its own, and an error of its own."""
    (tmp_path / "assignments.toml").write_text('[assignments.a]\nsteps = "1"\n', encoding="utf-8")
    term = assignments.read(tmp_path / "assignments.toml")
    table = 'student,step,points,reason\nada,1,1,"' + "x" * 200_000
    (tmp_path / sheets.OVERRIDES).write_text(table, encoding="utf-8")
    (decided,) = sheets.overrides(term, term.assignments["a"]).values()
    assert len(decided.reason) == 200_000


def test_a_full_device_is_no_reason_to_look_through_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes torch and half a minute; it is done where a step's folder may be at fault."""

    def full(_words: list[str], _early: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(main, "run", full)
    monkeypatch.setattr(main, "report_faulty_steps", lambda: pytest.fail("it looked"))
    with pytest.raises(OSError, match="No space left"):
        main._run(["tracks"], None)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """`reset` reads a file before it keeps it: of a FIFO it would never see the end."""
    os.mkfifo(tmp_path / "step04_causal_mask.py")
    assert "is not a regular file" in refused(f"reset 4 --submission {tmp_path}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["grade"], "Stopped. Nothing was graded. Type: make grade"),
        (["train", "--seconds", "9"], "Stopped. Type: python -m grader train"),
    ],
)
def test_a_signal_stops(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], says: str,
    number: signal.Signals,
) -> None:  # fmt: skip
    """What was stopped is named: training grades nothing. Afterwards a signal does what it did before."""
    monkeypatch.setattr(main, "run", lambda _words, _early: signal.raise_signal(number))
    monkeypatch.setattr(sys, "argv", ["grader", *words])
    monkeypatch.setenv("KIT_LANG", "en")
    before = signal.getsignal(number)
    assert main.main() == 128 + number
    assert capsys.readouterr().err.strip() == says
    assert signal.getsignal(number) is before


def test_an_ignored_signal_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under `nohup`: the terminal is closed, and the class is graded to its end."""
    monkeypatch.setattr(main, "run", lambda _words, _early: signal.raise_signal(signal.SIGHUP) or 0)
    monkeypatch.setattr(sys, "argv", ["grader", "class", "submissions"])
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert main.main() == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.thorough
def test_an_assignment_that_no_file_describes_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without assignments.toml its name is used in tables only: a slip must not pass in silence."""
    student = tmp_path / "class" / "ada"
    student.mkdir(parents=True)
    (student / "step01_scores.py").write_text("x = 1\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "grader", "class", str(tmp_path / "class"), "--assignment", "TYPO", "--step", "1"],
        cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT), "KIT_LANG": "en"},
    )  # fmt: skip
    assert done.returncode == 0 and instructor.PLAIN not in done.stderr
    assert "There is no assignments.toml here: TYPO is only the name that tables get." in done.stderr


# --- as it is typed under make --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ("No. Type: python -m grader grade --step step01_scores", "No. Type: make grade STEP=step01_scores"),
        ("Type: python -m grader hint step01_scores", "Type: make hint STEP=step01_scores"),
        ("Type: python -m grader begin --track positions", "Type: make begin TRACK=positions"),
        ("Type: python -m grader train HELP=1", "Type: make train HELP=1"),
        ("Type: python -m grader train --resume --text 'a b'", "Type: make train RESUME=1 TEXT='a b'"),
        ("Type: python -m grader lint 4", "Type: python -m grader lint 4"),
        ("Type: python -m grader class 'a b' --step 1", "Type: make class SUBMISSIONS='a b' STEP=1"),
        ("Type: python -m grader kit --folder OTHER", "Type: make kit FOLDER=OTHER"),
        ("Type: python -m grader grade --submission FOLDER", "Type: make grade SUBMISSION=FOLDER"),
        ("Type: make grade", "Type: make grade"),
    ],
)
def test_a_command_as_make_has_it(monkeypatch: pytest.MonkeyPatch, sentence: str, says: str) -> None:
    """`make lint` is another one; what is no command stays as it was."""
    assert language.typed(sentence) == sentence
    monkeypatch.setattr(main, "CALLED", "make")
    assert main.as_typed(sentence) == says


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("begin --track position", "Type: make begin TRACK=positions"),
        ("hint 99", "Type: make hint STEP=step01_scores"),
        ("grade --step sofmax", "Type: make grade STEP=step02_softmax"),
        ("train SECONDS=x", "Invalid value for SECONDS: not a number. Type: make train HELP=1"),
        ("train SECOND=9", "There is no option SECOND. Type: make train HELP=1"),
        ("grade OPEN=1", "There is no page to open. Type: make grade HTML=report.html OPEN=1"),
    ],
)
def test_errors_under_make_speak_of_make(words: str, says: str) -> None:
    """As the Makefile runs them; the name that was probably meant is suggested."""
    assert "RUN := KIT_TYPED=make $(VENV) -P grader/__main__.py\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert refused(words, KIT_TYPED="make").endswith(says)
