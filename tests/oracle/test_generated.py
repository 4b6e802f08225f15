"""A mistake that no catalogue lists is named by what an operator makes; a coincidence names nothing."""

from __future__ import annotations

import contextlib
import math
import time
from pathlib import Path
from types import ModuleType

import pytest

from grader.author import recorder
from grader.base import language, limits
from grader.base.mistakes import Unreadable
from grader.base.paths import SOLUTIONS
from grader.base.syntax import invalid
from grader.checks.backends import LocalBackend
from grader.judge.grader import Grader
from grader.operators.changes import ChangedText, changes
from grader.oracle import diagnostician
from grader.oracle.diagnostician import Diagnostician
from grader.oracle.generated import GeneratedMistakes
from grader.oracle.live import solutions
from grader.oracle.tape import Tape
from grader.oracle.witness import Witness
from grader.oracle.wrong_ways import Text, WrongWays
from tests.clinic import Clinic
from tests.oracle.test_untrue_names import graded, named, told

UNLISTED = {
    "bias_too_few": (9, "nn.Linear(n_embd, n_embd, bias=bias)", "nn.Linear(n_embd, n_embd, bias=False)"),
    "reshaped_not_exchanged": (
        8, "value = self.W_value(x).view(B, T, H, -1).transpose(1, 2)", "value = self.W_value(x).reshape(B, H, T, -1)",
    ),
    "softmax_over_heads": (8, ".softmax(dim=-1)", ".softmax(dim=1)"),
    "applied_to_one_term": (
        21, "self.ln2(x + self.dropout(self.feed_forward(x)))", "x + self.ln2(self.dropout(self.feed_forward(x)))",
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", UNLISTED)
def test_what_no_catalogue_lists_has_a_name(family: str) -> None:
    number, right, wrong = UNLISTED[family]
    step = next(step for step in solutions() if step.name.startswith(f"step{number:02}_"))
    assert step.wrong_ways is not None
    (name,) = (name for name, text in step.wrong_ways.definitions.items() if right in text)
    made = step.wrong_ways.run(step.wrong_ways.definitions[name].replace(right, wrong), "a student's")
    diagnoses = Clinic(step).diagnosis({name: made[name]}, 3, generated=True)
    assert {wrong.called for group in diagnoses.values() for wrong in group} == {family}


@pytest.mark.parametrize("seed", [3, 8])
def test_a_factor_of_the_scores_is_said(grader: Grader, seed: int) -> None:
    """With a width of 4, 2 √d is d: the hand case alone would say that the scores are divided by d. Under the second
    seed most checks draw that width, and another one 3, which puts both 0.6 % apart."""
    step = graded(grader, 3, ("/ math.sqrt(d)", "/ math.sqrt(d) / 2"), seed=seed)
    assert named(step) == {"scores_scaled"}
    assert "the scores are 1/2 times what they should be" in told(step).message


def test_a_tape_names_it_too(tmp_path: Path) -> None:
    """And keeps none that answers like a mistake of the catalogue."""
    step = next(step for step in solutions() if step.name == "step01_scores")
    assert step.wrong_ways is not None
    file = tmp_path / "tape"
    file.write_bytes(recorder.record(step, (3,)))
    tape = Tape(file)
    assert not {way.form_of for way in tape.generated("scaled_scores")} & {
        "division_left_out",
        "multiplied_not_divided",
    }
    text = step.wrong_ways.definitions["scaled_scores"].replace("math.sqrt(d)", "math.sqrt(d) / 2")
    made = step.wrong_ways.run(text, "a student's")
    found = Clinic(step, Witness(tape)).diagnosis({"scaled_scores": made["scaled_scores"]}, 3, generated=True)
    assert {(wrong.called, wrong.words["factor"]) for group in found.values() for wrong in group} == {
        ("scores_scaled", "1/2")
    }


def test_it_is_said_in_korean(grader: Grader) -> None:
    with language.use("ko"):
        step = graded(grader, 3, ("/ math.sqrt(d)", "/ math.sqrt(d) / 2"))
    assert "있어야 할 값의 1/2배" in told(step).message


def test_a_loop_that_a_mistake_makes_endless_is_ended() -> None:
    """Judges and what records tapes run it, in a process that nothing else stops."""
    step = next(step for step in solutions() if step.name == "step15_costs")
    endless = [wrong for wrong in step.generated("layer_costs") if wrong.form_of == "power_left_out"]
    assert endless
    for wrong in endless:
        with contextlib.suppress(TimeoutError):
            wrong.replaced["layer_costs"]("convolutional", n=125, d=8, k=5, r=3)


def test_nothing_is_tried_when_the_time_is_over() -> None:
    """Neither a single misconception, nor a pair, nor what an operator makes."""
    step = next(step for step in solutions() if step.name == "step01_scores")
    clinic, wrong = Clinic(step), next(wrong for wrong in step.misconceptions if wrong.name == "not_scaled")
    verdicts = clinic.verdicts(LocalBackend(step.responder(wrong.replaced)), 3)
    questions = [clinic._question(name, verdict, 3) for name, verdict in verdicts.items() if verdict.status == "fail"]
    for seconds, found in ((-1.0, False), (math.inf, True)):
        witness = step.witness(step.oracle())
        late = Diagnostician(step.misconceptions, witness, step.pairs, step.generated, seconds)
        assert bool(late.diagnose(questions, lambda question, seed: None)) == found
        for question in questions:
            question.alike.clear()


def test_a_slower_machine_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much more as a loop takes longer, within bounds."""
    step = next(step for step in solutions() if step.name == "step01_scores")
    for times, seconds in ((0.5, 1.0), (2.0, 2.0), (9.0, limits.MOST_SLOW)):
        monkeypatch.setattr(limits, "_a_loop", lambda times=times: times * limits.LOOP)
        left = diagnostician.of_step(step, step.witness(step.oracle()))._until - time.thread_time()
        assert left == pytest.approx(seconds, abs=0.2)


@pytest.mark.thorough
@pytest.mark.parametrize("folder", sorted(SOLUTIONS.glob("*/step*/")), ids=lambda folder: folder.name)
def test_all_that_is_generated_is_python(folder: Path) -> None:
    """No edit or operator makes a text that Python refuses, as an argument twice in a helper's heading. A step whose
    package is not installed is read as well."""
    text = Text(folder)
    for name, definition in text.definitions.items():
        made = [changed for _entry, changed in text.of_many_steps(name)]
        for changed in (*made, *(change.text for change in changes(name, definition, name))):
            assert not invalid(changed, name), changed


def test_nothing_is_generated_of_a_kernel() -> None:
    """With a wrong pointer it would end the judge."""
    ways = WrongWays(SOLUTIONS / "longer_and_faster" / "step29_triton", ModuleType("not_imported"))
    assert {"flash_forward", "attend"} <= set(ways.definitions)
    assert not GeneratedMistakes(ways, set).recorded()


def test_a_change_that_can_not_be_run_breaks_no_judge() -> None:
    """It answers every call with an error, which is no learner's."""
    step = next(step for step in solutions() if step.name == "step02_softmax")
    assert step.wrong_ways is not None
    change = ChangedText("dimension_left_out", "softmax", "def softmax(x, dim=missing):\n    return x\n", {})
    with pytest.raises(Unreadable, match="missing"):
        GeneratedMistakes(step.wrong_ways, set)._compiled(change, "softmax")["softmax"](1.0, dim=0)
