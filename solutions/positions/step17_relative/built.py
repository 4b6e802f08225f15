"""What a finished step shows: the bias that makes what is far away count less."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded

SAYS = N_(
    "Your ALiBi bias over a sentence: the farther back a word is, the more is taken from its score, in each head "
    "at another rate."
)


def built(own: ModuleType, words: list[str]) -> Picture:
    """Two heads of four."""
    bias = own.alibi_bias(4, len(words))
    panels = [(f"head {head}", rounded(bias[head], 2)) for head in (0, 3)]
    return Matrices(panels=panels, rows=words, columns=words)
