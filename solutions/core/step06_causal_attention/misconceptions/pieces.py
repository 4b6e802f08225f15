"""`CausalAttention` cut into pieces, so that each misconception replaces one of them."""

import math

import torch
from torch import Tensor

from solutions.core.step06_causal_attention import reference


class Pieces(reference.CausalAttention):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value, each (B, T, d_out)."""
        return self.W_query(x), self.W_key(x), self.W_value(x)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])

    def may_attend(self, num_tokens: int) -> Tensor:
        return self.visible[:num_tokens, :num_tokens]

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.dropout(weights) @ value

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.context_length:
            raise ValueError(f"x has {x.shape[1]} tokens, but context_length is {self.context_length}")
        query, key, value = self.projected(x)
        return self.context(self.weights(self.scores(query, key), self.may_attend(x.shape[1])), value)
