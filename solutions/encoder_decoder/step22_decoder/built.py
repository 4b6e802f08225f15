"""What a finished step shows: what a word of a translation may know, of the source and of itself."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import WIDTH, influence, vectors

SAYS = N_(
    "Your decoder block translates a sentence, one row for each word that it writes: how much it changes with each "
    "word of the source, and with each word written. The source is read whole, of what is written the past alone."
)


def built(own: ModuleType, words: list[str]) -> Picture:
    """How much each output changes with each word of either side."""
    block = own.DecoderBlock(WIDTH, 2, 4 * WIDTH, 0.0).eval()
    mask = torch.ones(len(words), len(words), dtype=torch.bool).tril()
    x = vectors(words)[None]
    panels = [
        (N_("source"), rounded(influence(lambda source: block(x, source, mask), words), 2)),
        (N_("written so far"), rounded(influence(lambda target: block(target, x, mask), words), 2)),
    ]
    return Matrices(panels=panels, rows=words, columns=words)
