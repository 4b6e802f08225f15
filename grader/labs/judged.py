"""The conclusions that a lab's figures support: one of the numbered answers, and points of its text.

A point under "What to see" that states a result starts with `<!-- if NAME -->`, and is shown if the figures have NAME.
A run that was too short for it says so, with the command that is long enough.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from grader.course.lab_log import CONDITION

POINT = re.compile(r"^(?=- )", re.MULTILINE)


@dataclass(frozen=True)
class LabVerdict:
    """The number of the answer that the figures support, 0 if undecided; the figures in a sentence; and by name, the
    results that they show."""

    answer: int = 0
    because: str = ""
    shows: Mapping[str, bool] = field(default_factory=dict)


def first_that(holds: Mapping[int, bool]) -> int:
    """The number of the answer that holds, of those in `holds`; 0 if none does, or more than one."""
    numbers = [number for number, it_does in holds.items() if it_does]
    return numbers[0] if len(numbers) == 1 else 0


def points(to_see: str, shows: Mapping[str, bool] | None = None) -> tuple[str, int]:
    """The text under "What to see", Markdown: without the conditions of its points, and without those points that the
    figures do not show; and the number of these. `shows` has the results of the run by name; None: all points stay."""
    shown, left_out = [], 0
    for point in POINT.split(to_see):
        condition = CONDITION.search(point)
        if condition and shows is not None and not shows.get(condition[1], False):
            left_out += 1
            if rest := point.partition("\n\n")[2]:  # what follows the list
                shown.append(f"\n{rest}")
        else:
            shown.append(CONDITION.sub("", point))
    return "".join(shown).strip(), left_out
