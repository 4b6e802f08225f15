"""Dot products as a grid, and how their spread grows with the width, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, Sheet, Slider, rounded

WIDTHS = (1, 4, 16, 64, 256, 1024)
TOKENS = 6
WRITTEN = 64  # numbers of a query: the sums of longer ones are not shown


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    return {"grid": by_hand(reference), "spread": spread(reference)}


def by_hand(reference: ModuleType) -> Sheet:
    """The numbers that the lesson works out."""
    query = torch.tensor([[1.0, 0, 2, 1], [0, 1, 1, 2]])
    key = torch.tensor([[1.0, 1, 0, 1], [2, 0, 1, 0], [0, 3, 1, 1]])
    scores = rounded(reference.dot_product_scores(query, key))
    scaled = rounded(reference.scaled_scores(query, key))
    return Sheet(
        stills=[
            Matrices(panels=[("query", rounded(query))], row="query", column="column"),
            Matrices(panels=[("key", rounded(key))], row="key", column="column"),
            Matrices(panels=[("dot_product_scores", scores), ("scaled_scores", scaled)]),
        ]
    )


def spread(reference: ModuleType) -> Slider:
    """Drawn queries and keys of several widths, before and after the division."""
    frames = []
    for width in WIDTHS:
        query, key = torch.randn(2, TOKENS, width)
        raw, scaled = reference.dot_product_scores(query, key), reference.scaled_scores(query, key)
        behind = [rounded(query), rounded(key)] if width <= WRITTEN else []
        frames.append(
            [Matrices(panels=[("query · key", rounded(raw))], behind=behind),
             Matrices(panels=[("query · key / √d", rounded(scaled))])]
        )  # fmt: skip
    return Slider(label=N_("width d"), values=[f"{width}" for width in WIDTHS], frames=frames, at=3)
