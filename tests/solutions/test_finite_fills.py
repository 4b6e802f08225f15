"""A mask may fill in a finite number, if it hides next to scores of up to ±1,000."""

from __future__ import annotations

import pytest

from grader.course import steps
from grader.course.submissions import Submission
from grader.judge.grader import Grader

STEPS = {step.number: step for step in steps.steps()}
ASKED = (6, 8, 9, 20, 25, 27)


@pytest.mark.thorough
@pytest.mark.parametrize("number", ASKED)
def test_a_finite_fill(number: int, grader: Grader) -> None:
    """-100 and -1,000 are seen, and -10,000 hides."""
    step, sources = STEPS[number], {each.name: (f"{each.name}.py", each.solved()) for each in STEPS.values()}
    assert all("±1,000" in step.stub(spoken) for spoken in ("en", "ko"))
    found = {}
    for fill in ("-100.0", "-1_000.0", "-10_000.0"):
        sources[step.name] = (f"{step.name}.py", step.solved().replace("-torch.inf", fill))
        assert fill in sources[step.name][1]
        (result,) = grader.grade(Submission("", sources), [step.name], device="cpu", seed=5).steps
        found[fill] = result.status
    assert found == {"-100.0": "fail", "-1_000.0": "fail", "-10_000.0": "pass"}
