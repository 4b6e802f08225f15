"""Additive attention: the attention of 2015

A decoder that translates a sentence looks back at all of the encoder's outputs, and weighs them by its own state.
First Bahdanau's form, in which a small network scores each position; then the shorter form that many tutorials show,
one linear layer on output and state joined, whose weights turn out to take no notice of the state.

Asked everywhere: views with any strides, more than 1,024 positions, any device, and calls under `torch.no_grad()`.
Inputs stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator
is right. A module has no other parameters than those named.

Off limits: nothing. Loops are right here too.
"""

import torch
from torch import Tensor, nn


class AdditiveAttention(nn.Module):
    """Bahdanau's attention: a decoder state and a key are added after a projection each, and a tanh scores the sum.

    Parameters: `W_a`, `nn.Linear(query_dim, hidden_dim)`, `U_a`, `nn.Linear(key_dim, hidden_dim)`, and `v_a`,
    `nn.Linear(hidden_dim, 1)`, none of them with a bias.

    Args:
        query_dim: width of a decoder state.
        key_dim: width of an output of the encoder.
        hidden_dim: width in which the two are added.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.W_a = nn.Linear(query_dim, hidden_dim, bias=False)
        self.U_a = nn.Linear(key_dim, hidden_dim, bias=False)
        self.v_a = nn.Linear(hidden_dim, 1, bias=False)
        ### END SOLUTION

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return (context, weights): the weighted sum of the keys, and the weights.

        Position j scores v_a(tanh(W_a(query) + U_a(keys[:, j]))), which is not scaled. The weights are the softmax of
        the scores over the S positions. The context sums the keys as they were given, not the projected ones.

        Shapes: B sequences of S positions. `query` is `(B, query_dim)`, one decoder state for each sequence, and `keys`
        `(B, S, key_dim)`. `mask` is boolean, `(B, S)`, True where a position may be attended to; the others get weight
        exactly 0. Each row has at least one True. The context is `(B, key_dim)`, the weights are `(B, S)`.
        """
        ### BEGIN SOLUTION
        state = self.W_a(query).unsqueeze(1)  # (B, 1, hidden_dim), the same for every position
        hidden = torch.tanh(state + self.U_a(keys))  # (B, S, hidden_dim)
        scores = self.v_a(hidden).squeeze(-1)  # (B, S, 1) -> (B, S)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)  # (B, S)
        context = (weights.unsqueeze(-1) * keys).sum(dim=1)  # (B, S, 1) * (B, S, key_dim) -> (B, key_dim)
        return context, weights
        ### END SOLUTION


class SingleHeadCrossAttention(nn.Module):
    """The short form of 2015: one linear layer scores an encoder output joined with the decoder state.

    Parameter: `attention_layer`, `nn.Linear(encoder_dim + decoder_dim, 1)`, with a bias.

    The score is the encoder output's share plus the decoder state's share. The latter is the same for every position,
    and a softmax does not change when all of its scores grow alike: the weights do not depend on the state.

    Args:
        encoder_dim: width of an output of the encoder.
        decoder_dim: width of a decoder state.
    """

    def __init__(self, encoder_dim: int, decoder_dim: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.attention_layer = nn.Linear(encoder_dim + decoder_dim, 1)
        ### END SOLUTION

    def forward(
        self, encoder_outputs: Tensor, decoder_hidden: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return (context, weights): the weighted sum of the encoder's outputs, and the weights.

        The score of a position is `attention_layer` on its encoder output and the decoder state, joined in this order;
        the weights are the softmax of the scores over the S positions.

        Shapes: `encoder_outputs` is `(B, S, encoder_dim)`, `decoder_hidden` `(B, decoder_dim)`, and `mask` as in
        `AdditiveAttention`. The context is `(B, encoder_dim)`, the weights are `(B, S)`.
        """
        ### BEGIN SOLUTION
        num_positions = encoder_outputs.shape[1]
        state = decoder_hidden.unsqueeze(1).expand(-1, num_positions, -1)  # (B, S, decoder_dim)
        joined = torch.cat([encoder_outputs, state], dim=-1)  # (B, S, encoder_dim + decoder_dim)
        scores = self.attention_layer(joined).squeeze(-1)  # (B, S, 1) -> (B, S)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)  # (B, S)
        context = (weights.unsqueeze(-1) * encoder_outputs).sum(dim=1)  # (B, encoder_dim)
        return context, weights
        ### END SOLUTION
