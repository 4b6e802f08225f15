"""What a finished step shows: the weights of linear attention, read off its own answers, beside those of a softmax."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import scores, vectors

SAYS = N_(
    "Your linear attention over a sentence, beside a softmax: it needs no matrix of all pairs, and pays with weights "
    "that are less sharp."
)


def built(own: ModuleType, words: list[str]) -> Picture:
    """The weights: with one value for each word, and all others 0, they are what comes out."""
    x, each = vectors(words)[None, None], torch.eye(len(words))[None, None]
    linear = own.linear_attention(x, x, each, is_causal=True)[0, 0]
    hidden = torch.ones(len(words), len(words), dtype=torch.bool).triu(1)
    sharp = scores(words).masked_fill(hidden, -torch.inf).softmax(-1)
    panels = [("linear_attention", rounded(linear, 2)), ("softmax", rounded(sharp, 2))]
    return Matrices(panels=panels, rows=words, columns=words)
