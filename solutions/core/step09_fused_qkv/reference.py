"""Fused query, key and value: GPT-2's layout

One linear layer makes query, key and value in one multiplication, as GPT-2 does. The numbers are the same as those of
three layers; only the layout changes, and with it which weights fit: this module can load a GPT-2's.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. Instead of -inf a mask may fill in a finite number: next to visible scores of up to ±1,000 a hidden one must
stay without weight. A module has no other parameters than those named. Switched back and forth by `train()` and
`eval()`, its own or those of a parent module, it drops in training mode only, and the same `torch.manual_seed` repeats
what is dropped. Where a ValueError is named, any error will do.

Off limits: `nn.MultiheadAttention`, in every form. `scaled_dot_product_attention` is allowed from here on.
"""

import math

import torch
from torch import Tensor, nn


def fuse_qkv(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The weight of one linear layer whose output is query, key and value next to each other, in this order.

    Each argument is `(D, D)`, the weight of an `nn.Linear`; the result is `(3 * D, D)`. Gradients flow back to all of
    them.
    """
    ### BEGIN SOLUTION
    # nn.Linear computes x @ weight.T: each ROW of the weight makes one column of the output.
    return torch.cat([query_weight, key_weight, value_weight], dim=0)  # (3 * D, D)
    ### END SOLUTION


class CausalSelfAttention(nn.Module):
    """Multi-head causal attention in GPT-2's layout.

    Parameters: `c_attn`, `nn.Linear(n_embd, 3 * n_embd)`, whose output is query, key and value in this order, and
    `c_proj`, `nn.Linear(n_embd, n_embd)`; both have a bias when `bias` is True.

    Args:
        n_embd: width D of a token, in and out.
        n_head: number of heads H; a head has the width d = D / H.
        block_size: the most tokens a sequence may have.
        dropout: probability of a drop, in training only. It acts on the attention weights and once more on the output.
        bias: whether the two linear layers have a bias.

    Raises:
        ValueError: when `n_embd` is not divisible by `n_head`.
    """

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        if n_embd % n_head != 0:
            raise ValueError(f"n_embd = {n_embd} is not divisible by n_head = {n_head}")
        self.n_head = n_head
        self.block_size = block_size
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)
        self.attn_dropout = nn.Dropout(dropout)
        self.resid_dropout = nn.Dropout(dropout)
        # True means "may attend". Out of the state dict, where GPT-2's checkpoints have no such entry to load.
        visible = torch.ones(block_size, block_size, dtype=torch.bool).tril()  # (block_size, block_size)
        self.register_buffer("visible", visible, persistent=False)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Attend in every head to the tokens up to each token's own, and mix the heads with `c_proj`.

        Shapes: B sequences of T tokens. `x` is `(B, T, n_embd)`, and so is the result.

        Raises:
            ValueError: when T is larger than `block_size`.
        """
        ### BEGIN SOLUTION
        if x.shape[1] > self.block_size:
            raise ValueError(f"x has {x.shape[1]} tokens, but block_size is {self.block_size}")

        (B, T, D), H = x.shape, self.n_head
        query, key, value = self.c_attn(x).split(D, dim=-1)  # three times (B, T, D)
        query = query.view(B, T, H, D // H).transpose(1, 2)  # (B, H, T, d)
        key = key.view(B, T, H, D // H).transpose(1, 2)  # (B, H, T, d)
        value = value.view(B, T, H, D // H).transpose(1, 2)  # (B, H, T, d)

        scores = query @ key.transpose(-2, -1) / math.sqrt(D // H)  # (B, H, T, T)
        weights = scores.masked_fill(~self.visible[:T, :T], -torch.inf).softmax(dim=-1)  # (B, H, T, T)
        context = self.attn_dropout(weights) @ value  # (B, H, T, d)

        merged = context.transpose(1, 2).reshape(B, T, D)  # (B, T, D)
        output: Tensor = self.resid_dropout(self.c_proj(merged))  # (B, T, D)
        return output
        ### END SOLUTION
