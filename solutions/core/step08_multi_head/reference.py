"""Multi-head attention

Several heads look at the same tokens, each in its own way. First the plain way, one module a head, one after the other;
then all heads at once, with a head dimension that is split off, carried through and merged again.

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

from solutions.core.step06_causal_attention.reference import CausalAttention


class MultiHeadAttentionWrapper(nn.Module):
    """Heads of causal attention side by side, their outputs concatenated in order.

    Parameters: `heads`, an `nn.ModuleList` of `num_heads` times `CausalAttention` (step 6).

    Args:
        d_in: width of a token that comes in.
        d_out: width of the output of ONE head.
        context_length: the most tokens a sequence may have.
        dropout: probability that an attention weight is dropped; it acts in training only.
        num_heads: number of heads.
        qkv_bias: whether query, key and value layers have a bias.
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.heads = nn.ModuleList(
            CausalAttention(d_in, d_out, context_length, dropout, qkv_bias) for _ in range(num_heads)
        )
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Run every head on the same tokens and put the results next to each other.

        Shapes: B sequences of T tokens, H heads. `x` is `(B, T, d_in)`, the result `(B, T, H * d_out)`.
        """
        ### BEGIN SOLUTION
        return torch.cat([head(x) for head in self.heads], dim=-1)  # (B, T, H * d_out)
        ### END SOLUTION


class MultiHeadAttention(nn.Module):
    """All heads of causal attention at once, and a linear layer that mixes them.

    Parameters: `W_query`, `W_key` and `W_value`, each `nn.Linear(d_in, d_out)`, with a bias when `qkv_bias` is True,
    and `out_proj`, `nn.Linear(d_out, d_out)`, always with a bias.

    Args:
        d_in: width of a token that comes in.
        d_out: width of ALL heads together; a head has d_out / num_heads of it.
        context_length: the most tokens a sequence may have.
        dropout: probability that an attention weight is dropped; it acts in training only.
        num_heads: number of heads.
        qkv_bias: whether query, key and value layers have a bias.

    Raises:
        ValueError: when `d_out` is not divisible by `num_heads`.
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        if d_out % num_heads != 0:
            raise ValueError(f"d_out = {d_out} is not divisible by num_heads = {num_heads}")
        self.context_length = context_length
        self.num_heads = num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        # One mask serves every sequence and every head: True means "may attend".
        visible = torch.ones(
            context_length, context_length, dtype=torch.bool
        ).tril()  # (context_length, context_length)
        self.register_buffer("visible", visible, persistent=False)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Attend in every head by itself, merge the heads and mix them with `out_proj`.

        Shapes: B sequences of T tokens. `x` is `(B, T, d_in)`, the result `(B, T, d_out)`. Each of the H heads has the
        width d = d_out / H, and head h works on the columns h * d ... (h + 1) * d - 1 of query, key and value.

        Raises:
            ValueError: when T is larger than `context_length`.
        """
        ### BEGIN SOLUTION
        if x.shape[1] > self.context_length:
            raise ValueError(f"x has {x.shape[1]} tokens, but context_length is {self.context_length}")

        B, T, H = x.shape[0], x.shape[1], self.num_heads
        query = self.W_query(x).view(B, T, H, -1).transpose(1, 2)  # (B, H, T, d)
        key = self.W_key(x).view(B, T, H, -1).transpose(1, 2)  # (B, H, T, d)
        value = self.W_value(x).view(B, T, H, -1).transpose(1, 2)  # (B, H, T, d)

        scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # (B, H, T, T)
        visible = self.visible[:T, :T]  # (T, T)
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)  # (B, H, T, T)
        weights = self.dropout(weights)  # (B, H, T, T), drawn for each sequence, head and weight
        context = weights @ value  # (B, H, T, d)

        merged = context.transpose(1, 2).reshape(B, T, -1)  # (B, T, d_out)
        output: Tensor = self.out_proj(merged)  # (B, T, d_out)
        return output
        ### END SOLUTION
