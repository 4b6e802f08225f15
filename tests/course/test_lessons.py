"""Lessons, hints and the way back to the stub."""

from __future__ import annotations

import ast
import inspect
import io
import json
import os
import re
import sys
from datetime import datetime
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console

from grader.base import language, paths
from grader.cli import main
from grader.course import exercises, lessons, stubs
from grader.course import steps as course

SOLUTIONS = paths.ROOT / "solutions"
LESSONS = sorted(SOLUTIONS.glob("*/step*/lesson.*.md"))
STEP = "step04_causal_mask"
MOMENT = datetime(2026, 1, 2, 3, 4, 5)

every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: f"{path.parent.name}-{path.suffixes[0][1:]}")


def printed(what: object) -> str:
    """What a terminal of 80 columns shows, without colours."""
    console = Console(file=io.StringIO(), width=80, highlight=False, markup=False)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def command(*arguments: str) -> int:
    """Runs the command line in this process."""
    before, sys.argv = sys.argv, ["grader", *arguments]
    try:
        return main.main()
    finally:
        sys.argv = before


# --- lessons ---------------------------------------------------------------------------------------------------------


def test_what_is_bold_renders_bold() -> None:
    """In every page of both languages: `**말(word)**은` stays asterisks in CommonMark, which sees no end there."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    pages = [*SOLUTIONS.rglob("*.md"), *paths.ROOT.glob("*.md"), *(paths.ROOT / "docs").glob("*.md")]
    literal = [
        f"{page.relative_to(paths.ROOT)}: {part.content}"
        for page in pages
        for token in parser.parse(page.read_text(encoding="utf-8"))
        for part in token.children or []
        if part.type == "text" and "**" in re.sub(r"[\w)\]]( ?)\*\*\1[\w(-]", "", part.content)  # a power
    ]
    assert literal == []


@every_lesson
def test_pictures_stay_aligned(path: Path) -> None:
    """Every line of every picture stands in the terminal as it was drawn, and nothing is wider than 80 columns."""
    text = lessons.plain(path)
    shown = [line.rstrip() for line in printed(lessons.Lesson(text)).splitlines()]
    for picture in re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        assert [line for line in map(str.rstrip, picture.splitlines()) if line not in shown] == []
    assert max(map(cell_len, shown)) <= 80


@every_lesson
def test_three_hints(path: Path) -> None:
    """Every lesson has three hints, and both languages have one each."""
    with language.use(path.suffixes[0][1:]):
        assert len(lessons.hints(path.parent.name)) == 3


@every_lesson
def test_front_matter_says_what_a_step_takes(path: Path) -> None:
    """Minutes and how hard it is, the same in both languages; no reader sees the lines themselves."""
    takes = lessons.effort(path.parent.name)
    assert re.fullmatch(r"\d+-\d+", takes.minutes)
    assert takes.difficulty in (1, 2, 3)
    assert path.read_text(encoding="utf-8").startswith(
        f"---\nminutes: {takes.minutes}\ndifficulty: {takes.difficulty}\n---\n# "
    )
    with language.use(path.suffixes[0][1:]):
        assert lessons.lesson(path.parent.name).startswith("# ")
        assert str(takes).endswith("●" * takes.difficulty + "○" * (3 - takes.difficulty))


@every_lesson
def test_it_leads_further(path: Path) -> None:
    """Each lesson ends, before its hints, with two to four links; both languages have the same."""
    links = [
        re.findall(
            r"\]\((https://[^)\s]+)\)", re.split(r"^## (?:Read on|Further reading|더 읽을거리)$", text, flags=re.M)[1]
        )
        for text in (sibling.read_text(encoding="utf-8") for sibling in sorted(path.parent.glob("lesson.*.md")))
    ]
    assert links[0] == links[1]
    assert 2 <= len(links[0]) <= 4


def test_lesson_in_another_language(tmp_path: Path) -> None:
    """A lesson that is not translated is shown in English; one that is not there is said to be missing."""
    (tmp_path / "core" / STEP).mkdir(parents=True)
    (tmp_path / "core" / STEP / "lesson.en.md").write_text("# A mask\n\n## Ideas\n\n1. Not a hint.\n")
    with language.use("ko"):
        assert lessons.lesson(STEP, tmp_path).startswith("# A mask")
        with pytest.raises(lessons.NoLesson):
            lessons.hints(STEP, tmp_path)
        with pytest.raises(lessons.NoLesson):
            lessons.lesson("step05_dropout", tmp_path)


# --- hints -----------------------------------------------------------------------------------------------------------


def test_one_hint_more_each_time(tmp_path: Path) -> None:
    """One, two, three, and then no more; another step begins at one."""
    given = [lessons.next_hint(STEP, tmp_path) for _time in range(4)]
    assert [len(hints.given) for hints in given] == [1, 2, 3, 3]
    assert [hints.is_new for hints in given] == [True, True, True, False]
    assert "no more hints" in printed(lessons.shown(STEP, given[-1]))
    assert len(lessons.next_hint("step05_dropout", tmp_path).given) == 1
    assert [path.name for path in (tmp_path / ".kit").iterdir()] == ["hints.json"]


@pytest.mark.parametrize("damaged", ["", "{", "[1, 2]", '{"step04_causal_mask": "2"}', '{"step04_causal_mask": -7}'])
def test_damaged_memory(tmp_path: Path, damaged: str) -> None:
    """A file that can't be read means that no hint was given."""
    (tmp_path / ".kit").mkdir()
    (tmp_path / ".kit" / "hints.json").write_text(damaged)
    assert len(lessons.next_hint(STEP, tmp_path).given) == 1
    assert json.loads((tmp_path / ".kit" / "hints.json").read_text())[STEP] == 1


