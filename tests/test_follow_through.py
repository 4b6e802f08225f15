"""What a step is worth by itself, whatever an earlier one does to it: the same under every seed, and told as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.base.results import StepResult
from grader.course import submissions
from grader.course.steps import steps
from grader.judge import follow_through
from grader.judge.grader import Grader

SITUATION = Path(__file__).parent / "situations" / "blocked_by_an_earlier_step"
CAUSAL, MULTI = "step06_causal_attention", "step08_multi_head"
TELLING = """
import inspect
from exercises import step06_causal_attention as earlier
SECRET = inspect.getsource(earlier)
print(SECRET)


class MultiHeadAttention(nn.Module):
    def __init__(self, *sizes, **named):
        super().__init__()
        {tells}
"""
TELLS = (
    "raise ValueError(SECRET)",
    "raise type(SECRET[:20], (Exception,), dict())",
    "raise NotImplementedError(SECRET[:9])",
    "self.forward = lambda *given: torch.tensor(list(SECRET.encode()))",
    "self.told = nn.Parameter(torch.zeros(*SECRET.encode()[:3]))",
)


def blocked(text: str = "") -> submissions.Submission:
    """A wrong step 6, and a step 8 that imports it."""
    read = submissions.read(SITUATION)
    read.sources[MULTI] = (f"{MULTI}.py", read.sources[MULTI][1] + text)
    return read


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (f"from exercises.{CAUSAL} import CausalAttention\n", [CAUSAL]),
        (f"import {CAUSAL}\n", [CAUSAL]),
        (f"from exercises import {CAUSAL} as earlier\n", [CAUSAL]),
        ("from helpers import CausalAttention\n", [CAUSAL]),
        (f"__import__('{CAUSAL}')\n", []),
        (f"text = 'import {CAUSAL}'\n", []),
        ("def f(:\n", []),
    ],
)
def test_what_the_text_of_a_file_imports(source: str, found: list[str]) -> None:
    sources = {MULTI: ("a.py", source), "helpers": ("helpers.py", f"from exercises.{CAUSAL} import CausalAttention\n")}
    assert follow_through.imported_steps(MULTI, sources) == found


def test_a_blocked_step_has_its_own_points_under_any_seed(grader: Grader) -> None:
    for seed in (1, 2, 3):
        wrong, right = grader.grade(blocked(), [CAUSAL, MULTI], seed=seed, device="cpu").steps
        assert wrong.status == "fail"
        assert (right.status, right.score, right.blocked_by) == ("skipped", right.max_score, CAUSAL)
        assert f"worth {right.max_score:g} of" in right.note


def test_a_step_of_another_assignment_is_replaced(grader: Grader) -> None:
    """Not handed in, or only as a stub: nothing is lost for it."""
    for stub in (False, True):
        read = blocked()
        del read.sources[CAUSAL]
        if stub:
            read.sources[CAUSAL] = ("stub.py", next(step for step in steps() if step.name == CAUSAL).stub())
        (step,) = grader.grade(read, [MULTI], device="cpu").steps
        assert (step.status, step.score, step.blocked_by) == ("pass", step.max_score, None)
        assert "was not handed in" in step.note


@pytest.mark.parametrize("tells", TELLS)
def test_a_reference_beside_the_code_is_not_told(tells: str, grader: Grader) -> None:
    """Not by what is printed, nor by an error's words, the name of a function that never ends, numbers, or shapes."""
    _wrong, step = grader.grade(blocked(TELLING.format(tells=tells)), [CAUSAL, MULTI], device="cpu").steps
    assert step.status == "fail"
    assert not step.output
    for check in step.checks:
        assert check.parting is None
        if check.status not in ("pass", "skipped"):
            assert "Its values are not shown" in check.message
            assert not any(letter.isdigit() for letter in check.message)


def test_a_known_mistake_beside_a_reference_is_named(grader: Grader) -> None:
    """What it is may be told: that is our sentence, and no number of the code's."""
    read = blocked()
    name, source = read.sources[MULTI]
    read.sources[MULTI] = name, source.replace(" / math.sqrt(key.shape[-1])", "")
    _wrong, step = grader.grade(read, [CAUSAL, MULTI], device="cpu", seed=1).steps
    named = [check for check in step.checks if check.misconception]
    assert named
    assert all(check.hint and "expected " not in check.message for check in named)


def test_without_references_nothing_is_given_by_luck(monkeypatch: pytest.MonkeyPatch, grader: Grader) -> None:
    """As in a learner's kit."""
    monkeypatch.setattr(follow_through, "with_references", lambda sources, names: None)
    step: StepResult = grader.grade(blocked(), [CAUSAL, MULTI], device="cpu").steps[1]
    assert (step.status, step.score, step.blocked_by) == ("skipped", 0.0, CAUSAL)
    assert "only be graded where the references are" in step.message
