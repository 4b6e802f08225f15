"""What authors of steps get wrong: a line for each mistake, which says where it is and what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.author import lint, pages, translations
from grader.base import language, paths
from grader.checks.assertions import deadline, points
from grader.oracle.live import Solution
from tests import fresh

STEP = "step13_scores"
MODEL = "step01_scores"

Mistake = Callable[[Path], object]


def copy(folder: Path, name: str = STEP) -> Path:
    """Step 1 as a step of another name in the folder `solutions` below `folder`."""
    step = folder / "solutions" / "core" / name
    shutil.copytree(
        paths.SOLUTIONS / "core" / MODEL, step, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors")
    )
    (step / "test_scores.py").rename(step / f"test_{name.partition('_')[2]}.py")
    for file in step.glob("*.py"):
        file.write_text(file.read_text(encoding="utf-8").replace(MODEL, name), encoding="utf-8")
    return step


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A course of one step, a thirteenth, which can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(lint, "SOLUTIONS", tmp_path / "solutions")
    yield copy(tmp_path)
    for name in [name for name in sys.modules if name.startswith(f"solutions.core.{STEP}")]:
        del sys.modules[name]


def put(file: str, old: str, new: str) -> Mistake:
    """Replaces a text of a file once."""

    def make(step: Path) -> None:
        source = (step / file).read_text(encoding="utf-8")
        assert old in source
        (step / file).write_text(source.replace(old, new, 1), encoding="utf-8")

    return make


def lost(file: str) -> Mistake:
    """Removes a file."""
    return lambda step: (step / file).unlink()


def first_check(line: str) -> Mistake:
    """Puts a line before the first check."""
    return put("test_scores.py", "@points", f"{line}\n\n\n@points")


def in_two_files(step: Path) -> None:
    """Makes of the misconceptions a folder in which each is defined twice."""
    for name in ("scores.py", "scores_again.py"):
        (step / "misconceptions").mkdir(exist_ok=True)
        shutil.copy(step / "misconceptions.py", step / "misconceptions" / name)
    (step / "misconceptions.py").unlink()


def beside_a_folder(step: Path) -> None:
    """Adds a folder of misconceptions, and leaves the file."""
    (step / "misconceptions").mkdir()
    shutil.copy(step / "misconceptions.py", step / "misconceptions" / "scores.py")


MISTAKES: dict[str, tuple[Mistake, str]] = {
    "no reference": (lost("reference.py"), "reference.py is missing: write it."),
    "no checks": (lost("test_scores.py"), "test_scores.py is missing: write it."),
    "checks of another name": (
        lambda step: (step / "test_scores.py").rename(step / "test_score.py"),
        "test_score.py is not read: rename it to test_scores.py.",
    ),
    "no misconceptions": (lost("misconceptions.py"), "misconceptions.py is missing"),
    "one name in two files": (in_two_files, "misconceptions.scores and in "),
    "a file beside the folder": (beside_a_folder, "misconceptions.py is not read, since there is a folder "),
    "no variants": (lost("variants.py"), "variants.py is missing"),
    "no Korean lesson": (lost("lesson.ko.md"), "lesson.ko.md is missing"),
    "no hints": (put("lesson.en.md", "## Hints", "## Tips"), "lesson.en.md has no hints"),
    "BEGIN alone": (put("reference.py", "    ### END SOLUTION\n", ""), "this ### BEGIN SOLUTION has no ### END"),
    "END alone": (put("reference.py", "    ### BEGIN SOLUTION\n", ""), "this ### END SOLUTION has no ### BEGIN"),
    "a marker misspelt": (put("reference.py", "BEGIN SOLUTION", "BEGIN SOLUTIONS"), "this ### END SOLUTION has no"),
    "no region": (
        lambda step: (step / "reference.py").write_text("def dot_product_scores(query, key):\n    return query\n"),
        "there is nothing for the learner to write",
    ),
    "no Python": (put("test_scores.py", "@points", "x = = 1\n@points"), "not valid Python (invalid syntax): fix it."),
    "a reference that is no Python": (put("reference.py", "import math", "import = math"), "reference.py:"),
    "a module imported": (
        put("reference.py", "import math", "from solutions.core.step01_scores import reference\nimport math"),
        "by name.",
    ),
    "a step that is not there": (
        put("reference.py", "import math", "from solutions.core.step07_head.reference import split_heads\nimport math"),
        "step07_head is not an earlier step",
    ),
    "an import that fails": (first_check("import grader.chekcs"), "No module named 'grader.chekcs': fix it."),
    "no check": (
        lambda step: (step / "test_scores.py").write_text('"""Checks."""\n'),
        "test_scores.py holds no check",
    ),
    "no points": (
        put("test_scores.py", "@points", "def test_more(student, reference, draw):\n    '''More.'''\n\n\n@points"),
        "test_more has no mark: put @points(1) above it.",
    ),
    "no title": (
        first_check("@points(1)\ndef test_more(student, reference, draw):\n    pass"),
        "test_more has no title: write a docstring.",
    ),
    "another fixture": (
        first_check("@points(1)\ndef test_more(student, reference, drawn):\n    '''More.'''"),
        "test_more must take student, reference, draw and nothing else.",
    ),
    "two of one name": (
        first_check("@points(1)\ndef test_scores_by_hand(student, reference, draw):\n    '''More.'''"),
        "test_scores_by_hand is there twice",
    ),
    "parametrized": (
        first_check(
            "import pytest\n@pytest.mark.parametrize('n', [1])\n@points(1)\n"
            "def test_more(student, reference, draw):\n    '''More.'''"
        ),
        "test_more runs once: remove pytest's marks",
    ),
    "negative points": (put("test_scores.py", "@points(1)", "@points(-1)"), "@points(…) takes a number above 0"),
    "an unknown family": (
        put("test_scores.py", "@points", "OFF_LIMITS = {'dot_product_scores': ('sofmax',)}\n\n\n@points"),
        "OFF_LIMITS of dot_product_scores names an unknown family “sofmax”: choose from ",
    ),
    "a family without its tuple": (
        first_check("OFF_LIMITS = {'dot_product_scores': ('softmax')}"),
        'OFF_LIMITS of dot_product_scores is not a tuple: write ("softmax",).',
    ),
    "off limits in what is not there": (
        first_check("OFF_LIMITS = {'dot_products': ('softmax',)}"),
        "OFF_LIMITS names dot_products, which the reference does not define: choose from dot_product_scores",
    ),
    "caught by no check": (put("misconceptions.py", 'caught_by="test_', 'caught_by="tset_'), "there is no such check"),
    "replaces what is not there": (
        put("misconceptions.py", 'replaces="', 'replaces="my_'),
        "which the reference does not define",
    ),
    "two paragraphs": (
        put("misconceptions.py", '    """', '    """Wrong.\n\n    Why.\n    """\n\n    """'),
        "the docstring needs three paragraphs, it has 2",
    ),
}


def test_a_whole_step_has_no_problem(step: Path) -> None:
    """Nothing is said of a step that is as it should be, nor of the steps of the course."""
    assert lint.problems() == []


def test_the_course_has_no_problem() -> None:
    """Each step of the course is whole."""
    assert lint.problems() == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(step: Path, mistake: str) -> None:
    """The file and what to do, in both languages; no traceback."""
    make, said = MISTAKES[mistake]
    make(step)
    (line,) = lint.problems("13")
    assert said in line
    assert line.startswith(str(step))
    with language.use("ko"):
        (korean,) = lint.problems("13")
    assert korean != line
    assert korean.startswith(str(step))


def test_misconceptions_in_a_folder(step: Path) -> None:
    """Each counts once, whichever file takes it from another, in the order of the names that they replace; pairs and
    sentences are found in every file."""
    before, said = Solution(paths.SOLUTIONS / "core" / MODEL).misconceptions, set(translations.step_messages(step))
    first, *_others, last = before
    (step / "misconceptions").mkdir()
    (step / "misconceptions.py").rename(step / "misconceptions" / "scores.py")
    (step / "misconceptions" / "again.py").write_text(
        "from grader.checks.catalogue import another_form, together\n"
        f"from solutions.core.{STEP}.misconceptions.scores import {first.name}, {last.name}\n"
        f"another = another_form({last.name})(lambda *given: {last.name}(*given))\n"
        f"PAIRS = together([{first.name}], [{last.name}])\n"
    )
    assert lint.problems("13") == []
    made = Solution(step)
    assert sorted(wrong.name for wrong in made.misconceptions) == sorted(["another", *(wrong.name for wrong in before)])
    public = [next(iter(wrong.replaced)) for wrong in made.misconceptions]
    assert public == sorted(public, key=["dot_product_scores", "scaled_scores"].index)
    assert [pair.name for pair in made.pairs] == [f"{first.name} + {last.name}"]
    assert set(translations.step_messages(step)) == said


@pytest.mark.parametrize("name", ["step13-scores", "Step13_scores", "step9_scores", "13_scores"])
def test_a_folder_that_is_no_step(step: Path, name: str) -> None:
    """A misspelt name is not passed over."""
    step.rename(step.with_name(name))
    (line,) = lint.problems()
    assert f"{name} is not a step and is ignored" in line


def test_two_steps_of_one_number(step: Path, tmp_path: Path) -> None:
    """Both are named."""
    copy(tmp_path, "step13_more")
    (line,) = lint.problems("13")
    assert "step13_more" in line and STEP in line and "have the same number" in line


def test_no_such_step(step: Path) -> None:
    """A step that is not there proves nothing, and is not passed over."""
    assert lint.problems("14") == [f"There is no step 14. The steps are {STEP} to {STEP}. Type: make prove STEP={STEP}"]


@pytest.mark.parametrize("number", [0, -1, float("nan"), float("inf"), "2", None, test_no_such_step])
def test_marks_and_deadlines_are_above_zero(number: object) -> None:
    """Anything else is refused where it is written."""
    for mark in (points, deadline):
        with pytest.raises(ValueError, match="takes a number above 0"):
            mark(number)  # type: ignore[arg-type]  # that is the mistake


def test_prove_knows_a_step_by_its_number() -> None:
    """`make prove STEP=2` proves step 2 and not nothing."""
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "tests/test_course.py"],
        capture_output=True, text=True, cwd=paths.ROOT, env=os.environ | {"KIT_ONLY": "2"}, timeout=120,
    )  # fmt: skip
    assert "step02_softmax" in listed.stdout
    assert "step01_scores" not in listed.stdout


@pytest.mark.thorough
def test_grading_says_what_is_wrong_with_a_step(tmp_path: Path) -> None:
    """A mistake in one step is no failure of the judge's: every command says whose file it is, and grades nothing."""
    shutil.copytree(paths.ROOT / "grader", tmp_path / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "exercises").mkdir()
    step = copy(tmp_path)
    first_check("@points(1)\ndef test_more(student, reference, draw):\n    pass")(step)
    graded = _command(tmp_path, "grade")
    assert graded.returncode == 2
    assert graded.stderr.splitlines() == [
        f"solutions/core/{STEP}/test_scores.py:{_line(step, 'test_more')}: test_more has no title: write a docstring.",
        "This is for the author of the step. Type: make prove",
    ]
    _start_again(step)
    put("test_scores.py", "@points", "OFF_LIMITS = {'dot_product_scores': ('sofmax',)}\n\n\n@points")(step)
    (tmp_path / "exercises" / f"{STEP}.py").write_text(
        Solution(paths.SOLUTIONS / "core" / MODEL).solved(), encoding="utf-8"
    )
    graded = _command(tmp_path, "grade")  # of right code: it must not be refused for that
    assert graded.returncode == 2
    assert "names an unknown family “sofmax”" in graded.stderr
    copy(tmp_path, "step13_more")
    assert "have the same number" in _command(tmp_path, "grade", "--step", "13").stderr
    shutil.rmtree(step.with_name("step13_more"))
    lost("reference.py")(step)
    for command in ("exercises", "kit", "grade"):
        done = _command(tmp_path, command)
        assert done.returncode == 2
        assert f"solutions/core/{STEP}/reference.py is missing: write it." in done.stderr
        assert "Traceback" not in done.stderr


def _start_again(step: Path) -> None:
    shutil.rmtree(step)
    copy(step.parents[2])


def _command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "grader", *arguments],
        capture_output=True, text=True, cwd=folder, timeout=120, env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
    )  # fmt: skip


def _line(step: Path, check: str) -> int:
    lines = (step / "test_scores.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(f"def {check}("))


def test_a_stub_of_no_step_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step left behind that was renamed or removed is named."""
    shutil.copytree(paths.EXERCISES, tmp_path / "exercises", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "exercises" / "step07_splitting.py").touch()
    monkeypatch.setattr(paths, "EXERCISES", tmp_path / "exercises")
    assert fresh.left_behind() == [
        "exercises/step07_splitting.py belongs to no step: remove it, or give the step its old name"
    ]


def test_the_readmes_list_every_track(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With its steps and points, in both languages; one that says something else is named as stale."""
    assert pages.stale() == []
    old = tmp_path / "README.md"
    old.write_text(pages.READMES["en"].read_text(encoding="utf-8").replace("| 100 |", "| 99 |"), encoding="utf-8")
    monkeypatch.setitem(pages.READMES, "en", old)
    assert pages.stale() == [old]
