"""Attention under a window, some queries at a time."""

from collections.abc import Callable

import torch
from torch import Tensor

from solutions.longer_and_faster.step25_window.reference import may_attend

Allowed = Callable[[Tensor, Tensor, int, bool, int], Tensor]
Weigh = Callable[[Tensor, Tensor], Tensor]


def softmax_of_the_seen(scores: Tensor, mask: Tensor) -> Tensor:
    """The weights of scores of which the mask shows some."""
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)


def require(query: Tensor, key: Tensor, window: int) -> None:
    """What the contract refuses."""
    if query.shape[-2] != key.shape[-2] or window < 1:
        raise ValueError("unequal lengths, or no window")


def attended_in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    window: int,
    is_causal: bool,
    num_global: int,
    *,
    allowed: Allowed = may_attend,
    weigh: Weigh = softmax_of_the_seen,
    scale: float | None = None,
) -> Tensor:
    """Attention of `window` queries at a time to all keys; every misconception takes one decision in its own way."""
    require(query, key, window)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    positions = torch.arange(query.shape[-2], device=query.device)
    contexts = []
    for rows in positions.split(window):
        scores = query[..., rows, :] * scale @ key.transpose(-2, -1)
        contexts.append(weigh(scores, allowed(rows, positions, window, is_causal, num_global)) @ value)
    return torch.cat(contexts, dim=-2)
