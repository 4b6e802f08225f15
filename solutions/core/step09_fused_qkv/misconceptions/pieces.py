"""`CausalSelfAttention` cut into pieces, so that each misconception replaces one of them."""

import math

import torch
from torch import Tensor

from solutions.core.step09_fused_qkv import reference


class Pieces(reference.CausalSelfAttention):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def parts(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value, each (B, H, T, d), from the output of `c_attn`."""
        query, key, value = fused.chunk(3, dim=-1)
        return self.heads(query), self.heads(key), self.heads(value)

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_head, -1)).transpose(1, 2)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(~self.visible[:length, :length], -torch.inf).softmax(dim=-1)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.attn_dropout(self.weights(self.scores(query, key))) @ value

    def output(self, merged: Tensor) -> Tensor:
        return self.resid_dropout(self.c_proj(merged))

    def check_length(self, x: Tensor) -> None:
        if x.shape[1] > self.block_size:
            raise ValueError(f"x has {x.shape[1]} tokens, but block_size is {self.block_size}")

    def forward(self, x: Tensor) -> Tensor:
        self.check_length(x)
        return self.output(self.attend(*self.parts(self.c_attn(x))).transpose(1, 2).flatten(2))
