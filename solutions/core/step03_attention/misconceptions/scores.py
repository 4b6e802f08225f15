"""What the scores of step 3 are."""

import math

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]


def scaled(query: Tensor, key: Tensor) -> Tensor:
    """The scaled scores."""
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def hidden(scores: Tensor, mask: Tensor | None, fill: float = -torch.inf) -> Tensor:
    """The scores with the hidden ones filled."""
    return scores if mask is None else scores.masked_fill(~mask, fill)
