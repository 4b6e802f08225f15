import math

import torch
from torch import Tensor, nn

from exercises.step06_causal_attention import CausalAttention


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.heads = nn.ModuleList(
            [CausalAttention(d_in, d_out, context_length, dropout, qkv_bias) for _ in range(num_heads)]
        )

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)


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

    def forward(self, x: Tensor) -> Tensor:
        """Attend in every head by itself, merge the heads and mix them with `out_proj`.

        Shapes: B sequences of T tokens. `x` is `(B, T, d_in)`, the result `(B, T, d_out)`. Each of the H heads has the
        width d = d_out / H, and head h works on the columns h * d ... (h + 1) * d - 1 of query, key and value.

        Raises:
            ValueError: when T is larger than `context_length`.
        """
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
