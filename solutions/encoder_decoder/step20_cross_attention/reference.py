"""Cross attention with many heads

The attention of 2017: queries from one sequence, keys and values from another, in many heads at once. With the same
tensor three times it is self-attention; with a decoder's states and an encoder's outputs it is what step 19 did, for
all target positions in one product. The encoder and the decoder of the next steps are built from this one class.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. Instead of -inf a mask may fill in a finite number: next to visible scores of up to ±1,000 a hidden one must
stay without weight. A module has no other parameters than those named. Switched back and forth by `train()` and
`eval()`, its own or those of a parent module, it drops in training mode only, and the same `torch.manual_seed` repeats
what is dropped.

Off limits: `scaled_dot_product_attention` and `nn.MultiheadAttention`, in every form.
"""

import math

import torch
from torch import Tensor, nn

from solutions.core.step07_heads.reference import merge_heads, split_heads


class MultiHeadAttention(nn.Module):
    """Attention of every query to every key in H heads, and a linear layer that mixes the heads.

    Parameters: `W_q`, `W_k`, `W_v` and `W_o`, each `nn.Linear(d_model, d_model, bias=False)`.

    Args:
        d_model: width D of a token.
        n_heads: number of heads H; a head has the width d = D / H.
        dropout: probability that an attention weight is dropped, in training only. It is drawn for each sequence, head,
            query and key.

    Raises:
        ValueError: when `d_model` is not divisible by `n_heads`.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % n_heads != 0:
            raise ValueError(f"d_model = {d_model} is not divisible by n_heads = {n_heads}")
        self.n_heads = n_heads
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.W_o = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return (output, weights): what each query gathered, and the weights of every head.

        Head h has the columns h * d ... (h + 1) * d - 1 of the projected query, key and value. Scores are scaled by the
        root of d. `W_o` acts on the merged heads.

        Shapes: `query` is `(B, T_q, D)`, `key` and `value` are `(B, T_k, D)`, two tensors that may differ; T_q and T_k
        may differ, too. `mask` is boolean and broadcasts to `(B, H, T_q, T_k)`: True means "may attend", hidden
        positions get weight exactly 0, and every query has at least one visible key. Without a mask nothing is hidden.
        The output is `(B, T_q, D)`, the weights are `(B, H, T_q, T_k)`; in training they may be those before or after
        dropout.
        """
        ### BEGIN SOLUTION
        query = split_heads(self.W_q(query), self.n_heads)  # (B, H, T_q, d)
        key = split_heads(self.W_k(key), self.n_heads)  # (B, H, T_k, d)
        value = split_heads(self.W_v(value), self.n_heads)  # (B, H, T_k, d)

        scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])  # (B, H, T_q, T_k)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)  # (B, H, T_q, T_k)

        context = self.dropout(weights) @ value  # (B, H, T_q, d)
        output: Tensor = self.W_o(merge_heads(context))  # (B, T_q, D)
        return output, weights
        ### END SOLUTION


def padding_mask(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask that hides a batch's padding from every query of every head.

    `token_ids` is `(B, S)`; the result is boolean, `(B, 1, 1, S)`, True where the id is not `pad_id`.
    """
    ### BEGIN SOLUTION
    return (token_ids != pad_id)[:, None, None, :]  # (B, S) -> (B, 1, 1, S)
    ### END SOLUTION