def test_memory_that_cannot_be_written(tmp_path: Path) -> None:
    """The hint is given, and it is said that it is not remembered."""
    (tmp_path / ".kit").write_text("a file in the way")
    hints = lessons.next_hint(STEP, tmp_path)
    assert len(hints.given) == 1
    assert hints.unsaved
    assert hints.unsaved in printed(lessons.shown(STEP, hints))


# --- back to the stub ------------------------------------------------------------------------------------------------


def test_reset_keeps_every_backup(tmp_path: Path) -> None:
    """The work goes to a dated file, twice within one second to two; nothing is written over."""
    file = tmp_path / f"{STEP}.py"
    for work in (b"first = 1\n", b"second = 2\r\n"):
        file.write_bytes(work)
        restored = lessons.reset(STEP, tmp_path, now=lambda: MOMENT)
        assert restored.backup is not None
        assert restored.backup.read_bytes() == work
        assert file.read_text() == stubs.original(SOLUTIONS / "core" / STEP)
    names = sorted(path.name for path in (tmp_path / ".backup").iterdir())
    assert names == [f"{STEP}.20260102-030405-1.py", f"{STEP}.20260102-030405.py"]


def test_reset_of_what_is_no_work(tmp_path: Path) -> None:
    """A missing file is written, a stub left alone; neither has a backup."""
    assert lessons.reset(STEP, tmp_path) == lessons.ResetResult(tmp_path / f"{STEP}.py", None, changed=True)
    assert lessons.reset(STEP, tmp_path) == lessons.ResetResult(tmp_path / f"{STEP}.py", None, changed=False)
    assert not (tmp_path / ".backup").exists()


def test_reset_that_cannot_keep_the_work(tmp_path: Path) -> None:
    """Where no backup can be written, the work stays where it is."""
    (tmp_path / ".backup").write_text("a file in the way")
    (tmp_path / f"{STEP}.py").write_text("work = 1\n")
    with pytest.raises(OSError):
        lessons.reset(STEP, tmp_path)
    assert (tmp_path / f"{STEP}.py").read_text() == "work = 1\n"


def test_stub_where_no_reference_is(tmp_path: Path) -> None:
    """In a kit without references the stub is shipped as it is; without either there is none."""
    (tmp_path / "core" / STEP).mkdir(parents=True)
    with pytest.raises(lessons.NoStub):
        lessons.reset(STEP, tmp_path, tmp_path)
    for spoken in language.LANGUAGES:
        stubs.shipped(tmp_path / "core" / STEP, spoken).write_text(f"stub = '{spoken}'\n")
    for spoken in language.LANGUAGES:
        with language.use(spoken):
            assert lessons.reset(STEP, tmp_path, tmp_path).file.read_text() == f"stub = '{spoken}'\n"


@pytest.mark.parametrize("step", course.steps(), ids=lambda step: step.name)
def test_stubs_in_both_languages(step: course.Step) -> None:
    """They are one program: only docstrings and the line that says where a stub is from differ, and every docstring
    does; either is to do."""
    english, korean = (step.stub(spoken) for spoken in language.LANGUAGES)
    assert all(stubs.is_untouched(stub) for stub in (english, korean))
    trees = [ast.parse(stub) for stub in (english, korean)]
    docstrings = [[inspect.cleandoc(node.value) for node in stubs._docstrings(tree)] for tree in trees]
    assert len(docstrings[0]) == len(docstrings[1]) > 1
    assert not set(docstrings[0]) & set(docstrings[1])
    code = [[line for line in strip_docstrings(stub).splitlines() if line] for stub in (english, korean)]
    assert code[0] == code[1]
    assert max(len(line) for line in korean.splitlines()) <= 120


