# Generated from solutions/step06_causal_attention by `make exercises`: write your code where it says NotImplementedError.
"""Causal attention with dropout

Self-attention that never looks ahead: each token averages the values of the tokens up to itself, and in training some
of the attention weights are dropped. The mask belongs to the module and moves with it to any device.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. A module has no other parameters than those named. Switched back and forth by `train()` and `eval()`, its own or
those of a parent module, it drops in training mode only, and the same `torch.manual_seed` repeats what is dropped.
Where a ValueError is named, any error will do.

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
