"""What a finished step shows: the waves of a rotary embedding."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Curves, Picture, rounded

SAYS = N_(
    "Your rotary waves: the same vector, turned further at each position. Early pairs turn fast, late pairs slowly."
)
POSITIONS, WIDTH = 60, 8


def built(own: ModuleType) -> Picture:
    """The first number of each pair over the positions."""
    x = torch.tensor([1.0, 0.0]).repeat(POSITIONS, WIDTH // 2)
    turned = own.apply_rotary(x, base=100.0)
    columns = range(0, WIDTH, 2)
    names = [f"[:, {column}]" for column in columns]
    places = [float(place) for place in range(POSITIONS)]
    panel = ("apply_rotary", [rounded(turned[:, column]) for column in columns])
    return Curves(x=places, panels=[panel], names=names, across="position")
