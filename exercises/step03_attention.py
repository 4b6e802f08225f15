# Generated from solutions/step03_attention by `make exercises`: write your code where it says NotImplementedError.
"""Attention, and self-attention

Now the scores become weights and the weights mix the values: every query gets its own average of all values. With three
learned projections in front, a sequence attends to itself, and that is a layer you can train.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. A module has no other parameters than those named.

Off limits: `scaled_dot_product_attention` and `nn.MultiheadAttention`, in every form.
"""

import math

import torch
from torch import Tensor, nn


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Give every query the average of the values, weighted by how well their keys match it.

    Shapes: T_q queries of width d, T_k keys of width d and as many values of width d_v; `...` is any number of leading
    batch dimensions, none included. `query` is `(..., T_q, d)`, `key` is `(..., T_k, d)`, `value` is `(..., T_k, d_v)`.
    `mask` is boolean and broadcasts to `(..., T_q, T_k)`; True means "may attend", and every row has at least one True.

    Returns the pair `(context, weights)`: the context is `(..., T_q, d_v)`, the weights are `(..., T_q, T_k)`.
    """
    raise NotImplementedError


class SelfAttention(nn.Module):
    """One head of self-attention, in which every token sees every token.

    Parameters: `W_query`, `W_key` and `W_value`, each `nn.Linear(d_in, d_out)`, with a bias when `qkv_bias` is True.

    Args:
        d_in: width of a token that comes in.
        d_out: width of query, key and value, and of a token that goes out.
        qkv_bias: whether the three linear layers have a bias.
    """

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Replace each token by a weighted average of the values of all tokens.

        Shapes: T tokens; `...` is any number of leading batch dimensions, none included. `x` is `(..., T, d_in)`, the
        result `(..., T, d_out)`.
        """
        raise NotImplementedError
