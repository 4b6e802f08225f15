"""Flash attention block by block, with the decisions that misconceptions take otherwise."""

from collections.abc import Callable

import torch
from torch import Tensor

from solutions.core.step10_flash import reference


def mask(scores: Tensor, rows: slice, columns: slice) -> Tensor:
    """Scores with the future at -inf."""
    return scores.masked_fill(reference.future(rows, columns, scores.device), -torch.inf)


def blocks(length: int, block_size: int) -> list[slice]:
    """A slice for each block, the last one cut at the length."""
    return [slice(first, min(first + block_size, length)) for first in range(0, length, block_size)]


def maximum_so_far(maximum: Tensor, scores: Tensor) -> Tensor:
    """The maximum of each row, over all the blocks so far."""
    return torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))


def _rescale(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """What context and denominator are multiplied by when the maximum grows."""
    factor = torch.exp(old - new)
    return factor, factor


def flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: bool,
    block_size: int,
    *,
    start: float = -torch.inf,
    grow: Callable[[Tensor, Tensor], Tensor] = maximum_so_far,
    rescale: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = _rescale,
    hide: Callable[[Tensor, slice, slice], Tensor] = mask,
    key_blocks: Callable[[int, int], list[slice]] = blocks,
    skip_future: bool = True,
    scale: float | None = None,
    wide: torch.dtype | None = None,
    check_lengths: bool = True,
    divide: bool = True,
) -> Tensor:
    """Attention by blocks; every misconception below takes one of these decisions in its own way."""
    if check_lengths and is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")
    wide = wide or torch.promote_types(query.dtype, torch.float32)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    contexts = []
    for rows in blocks(query.shape[-2], block_size):
        query_block = query[..., rows, :].to(wide) * scale
        maximum = query_block.new_full((*query_block.shape[:-1], 1), start)
        denominator = torch.zeros_like(maximum)
        context = query_block.new_zeros((*query_block.shape[:-1], value.shape[-1]))
        for columns in key_blocks(key.shape[-2], block_size):
            if is_causal and skip_future and columns.start >= rows.stop:
                break
            scores = query_block @ key[..., columns, :].to(wide).transpose(-2, -1)
            if is_causal:
                scores = hide(scores, rows, columns)
            new_maximum = grow(maximum, scores)
            for_context, for_denominator = rescale(maximum, new_maximum)
            weights = torch.exp(scores - new_maximum)
            denominator = denominator * for_denominator + weights.sum(dim=-1, keepdim=True)
            context = context * for_context + weights @ value[..., columns, :].to(wide)
            maximum = new_maximum
        contexts.append(context / denominator if divide else context)
    return torch.cat(contexts, dim=-2).to(query.dtype)
