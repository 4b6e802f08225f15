"""What a finished step shows: weights of which a part was dropped."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import scores

SAYS = N_("Your dropout with p = 0.3 on the weights of a sentence: what is left is larger by 1 / 0.7.")


def built(own: ModuleType, words: list[str]) -> Picture:
    """The weights before and after."""
    weights = scores(words).softmax(-1)
    panels = [(N_("before"), rounded(weights, 2)), (N_("after"), rounded(own.dropout(weights, 0.3), 2))]
    return Matrices(panels=panels, rows=words, columns=words)
