"""The contract of grading: the command line, its exit codes, the JSON, and that a run can be repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader.base import paths
from grader.base.limits import Limits
from grader.course import choice, exercises, submissions
from grader.course import steps as course
from grader.course.submissions import Submission
from grader.judge.grader import Grader
from tests.command import run

ROOT = paths.ROOT


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stubs as they are handed out."""
    folder = tmp_path_factory.mktemp("stubs")
    exercises.write(folder)
    return folder


@pytest.mark.thorough
def test_references_have_full_marks(grader: Grader, solved: Path) -> None:
    """All of the points, through sandboxed workers."""
    report = grader.grade(submissions.read(solved), choice.step_names(), seed=5)
    assert [step.name for step in report.steps if step.status != "pass" and not step.without_score] == []
    assert report.score == report.max_score == sum(step.points for step in course.steps() if not step.lacking)


def test_stubs_are_to_do(grader: Grader, stubs: Path) -> None:
    """No points, every step to do, nothing run."""
    read = submissions.read(stubs)
    report = grader.grade(read, choice.by_default(read.sources, read.problems))
    assert {step.status for step in report.steps} == {"todo"}
    assert (report.score, report.max_score) == (0.0, 100.0)


def test_workers_have_random_numbers_of_their_own(grader: Grader) -> None:
    """Forked from one process, they would all draw what was next there: for each student of a class the same."""
    source = "import random\nprint(random.random())\ndef dot_product_scores(query, key):\n    return query\n"
    asked = Submission("x", {"step01_scores": ("exercises/step01_scores.py", source)}, {})
    first, second = (grader.grade(asked, ["step01_scores"], device="cpu").steps[0].output for _time in range(2))
    assert float(first.split()[0]) != float(second.split()[0])


def test_answers_are_bounded_together(grader: Grader) -> None:
    """They are kept until the step is graded: many large ones are refused before they fill the memory."""
    before = grader.limits
    grader.limits = Limits(answers=1 << 20)
    try:
        source = "import torch\ndef softmax(x, dim=-1):\n    return torch.zeros(100_000)\n"
        (step,) = grader.grade(Submission("large", {"step02_softmax": ("large.py", source)}), ["step02_softmax"]).steps
    finally:
        grader.limits = before
    assert step.status == "fail"
    assert [check.name for check in step.checks if "exceed 1 MiB in total" in check.message]


def test_a_seed_repeats_a_run(grader: Grader) -> None:
    """The same seed gives the same report, another seed other numbers."""
    wrong = submissions.read(Path(__file__).parents[1] / "situations" / "patched_allclose")
    first, again, other = (grader.grade(wrong, ["step02_softmax"], seed=seed) for seed in (3, 3, 4))
    messages = [[check.message for check in report.steps[0].checks] for report in (first, again, other)]
    assert messages[0] == messages[1] != messages[2]


def test_what_is_remembered_changes_no_verdict(grader: Grader, solved: Path) -> None:
    """The reference's answers are kept under a seed: a short run, a full one and another submission agree with them."""
    everything = submissions.read(solved)
    steps = ["step06_causal_attention", "step12_gpt"]
    wrong = submissions.read(Path(__file__).parents[1] / "situations" / "blocked_by_an_earlier_step")
    first = [(step.score, step.status) for step in grader.grade(wrong, steps, seed=21).steps]
    assert [step.score for step in grader.grade(everything, steps, seed=21).steps] == [10.0, 8.0]
    assert [step.score for step in grader.grade(everything, steps, seed=21).steps] == [10.0, 8.0]
    assert [(step.score, step.status) for step in grader.grade(wrong, steps, seed=21).steps] == first


def test_checks_add_up_to_the_step(grader: Grader) -> None:
    """A step's score is the sum of its checks' points, at most what it is worth."""
    half = submissions.read(Path(__file__).parents[1] / "situations" / "half_done")
    step = grader.grade(half, ["step01_scores"]).steps[0]
    assert step.score == sum(check.points for check in step.checks)
    assert sum(check.max_points for check in step.checks) == step.max_score == 6


def test_a_missing_device_is_said_and_not_failed(grader: Grader, solved: Path) -> None:
    """Without a GPU the report says so; when nothing else was asked for, the steps are skipped."""
    report = grader.grade(submissions.read(solved), ["step02_softmax"], device="mps")
    if report.devices["mps"] == "not available":
        assert report.steps[0].status == "skipped"


