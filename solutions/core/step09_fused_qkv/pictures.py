"""Three matrices in one, and what one product gives, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, Sheet, rounded

TOKENS, WIDTH = 4, 2


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    matrices = torch.randint(-2, 3, (3, WIDTH, WIDTH)).float()
    x = torch.randint(-2, 3, (TOKENS, WIDTH)).float()
    fused = reference.fuse_qkv(*matrices)
    names = ["W_query", "W_key", "W_value"]
    axes = {"row": "row", "column": "column"}
    return {
        "fused": Sheet(
            stills=[
                Matrices(panels=[(name, rounded(one)) for name, one in zip(names, matrices, strict=True)], **axes),
                Matrices(panels=[("fuse_qkv", rounded(fused))], cut=(WIDTH, 0), **axes),
                Matrices(panels=[("x", rounded(x))], row="token", column="column"),
                Matrices(panels=[(N_("one product: query, key, value"), rounded(x @ fused.T))], cut=(0, WIDTH),
                         row="token", column="column"),
            ]
        )
    }  # fmt: skip
