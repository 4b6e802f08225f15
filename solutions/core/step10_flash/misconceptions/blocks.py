"""Flash attention block by block, cut into pieces, so that each misconception replaces one of them."""

from typing import Any

import torch
from torch import Tensor

from solutions.core.step10_flash import reference

Sums = tuple[Tensor, Tensor, Tensor]  # of the blocks so far: each row's maximum, its denominator and its context


def hide_future(scores: Tensor, rows: slice, columns: slice, fill: float = -torch.inf) -> Tensor:
    """Scores with the future at -inf, or another number."""
    return scores.masked_fill(reference.future(rows, columns, scores.device), fill)


def blocks(length: int, block_size: int) -> list[slice]:
    """A slice for each block, the last one cut at the length."""
    return [slice(first, min(first + block_size, length)) for first in range(0, length, block_size)]


class Flash:
    """One call of `flash_attention`; `context` gives what it returns."""

    start = -torch.inf  # the maximum before the first block
    fill = -torch.inf
    skip_future = True

    def __init__(
        self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
    ) -> None:
        self.query, self.key, self.value = query, key, value
        self.is_causal, self.block_size = is_causal, block_size

    def check(self) -> None:
        if self.is_causal and self.query.shape[-2] != self.key.shape[-2]:
            raise ValueError("is_causal needs as many queries as keys")

    def scale(self) -> float:
        return self.query.shape[-1] ** -0.5

    def wide(self) -> torch.dtype:
        """In which sums are added up."""
        return torch.promote_types(self.query.dtype, torch.float32)

    def key_blocks(self) -> list[slice]:
        return blocks(self.key.shape[-2], self.block_size)

    def is_skipped(self, rows: slice, columns: slice) -> bool:
        """Whether this block of keys and all after it are not looked at."""
        return self.skip_future and columns.start >= rows.stop

    def hidden(self, scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return hide_future(scores, rows, columns, self.fill)

    def grown(self, maximum: Tensor, scores: Tensor) -> Tensor:
        """The maximum of each row, over all the blocks so far."""
        return torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))

    def rescale(self, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """What context and denominator are multiplied by when the maximum grows."""
        factor = torch.exp(old - new)
        return factor, factor

    def added(self, sums: Sums, scores: Tensor, value: Tensor) -> Sums:
        """The sums with one block more."""
        maximum, denominator, context = sums
        new_maximum = self.grown(maximum, scores)
        for_context, for_denominator = self.rescale(maximum, new_maximum)
        weights = torch.exp(scores - new_maximum)
        denominator = denominator * for_denominator + weights.sum(dim=-1, keepdim=True)
        return new_maximum, denominator, context * for_context + weights @ value

    def divided(self, context: Tensor, denominator: Tensor) -> Tensor:
        return context / denominator

    def of_rows(self, rows: slice) -> Tensor:
        """The context of one block of queries."""
        wide = self.wide()
        query = self.query[..., rows, :].to(wide) * self.scale()
        maximum = query.new_full((*query.shape[:-1], 1), self.start)
        sums = maximum, torch.zeros_like(maximum), query.new_zeros((*query.shape[:-1], self.value.shape[-1]))
        for columns in self.key_blocks():
            if self.is_causal and self.is_skipped(rows, columns):
                break
            scores = query @ self.key[..., columns, :].to(wide).transpose(-2, -1)
            if self.is_causal:
                scores = self.hidden(scores, rows, columns)
            sums = self.added(sums, scores, self.value[..., columns, :].to(wide))
        _maximum, denominator, context = sums
        return self.divided(context, denominator)

    def context(self) -> Tensor:
        self.check()
        contexts = [self.of_rows(rows) for rows in blocks(self.query.shape[-2], self.block_size)]
        return torch.cat(contexts, dim=-2).to(self.query.dtype)


def by_blocks(*parts: type) -> dict[str, Any]:
    """`flash_attention` with the pieces that are wrong in these."""
    made = type("Flash", parts, {})

    def flash_attention(*given: Any, **named: Any) -> Tensor:
        return made(*given, **named).context()

    return {"flash_attention": flash_attention}
