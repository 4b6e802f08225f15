"""What a step is worth by itself, whatever an earlier one does to it: the same under every seed, and told as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.base.results import StepResult
from grader.course import submissions
from grader.course.steps import steps
from grader.judge import follow_through
from grader.judge.grader import Grader
from grader.judge.imported_names import imported_names

SITUATION = Path(__file__).parent / "situations" / "blocked_by_an_earlier_step"
CAUSAL, MULTI = "step06_causal_attention", "step08_multi_head"
TELLS = """
import inspect
from exercises import step06_causal_attention as earlier
print(inspect.getsource(earlier))
raise ValueError(inspect.getsource(earlier))
"""


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


def test_a_reference_beside_the_code_is_not_told(grader: Grader) -> None:
    _wrong, step = grader.grade(blocked(TELLS), [CAUSAL, MULTI], device="cpu").steps
    said = "".join([step.output, *(check.message for check in step.checks)])
    assert step.status == "fail"
    assert "ValueError" in said
    assert "CausalAttention(nn.Module)" not in said


def test_without_references_nothing_is_given_by_luck(monkeypatch: pytest.MonkeyPatch, grader: Grader) -> None:
    """As in a learner's kit."""
    monkeypatch.setattr(follow_through, "with_references", lambda sources, names: None)
    step: StepResult = grader.grade(blocked(), [CAUSAL, MULTI], device="cpu").steps[1]
    assert (step.status, step.score, step.blocked_by) == ("skipped", 0.0, CAUSAL)
    assert "only be graded where the references are" in step.message


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from exercises.step21_encoder import FeedForward\n", {"FeedForward"}),
        ("from exercises.step21_encoder import Encoder as E\n", {"Encoder", "Block", "FeedForward", "SIZE"}),
        ("from exercises.step21_encoder import *\n", {"*"}),
        ("import exercises.step21_encoder as earlier\n", {"*"}),
        ("def f():\n    from exercises.step21_encoder import Classifier\n", {"Classifier", "Encoder", "Block", "SIZE"}),
        ("from helpers import Encoder\n", {"Encoder", "Block", "FeedForward", "SIZE"}),
        ("from helpers import Mine\n", {"FeedForward"}),
        ("from helpers import other\n", set()),
    ],
)
def test_which_names_a_file_takes(source: str, found: set[str]) -> None:
    """Themselves, and what they are made of; not what stands beside them."""
    encoder = (
        "SIZE = 4\nclass FeedForward: ...\nclass Block:\n    made = FeedForward\n"
        "class Encoder:\n    def __init__(self):\n        self.blocks = [Block(SIZE)]\n"
        "class Classifier:\n    made = Encoder\n"
    )
    helpers = "from .step21_encoder import *\nclass Mine(FeedForward): ...\ndef other(): return 1\n"
    sources = {
        "step22_decoder": ("a.py", source),
        "step21_encoder": ("b.py", encoder),
        "helpers": ("helpers.py", helpers),
    }
    names = imported_names("step22_decoder", sources).get("step21_encoder", set())
    assert found <= names
    assert ("Classifier" in names) == ("Classifier" in found)


def test_what_is_not_imported_blocks_nothing(grader: Grader) -> None:
    """A wrong classifier in step 21 leaves a wrong step 22 to itself; a wrong block, which is part of the encoder that
    step 22 imports, blocks it."""
    earlier, later = "step21_encoder", "step22_decoder"
    read = submissions.read(SITUATION)
    for step in steps():
        if step.name in ("step07_heads", "step20_cross_attention", earlier, later):
            read.sources[step.name] = (f"{step.name}.py", step.solved())
    encoder, decoder = read.sources[earlier][1], read.sources[later][1]
    wrong_decoder = decoder.replace("argmax(dim=-1", "argmin(dim=-1")
    assert wrong_decoder != decoder
    for wrong, blocked_by in (
        (encoder.replace("self.classifier(", "-self.classifier("), None),
        (encoder.replace("self.ln1(x + ", "self.ln1(x - "), earlier),
    ):
        assert wrong != encoder
        read.sources[earlier] = (f"{earlier}.py", wrong)
        read.sources[later] = (f"{later}.py", wrong_decoder)
        first, second = grader.grade(read, [earlier, later], seed=1, device="cpu").steps
        assert first.status == second.status == "fail"
        assert second.blocked_by == blocked_by
