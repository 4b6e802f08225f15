"""`RelativeSelfAttention` cut into pieces, and ALiBi with another bias."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from solutions.core.step07_heads.reference import merge_heads, split_heads
from solutions.positions.step17_relative import reference

Device = torch.device | str | None
Names = dict[str, object]


class Pieces(reference.RelativeSelfAttention):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    rows: Callable[..., Tensor] = staticmethod(reference.relative_positions)

    def split(self, x: Tensor) -> Tensor:
        return split_heads(x, self.num_heads)

    def content(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)

    def key_vectors(self, index: Tensor) -> Tensor:
        return self.relative_key(index)

    def value_vectors(self, index: Tensor) -> Tensor:
        return self.relative_value(index)

    def position(self, query: Tensor, key: Tensor, vectors: Tensor) -> Tensor:
        return torch.einsum("bhid,ijd->bhij", query, vectors)

    def scores(self, content: Tensor, position: Tensor, d: int) -> Tensor:
        return (content + position) / math.sqrt(d)

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(dim=-1)

    def context(self, weights: Tensor, value: Tensor, vectors: Tensor) -> Tensor:
        return weights @ value + torch.einsum("bhij,ijd->bhid", weights, vectors)

    def merged(self, context: Tensor) -> Tensor:
        return merge_heads(context)

    def output(self, merged: Tensor) -> Tensor:
        return self.out_proj(merged)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        index = self.rows(x.shape[1], self.max_distance, device=x.device)
        position = self.position(query, key, self.key_vectors(index))
        weights = self.weights(self.scores(self.content(query, key), position, query.shape[-1]), mask)
        return self.output(self.merged(self.context(weights, value, self.value_vectors(index))))


def distances(num_tokens: int, device: Device) -> Tensor:
    """j - i, (T, T)."""
    position = torch.arange(num_tokens, device=device)
    return position[None, :] - position[:, None]


def attention_with(bias: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """ALiBi's attention with another bias."""

    def alibi_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        added = bias(query.shape[1], query.shape[2], device=query.device).to(query.dtype)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + added
        return scores.softmax(dim=-1) @ value

    return alibi_attention


def with_bias(bias: Callable[..., Tensor]) -> Names:
    """Both names of a file whose attention adds this bias."""
    return {"alibi_bias": bias, "alibi_attention": attention_with(bias)}
