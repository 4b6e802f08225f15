"""What a finished step shows: which words of a sentence a layer listens to."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import WIDTH, influence

SAYS = N_(
    "Your causal attention: how much what a word gets changes when another word is replaced. Later words change "
    "nothing."
)


def built(own: ModuleType, words: list[str]) -> Picture:
    """How much each output changes with each word."""
    layer = own.CausalAttention(WIDTH, WIDTH, len(words), 0.0).eval()
    panels = [(N_("change"), rounded(influence(layer, words), 2))]
    return Matrices(panels=panels, rows=words, columns=words)
