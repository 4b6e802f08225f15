"""What a finished step shows: which words of a sentence a layer listens to."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import WIDTH, influence

SAYS = N_(
    "Your encoder block: how much what stands at a word changes when another is replaced. No mask: what comes later "
    "counts as well, and that is what an encoder is for."
)


def built(own: ModuleType, words: list[str]) -> Picture:
    """How much each output changes with each word."""
    block = own.TransformerBlock(WIDTH, 2, 4 * WIDTH, 0.0).eval()
    panels = [(N_("change"), rounded(influence(lambda x: block(x)[0], words), 2))]
    return Matrices(panels=panels, rows=words, columns=words)
