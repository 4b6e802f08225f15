# Generated from solutions/step06_causal_attention by `make exercises`: write your code where it says NotImplementedError.
"""Causal attention with dropout

Self-attention that never looks ahead: each token averages the values of the tokens up to itself, and in training some
of the attention weights are dropped. The mask belongs to the module and moves with it to any device.

Off limits: `scaled_dot_product_attention` and `nn.MultiheadAttention`, in every form.
"""

import math

import torch
from torch import Tensor, nn


class CausalAttention(nn.Module):
    """One head of self-attention in which no token sees a later one.

    Parameters: `W_query`, `W_key` and `W_value`, each `nn.Linear(d_in, d_out)`, with a bias when `qkv_bias` is True.

    Args:
        d_in: width of a token that comes in.
        d_out: width of query, key and value, and of a token that goes out.
        context_length: the most tokens a sequence may have.
        dropout: probability that an attention weight is dropped; it acts in training only.
        qkv_bias: whether the three linear layers have a bias.
    """

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Replace each token by a weighted average of the values of the tokens up to itself.

        Shapes: B sequences of T tokens. `x` is `(B, T, d_in)`, the result `(B, T, d_out)`.

        Raises:
            ValueError: when T is larger than `context_length`.
        """
        raise NotImplementedError
