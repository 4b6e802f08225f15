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
    ### BEGIN SOLUTION
    d = query.shape[-1]
    scores = query @ key.transpose(-2, -1) / math.sqrt(d)  # (..., T_q, T_k)
    if mask is not None:
        # A score of minus infinity becomes weight 0, and the others of the row still sum to 1.
        scores = scores.masked_fill(~mask, -torch.inf)  # (..., T_q, T_k)
    weights = scores.softmax(dim=-1)  # (..., T_q, T_k), each row sums to 1 over the keys
    context = weights @ value  # (..., T_q, d_v)
    return context, weights
    ### END SOLUTION


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
        ### BEGIN SOLUTION
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Replace each token by a weighted average of the values of all tokens.

        Shapes: T tokens; `...` is any number of leading batch dimensions, none included. `x` is `(..., T, d_in)`, the
        result `(..., T, d_out)`.
        """
        ### BEGIN SOLUTION
        query = self.W_query(x)  # (..., T, d_out)
        key = self.W_key(x)  # (..., T, d_out)
        value = self.W_value(x)  # (..., T, d_out)
        context, _weights = attention(query, key, value)  # (..., T, d_out), (..., T, T)
        return context
        ### END SOLUTION
