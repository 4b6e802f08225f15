"""Files of a submission that a browser, an editor or a learning platform has renamed: finds the step that each one
answers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from grader.base.paths import STEP_NAME

# Suffixes added to a name that is taken: step02_softmax-1, step03_attention (1), step04_causal_mask - Copy, … Prefixes
# are added by platforms: jdoe_LATE_123_456_step02_softmax-1.
ADDED = re.compile(
    r"(?:[ _-]*(?:\(\d{1,3}\)|[ _-]\d{1,3}|copy|final|new|old|v\d|복사본|사본|최종)|[ _-]+)*", re.IGNORECASE
)


def step_meant(stem: str, steps: Iterable[str]) -> str | None:
    """The one step whose name is part of a file's name; None where there is none, or more than one."""
    lowered = stem.lower()
    found = [step for step in steps if (place := lowered.rfind(step)) >= 0 and _only_added(lowered, place, step)]
    return max(found, key=len) if found else None


def _only_added(name: str, place: int, step: str) -> bool:
    before = name[:place]
    return (not before or not before[-1].isalnum()) and ADDED.fullmatch(name, place + len(step)) is not None


def by_step(names: Iterable[str], steps: Iterable[str]) -> dict[str, list[str]]:
    """The renamed `.py` files among these names, by the step that each one answers, in order."""
    known = list(steps)
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        stem, dot, ending = name.rpartition(".")
        if not dot or ending.lower() != "py" or (STEP_NAME.fullmatch(stem) and stem in known and ending == "py"):
            continue
        if step := step_meant(stem, known):
            found[step].append(name)
    return dict(found)
