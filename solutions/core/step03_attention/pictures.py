"""The context as a weighted sum of values, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, Slider, WeightedSum, rounded

WORDS = [N_("cat"), N_("street"), N_("tired"), N_("it")]
VALUES = [[4.0, 0.0], [0.0, 3.0], [-2.0, 1.0], [1.0, -1.0]]


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    query = torch.tensor([[3.0, 0, 1, 0], [0, 3, 0, 1], [1, 0, 3, 0], [4, -1, 2, 0]])
    key = torch.eye(4) * 1.5
    context, weights = reference.attention(query, key, torch.tensor(VALUES))
    scores = rounded(query @ key.T / 2)
    shared = Matrices(panels=[("weights", rounded(weights, 2))], rows=WORDS, columns=WORDS, behind=[scores])
    frames = []
    for place in range(len(WORDS)):
        mixed = WeightedSum(
            panels=[("context", rounded(weights[place], 2))], labels=WORDS, values=VALUES,
            results=[rounded(context[place], 3)],
        )  # fmt: skip
        frames.append([shared, mixed])
    return {"mix": Slider(label="query", values=WORDS, frames=frames, at=3)}
