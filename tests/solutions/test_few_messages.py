"""A check whose calls go in few messages passes exactly what it passes call by call, and gives nothing away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from grader.calls.codec import decode_call, decode_outcome
from grader.calls.framing import unframed
from grader.calls.values import bare, leaves
from grader.checks import lazy
from grader.checks.backends import LocalBackend
from grader.checks.lazy import Here, Message, Script
from grader.checks.trial import run_check
from grader.course.steps import Check
from grader.oracle.live import Solution
from tests.solutions.test_course import ONLY, WITH_ALL_IT_NEEDS, reference_of, verdicts
from tests.whole import THOROUGH, WHOLE, sample


class Noting(Here):
    """Answers here, and keeps what was sent together, with the answers."""

    def __init__(self, backend: LocalBackend) -> None:
        super().__init__(backend)
        self.groups: list[list[tuple[bytes, Message]]] = []

    def send_all(self, frames: list[bytes]) -> list[Message]:
        """The answers, as bytes."""
        answers = super().send_all(frames)
        self.groups.append(list(zip(frames, answers, strict=True)))
        return answers


def asked(
    step: Solution, checks: list[Check], replaced: dict[str, object] | None = None
) -> dict[str, list[list[tuple[bytes, Message]]]]:
    """What was sent together in each of the checks that passes in this way."""
    passed = {}
    for check in checks:
        transport = Noting(LocalBackend(step.responder(replaced, watched=True)))
        scripts = dict[str, Script]()
        if lazy.passed(
            check.function, transport, step.classes.__contains__, reference_of(step), seed=1, scripts=scripts
        ):
            passed[check.name] = transport.groups
            assert scripts[check.name].groups == [[frame for frame, _answer in group] for group in transport.groups]
    return passed


def given(frame: bytes) -> Iterator[Tensor]:
    """The tensors that a message hands to the called code."""
    call = decode_call(*unframed(frame))
    for each in (*call.first, call):
        yield from (leaf for leaf in leaves((each.args, each.kwargs)) if isinstance(leaf, Tensor) and not leaf.is_meta)


def tells(shown: Tensor, answer: Tensor) -> bool:
    """Whether an input gives an answer away. What has one value everywhere says nothing."""
    if shown.shape != answer.shape or shown.dtype != answer.dtype or shown.numel() < 2:
        return False
    return not bool((shown == shown.flatten()[0]).all()) and torch.allclose(
        shown.double(), answer.double(), equal_nan=True
    )


FEW = [step for step in WITH_ALL_IT_NEEDS if THOROUGH or ONLY or step in sample(WITH_ALL_IT_NEEDS, 4)]


@pytest.mark.thorough
@pytest.mark.parametrize("step", FEW, ids=lambda step: step.name)
def test_a_right_answer_passes_in_few_messages(step: Solution) -> None:
    """So that nothing is asked twice. And what is sent together holds no expected value: a process could read ahead."""
    passed = asked(step, step.checks)
    assert [check.name for check in step.checks if check.name not in passed] == []
    groups = [group for groups in passed.values() for group in groups]
    assert len(groups) < sum(map(len, groups))
    for name, each in passed.items():
        assert not any(map(gives_away, each)), f"{name}: an input is an answer that is due: see `at_once`"


def gives_away(group: list[tuple[bytes, Message]]) -> bool:
    """Whether an input is an answer to an earlier call of the group, which the learner's code was not given before."""
    known: list[Tensor] = []
    due: list[Tensor] = []
    for frame, answer in group:
        inputs = list(given(frame))
        new = [each for each in inputs if not any(tells(each, other) for other in known)]
        if any(tells(each, other) for each in new for other in due):
            return True
        known += inputs
        outcome = decode_outcome(*answer)
        values = [*leaves(bare(outcome.value)), *leaves(bare(outcome.gradients))]
        due += [leaf for leaf in values if isinstance(leaf, Tensor) and not leaf.is_meta]
    return False


@pytest.mark.thorough
@pytest.mark.parametrize("step", sample(WITH_ALL_IT_NEEDS, 8), ids=lambda step: step.name)
def test_wrong_ways_pass_what_they_pass_call_by_call(step: Solution) -> None:
    """Each mistake and each other right way, in the checks that call what it replaces: the others ask the reference.
    When one step is proved, each other right way has passed all of them call by call, under this seed too."""
    called = {name: verdict.called for name, verdict in verdicts(step, 1).items()}
    ways = [*step.misconceptions, *([] if ONLY else step.variants)]
    for way in ways if WHOLE or ONLY else sample(ways, 25):
        touched = step.touched(way.replaced)
        checks = [check for check in step.checks if called[check.name] & touched]
        passed = asked(step, checks, way.replaced)
        for check in (check for check in checks if check.name in passed):
            student = LocalBackend(step.responder(way.replaced, watched=True))
            verdict = run_check(check.function, student, reference_of(step), seed=1)
            assert verdict.status == "pass", (way.name, check.name, verdict.message)
