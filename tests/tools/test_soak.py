"""Many submissions of all kinds through one warm grader: a short run of what `make soak` does at length."""

from __future__ import annotations

import sys

import pytest

from grader.judge.grader import Grader
from tests import hostile
from tools.soak import LIMITS, ROOM, SoakReport, held, mixed, soak

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform != "linux", reason="a warm process is forked from on Linux only"),
]


def test_short_soak() -> None:
    """Every verdict is right, nothing is left behind, and no process that lives on grows or holds on to files."""
    soaked = soak(30)
    assert soaked.wrong == []
    assert min(soaked.kinds.values()) == 10
    for process, counts in soaked.descriptors.items():
        assert counts[-1] <= counts[0]
        assert soaked.growth(process) < ROOM


def test_growth_is_noticed() -> None:
    """A process that keeps a little of each submission is found out."""
    leaking = SoakReport(memory={"judge": [100.0 + number for number in range(60)]})
    assert leaking.growth("judge") > ROOM


def test_growth_at_one_point_is_noticed() -> None:
    """One answer after which a process stays large is found out, when it comes in the second third too."""
    jumping = SoakReport(memory={"judge": [100.0] * 24 + [100.0 + 2 * ROOM] * 36})
    assert jumping.growth("judge") > ROOM


@pytest.mark.parametrize("name", ["forge_endless_generator", "forge_huge_payload"])
def test_large_answers_are_given_back(name: str) -> None:
    """What a judge held of thousands of tensors, or of 250 MB, is the system's again once the submission is graded."""
    (attack,) = (attack for attack in hostile.attacks() if attack.name == name)
    with Grader(1, LIMITS) as grader:
        # A wrong one, too: what a judge reads once, as mistakes, stays.
        for code in (hostile.GOOD, "def softmax(x, dim=-1):\n    return x.mean()\n"):
            grader.grade(hostile.one_file(hostile.STEP, code), [hostile.STEP], device="cpu", seed=3)
        assert hostile.left_behind(grader) == []
        (judge,) = hostile.descendants(hostile.zygote_pid(grader))
        before = held(judge)[0]
        assert hostile.tried_in_short(attack, grader, LIMITS) == []
        assert hostile.eventually(lambda: held(judge)[0] < before + ROOM)


def test_wrong_submissions_are_many() -> None:
    """The wrong ones of a long run are drawn from misconceptions of most steps."""
    wrong = {submitted.name.partition(":")[0] for submitted in mixed(300) if submitted.kind == "wrong"}
    assert len(wrong) >= 10
