"""An image cut into patches of several sizes, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, Slider, rounded

SIDE = 8
SIZES = (1, 2, 4, 8)


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    place = torch.arange(SIDE) - (SIDE - 1) / 2
    far = (place[:, None] ** 2 + place**2).sqrt()
    ring = (1 - (far - 2.6).abs() / 2).clamp(0, 1)  # a bright ring on a dark ground
    frames = []
    for size in SIZES:
        patches = reference.patchify(ring[None, None], size)[0]
        frames.append(
            [Matrices(panels=[(N_("image"), rounded(ring, 1))], row="row", column="column", cut=(size, size)),
             Matrices(panels=[(f"patchify: {tuple(patches.shape)}", rounded(patches, 1))], row=N_("patch"),
                      column=N_("number"))]
        )  # fmt: skip
    return {"patches": Slider(label="patch_size", values=[f"{size}" for size in SIZES], frames=frames, at=1)}
