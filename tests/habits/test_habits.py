"""Habits cost nothing: right code with any of them gets full marks, and the same report but for the notes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec
import pytest

from grader.base import paths
from grader.base.results import Graded, Report, StepResult
from grader.course import steps, submissions
from grader.course.answer_cells import ASSIGNMENT, POINTS_CELL
from grader.course.submissions import Submission
from grader.judge.grader import Grader
from tests.habits.rewrites import BELOW, HABITS, OF_CELLS, SLOW, right
from tests.learner.test_pytest_plugin import CORE as FOLDERS
from tests.learner.test_pytest_plugin import through_pytest
from tests.whole import THOROUGH, WHOLE

SEED = 11
STEPS = [step for step in steps.steps() if not step.lacking]
CORE = [step for step in STEPS if step.track == "core"]
NAMES = list(HABITS)


@cache
def files(name: str) -> list[str]:
    """The right files of a step."""
    return list(right(next(step for step in STEPS if step.name == name)))


def told(step: StepResult) -> StepResult:
    """A step of a report without its notes, what its code printed and how long it took."""
    return msgspec.structs.replace(step, output="", seconds=0.0, left_out=[])


def graded(grader: Grader, changed: dict[str, str], wanted: list[str]) -> Report:
    sources = {step.name: (f"ada/{step.name}.py", step.solved()) for step in STEPS}
    sources |= {name: (f"ada/{name}.py", text) for name, text in changed.items()}
    return grader.grade(Submission("ada", sources), wanted, device="cpu", seed=SEED)


def asked() -> list[tuple[str, str, int]]:
    """Each habit with the steps and files that it is tried on: all of them, or in `make test` one for each habit."""
    if WHOLE:
        return [(habit, step.name, place) for habit in NAMES for step in STEPS for place in range(3)]
    early = [step.name for step in CORE if step.number <= 9]
    return [(habit, early[place % len(early)], place % 3) for place, habit in enumerate(NAMES)]


@pytest.fixture(scope="module")
def patient() -> Grader:
    with Grader(1) as grader:
        yield grader  # type: ignore[misc]


@pytest.fixture(scope="module")
def plain(patient: Grader) -> Callable[[str, int], StepResult]:
    """The results of the right files as they are."""
    return cache(lambda name, place: graded(patient, {name: files(name)[place]}, [name]).steps[0])


@pytest.mark.parametrize(("habit", "name", "place"), asked())
def test_a_habit_costs_nothing(
    habit: str, name: str, place: int, patient: Grader, plain: Callable[[str, int], StepResult]
) -> None:
    """In one file."""
    if place >= len(files(name)):
        pytest.skip("the step has fewer variants that can stand alone")
    source = files(name)[place]
    assert plain(name, place).status == "pass"
    as_read = HABITS[habit](source).replace("\r\n", "\n").removeprefix("\ufeff")
    (step,) = graded(patient, {name: as_read}, [name]).steps
    assert told(step) == told(plain(name, place))


@pytest.mark.parametrize("habit", SLOW if THOROUGH else list(SLOW)[:1])
def test_a_line_that_takes_long_is_left_out(habit: str, grader: Grader) -> None:
    """It has a short limit of its own."""
    report = graded(grader, {"step02_softmax": f"{files('step02_softmax')[0]}\n\n{SLOW[habit]}\n"}, ["step02_softmax"])
    assert report.steps[0].status == "pass"
    assert "took longer than" in report.notes[0]


def worn(first: int) -> dict[str, str]:
    """A file of each step of the core, each with another habit."""
    return {step.name: HABITS[NAMES[(first + place) % len(NAMES)]](step.solved()) for place, step in enumerate(CORE)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class in which every habit is somebody's."""
    folder = tmp_path_factory.mktemp("class")
    for first in range(0, len(NAMES), len(CORE)) if THOROUGH else [24]:
        (folder / f"s{first}").mkdir()
        for name, text in worn(first).items():
            (folder / f"s{first}" / f"{name}.py").write_text(text, encoding="utf-8", newline="")
    return folder


@pytest.mark.thorough
def test_a_class(folders: Path, tmp_path: Path) -> None:
    """Every habit in some step of some student."""
    out = tmp_path / "out"
    command = [
        *paths.program("grader"),
        "class",
        str(folders),
        "--out",
        str(out),
        "--seed",
        str(SEED),
        "--track",
        "core",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr
    for folder in folders.iterdir():
        student = msgspec.json.decode((out / "reports" / f"{folder.name}.json").read_bytes(), type=Graded)
        assert student.report is not None
        assert [step.name for step in student.report.steps if step.status != "pass"] == []


@pytest.mark.thorough
def test_the_pytest_door(folders: Path, tmp_path: Path) -> None:
    """The same submission, check by check."""
    for folder in sorted(folders.iterdir()):
        found = through_pytest(folder, tmp_path, FOLDERS)
        assert {place: case.text for place, case in found.items() if case.outcome != "passed"} == {}


def notebook(first: int) -> str:
    """A notebook with an answer cell for each step of the core, each with another habit of cells."""
    habits = [name for name in NAMES if name not in OF_CELLS]
    cells = [
        {
            "cell_type": "code",
            "outputs": [],
            "execution_count": None,
            "source": f"# {step.name}\n{HABITS[habits[(first + place) % len(habits)]](step.solved())}",
            "metadata": {"nbgrader": {"grade_id": step.name, "solution": True}},
        }
        for place, step in enumerate(CORE)
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})


