"""What a finished step shows: where the words of a caption look in an image."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import WIDTH, vectors

SAYS = N_(
    "Your captioning model reads a sentence over an image of five regions. The last is not there, and nobody looks at "
    "it. Nothing is trained yet; the lab teaches it where to look."
)
REGIONS = 5
LOUDER = 4.0  # random weights are near each other


def built(own: ModuleType, words: list[str]) -> Picture:
    """The weights of each head."""
    model = own.ImageCaptioning(len(words), WIDTH, 2, 1, 2 * WIDTH, WIDTH, len(words), 0.0).eval()
    features = LOUDER * vectors([f"region {number}" for number in range(REGIONS)])
    there = torch.arange(REGIONS)[None] < REGIONS - 1
    _logits, weights = model(features[None], torch.arange(len(words))[None], there)
    panels = [(f"head {head}", rounded(weights[0, head], 2)) for head in range(2)]
    return Matrices(panels=panels, rows=words, row=N_("word"), column=N_("region"))
