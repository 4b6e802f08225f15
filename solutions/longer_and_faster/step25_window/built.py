"""What a finished step shows: attention through a window, read off its own answers."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import vectors

SAYS = N_(
    "Your window attention over a sentence: three words wide, then open to both sides with the first word global. "
    "What is empty costs nothing."
)
WINDOW = 3


def built(own: ModuleType, words: list[str]) -> Picture:
    """The weights: with one value for each word, and all others 0, they are what comes out."""
    x, each = vectors(words)[None, None], torch.eye(len(words))[None, None]
    causal = own.window_attention(x, x, each, WINDOW)[0, 0]
    both = own.window_attention(x, x, each, WINDOW, is_causal=False, num_global=1)[0, 0]
    panels = [(N_("causal"), rounded(causal, 2)), (N_("one global word"), rounded(both, 2))]
    return Matrices(panels=panels, rows=words, columns=words)
