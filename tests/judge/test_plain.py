"""What makes grading fast changes no verdict: with it and without it, the same report."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.course import choice, submissions
from grader.course.submissions import Submission
from grader.judge.grader import Grader
from grader.oracle.live import solutions
from tests import hostile
from tests.hostile import PATIENT
from tests.whole import THOROUGH, WHOLE, sample
from tools.golden import EXAMPLES, verdicts, ways_of, with_way

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each step has a process of its own anyway")


@pytest.fixture(scope="module")
def graders() -> Iterator[tuple[Grader, Grader]]:
    """One that does all to be fast, and one that does nothing."""
    with Grader(1, PATIENT) as fast, Grader(1, PATIENT, plain=True) as plain:
        yield fast, plain


def same(graders: tuple[Grader, Grader], read: Submission, steps: list[str]) -> None:
    """Fails unless both say the same, under a new seed and under one seen before."""
    fast, plain = graders
    for seed in (11, 11, 12) if THOROUGH else (11, 11):
        assert verdicts(fast, read, steps, seed) == verdicts(plain, read, steps, seed)


@pytest.mark.parametrize("first", [0, *([6, 12, 18, 24] if THOROUGH else [])])
def test_references(graders: tuple[Grader, Grader], solved: Path, first: int) -> None:
    same(graders, submissions.read(solved), choice.step_names()[first : first + (6 if THOROUGH else 3)])


@pytest.mark.parametrize("folder", sample(EXAMPLES, len(EXAMPLES)), ids=lambda folder: folder.name)
def test_examples(graders: tuple[Grader, Grader], folder: Path) -> None:
    """Submissions of a class, right, wrong, half done and hostile."""
    same(graders, submissions.read(folder), choice.step_names(None, choice.CORE)[: None if THOROUGH else 3])


@pytest.mark.parametrize("kind", ["variants", "mistakes"])
def test_other_ways(graders: tuple[Grader, Grader], kind: str) -> None:
    """Right and wrong ways of a function in the place of the reference's."""
    sources = {step.name: step.solved() for step in solutions()}
    for step in sample([step for step in solutions() if not step.lacking], 28):
        ways = list(ways_of(step, kind))
        for _name, way in ways if WHOLE else ways[:1]:
            same(graders, with_way(sources, step, way), [step.name])


@pytest.mark.parametrize("attack", sample(hostile.attacks(), 60), ids=lambda attack: attack.name)
def test_attacks(graders: tuple[Grader, Grader], attack: hostile.Attack) -> None:
    """Those of `make security`: of each its status, since some say another number every time."""
    fast, plain = graders
    read = hostile.one_file(attack.step, attack.source)
    reports = [grader.grade(read, [attack.step], device="cpu", seed=3) for grader in (fast, plain)]
    statuses = [[(check.name, check.status, check.points) for check in report.steps[0].checks] for report in reports]
    assert statuses[0] == statuses[1]


ONCE_WRONG = """
import os

def softmax(x, dim=-1):
    first = not os.path.exists("asked")
    open("asked", "a").close()
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True) + first
"""
LATE = """
import time

def softmax(x, dim=-1):
    time.sleep(2.5)
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)
"""


def test_what_is_asked_again_knows_nothing_of_before(graders: tuple[Grader, Grader]) -> None:
    """Code that is wrong at its first call only gets no second chance: neither its process nor its files are there."""
    read = hostile.one_file(hostile.STEP, ONCE_WRONG)
    for grader in graders:
        (step,) = grader.grade(read, [hostile.STEP], device="cpu", seed=3).steps
        assert step.status == "fail"
        assert [check.status for check in step.checks].count("fail") == 1
    same(graders, read, [hostile.STEP])


@pytest.mark.exhaustive
@pytest.mark.thorough
def test_a_slow_answer_is_waited_for(graders: tuple[Grader, Grader]) -> None:
    """In few messages it isn't: then it is asked again."""
    read = hostile.one_file(hostile.STEP, LATE)
    (step,) = graders[0].grade(read, [hostile.STEP], device="cpu", seed=3).steps
    assert step.checks[0].status == "pass"


def test_no_process_of_a_submission_outlives_its_run(graders: tuple[Grader, Grader], solved: Path) -> None:
    """Also of one whose steps were all right: nothing waits for a step that does not come."""
    fast = graders[0]
    report = fast.grade(submissions.read(solved), ["step01_scores"], device="cpu", seed=3)
    assert report.steps[0].status == "pass"
    assert hostile.eventually(lambda: len(hostile.descendants(hostile.zygote_pid(fast))) == 1)
