"""Relative positions: how far apart, and not where

What matters to a token is often how far away another one is, and not at which number it stands. Shaw's attention
learns a vector for each distance and adds it to the keys and the values. ALiBi learns nothing: it takes something off
each score, the more the farther away the key is.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. A module has no other parameters than those named. float32, float64 and bfloat16 keep their digits and come back
as they are. Where a ValueError is named, any error will do.

Off limits: `nn.MultiheadAttention`, in every form. `scaled_dot_product_attention` is allowed.
"""

import math

import torch
from torch import Tensor, nn

from solutions.core.step07_heads.reference import merge_heads, split_heads


def relative_positions(num_tokens: int, max_distance: int, device: torch.device | str | None = None) -> Tensor:
    """Where each query finds each key in a table of relative vectors.

    For query i and key j: the distance j - i, clipped to -k to k, plus k, so that it counts the rows of a table from 0
    to 2k. `max_distance` is k, at least 0. The result is int64 of shape `(T, T)`, made on `device`.
    """
    ### BEGIN SOLUTION
    position = torch.arange(num_tokens, device=device)  # (T)
    distance = position[None, :] - position[:, None]  # (T, T), j - i
    return distance.clamp(-max_distance, max_distance) + max_distance  # (T, T)
    ### END SOLUTION


class RelativeSelfAttention(nn.Module):
    """Multi-head self-attention with Shaw's relative positions.

    In each head the key that query i sees at j is k_j plus the row of `relative_key` at their relative position, and
    the value is v_j plus the row of `relative_value` there.

    Parameters: `W_query`, `W_key`, `W_value`, `nn.Linear(d_model, d_model)` without bias; `out_proj`,
    `nn.Linear(d_model, d_model)` with bias; `relative_key` and `relative_value`, each its own
    `nn.Embedding(2 * max_distance + 1, d)`, shared by all heads.

    Args:
        d_model: width D of a token, in and out.
        num_heads: number of heads H; a head has the width d = D / H and holds the columns h * d to (h + 1) * d - 1.
        max_distance: distances beyond it share a vector with it.

    Raises:
        ValueError: when `d_model` is not divisible by `num_heads`.
    """

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads != 0:
            raise ValueError(f"d_model = {d_model} is not divisible by num_heads = {num_heads}")
        self.num_heads = num_heads
        self.max_distance = max_distance
        self.W_query = nn.Linear(d_model, d_model, bias=False)
        self.W_key = nn.Linear(d_model, d_model, bias=False)
        self.W_value = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model)
        self.relative_key = nn.Embedding(2 * max_distance + 1, d_model // num_heads)
        self.relative_value = nn.Embedding(2 * max_distance + 1, d_model // num_heads)
        ### END SOLUTION

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend in every head, with scores divided by √d, and mix the heads with `out_proj`.

        Shapes: B sequences of T tokens, of any length. `x` is `(B, T, d_model)`, and so is the result. `mask` is
        boolean and broadcasts to `(B, H, T, T)`; True means "may attend". Every row has a visible position. Vectors
        for all T × T pairs may be held in memory.
        """
        ### BEGIN SOLUTION
        layers = (self.W_query, self.W_key, self.W_value)
        query, key, value = (split_heads(layer(x), self.num_heads) for layer in layers)  # three times (B, H, T, d)
        index = relative_positions(x.shape[1], self.max_distance, device=x.device)  # (T, T)
        relative_key, relative_value = self.relative_key(index), self.relative_value(index)  # (T, T, d)

        # q · (k + a) = q · k + q · a: no key has to be copied for each query.
        content = query @ key.transpose(-2, -1)  # (B, H, T, T)
        position = torch.einsum("bhid,ijd->bhij", query, relative_key)  # (B, H, T, T)
        scores = (content + position) / math.sqrt(query.shape[-1])  # (B, H, T, T)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)  # (B, H, T, T)
        context = weights @ value + torch.einsum("bhij,ijd->bhid", weights, relative_value)  # (B, H, T, d)
        output: Tensor = self.out_proj(merge_heads(context))  # (B, T, D)
        return output
        ### END SOLUTION


def alibi_slopes(num_heads: int, device: torch.device | str | None = None) -> Tensor:
    """ALiBi's slope of each head: float32 of shape `(H,)`.

    For a power of two, head h of 1 to H has 2^(-8h / H). For any other number: first the slopes of p heads, where p is
    the power of two below H, then as many as are lacking of the 1st, 3rd, 5th, … slope of 2p heads.
    """
    ### BEGIN SOLUTION
    below = 1 << (num_heads.bit_length() - 1)  # the largest power of two up to H
    slopes = [2 ** (-8 * h / below) for h in range(1, below + 1)]
    between = [2 ** (-8 * h / (2 * below)) for h in range(1, 2 * below, 2)]
    return torch.tensor(slopes + between[: num_heads - below], dtype=torch.float32, device=device)  # (H)
    ### END SOLUTION


def alibi_bias(num_heads: int, num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """What ALiBi adds to the scores: float32 of shape `(H, T, T)`.

    For query i and key j it is -slope · (i - j) where j ≤ i, and -∞ where j > i, which no query may see.
    """
    ### BEGIN SOLUTION
    position = torch.arange(num_tokens, device=device)  # (T)
    distance = position[:, None] - position[None, :]  # (T, T), i - j
    bias = -alibi_slopes(num_heads, device=device)[:, None, None] * distance  # (H, T, T)
    return bias.masked_fill(distance < 0, -torch.inf)
    ### END SOLUTION


def alibi_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention whose scores, divided by √d, get ALiBi's bias added.

    Shapes: `query` and `key` are `(B, H, T, d)`, `value` is `(B, H, T, d_v)`, and the result is `(B, H, T, d_v)`.
    """
    ### BEGIN SOLUTION
    num_heads, num_tokens, d = query.shape[-3:]
    bias = alibi_bias(num_heads, num_tokens, device=query.device)  # (H, T, T)
    scores = query @ key.transpose(-2, -1) / math.sqrt(d) + bias.to(query.dtype)  # (B, H, T, T)
    return scores.softmax(dim=-1) @ value  # (B, H, T, d_v)
    ### END SOLUTION
