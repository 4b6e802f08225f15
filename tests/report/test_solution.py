"""`make solution`: what it shows of a step that passes, and what it refuses."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from grader.author import kit
from grader.base import language, paths
from grader.cli import main
from grader.course import choice, solutions, stubs

STEP = "step04_causal_mask"
REFERENCE = (paths.ROOT / "solutions" / "core" / STEP / "reference.py").read_text(encoding="utf-8")


def typed(folder: Path) -> subprocess.CompletedProcess[str]:
    """The command for step 4, in a process of its own."""
    command = [sys.executable, "-m", "grader", "solution", "4", "--submission", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, cwd=paths.ROOT, timeout=600, check=False)


def test_a_step_that_passes_shows_its_ways(tmp_path: Path) -> None:
    """The reference without its marks, each way with what it trades, and every line of code whole."""
    (tmp_path / f"{STEP}.py").write_text(REFERENCE)
    done = typed(tmp_path)
    assert done.returncode == 0, done.stderr
    solved = solutions.solution(STEP)
    assert len(solved.ways) >= 2
    for code in (solved.reference, *(way.code for way in solved.ways)):
        assert code.strip("\n") in done.stdout
    assert all(way.trades in done.stdout for way in solved.ways)
    assert "SOLUTION" not in done.stdout


def test_a_step_that_does_not_pass_shows_nothing(tmp_path: Path) -> None:
    """One line, and the command that helps."""
    (tmp_path / f"{STEP}.py").write_text(REFERENCE.replace(".tril()", ".triu()"))
    done = typed(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.rstrip().endswith("make hint STEP=4")


def test_a_kit_without_solutions_says_whom_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one built with them holds the same as the checkout."""
    folder = tmp_path / "steps" / "core" / STEP
    folder.mkdir(parents=True)
    with pytest.raises(solutions.NoSolution):
        solutions.solution(STEP, tmp_path / "steps")
    (folder / solutions.SHIPPED).write_bytes(solutions.shipped(STEP))
    assert solutions.solution(STEP, tmp_path / "steps") == solutions.solution(STEP)

    def missing(step: str) -> solutions.StepSolution:
        raise solutions.NoSolution(step)

    monkeypatch.setattr(solutions, "solution", missing)
    monkeypatch.setattr(sys, "argv", ["grader", "solution", "4", "--submission", str(tmp_path)])
    assert main.main() == 2


def test_a_kit_with_solutions_says_so() -> None:
    """Each README has the sentence that is replaced."""
    for language_of, without in zip(("en", "ko"), kit.WITHOUT_AND_WITH, strict=True):
        assert without in (kit.TEMPLATES / f"kit_readme.{language_of}.md").read_text(encoding="utf-8")


def test_what_a_kit_with_solutions_holds(tmp_path: Path) -> None:
    """One file in each of its steps, which is no module, so that the step is still answered by its tape."""
    (tmp_path / "steps" / "core" / STEP).mkdir(parents=True)
    for name in ("README.md", "README.ko.md"):
        spoken = "ko" if ".ko" in name else "en"
        (tmp_path / name).write_text((kit.TEMPLATES / f"kit_readme.{spoken}.md").read_text(encoding="utf-8"))
    kit._add_solutions(tmp_path)
    assert [path.name for path in (tmp_path / "steps" / "core" / STEP).iterdir()] == [solutions.SHIPPED]
    assert paths.is_recorded(tmp_path / "steps" / "core" / STEP)
    assert solutions.solution(STEP, tmp_path / "steps") == solutions.solution(STEP)
    assert "make solution" in (tmp_path / "README.ko.md").read_text(encoding="utf-8").split("이 배포본에는")[1]


@pytest.mark.parametrize("track", [choice.CORE, "reading", "positions"])
def test_steps_have_ways_that_say_what_they_trade(track: str) -> None:
    """In both languages."""
    for name in choice.step_names(None, track):
        ways = solutions.solution(name).ways
        assert len(ways) >= 2, name
        with language.use("ko"):
            assert all(language.gettext(way.trades) != way.trades for way in ways), name


def test_its_docstrings_are_those_of_the_learners_file() -> None:
    """In the language in use."""
    folder = paths.step_folder(STEP)
    for spoken in language.LANGUAGES:
        with language.use(spoken):
            stub = ast.parse(stubs.original(folder, spoken))
            solved = ast.parse(solutions.solution(STEP).reference)
        assert ast.get_docstring(solved) == ast.get_docstring(stub)
        for wanted, got in zip(_functions(stub), _functions(solved), strict=True):
            assert ast.get_docstring(got) == ast.get_docstring(wanted)


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_comments_are_in_the_language_of_the_screen() -> None:
    """Sentences are translated, shapes stay; the code is the same but for them."""
    with language.use("ko"):
        korean = solutions.solution("step09_fused_qkv").reference
    english = solutions.solution("step09_fused_qkv").reference
    said = {
        spoken: {text for _line, _count, text in solutions.comments(code)}
        for spoken, code in (("en", english), ("ko", korean))
    }
    assert len(said["en"]) >= 3 and not said["en"] & said["ko"]
    assert "# (B, H, T, d)" in korean
    assert ast.unparse(_undocumented(korean)) == ast.unparse(_undocumented(english))


def _undocumented(code: str) -> ast.Module:
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return tree
