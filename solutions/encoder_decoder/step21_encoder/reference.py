"""The encoder, and what it is good for

Blocks of attention and feed-forward, each with a residual and a norm behind it, as the paper of 2017 has them. A stack
of blocks over token and position embeddings is an encoder; a small classifier on the mean of its outputs reads the mood
of a sentence, and takes care that padding has no say.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. A module has no other parameters than those named. Switched back and forth by `train()` and `eval()`, its own or
those of a parent module, it drops in training mode only, and the same `torch.manual_seed` repeats what is dropped.

Off limits: `nn.Transformer`, its encoder, decoder and their layers, and `nn.MultiheadAttention`.
"""

import torch
from torch import Tensor, nn

from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention


class FeedForward(nn.Module):
    """`linear2(dropout(relu(linear1(x))))`, for each token by itself: `(..., d_model)` -> the same shape.

    Parameters: `linear1`, `nn.Linear(d_model, d_ff)`, and `linear2`, `nn.Linear(d_ff, d_model)`, both with a bias.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Widen each token to d_ff, keep what is above 0, and come back: `(..., d_model)` -> the same shape."""
        ### BEGIN SOLUTION
        hidden = self.dropout(torch.relu(self.linear1(x)))  # (..., d_ff)
        return self.linear2(hidden)  # (..., d_model)
        ### END SOLUTION


class TransformerBlock(nn.Module):
    """One post-norm block: `x = ln1(x + dropout(attention))`, then `x = ln2(x + dropout(feed_forward))`.

    Submodules: `attention` (step 20's `MultiHeadAttention`), `feed_forward` (`FeedForward`), `ln1` and `ln2` (layer
    norms with weight and bias, eps 1e-5). `dropout` also goes to `attention` and `feed_forward`.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.ln1 = nn.LayerNorm(d_model)
        self.ln2 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return (x, weights): `(B, T, D)` -> `(B, T, D)` and the attention's weights `(B, H, T, T)`.

        The feed-forward reads what `ln1` gives. `mask` is handed to the attention, as in step 20.
        """
        ### BEGIN SOLUTION
        attended, weights = self.attention(x, x, x, mask)  # (B, T, D), (B, H, T, T)
        x = self.ln1(x + self.dropout(attended))  # (B, T, D)
        x = self.ln2(x + self.dropout(self.feed_forward(x)))  # (B, T, D)
        return x, weights
        ### END SOLUTION


class SimpleTransformer(nn.Module):
    """An encoder: token and position embeddings, `n_layers` blocks (none for 0), and a norm at the end.

    Submodules: `token_embedding` and `position_embedding` (`nn.Embedding`, of `vocab_size` and `max_seq_len` rows),
    `transformer_blocks` (`nn.ModuleList` of `TransformerBlock`) and `ln_final` (as the blocks' norms).
    `dropout` acts on the sum of the embeddings and goes to every block.
    """

    def __init__(
        self, vocab_size: int, d_model: int = 512, n_heads: int = 8, n_layers: int = 6, d_ff: int = 2048,
        max_seq_len: int = 5000, dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        ### BEGIN SOLUTION
        self.max_seq_len = max_seq_len
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(max_seq_len, d_model)
        self.dropout = nn.Dropout(dropout)
        self.transformer_blocks = nn.ModuleList(
            TransformerBlock(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)
        )
        self.ln_final = nn.LayerNorm(d_model)
        ### END SOLUTION

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        """Return (output, weights): `(B, T)` token ids -> `(B, T, D)`, and a list of every block's weights, in order.

        Token plus position (0, 1, ...; not scaled), dropout on the sum, the blocks, each with `mask` (as in step 20),
        `ln_final`.

        Raises:
            ValueError: when T is larger than `max_seq_len`.
        """
        ### BEGIN SOLUTION
        num_tokens = x.shape[1]
        if num_tokens > self.max_seq_len:
            raise ValueError(f"x has {num_tokens} tokens, but max_seq_len is {self.max_seq_len}")
        positions = torch.arange(num_tokens, device=x.device)  # (T,)
        stream = self.dropout(self.token_embedding(x) + self.position_embedding(positions))  # (B, T, D)
        all_weights = []
        for block in self.transformer_blocks:
            stream, weights = block(stream, mask)  # (B, T, D), (B, H, T, T)
            all_weights.append(weights)
        return self.ln_final(stream), all_weights
        ### END SOLUTION


class SentimentAnalyzer(nn.Module):
    """An encoder with a classifier on the mean of its outputs.

    Submodules: `transformer` (`SimpleTransformer`) and `classifier`, an `nn.Sequential` of `nn.Linear(d_model, 128)`,
    `nn.ReLU()`, `nn.Dropout(dropout)` and `nn.Linear(128, n_classes)`.
    """

    def __init__(
        self, vocab_size: int, d_model: int = 256, n_heads: int = 8, n_layers: int = 4, n_classes: int = 3,
        d_ff: int = 2048, max_seq_len: int = 5000, dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        ### BEGIN SOLUTION
        self.transformer = SimpleTransformer(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.classifier = nn.Sequential(
            nn.Linear(d_model, 128), nn.ReLU(), nn.Dropout(dropout), nn.Linear(128, n_classes)
        )
        ### END SOLUTION

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The logits of each class: `(B, T)` token ids -> `(B, n_classes)`.

        `mask` is boolean, `(B, T)`, True = a real token; None where all are. The others are hidden from attention in
        every block, and the classifier gets the mean of the real tokens' outputs: neither the ids nor the number of the
        padding have an effect. Each row has at least one real token.
        """
        ### BEGIN SOLUTION
        if mask is None:
            mask = torch.ones_like(x, dtype=torch.bool)  # (B, T)
        output, _weights = self.transformer(x, mask[:, None, None, :])  # (B, T, D)
        real = mask.unsqueeze(-1).to(output.dtype)  # (B, T, 1)
        mean = (output * real).sum(dim=1) / real.sum(dim=1)  # (B, D) / (B, 1) -> (B, D)
        return self.classifier(mean)  # (B, n_classes)
        ### END SOLUTION