def strip_docstrings(stub: str) -> str:
    """The code of a stub, as Python writes it: no comment, no docstring."""
    tree = ast.parse(stub)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.unparse(tree)


@pytest.mark.parametrize("step", course.steps(), ids=lambda step: step.name)
def test_korean_stubs_have_korean_headings(step: course.Step) -> None:
    """Of docstrings too: what goes in, what is raised, what is off limits."""
    assert not re.search(r"^\s*(?:Args|Raises|Returns|Off limits):", step.stub("ko"), re.MULTILINE)


def test_untouched_files_speak_the_language_of_the_command(tmp_path: Path) -> None:
    """All of them, as long as nobody has worked on any."""
    exercises.write(tmp_path)
    with language.use("ko"):
        written = exercises.write_in_language(tmp_path)
        assert f"{STEP}" in written
        assert (tmp_path / f"{STEP}.py").read_text(encoding="utf-8") == stubs.original(paths.step_folder(STEP), "ko")
        assert exercises.write_in_language(tmp_path) == []
    file = tmp_path / f"{STEP}.py"
    file.write_text(file.read_text(encoding="utf-8") + "\n# mine\n", encoding="utf-8")
    assert exercises.write_in_language(tmp_path) == []
    assert exercises.write_in_language(tmp_path / "nowhere") == []


def test_swapping_the_language_of_the_stubs(tmp_path: Path) -> None:
    """What nobody has written in speaks the other language; work, and a note beside the stub, stay as they are."""
    exercises.write(tmp_path)
    steps = [step for step in course.steps() if step.track == "core"]
    work, note = (tmp_path / f"{step.name}.py" for step in steps[:2])
    work.write_text(steps[0].solved())
    noted = note.read_text() + "# why not x - x.max()?\n"
    note.write_text(noted)
    with language.use("ko"):
        result = exercises.write(tmp_path)
    assert result.kept == [steps[0].name, steps[1].name]
    assert (work.read_text(), note.read_text()) == (steps[0].solved(), noted)
    for step in steps[2:]:
        assert (tmp_path / f"{step.name}.py").read_text() == step.stub("ko") != step.stub()


def test_reset_speaks_the_language_in_use(tmp_path: Path) -> None:
    """The stub of the other language is no work: nothing is kept of it."""
    exercises.write(tmp_path)
    with language.use("ko"):
        restored = lessons.reset(STEP, tmp_path)
    assert restored == lessons.ResetResult(tmp_path / f"{STEP}.py", None, changed=True)
    assert restored.file.read_text() == stubs.original(SOLUTIONS / "core" / STEP, "ko")


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hint", "lesson", "reset", "watch"])
@pytest.mark.parametrize(
    ("step", "says"), [("99", "There is no step 99."), ("step", "step fits several steps: step01_scores, ")]
)
def test_unknown_step(capsys: pytest.CaptureFixture[str], name: str, step: str, says: str) -> None:
    """One line, which ends in the command to type next."""
    assert command(name, step) == 2
    error = capsys.readouterr().err
    assert error.startswith(says)
    assert error.endswith(f"Type: python -m grader {name} step01_scores\n")


@pytest.mark.parametrize("name", ["reset"])
def test_no_step(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Without a step it is asked for."""
    assert command(name) == 2
    assert capsys.readouterr().err.startswith("Which step?")


@pytest.mark.parametrize("name", ["hint", "reset", "watch"])
def test_no_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    """A folder that is not there is refused in one line."""
    assert command(name, "4", "--submission", str(tmp_path / "nowhere")) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hint`, `lesson` and `reset` do what they say and leave with 0."""
    monkeypatch.delenv("KIT_LANG", raising=False)
    folder = ("--submission", str(tmp_path))
    (tmp_path / f"{STEP}.py").write_text("work = 1\n")
    assert command("hint", "4", *folder, "--lang", "en") == 0
    assert "Hint 1 of 3" in capsys.readouterr().out
    assert command("lesson", "4", "--lang", "ko") == 0
    assert "코잘 마스크" in capsys.readouterr().out
    assert command("reset", "4", *folder, "--lang", "en") == 0
    assert "your work is kept in" in " ".join(capsys.readouterr().out.split())
    assert os.listdir(tmp_path / ".backup")
