"""What a finished step shows: the mask of a sentence, and the weights that it leaves."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import scores

SAYS = N_(
    "Your mask, and the weights that it leaves: a word sees itself and what comes before it. Because of it a GPT "
    "learns from every position of a text at once."
)


def built(own: ModuleType, words: list[str]) -> Picture:
    """The mask, and the weights under it."""
    mask = own.causal_mask(len(words))
    weights = own.masked_softmax(scores(words), mask)
    panels = [("mask", mask.tolist()), ("weights", rounded(weights, 2))]
    return Matrices(panels=panels, rows=words, columns=words)
