"""Many submissions of all kinds through one warm grader: a short run of what `make soak` does at length."""

from __future__ import annotations

import sys

import pytest

from tests.soak import ROOM, Soaked, mixed, soak

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a warm process is forked from on Linux only")


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
    leaking = Soaked(memory={"judge": [100.0 + number for number in range(60)]})
    assert leaking.growth("judge") > ROOM


def test_wrong_submissions_are_many() -> None:
    """The wrong ones of a long run are drawn from misconceptions of most steps."""
    wrong = {submitted.name.partition(":")[0] for submitted in mixed(600) if submitted.kind == "wrong"}
    assert len(wrong) >= 10
