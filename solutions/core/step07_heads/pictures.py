"""Columns that become heads, and what a bare reshape would do instead, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, Slider, rounded

TOKENS, WIDTH = 3, 6
HEADS = (1, 2, 3, 6)


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    x = (torch.arange(1, TOKENS + 1)[:, None] * 10 + torch.arange(WIDTH)).float()
    frames = []
    for heads in HEADS:
        split = reference.split_heads(x[None], heads)[0]
        bare = x.reshape(heads, TOKENS, WIDTH // heads)
        moved = [[tuple(place) for place in (a != b).nonzero().tolist()] for a, b in zip(split, bare, strict=True)]
        frames.append(
            [Matrices(panels=[("x", rounded(x))], row="token", column="column", cut=(0, WIDTH // heads)),
             Matrices(panels=[(f"head {head}", rounded(one)) for head, one in enumerate(split)],
                      row="token", column="column"),
             Matrices(panels=[(f"reshape {head}", rounded(one)) for head, one in enumerate(bare)],
                      row="token", column="column", differs=moved)]
        )  # fmt: skip
    return {"heads": Slider(label=N_("number of heads"), values=[f"{heads}" for heads in HEADS], frames=frames, at=1)}
