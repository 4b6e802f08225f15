"""What a finished step shows: an image cut into patches, and put together in another order."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded

SAYS = N_(
    "An image cut by your patchify, and put together by your unpatchify with its patches shuffled. To a Transformer "
    "without positions both are the same."
)
SIDE, PATCH = 16, 4


def built(own: ModuleType) -> Picture:
    """A face, and what is left of it."""
    row, column = torch.meshgrid(*[torch.arange(SIDE) - (SIDE - 1) / 2] * 2, indexing="ij")
    far = (row**2 + column**2).sqrt()
    eyes = ((column.abs() - 2.5) ** 2 + (row + 2.5) ** 2) < 2
    mouth = ((row**2 + column**2).sqrt() - 4.5).abs().lt(0.8) & (row > 1)
    face = ((far - 7).abs().lt(0.9) | eyes | mouth).float()
    patches = own.patchify(face[None, None], PATCH)
    shuffled = own.unpatchify(patches[:, torch.randperm(patches.shape[1])], PATCH, SIDE, SIDE)
    panels = [(N_("cut"), rounded(face)), (N_("shuffled"), rounded(shuffled[0, 0]))]
    return Matrices(panels=panels, row="row", column="column", cut=(PATCH, PATCH))
