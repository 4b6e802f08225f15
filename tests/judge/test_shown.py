"""What a check refuses on large inputs is shown on the smallest ones that fail as well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.author import recorder
from grader.base.results import CheckResult
from grader.checks import smallest
from grader.checks.backends import LocalBackend
from grader.checks.trial import Verdict, run_check
from grader.course.submissions import Submission
from grader.judge import outcome
from grader.judge.grader import Grader
from grader.oracle.cache import CachedOracle
from grader.oracle.live import Solution, solutions
from grader.oracle.tape import Tape

CORE = [step for step in solutions() if step.number <= 12]
SMALL = "The smallest case found that fails as well:"
MODULE = (
    "step11_gpt_block",
    "class Block(Block):\n    def forward(self, x):\n        x = self.ln_1(x)\n        x = x + self.attn(x)\n"
    "        return x + self.mlp(self.ln_2(x))\n",
)


def failing(grader: Grader, step: str, code: str) -> list[CheckResult]:
    """The checks that a step fails with this at its end, the earlier steps right."""
    files = {one.name: (f"mine/{one.name}.py", one.solved()) for one in CORE if one.name <= step}
    files[step] = (files[step][0], f"{files[step][1]}\n\n{code}")
    graded = grader.grade(Submission("mine", files), [step], device="cpu", seed=5).steps[0]
    return [check for check in graded.checks if check.status == "fail"]


def test_a_module_is_shown_with_its_weights(grader: Grader) -> None:
    """Of a block whose branch is added to the wrong stream all numbers are on the screen, and they are round."""
    shown = [check.message for check in failing(grader, *MODULE) if SMALL in check.message]
    assert len(shown) == 1
    text = shown[0].partition(SMALL)[2]
    call = next(line for line in text.splitlines() if line.startswith("called"))
    assert re.search(r"\(\[\[\[-?\d\.0, ", call), call
    for name in ("ln_1.weight", "attn.c_attn.weight", "mlp.c_proj.bias"):
        assert re.search(rf"^  {re.escape(name)} += \[", text, re.MULTILINE), text
    assert all(float(number) * 2 % 1 == 0 for number in re.findall(r"-?\d+(?:\.\d+)?", text.partition("weights")[2]))


def test_small_cases_are_not_looked_for_where_values_are_not_shown(grader: Grader) -> None:
    """A step graded with a reference of an earlier one beside it shows no value, a small one neither."""
    step = MODULE[0]
    files = {one.name: (f"mine/{one.name}.py", one.solved()) for one in CORE if one.name <= step}
    files["step09_fused_qkv"] = ("mine/step09_fused_qkv.py", "raise ValueError('not yet')\n")
    files[step] = (files[step][0], f"{files[step][1]}\n\n{MODULE[1]}")
    graded = grader.grade(Submission("mine", files), [step], device="cpu", seed=5).steps[0]
    assert not any(SMALL in check.message for check in graded.checks)


@pytest.mark.parametrize(
    "wrong",
    [
        "    def __init__(self, *sizes, **named):\n        raise KeyError('never made')\n",
        "    def __init__(self, *sizes, **named):\n        super().__init__(*sizes, **named)\n"
        "        self.spare = nn.Linear(2, 2)\n",
        "    def forward(self, x):\n        return x @ torch.ones(x.shape[-1] + 1, 2)\n",
    ],
    ids=["not made", "other parameters", "raises"],
)
def test_nothing_is_said_twice(grader: Grader, wrong: str) -> None:
    """Of a module that could not be made, and of a crash, a small case shows nothing more."""
    shown = [check.message for check in failing(grader, "step11_gpt_block", f"class Block(Block):\n{wrong}")]
    assert shown
    assert not any(SMALL in message for message in shown)


def test_numbers_are_those_of_the_small_case(grader: Grader) -> None:
    """The table below it, and the program of `make repro`, are of the same case."""
    (check,) = (check for check in failing(grader, *MODULE) if SMALL in check.message)
    assert check.parting is not None
    assert len(check.parting.expected) * len(check.parting.expected[0]) <= 12
    files = {one.name: (f"mine/{one.name}.py", one.solved()) for one in CORE if one.name <= MODULE[0]}
    files[MODULE[0]] = (files[MODULE[0]][0], f"{files[MODULE[0]][1]}\n\n{MODULE[1]}")
    _result, program = grader.reproduce(Submission("mine", files), MODULE[0], device="cpu", seed=5)
    assert program is not None
    assert not program.tensors  # all of it is on the screen
    assert "torch.tensor([[[" in program.text


@pytest.mark.parametrize("step", CORE, ids=lambda step: step.name)
def test_the_reference_agrees_with_itself_on_every_small_case(step: Solution) -> None:
    """No small case fails for right code, and for each name at least one is really asked."""
    for name, few in step.small_cases.items():
        verdicts = [_run(step, case, {}) for case in few]
        assert {verdict.status for verdict in verdicts} <= {"pass"}, name
        asked = any(verdict.exchanges for verdict in verdicts)
        assert asked or not few, name


def test_the_smallest_comes_first() -> None:
    """What fails without batch dimensions is shown without them, with two tokens."""
    step = next(step for step in CORE if step.name == "step01_scores")
    wrong = next(wrong for wrong in step.misconceptions if wrong.name == "not_scaled")
    verdicts = [_run(step, check.function, wrong.replaced) for check in step.checks]
    said = list(outcome.smaller_cases(step, verdicts, lambda case: _run(step, case, wrong.replaced)))
    assert not said  # the case by hand shows it
    verdicts = [verdict for verdict in verdicts if verdict.drawn]
    ((_place, text, _small),) = outcome.smaller_cases(step, verdicts, lambda case: _run(step, case, wrong.replaced))
    assert re.search(r"scaled_scores\(\[\[[^\]]*\], \[[^\]]*\]\], \[\[[^\]]*\], \[[^\]]*\]\]\)", text), text


def test_a_tape_has_them_too(tmp_path: Path) -> None:
    """A learner's kit shows the same small case, without a reference."""
    step = next(step for step in CORE if step.name == "step07_heads")
    path = tmp_path / "tape"
    path.write_bytes(recorder.record(step, (recorder.SEEDS[0],)))
    tape = Tape(path)
    for few in step.small_cases.values():
        for case in few:
            assert case.__name__ in tape.index.checks
            student = LocalBackend(step.responder())
            assert run_check(case, student, CachedOracle(tape), seed=recorder.SEEDS[0]).status == "pass"


def _run(step: Solution, check: smallest.Case, replaced: dict[str, object]) -> Verdict:
    return run_check(check, LocalBackend(step.responder(replaced)), LocalBackend(step.responder()), seed=5)
