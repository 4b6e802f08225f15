"""What a finished step shows: who attends to whom in a sentence."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import vectors

SAYS = N_(
    "Your attention over a sentence. Nothing is trained yet, so that a word attends most to itself and to its like."
)


def built(own: ModuleType, words: list[str]) -> Picture:
    """The weights of every pair."""
    x = vectors(words)
    _context, weights = own.attention(x, x, x)
    return Matrices(panels=[("weights", rounded(weights, 2))], rows=words, columns=words)
