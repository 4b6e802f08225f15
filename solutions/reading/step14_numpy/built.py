"""What a finished step shows: attention of a sentence to itself, in arrays alone."""

from types import ModuleType

import numpy as np

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import WIDTH, vectors

SAYS = N_(
    "Your NumPy attention over a sentence, open to both sides and causal: no torch, no loop, a few lines of arrays."
)


def built(own: ModuleType, words: list[str]) -> Picture:
    """The weights of every pair, without the future and with it."""
    x, same = vectors(words).numpy(), np.eye(WIDTH, dtype=np.float32)
    _output, whole = own.self_attention(x, same, same, same)
    _output, causal = own.causal_self_attention(x, same, same, same)
    panels = [("self_attention", rounded(whole, 2)), ("causal_self_attention", rounded(causal, 2))]
    return Matrices(panels=panels, rows=words, columns=words)
