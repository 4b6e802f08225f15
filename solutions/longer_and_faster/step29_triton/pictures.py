"""Blocks that stick out of the tensor, and what the masked places would do to the weights, for the lesson's page.

The weights come from step 3's reference: Triton, which this step's needs, is not everywhere.
"""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Bars, Grid, Matrices, Picture, Slider, rounded

from ...core.step03_attention import reference as attention

TOKENS = 11
BLOCKS = (2, 4, 8, 16)


def pictures(_reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    query, key = torch.randn(1, 4), torch.randn(TOKENS, 4)
    frames = []
    for block in BLOCKS:
        whole = -(-TOKENS // block) * block
        read: Grid = [[row < TOKENS and column < TOKENS for column in range(whole)] for row in range(whole)]
        padded = torch.cat([key, torch.zeros(whole - TOKENS, 4)])
        there = torch.arange(whole) < TOKENS
        values = there[:, None].float()
        shares = [float(attention.attention(query, padded, values, mask)[0]) for mask in (there, None)]
        labels = [N_("masked: minus infinity"), N_("read as 0, not masked")]
        frames.append(
            [Matrices(panels=[(N_("places that exist"), read)], cut=(block, block)),
             Bars(panels=[(N_("weight on keys that exist"), [rounded(shares, 3)])], labels=labels, most=1.0)]
        )  # fmt: skip
    return {"blocks": Slider(label=N_("size of a block"), values=[f"{block}" for block in BLOCKS], frames=frames, at=1)}
