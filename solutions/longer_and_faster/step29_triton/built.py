"""What a finished step shows: attention of a sentence by a kernel, read off its own answers."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import WIDTH, vectors

SAYS = N_(
    "Your kernel over a sentence: the weights of a softmax, read off its answers. It never writes the matrix of all "
    "pairs to memory."
)


def built(own: ModuleType, words: list[str]) -> Picture:
    """The weights: with one value for each word, and all others 0, they are what comes out."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = vectors(words)[None, None].to(device)
    each = torch.eye(len(words), WIDTH, device=device)[None, None]
    panels = []
    for title, is_causal in ((N_("every word"), False), (N_("causal"), True)):
        weights, _sums = own.flash_forward(x, x, each, is_causal=is_causal, block_q=16, block_k=16)
        panels.append((title, rounded(weights[0, 0, :, : len(words)].cpu(), 2)))
    return Matrices(panels=panels, rows=words, columns=words)
