"""The same class through `class`, a Dask cluster and nbgrader: the same marks, and the same open cases."""

from __future__ import annotations

import dataclasses
import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from grader.base.limits import Limits
from grader.classes import class_run
from grader.classes.one_round import Request
from grader.course import steps as course
from grader.marks import assignments
from grader.marks import marking as marks
from tests.whole import WHOLE

pytestmark = pytest.mark.skipif(not WHOLE, reason="nbgrader takes a minute; make check plays it")

TERM = """
[assignments.scores]
steps = "1-2"
due = 2026-09-14T23:59:00
late = { per_day = 10, at_most = 50 }
"""
STEPS = {step.name: step for step in course.steps() if step.number in (1, 2)}
ONE, TWO = STEPS
MERGE = "<<<<<<< HEAD\n"


def notebook(released: str, answers: dict[str, str], *extra: str) -> str:
    """What was released, with answers in its cells, and more cells at the end."""
    made = json.loads(released)
    for cell in made["cells"]:
        step = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if step in answers:
            cell["source"] = answers[step]
    made["cells"] += [
        {"cell_type": "code", "id": f"extra{number}", "metadata": {}, "source": source, "outputs": [],
         "execution_count": None} for number, source in enumerate(extra)
    ]  # fmt: skip
    return json.dumps(made)


def hand_in(course_folder: Path) -> None:
    """Ten people: right, wrong, late, begun, in another cell, and five of whom a person must look at something."""
    released = (course_folder / "release" / "scores" / "scores.ipynb").read_text(encoding="utf-8")
    right = {name: f"# {name}\n{step.solved()}" for name, step in STEPS.items()}
    whole = notebook(released, right)
    wrong = right | {ONE: right[ONE].replace("** 0.5", "").replace("**0.5", "").replace("math.sqrt", "float")}
    texts = {
        "ada": whole,
        "brook": notebook(released, wrong),
        "chen": notebook(released, {ONE: right[ONE]}),
        "dora": notebook(released, {ONE: right[ONE]}, STEPS[TWO].solved()),
        "late": whole,
        "truncated": whole[:-90],
        "merged": MERGE + whole,
        "old": whole.replace('"nbformat": 4', '"nbformat": 3').replace('"cells"', '"worksheets"'),
        "twice": notebook(
            released, right, f"# {ONE}\n" + STEPS[ONE].solved().replace("return", "assert q is not None; return")
        ),
    }
    for name, text in texts.items():
        folder = course_folder / "submitted" / name / "scores"
        folder.mkdir(parents=True)
        (folder / "scores.ipynb").write_text(text, encoding="utf-8")
        when = "2026-09-16 12:00:00 UTC" if name == "late" else "2026-09-14 12:00:00 UTC"
        (folder / "timestamp.txt").write_text(when)
    (course_folder / "submitted" / "twice" / "scores" / f"{ONE}.py").write_text("x = 1\n")


def test_three_ways_give_the_same_marks_and_the_same_open_cases(tmp_path: Path) -> None:
    """Under one seed; what is open is open everywhere, and no zero anywhere."""
    pytest.importorskip("nbformat", reason="what instructors need is not installed")
    distributed = pytest.importorskip("distributed")
    from nbgrader.api import Gradebook

    from grader.classes import release
    from grader.classes.last_report import SEED_FILE
    from tests.classes.test_nbgrader import nbgrader

    (tmp_path / "assignments.toml").write_text(TERM)
    marking = marks.of(assignments.read(tmp_path / "assignments.toml"), "scores")
    folder = tmp_path / "course"
    release.build(folder, marking=marking)
    nbgrader(folder, "generate_assignment", "scores")
    hand_in(folder)
    (folder / SEED_FILE).write_text("7\n")
    nbgrader(folder, "autograde", "scores")
    request = Request(
        submissions=folder / "submitted", out=tmp_path / "out", steps=marking.assignment.everything, device="cpu",
        seed=7, limits=Limits(), assignment="scores", jobs=1, marking=marking,
    )  # fmt: skip
    found = {"class": by_class(request)}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        there = dataclasses.replace(request, out=tmp_path / "there", scheduler=cluster.scheduler_address)
        found["Dask"] = by_class(there)
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        found["nbgrader"] = {
            one.student.id: None if any(grade.needs_manual_grade and grade.auto_score is None
                                        for notebook in one.notebooks for grade in notebook.grades)
            else round(one.score - one.late_submission_penalty, 6)
            for one in book.assignment_submissions("scores")
        }  # fmt: skip
    assert found["class"] == found["Dask"] == found["nbgrader"]
    most = sum(step.points for step in STEPS.values())
    assert {name for name, points in found["class"].items() if points is None} == {
        "truncated",
        "merged",
        "old",
        "twice",
    }
    assert found["class"]["ada"] == found["class"]["dora"] == most and found["class"]["late"] == pytest.approx(
        0.8 * most
    )
    assert 0 < (found["class"]["brook"] or 0) < most and found["class"]["chen"] == STEPS[ONE].points


def by_class(request: Request) -> dict[str, float | None]:
    """The marks of a run."""
    done = class_run.run(request, lambda total: nullcontext(lambda graded, kept: None))
    return {one.student: one.score for one in done.standings}
