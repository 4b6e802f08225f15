"""What is made in many steps: each edit fits a reference, and the file that it makes is refused and named."""

from __future__ import annotations

import pytest

from grader.base import mistakes
from grader.base.paths import step_folders
from grader.oracle.live import solutions
from grader.oracle.wrong_ways import Text
from tests.clinic import Clinic
from tests.whole import sample

STEPS = {step.name: step for step in solutions()}
FITTING = {  # a helper of the reference's own is no name that is diagnosed
    entry: (folder.name, "" if name in Text(folder).helpers else name)
    for folder in step_folders()
    if not STEPS[folder.name].lacking
    for name in sorted(Text(folder).definitions)
    for entry, _text in Text(folder).of_many_steps(name)
}


def test_each_fits_a_reference() -> None:
    edited = {name for name, entry in mistakes.of_many_steps().entries.items() if entry.ways}
    assert edited == FITTING.keys()


@pytest.mark.parametrize("entry", sample(sorted(entry for entry in FITTING if FITTING[entry][1]), 12))
def test_it_is_refused_and_named(entry: str) -> None:
    """By its own name, or by that of a step's own mistake with the same answers."""
    step, name = STEPS[FITTING[entry][0]], FITTING[entry][1]
    wrong = next(wrong for wrong in step.generated(name) if wrong.called == entry)
    assert Clinic(step).diagnosis(wrong.replaced, 1, generated=True)