@pytest.mark.parametrize("first", range(0, len(NAMES), len(CORE)) if THOROUGH else [18])
def test_a_notebook(first: int, grader: Grader, tmp_path: Path) -> None:
    """As nbgrader's plugin reads it."""
    (tmp_path / "attention.ipynb").write_text(notebook(first), encoding="utf-8")
    report = grader.grade(submissions.read(tmp_path), [step.name for step in CORE], device="cpu", seed=SEED)
    assert {step.name: step.message or step.checks for step in report.steps if step.status != "pass"} == {}


@pytest.mark.thorough
def test_nbgrader_itself(tmp_path: Path) -> None:
    """A released notebook with a habit in each answer cell, and with cells around them that raise, goes through
    `nbgrader autograde`."""
    nbformat = pytest.importorskip("nbformat", reason="what instructors need is not installed")
    from nbgrader.api import Gradebook

    from grader.classes import release
    from tests.classes.test_nbgrader import cells, nbgrader

    folder, habits = tmp_path / "course", [name for name in NAMES if name not in OF_CELLS]
    release.build(folder)
    nbgrader(folder, "generate_assignment", ASSIGNMENT)
    released = folder / "release" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    for student, first in (("ada", 0), ("brook", 24)):
        handed_in = nbformat.read(released, as_version=4)
        for place, step in enumerate(CORE):
            cell = cells(handed_in)[step.name]
            cell.source = f"# {step.name}\n{HABITS[habits[(first + place) % len(habits)]](step.solved())}"
            index = handed_in.cells.index(cell) + 1
            handed_in.cells.insert(index, nbformat.v4.new_code_cell(list(BELOW.values())[(first + place) % len(BELOW)]))
        to = folder / "submitted" / student / ASSIGNMENT
        to.mkdir(parents=True)
        nbformat.write(handed_in, to / released.name)
    said = nbgrader(folder, "autograde", ASSIGNMENT)
    assert "Outdated schema" not in said and "rebuilt" not in said, said
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        for student in ("ada", "brook"):
            grades = book.find_submission_notebook(ASSIGNMENT, ASSIGNMENT, student).grades
            found = {grade.name: (grade.auto_score, grade.needs_manual_grade) for grade in grades}
            assert found == {POINTS_CELL.format(step=step.name): (step.points, False) for step in CORE}, student


EXTRAS = ("matplotlib", "pandas", "scipy", "seaborn", "IPython", "tqdm", "tiktoken", "einops", "sympy")


def environment(folder: Path, *, with_extras: bool) -> Path:
    """The Python of an environment with all packages that are here, and with the extras or without them."""
    venv.create(folder, symlinks=True, with_pip=False)
    (there,) = folder.glob("lib/python*/site-packages")
    (here,) = (Path(place) for place in sys.path if place.endswith("site-packages") and Path(place, "torch").is_dir())
    for entry in here.iterdir():
        if entry.name.partition(".")[0].partition("-")[0] not in EXTRAS and entry.suffix != ".pth":
            (there / entry.name).symlink_to(entry)
    if with_extras:
        for name in EXTRAS:
            (there / f"{name}.py").write_text("def __getattr__(name):\n    return lambda *a, **k: None\n")
    return folder / "bin" / "python"


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_the_machine_has_no_say(tmp_path: Path) -> None:
    """One submission, an environment with and one without what no step needs: the same report, byte for byte."""
    (tmp_path / "work").mkdir()
    text = HABITS["unused_imports"](HABITS["plot"](HABITS["frame"](files("step02_softmax")[0])))
    (tmp_path / "work" / "step02_softmax.py").write_text(text)
    reports = []
    for name in ("with", "without"):
        python = environment(tmp_path / name, with_extras=name == "with")
        command = [
            str(python),
            *paths.program("grader")[1:],
            "grade",
            "--step",
            "2",
            "--json",
            "-",
            "--seed",
            str(SEED),
        ]
        done = subprocess.run([*command, "--submission", str(tmp_path / "work")], capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr.decode()
        report = msgspec.json.decode(done.stdout, type=Report)
        assert report.steps[0].status == "pass"
        report.steps = [msgspec.structs.replace(step, seconds=0.0) for step in report.steps]
        reports.append(msgspec.json.encode(report))
    assert reports[0] == reports[1]


def test_files_named_like_pythons_own(tmp_path: Path) -> None:
    """A learner's `random.py` in the folder where a command is typed is a file like any other."""
    (tmp_path / "exercises").mkdir()
    (tmp_path / "exercises" / "step02_softmax.py").write_text(files("step02_softmax")[0])
    for name in ("random", "types", "torch", "numpy", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the file of a learner ran')\n")
    command = [*paths.program("grader"), "grade", "--step", "2", "--submission", "exercises"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "8 / 8" in done.stdout


def test_a_terminal_of_no_width(tmp_path: Path) -> None:
    """0 columns are unset."""
    done = subprocess.run(
        [*paths.program("grader"), "--help"],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"COLUMNS": "0"},
    )
    assert "Usage" in done.stdout.splitlines()[0]
    assert len(done.stdout.splitlines()) > 20


def test_a_layer_norm_on_meta_needs_nothing_of_ours(grader: Grader) -> None:
    """A worker's kernels import nothing of the grader's when they run."""
    norm = "\n\ndef normed(x):\n    return torch.nn.functional.layer_norm(x, x.shape[-1:])\n"
    text = (
        files("step02_softmax")[0].replace("    largest =", "    normed(x.float())\n    largest =")
        + f"\nimport torch\n{norm}"
    )
    assert "normed(x.float())" in text.partition("def normed")[0]
    assert graded(grader, {"step02_softmax": text}, ["step02_softmax"]).steps[0].status == "pass"
