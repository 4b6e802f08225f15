"""Each command in docs/instructor.md is run: here with a cheap grader, or by the test that is named."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.author import recorder
from grader.base import paths
from grader.cli import main as command_line
from tests.cheap import NAMES, RIGHT, cheaply  # noqa: F401  # a fixture

PAGES = [paths.ROOT / "docs" / f"instructor{ending}.md" for ending in ("", ".ko")]
# Commands of other programs, and the tests that run them: what a class of nbgrader's or Dask's needs is not made here.
ELSEWHERE = {
    "cp": "here, before the first command", "cd": "", "source": "", "nbgrader": "test_nbgrader.py test_term.py",
    "dask": "test_classroom.py", ".venv/bin/python": "", "pip": "",
}  # fmt: skip


def commands(page: Path) -> list[str]:
    """Every line of the blocks for a shell, without comments."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def as_grader(command: str) -> list[str] | None:
    """What is typed after `python -m grader`; None where another program is meant."""
    words = shlex.split(command)
    while words and re.fullmatch(r"[A-Z]+=\S*", words[0]):
        words = words[1:]
    if words[:3] == ["python", "-m", "grader"]:
        return words[3:]
    if words[0] != "make":
        assert words[0] in ELSEWHERE, command
        return None
    return [word.removeprefix("KIT_") for word in words[1:]]  # make hands KIT_LANG on in the environment


def test_both_languages_have_the_same_commands() -> None:
    """And at most 200 lines."""
    english, korean = ([command.split("  ")[0] for command in commands(page)] for page in PAGES)
    assert english == korean
    assert all(len(page.read_text(encoding="utf-8").splitlines()) <= 200 for page in PAGES)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with what the page's commands are about: submissions, an earlier class, last year's."""
    for folder in ("submissions", "submitted", "last-year", "week1", "week2"):
        for student, numbers in (("ada", (1, 2, 3)), ("brook", (1,))):
            (tmp_path / folder / student).mkdir(parents=True)
            for number in numbers:
                (tmp_path / folder / student / f"{NAMES[number]}.py").write_text(RIGHT[number], encoding="utf-8")
    canvas = tmp_path / "examples" / "course" / "submissions"  # as Canvas names the files that feedback goes back to
    canvas.mkdir(parents=True)
    for number, student in enumerate(("ada", "brook"), 1):
        for step in (1, 2, 3):
            (canvas / f"{student}_{number}_{step}_{NAMES[step]}.py").write_text(RIGHT[step], encoding="utf-8")
    shutil.copy(paths.ROOT / "examples" / "course" / "assignments.toml", tmp_path / "examples" / "course")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KIT_LANG", "en")
    monkeypatch.setattr("grader.classes.pool.begin", lambda limits: None)
    monkeypatch.setattr(recorder, "record_all", lambda *given, **more: None)  # minutes, and not the point
    yield tmp_path


@pytest.mark.thorough
@pytest.mark.usefixtures("cheaply")
def test_each_command_runs(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of the page; nbgrader's part is about a course without `assignments.toml`."""
    pytest.importorskip("nbformat", reason="what instructors need is not installed")
    ran = []
    for command in commands(PAGES[0]):
        if command.startswith("cp "):
            subprocess.run(shlex.split(command), check=True)
        if command == "make release":
            Path("assignments.toml").unlink()
        words = as_grader(command)
        if words is not None and "--scheduler" not in words:
            assert command_line.run(words) in (0, None), (command, capsys.readouterr())
            ran.append(words[0])
    assert len(ran) >= 16
    assert {"class", "term", "release", "kit", "gradescope", "project", "items", "similar", "feedback"} <= set(ran)
    assert Path("dist/class/scores/feedback-canvas.zip").is_file()
