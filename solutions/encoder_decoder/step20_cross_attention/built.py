"""What a finished step shows: words that look for themselves in another sequence, and padding that nobody sees."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import WIDTH, vectors

SAYS = N_(
    "Your words ask another sequence: themselves in reverse, and padding behind. Each finds its own again, and under "
    "your mask the padding gets nothing."
)
PADDING = ["<pad>"] * 2
CLEAR = 1.4  # queries and keys are the words, this much longer


def built(own: ModuleType, words: list[str]) -> Picture:
    """The weights of the first head."""
    others = [*reversed(words), *PADDING]
    layer = own.MultiHeadAttention(WIDTH, 1, 0.0).eval()
    for projection in (layer.W_q, layer.W_k):
        projection.weight.copy_(CLEAR * torch.eye(WIDTH))
    mask = own.padding_mask(torch.tensor([[int(word in PADDING) for word in others]]), 1)
    memory = vectors(others)[None]
    _output, weights = layer(vectors(words)[None], memory, memory, mask)
    return Matrices(panels=[("head 0", rounded(weights[0, 0], 2))], rows=words, columns=others)
