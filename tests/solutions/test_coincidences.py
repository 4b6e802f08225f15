"""What hand cases can't tell apart: the pairs of mistakes with the same answers in all of a step's hand cases.

`coincidences.txt` lists them, so that a hand case with equal sizes, or a width of 4, is seen when it is written.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from pathlib import Path

import pytest
from msgspec import msgpack

from grader.checks.backends import LocalBackend
from grader.oracle.cache import CachedOracle
from grader.oracle.live import Solution, solutions
from grader.oracle.witness import Question
from tests.whole import sample

LISTED = Path(__file__).with_name("coincidences.txt").read_text(encoding="utf-8").splitlines()


def pairs(step: Solution) -> dict[str, set[tuple[str, str]]]:
    """For each public name the pairs of its mistakes that every hand case which fails on either gives the same answers
    for."""
    asked = step.asked_here(CachedOracle(LocalBackend(step.responder())))
    by_answers: dict[tuple[str, bytes], set[str]] = defaultdict(set)
    for wrong in step.misconceptions:
        (name, *others) = wrong.replaced
        if others:
            continue
        told = {}
        for check in step.checks:
            if check.name.endswith("by_hand"):
                replies = asked.answers(wrong, check.name, Question(check.function, 1, "cpu", [], frozenset({name})))
                if replies is not None and replies.refused:
                    told[check.name] = [taken.kept() for taken in replies.prints]
        if told:
            by_answers[name, msgpack.encode(told)].add(wrong.called)
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for (name, _answers), alike in by_answers.items():
        found[name] |= set(combinations(sorted(alike), 2))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("step", sample([step for step in solutions() if not step.lacking]), ids=lambda step: step.name)
def test_what_hand_cases_cannot_tell_apart_is_listed(step: Solution) -> None:
    found = {f"{step.number:02} {name} {one} = {other}" for name, two in pairs(step).items() for one, other in two}
    assert found == {line for line in LISTED if line.startswith(f"{step.number:02} ")}