@pytest.mark.thorough
def test_spawned_workers_give_the_same_verdicts(solved: Path) -> None:
    """Where nothing can be forked, a judge and its workers are programs of their own."""
    limits = Limits(call_seconds=20.0, step_seconds=40.0)
    with Grader(1, limits, fork=False) as spawning:
        good = spawning.grade(submissions.read(solved), ["step02_softmax", "step10_flash"])
        loop = submissions.read(Path(__file__).parents[1] / "situations" / "leaves_the_process")
        bad = spawning.grade(loop, ["step02_softmax"])
    for step in good.steps:  # flash meets ops that read files when they first run, which a sandbox hides
        assert step.status == "pass", [check.message for check in step.checks]
    assert bad.steps[0].status == "fail"


def test_a_warning_names_the_learners_line(grader: Grader) -> None:
    """Not the line of ours that called torch for it, nor torch's own source."""
    code = "def dot_product_scores(query, key):\n    return query @ key.T\n"
    mine = submissions.Submission("mine", {"step01_scores": ("mine/step01_scores.py", code)})
    said = grader.grade(mine, ["step01_scores"], device="cpu").steps[0].output
    assert "mine/step01_scores.py:2: UserWarning: The use of `x.T`" in said
    assert "offlimits.py" not in said
    assert "Triggered internally" not in said


def test_command_line_on_stubs(stubs: Path) -> None:
    """A report on standard output within 80 columns, without colour, and exit code 0."""
    done = run(ROOT, "grade", "--submission", str(stubs), "--seed", "7")
    assert done.returncode == 0, done.stderr
    assert "0 of 100: start with step01_scores" in done.stdout
    assert "\x1b[" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_json_is_the_contract(stubs: Path) -> None:
    """`--json -` prints the object and nothing else."""
    done = run(ROOT, "grade", "--submission", str(stubs), "--step", "4", "--seed", "7", "--json", "-")
    report = json.loads(done.stdout)
    assert report["version"] == 1
    assert (report["seed"], report["oracle"], report["max_score"]) == (7, "live", 8.0)
    assert report["devices"]["cpu"] == "checked"
    assert {"process", "limits"} <= set(report["isolation"])
    step = report["steps"][0]
    assert (step["name"], step["status"], step["score"]) == ("step04_causal_mask", "todo", 0.0)
    wanted = {"name", "title", "device", "status", "points", "max_points", "message", "misconception", "hint"}
    assert wanted <= step["checks"][0].keys()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--submission", "no/such/folder"],
        ["--step", "step99_nothing"],
        ["--device", "abacus"],
        ["--device", "Cuda!"],
        ["--seed", "many"],
        ["--lang", "xx"],
        ["--json", "/no/such/folder/report.json", "--step", "1"],
        ["--what"],
    ],
)
def test_bad_input_is_one_line(arguments: list[str]) -> None:
    """Exit code 2, one line, no traceback, and the command to type next."""
    done = run(ROOT, "grade", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert "Type: python -m grader grade" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("4", 3), ("step04", 3), ("causal_mask", 3), ("step12_gpt", 11), ("0", None), ("attention", None)],
)
def test_steps_are_found_by_what_people_type(wanted: str, found: int | None) -> None:
    """A number, a prefix, a unique part; what fits several steps fits none."""
    names = choice.step_names()
    assert choice.match_step(wanted, names) == (None if found is None else names[found])


def test_work_is_never_overwritten(tmp_path: Path) -> None:
    """`exercises` writes what is missing or untouched, and leaves a learner's file alone."""
    exercises.write(tmp_path)
    own = tmp_path / "step01_scores.py"
    own.write_text("def dot_product_scores(query, key):\n    return query @ key.mT\n")
    result = exercises.write(tmp_path)
    assert result.kept == ["step01_scores"]
    assert "key.mT" in own.read_text()


def test_a_dropout_that_drops_nothing_earns_little(grader: Grader) -> None:
    """It scales, refuses what is no probability and looks at the mode."""
    step = "step05_dropout"
    source = """
import torch

def dropout(x, p=0.5, training=True):
    if not 0 <= p <= 1:
        raise ValueError(p)
    if not training or p == 0:
        return x
    return x * 0 if p == 1 else x / (1 - p)

class Dropout(torch.nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(p)
        self.p = p

    def forward(self, x):
        return dropout(x, self.p, self.training)
"""
    submission = Submission("mine", {step: (f"exercises/{step}.py", source)})
    (result,) = grader.grade(submission, [step], device="cpu", seed=1).steps
    assert (result.status, result.score) == ("fail", 1.25)
