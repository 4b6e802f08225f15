"""A term of three assignments, through nbgrader and through `class`: the same marks on both roads, under any seed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="what instructors need is not installed: make test installs it")
from nbgrader.api import Gradebook  # noqa: E402  # behind the check above
from nbgrader.apps import NbGraderAPI  # noqa: E402
from traitlets.config import Config  # noqa: E402
from traitlets.config.loader import PyFileConfigLoader  # noqa: E402

from grader.base import language  # noqa: E402
from grader.base.limits import Limits  # noqa: E402
from grader.base.results import StepResult  # noqa: E402
from grader.classes import class_run, one_round, release, results  # noqa: E402
from grader.course.answer_cells import POINTS_CELL  # noqa: E402
from grader.course.steps import steps  # noqa: E402
from tests.whole import WHOLE  # noqa: E402

pytestmark = pytest.mark.thorough

SIX, EIGHT, NINE, ELEVEN, TWELVE = (
    "step06_causal_attention", "step08_multi_head", "step09_fused_qkv", "step11_gpt_block", "step12_gpt",
)  # fmt: skip
TERM = {"week1": [SIX, NINE], "week2": [EIGHT, ELEVEN], "week10": [TWELVE]}  # week10 comes after week2
STEPS = {step.name: step for step in steps()}
RIGHT = {name: STEPS[name].solved() for week in TERM.values() for name in week}
MARKS = dict[str, dict[str, float]]


def unscaled(source: str) -> str:
    """Scores that are too large: what imports it is wrong too, in more or fewer checks by the draws."""
    assert "/ math.sqrt(key.shape[-1])" in source
    return source.replace("/ math.sqrt(key.shape[-1])", "")


def broken(source: str) -> str:
    """The steps below can't even be imported."""
    return source.replace("class ", "class My", 1)


def in_colab(source: str) -> str:
    """With commands that are none of Python."""
    return f"%%time\n!pip list\n%matplotlib inline\n{source}"


def slips(source: str) -> str:
    """An error of torch at run time, in a line of the student's own."""
    line = "return torch.cat([head(x)"
    assert line in source
    return source.replace(line, f"x = x @ x\n        {line}")


@dataclass(frozen=True)
class Student:
    """What a student handed in: a change to a step's right answer, None where the week was missed."""

    changes: dict[str, Callable[[str], str]]
    missed: tuple[str, ...] = ()


CLASS = {
    "ada": Student({}),
    "chen wei": Student({SIX: unscaled}),
    "dora": Student(dict.fromkeys(RIGHT, in_colab), missed=("week1",)),
    "emre": Student({EIGHT: slips}, missed=("week1",)),
    "김민서": Student({NINE: broken}),
}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The course folder after the term, with everybody graded by nbgrader under seed 7."""
    folder, before = tmp_path_factory.mktemp("term") / "course", Path.cwd()
    with language.use("en"):
        for week, chosen in TERM.items():
            release.build(folder, chosen, assignment=week)
    config = PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config()
    config.merge(Config({"CourseDirectory": {"root": str(folder)}, "GradeSubmission": {"seed": 7, "device": "cpu"}}))
    api = NbGraderAPI(config=config)
    for week in TERM:
        done(api.generate_assignment(week))
    for week in TERM:
        hand_in(folder, week)
        done(api.autograde(week, "*"))
    done(api.generate_feedback("week2"))
    yield folder
    os.chdir(before)  # nbgrader works in the folder of a course and stays there


def done(result: dict[str, Any]) -> None:
    """A command of nbgrader's that did its work."""
    assert result["success"], result


def hand_in(folder: Path, week: str) -> None:
    """Everybody's notebook of a week: for nbgrader, and once more in a folder of its own for a class."""
    for name, student in CLASS.items():
        if week in student.missed:
            continue
        notebook = nbformat.read(folder / "release" / week / f"{week}.ipynb", as_version=4)
        for cell in notebook.cells:
            step = cell.metadata.get("nbgrader", {}).get("grade_id")
            if step in RIGHT:
                cell.source = f"# {step}\n{student.changes.get(step, str)(RIGHT[step])}"
        for to in (folder / "submitted" / name / week, folder.parent / week / name):
            to.mkdir(parents=True)
            (to / f"{week}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")


