"""Mistakes that learners make together in step 10."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.checks.catalogue import together
from solutions.core.step10_flash.misconceptions.blocks import flash, mask
from solutions.core.step10_flash.misconceptions.flash_attention import (
    context_not_rescaled,
    denominator_not_rescaled,
    each_block_its_own_maximum,
    no_maximum,
    not_scaled,
)
from solutions.core.step10_flash.misconceptions.flash_attention_causal import (
    diagonal_blocks_not_masked,
    future_seen_outside_diagonal_blocks,
    is_causal_ignored,
    unequal_lengths_accepted,
)
from solutions.core.step10_flash.misconceptions.flash_attention_memory import whole_matrix_made

BLOCKS = {
    context_not_rescaled: {"rescale": lambda old, new: (torch.ones_like(new), torch.exp(old - new))},
    denominator_not_rescaled: {
        "rescale": lambda old, new: (torch.exp(old - new), torch.where(old == -torch.inf, 0.0, 1.0).to(new.dtype))
    },
    each_block_its_own_maximum: {
        "grow": lambda maximum, scores: scores.amax(dim=-1, keepdim=True),
        "rescale": lambda old, new: (torch.ones_like(new), torch.ones_like(new)),
    },
    no_maximum: {"start": 0.0, "grow": lambda maximum, scores: maximum},
}
CAUSES: dict[Callable[..., object], dict[str, Any]] = {
    is_causal_ignored: {"hide": lambda scores, rows, columns: scores, "skip_future": False},
    diagonal_blocks_not_masked: {"hide": lambda scores, rows, columns: scores},
    future_seen_outside_diagonal_blocks: {
        "hide": lambda scores, rows, columns: mask(scores, rows, columns) if rows.start == columns.start else scores,
        "skip_future": False,
    },
}
UNSCALED: dict[Callable[..., object], dict[str, Any]] = {not_scaled: {"scale": 1.0}}


def _both(first: dict[str, Any], second: dict[str, Any]) -> object:
    def flash_attention(
        query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
    ) -> Tensor:
        return flash(query, key, value, is_causal, block_size, **first, **second)

    return flash_attention


def _naive(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """The whole matrix, for any lengths."""
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    if is_causal:
        scores = mask(scores, slice(0, query.shape[-2]), slice(0, key.shape[-2]))
    return torch.softmax(scores, dim=-1) @ value


PAIRS = [
    *together(UNSCALED, BLOCKS, _both),
    *together(UNSCALED, CAUSES, _both),
    *together(BLOCKS, CAUSES, _both),
    *together({whole_matrix_made: None}, {unequal_lengths_accepted: None}, lambda _matrix, _lengths: _naive),
]
