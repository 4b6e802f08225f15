"""Turning pairs, and a dot product that knows the distance alone, for the lesson's page."""

from types import ModuleType

import torch

from grader.report.pictures import Arrows, Curves, Picture

WIDTH, BASE = 6, 100.0
PLACES, STARTS, FAR = 7, (0, 100), 40


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    x = torch.tensor([1.0, 0.0]).repeat(PLACES, WIDTH // 2)
    turned = reference.apply_rotary(x, base=BASE).tolist()
    panels = [
        (f"[:, {column}:{column + 2}]", [[(row[column], row[column + 1]) for row in turned]])
        for column in range(0, WIDTH, 2)
    ]
    arrows = Arrows(panels=panels, names=["apply_rotary"], labels=[str(place) for place in range(PLACES)])
    scores = [[_score(reference, start, start + gap) for gap in range(FAR)] for start in STARTS]
    gaps = [float(gap) for gap in range(FAR)]
    names = [f"m = {start}" for start in STARTS]
    return {"turns": arrows, "distance": Curves(x=gaps, panels=[("q · k", scores)], names=names, across="n − m")}


def _score(reference: ModuleType, m: int, n: int) -> float:
    """The dot product of the same query at position m and the same key at position n."""
    both = torch.ones(2, 16)
    query, key = reference.apply_rotary(both, torch.tensor([m, n]), base=BASE)
    return float(query @ key)
