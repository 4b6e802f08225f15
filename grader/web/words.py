"""The input for pictures of finished steps: a vector for each word of a sentence."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import torch
from torch import Tensor

WIDTH = 16


def vectors(words: list[str], width: int = WIDTH) -> Tensor:
    """A vector for each word, drawn for it alone: (words, width). The same word has the same one everywhere."""
    drawn = []
    for word in words:
        draws = torch.Generator().manual_seed(zlib.crc32(word.encode()))
        drawn.append(torch.randn(width, generator=draws))
    return torch.stack(drawn)


def scores(words: list[str]) -> Tensor:
    """The scaled dot products of every pair of words: (words, words)."""
    x = vectors(words)
    return torch.div(x @ x.T, WIDTH**0.5)


def influence(layer: Callable[[Tensor], Tensor], words: list[str]) -> Tensor:
    """The change of `layer`'s output at each word (rows) if another word replaces one (columns), as a norm: (words,
    words)."""
    x = vectors(words)
    before = layer(x[None])[0]
    changes = []
    for index, word in enumerate(words):
        other = x.clone()
        other[index] = vectors([word + "?"])[0]
        changes.append((layer(other[None])[0] - before).norm(dim=-1))
    return torch.stack(changes, dim=1)
