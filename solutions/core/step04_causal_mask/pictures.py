"""The causal mask, and scores before and after it, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, Slider, rounded

WORDS = [N_("yesterday"), N_("our"), N_("very"), N_("old"), N_("black"), N_("cat"), N_("slept"), "."]
SIZES = range(2, len(WORDS) + 1)


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    draws = torch.Generator().manual_seed(4)
    scores = torch.randn(len(WORDS), len(WORDS), generator=draws) * 1.5
    frames = []
    for size in SIZES:
        mask = reference.causal_mask(size)
        weights = reference.masked_softmax(scores[:size, :size], mask)
        words = WORDS[:size]
        frames.append(
            [Matrices(panels=[(f"causal_mask({size})", mask.tolist())], rows=words, columns=words),
             Matrices(panels=[("scores", rounded(scores[:size, :size], 2))], rows=words, columns=words),
             Matrices(panels=[("weights", rounded(weights, 2))], rows=words, columns=words)]
        )  # fmt: skip
    return {"mask": Slider(label="tokens", values=[f"{size}" for size in SIZES], frames=frames, at=3)}
