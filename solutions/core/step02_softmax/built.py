"""What a finished step shows: weights for a sentence."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import scores

SAYS = N_("Your softmax turns the scores of a sentence into weights: each row sums to 1.")


def built(own: ModuleType, words: list[str]) -> Picture:
    """The weights of every pair."""
    return Matrices(panels=[("weights", rounded(own.softmax(scores(words)), 2))], rows=words, columns=words)
