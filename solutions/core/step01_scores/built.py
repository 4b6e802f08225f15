"""What a finished step shows: how well the words of a sentence fit each other."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import vectors

SAYS = N_("The scores of your sentence: each word has a vector drawn for it, and a word fits itself best.")


def built(own: ModuleType, words: list[str]) -> Picture:
    """The scores of every pair."""
    x = vectors(words)
    return Matrices(panels=[("scores", rounded(own.scaled_scores(x, x), 2))], rows=words, columns=words)
