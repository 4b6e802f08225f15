"""`MultiHeadAttention` cut into pieces, so that each misconception replaces one of them."""

import math

import torch
from torch import Tensor

from solutions.encoder_decoder.step20_cross_attention import reference


class Pieces(reference.MultiHeadAttention):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(key), self.W_v(value)

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for x in (query, key, value))

    def scale(self, query: Tensor) -> float:
        return math.sqrt(query.shape[-1])

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(~mask, -torch.inf)

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.hide(scores, mask).softmax(dim=-1)

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.dropout(weights) @ value

    def merge(self, context: Tensor) -> Tensor:
        return context.transpose(1, 2).flatten(2)

    def mix(self, merged: Tensor) -> Tensor:
        return self.W_o(merged)

    def give(self, output: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return output, weights

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        query, key, value = self.split(*self.project(query, key, value))
        scores = query @ key.transpose(-2, -1) / self.scale(query)
        weights = self.weigh(scores, mask)
        return self.give(self.mix(self.merge(self.gather(weights, value))), weights, scores)
