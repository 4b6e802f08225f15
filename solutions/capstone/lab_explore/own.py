"""Simple parts for a copy of the kit without references, where a step is not right yet: made of PyTorch's built-ins."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..lab_common.model import GPT, generate

__all__ = [
    "GPT", "attention", "causal_mask", "dropout", "generate", "merge_heads", "scaled_scores", "softmax", "split_heads",
]  # fmt: skip


def scaled_scores(query: Tensor, key: Tensor) -> Tensor:
    """(..., T_q, d), (..., T_k, d) -> (..., T_q, T_k)"""
    return torch.einsum("...qd,...kd->...qk", query, key) * query.shape[-1] ** -0.5


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """The same shape; each slice along `dim` sums to 1."""
    return torch.softmax(x, dim)


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The context and the weights: the built-in applied to the identity in place of values gives the weights."""
    each = torch.eye(key.shape[-2], dtype=key.dtype, device=key.device).expand(*key.shape[:-1], -1)
    weights = F.scaled_dot_product_attention(query, key, each, attn_mask=mask)  # (..., T_q, T_k)
    return weights.matmul(value), weights


def causal_mask(num_tokens: int, device: torch.device | None = None) -> Tensor:
    """True where a query, the row, may attend to a key, the column."""
    places = torch.arange(num_tokens, device=device)
    return places[:, None] >= places


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Inverted dropout."""
    return F.dropout(x, p, training)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(B, T, D) -> (B, H, T, d)"""
    return x.unflatten(-1, (num_heads, -1)).movedim(-2, 1)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, d) -> (B, T, D)"""
    return x.movedim(1, -2).flatten(-2)
