"""Turning pairs, and a dot product that knows the distance alone, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Arrows, Curves, Picture, Slider, Still, rounded

WIDTH, BASES = 6, (10.0, 100.0, 10_000.0)
PLACES, STARTS, FAR = 7, (0, 100), 40


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    values = [f"{base:g}" for base in BASES]
    turns = [[_turns(reference, base)] for base in BASES]
    distance = [[_distance(reference, base)] for base in BASES]
    return {
        "turns": Slider(label=N_("base"), values=values, frames=turns, at=1),
        "distance": Slider(label=N_("base"), values=values, frames=distance, at=1),
    }


def _turns(reference: ModuleType, base: float) -> Still:
    x = torch.tensor([1.0, 0.0]).repeat(PLACES, WIDTH // 2)
    turned = rounded(reference.apply_rotary(x, base=base))
    panels = [
        (f"[:, {column}:{column + 2}]", [[(row[column], row[column + 1]) for row in turned]])
        for column in range(0, WIDTH, 2)
    ]
    return Arrows(panels=panels, names=["apply_rotary"], labels=[str(place) for place in range(PLACES)])


def _distance(reference: ModuleType, base: float) -> Still:
    scores = [[_score(reference, start, start + gap, base) for gap in range(FAR)] for start in STARTS]
    names = [f"m = {start}" for start in STARTS]
    return Curves(x=[float(gap) for gap in range(FAR)], panels=[("q · k", scores)], names=names, across="n − m")


def _score(reference: ModuleType, m: int, n: int, base: float) -> float:
    """The dot product of the same query at position m and the same key at position n."""
    query, key = reference.apply_rotary(torch.ones(2, 16), torch.tensor([m, n]), base=base)
    return float(rounded(float(query @ key)))
