"""Causal attention with dropout

Self-attention that never looks ahead: each token averages the values of the tokens up to itself, and in training some
of the attention weights are dropped. The mask belongs to the module and moves with it to any device.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. Instead of -inf a mask may fill in a finite number: next to visible scores of up to ±1,000 a hidden one must
stay without weight. A module has no other parameters than those named. Switched back and forth by `train()` and
`eval()`, its own or those of a parent module, it drops in training mode only, and the same `torch.manual_seed` repeats
what is dropped. Where a ValueError is named, any error will do.

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
        ### BEGIN SOLUTION
        self.context_length = context_length
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        # A buffer is no parameter, but it follows the module to its device. True means "may attend". It is made once,
        # for the longest sequence, and it stays out of the state dict, since anyone can make it again.
        visible = torch.ones(
            context_length, context_length, dtype=torch.bool
        ).tril()  # (context_length, context_length)
        self.register_buffer("visible", visible, persistent=False)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Replace each token by a weighted average of the values of the tokens up to itself.

        Shapes: B sequences of T tokens. `x` is `(B, T, d_in)`, the result `(B, T, d_out)`.

        Raises:
            ValueError: when T is larger than `context_length`.
        """
        ### BEGIN SOLUTION
        num_tokens = x.shape[1]
        if num_tokens > self.context_length:
            raise ValueError(f"x has {num_tokens} tokens, but context_length is {self.context_length}")

        query = self.W_query(x)  # (B, T, d_out)
        key = self.W_key(x)  # (B, T, d_out)
        value = self.W_value(x)  # (B, T, d_out)

        scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # (B, T, T)
        visible = self.visible[:num_tokens, :num_tokens]  # (T, T)
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)  # (B, T, T)
        weights = self.dropout(weights)  # (B, T, T), in training some weights are 0 and the others larger
        context: Tensor = weights @ value  # (B, T, d_out)
        return context
        ### END SOLUTION
