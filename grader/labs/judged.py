"""The conclusions that a lab's figures support: one of the numbered answers, and points of its text.

A point under "What to see" that states a result starts with `<!-- if NAME -->`, and is shown if the figures have NAME.
A run that was too short for it says so, with the command that is long enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grader.base.language import gettext as _
from grader.course.lab_log import CONDITION

if TYPE_CHECKING:
    from grader.labs.lab import Lab, LabRun

POINT = re.compile(r"^(?=- )", re.MULTILINE)
LONGER = 2.5  # times the usual time: enough on a slow machine


@dataclass(frozen=True)
class Judged:
    """The number of the answer that the figures bear out, 0 if they don't tell; the figures in a sentence; and by
    name, which results they show."""

    answer: int = 0
    because: str = ""
    shows: Mapping[str, bool] = field(default_factory=dict)


def first_that(holds: Mapping[int, bool]) -> int:
    """The number of the answer that holds; 0 if none does, or more than one."""
    numbers = [number for number, it_does in holds.items() if it_does]
    return numbers[0] if len(numbers) == 1 else 0


def points(to_see: str, shows: Mapping[str, bool] | None = None) -> tuple[str, int]:
    """The text under "What to see" without its conditions, and how many of its points are left out since the figures
    do not show them; without figures, all of it."""
    kept, left_out = [], 0
    for point in POINT.split(to_see):
        condition = CONDITION.search(point)
        if condition and shows is not None and not shows.get(condition[1], False):
            left_out += 1
            if rest := point.partition("\n\n")[2]:  # what follows the list
                kept.append(f"\n{rest}")
        else:
            kept.append(CONDITION.sub("", point))
    return "".join(kept).strip(), left_out


def longer(lab: Lab) -> str:
    """The command of a run that is long enough."""
    return f"make lab NAME={lab.name} SECONDS={lab.module.SECONDS * LONGER:.0f}"


def of_run(outcome: LabRun) -> Judged:
    """The conclusions from the figures of a run; nothing if there are none."""
    results = outcome.bench.results
    if not results.rows:
        return Judged()
    judge: Callable[..., Judged] = outcome.lab.module.judged
    return judge(results)


def answered(outcome: LabRun, judged: Judged) -> list[str]:
    """Whether the prediction was right, and why."""
    if not judged.answer:
        sentence = _("This run does not tell which answer is right. Long enough: {command}")
        return [sentence.format(command=longer(outcome.lab))]
    measured = outcome.lesson.answers[judged.answer - 1]
    if outcome.prediction not in outcome.lesson.answers:
        return [_("Measured: {answer}").format(answer=measured), judged.because]
    if outcome.prediction == measured:
        return [_("Your prediction was right."), judged.because]
    return [_("It was otherwise. Measured: {answer}").format(answer=measured), judged.because]


def to_see(outcome: LabRun, judged: Judged) -> tuple[str, str]:
    """The points to see in this run, as Markdown; and how to see those that it does not show, empty if it shows all."""
    text, left_out = points(outcome.lesson.to_see, judged.shows)
    if not left_out:
        return text, ""
    sentence = _("Points of this lab that do not show in this run: {count}. A longer run: {command}")
    return text, sentence.format(count=left_out, command=longer(outcome.lab))
