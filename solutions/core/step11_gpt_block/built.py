"""What a finished step shows: which words of a sentence a layer listens to."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import WIDTH, influence

SAYS = N_(
    "Your block: how much what stands at a word changes when another is replaced. The residual "
    "stream keeps the word itself largest."
)


def built(own: ModuleType, words: list[str]) -> Picture:
    """How much each output changes with each word."""
    layer = own.Block(WIDTH, 4, len(words)).eval()
    panels = [(N_("change"), rounded(influence(layer, words), 2))]
    return Matrices(panels=panels, rows=words, columns=words)