def by_nbgrader(folder: Path) -> MARKS:
    """The points of each student in each step, as the gradebook has them."""
    marks: MARKS = {name: {} for name in CLASS}
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        for week in TERM:
            for submission in book.assignment_submissions(week):
                for notebook in submission.notebooks:
                    for grade in notebook.grades:
                        marks[submission.student.id][grade.name] = grade.auto_score
    return marks


def by_class(folder: Path, week: str, out: Path, seed: int, *, beside: bool) -> list[one_round.Graded]:
    """A week as the command for a class grades it: nbgrader's own folder, or one folder per week."""
    earlier = () if beside else tuple(folder.parent / name for name in TERM if name < week or week == "week10")
    request = class_run.Request(
        submissions=folder / "submitted" if beside else folder.parent / week, out=out, steps=TERM[week], device="cpu",
        seed=seed, limits=Limits(patience=3.0), assignment=week, earlier=earlier,
    )  # fmt: skip
    silent = nullcontext(lambda graded, kept: None)
    with language.use("en"):
        standings = class_run.run(request, lambda total: silent).standings
    entries = [results.load(out, standing.file) for standing in standings]
    return [entry for entry in entries if entry]


def steps_of(entries: list[one_round.Graded], name: str) -> dict[str, StepResult]:
    """The results of one student."""
    (entry,) = (entry for entry in entries if entry.student == name)
    assert entry.report is not None, entry.error
    return {step.name: step for step in entry.report.steps}


def test_both_roads_give_the_same_marks(course: Path, tmp_path: Path) -> None:
    """From nbgrader's folder and from one folder per week, and under another seed; who is perfect has full marks."""
    expected = by_nbgrader(course)
    for seed in (8, 9, 10, 11) if WHOLE else (8,):
        marks: MARKS = {name: {} for name in CLASS}
        for number, week in enumerate(TERM):
            out = tmp_path / f"{week}-{seed}"
            entries = by_class(course, week, out, seed, beside=(number + seed) % 2 == 0)
            for entry in entries:
                assert entry.report is not None, entry.error
                if week not in CLASS[entry.student].missed:
                    marks[entry.student] |= {POINTS_CELL.format(step=s.name): s.score for s in entry.report.steps}
                else:
                    assert entry.report.score == 0
        assert marks == expected, seed
    full = {POINTS_CELL.format(step=name): STEPS[name].points for name in RIGHT}
    assert expected["ada"] == full
    assert expected["dora"] == {name: points for name, points in full.items() if name[:6] not in ("step06", "step09")}
    lost = {
        name: {cell[:6] for cell, points in marks.items() if points < full[cell]} for name, marks in expected.items()
    }
    assert lost == {
        "ada": set(), "chen wei": {"step06"}, "dora": set(), "emre": {"step08"}, "김민서": {"step09"},
    }  # fmt: skip


def test_what_stood_in_is_said_on_the_pages(course: Path, tmp_path: Path) -> None:
    """In the student's page and in nbgrader's feedback; and beside a reference, it is told what went wrong."""
    entries = by_class(course, "week2", tmp_path, 8, beside=False)
    said = {"ada": "your earlier one", "chen wei": "Blocked by step06", "dora": "the reference took its place"}
    for name, words in said.items():
        feedback = (course / "feedback" / name / "week2" / "week2.html").read_text(encoding="utf-8")
        (file,) = (entry.file for entry in entries if entry.student == name)
        page = (tmp_path / "pages" / f"{file}.html").read_text(encoding="utf-8")
        note = steps_of(entries, name)[EIGHT].note
        assert words in note and words in page and words in feedback, (name, note)
        assert ("blocked</span>" in page) == (name == "chen wei") and "skipped</span>" not in page
    told = "".join(check.message for check in steps_of(entries, "emre")[EIGHT].checks)
    assert "The code raised an error" in told, told
    page = (course / "feedback" / "emre" / "week2" / "week2.html").read_text(encoding="utf-8")
    assert "The code raised an error" in page
    # Beside a reference nothing is shown that a value may stand in: no text, no kind of error, no line.
    assert not any(shown in told for shown in ("Expected size", "RuntimeError", "x = x @ x"))
    assert "Expected size" not in page
