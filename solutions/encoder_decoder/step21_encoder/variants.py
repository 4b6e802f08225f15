"""Right ways of step 21 that are written differently; each gets full marks."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant
from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention

EVERYTHING = ("FeedForward", "TransformerBlock", "SimpleTransformer", "SentimentAnalyzer")


@variant(replaces=EVERYTHING)
def as_the_tutorials_write_it() -> dict[str, Any]:
    """One dropout module for each place, ModuleList filled in a loop, positions unsqueezed, the mean by a clamp."""

    class FeedForward(nn.Module):
        def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
            super().__init__()
            self.linear1 = nn.Linear(d_model, d_ff)
            self.relu = nn.ReLU()
            self.dropout = nn.Dropout(dropout)
            self.linear2 = nn.Linear(d_ff, d_model)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear2(self.dropout(self.relu(self.linear1(x))))

    class TransformerBlock(nn.Module):
        def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
            super().__init__()
            self.attention = MultiHeadAttention(d_model, n_heads, dropout)
            self.feed_forward = FeedForward(d_model, d_ff, dropout)
            self.ln1 = nn.LayerNorm(d_model)
            self.ln2 = nn.LayerNorm(d_model)
            self.dropout1 = nn.Dropout(dropout)
            self.dropout2 = nn.Dropout(dropout)

        def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
            attn_output, attn_weights = self.attention(x, x, x, mask)
            x = self.ln1(x + self.dropout1(attn_output))
            ff_output = self.feed_forward(x)
            x = self.ln2(x + self.dropout2(ff_output))
            return x, attn_weights

    class SimpleTransformer(nn.Module):
        def __init__(
            self, vocab_size: int, d_model: int = 512, n_heads: int = 8, n_layers: int = 6, d_ff: int = 2048,
            max_seq_len: int = 5000, dropout: float = 0.1,
        ) -> None:  # fmt: skip
            super().__init__()
            self.d_model = d_model
            self.token_embedding = nn.Embedding(vocab_size, d_model)
            self.position_embedding = nn.Embedding(max_seq_len, d_model)
            self.transformer_blocks = nn.ModuleList(
                [TransformerBlock(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)]
            )
            self.ln_final = nn.LayerNorm(d_model)
            self.dropout = nn.Dropout(dropout)

        def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
            batch_size, seq_len = x.size()
            # More positions than the table has rows are an error of its own.
            positions = torch.arange(0, seq_len, device=x.device).unsqueeze(0).expand(batch_size, -1)
            x = self.dropout(self.token_embedding(x) + self.position_embedding(positions))
            attention_weights = []
            for block in self.transformer_blocks:
                x, weights = block(x, mask)
                attention_weights.append(weights)
            return self.ln_final(x), attention_weights

    class SentimentAnalyzer(nn.Module):
        def __init__(
            self, vocab_size: int, d_model: int = 256, n_heads: int = 8, n_layers: int = 4, n_classes: int = 3,
            d_ff: int = 2048, max_seq_len: int = 5000, dropout: float = 0.1,
        ) -> None:  # fmt: skip
            super().__init__()
            self.transformer = SimpleTransformer(
                vocab_size=vocab_size, d_model=d_model, n_heads=n_heads, n_layers=n_layers, d_ff=d_ff,
                max_seq_len=max_seq_len, dropout=dropout,
            )  # fmt: skip
            self.classifier = nn.Sequential(
                nn.Linear(d_model, 128), nn.ReLU(), nn.Dropout(dropout), nn.Linear(128, n_classes)
            )

        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            if mask is None:
                output, _attention = self.transformer(x)
                return self.classifier(output.mean(dim=1))
            output, _attention = self.transformer(x, mask.unsqueeze(1).unsqueeze(2))
            real = mask.unsqueeze(2).type_as(output)
            pooled = (output * real).sum(dim=1) / real.sum(dim=1).clamp(min=1e-9)
            return self.classifier(pooled)

    return dict(zip(EVERYTHING, (FeedForward, TransformerBlock, SimpleTransformer, SentimentAnalyzer), strict=True))


@variant(replaces="FeedForward")
class max_with_zero(nn.Module):
    """The ReLU as clamp on bare weights, dropout by torch.rand."""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.linear2, self.linear1 = nn.Linear(d_ff, d_model), nn.Linear(d_model, d_ff)
        self.p = dropout

    def forward(self, x: Tensor) -> Tensor:
        hidden = (x @ self.linear1.weight.mT + self.linear1.bias).clamp(min=0)
        if self.training:
            hidden = hidden * (torch.rand_like(hidden) >= self.p) / (1 - self.p)
        return hidden @ self.linear2.weight.mT + self.linear2.bias


@variant(replaces="TransformerBlock")
class dropout_before_the_relu(nn.Module):
    """The feed-forward written out in the block (a class of its own), with dropout and ReLU in the other order."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads, dropout=dropout)
        self.feed_forward = nn.ModuleDict({"linear1": nn.Linear(d_model, d_ff), "linear2": nn.Linear(d_ff, d_model)})
        self.ln1, self.ln2 = nn.LayerNorm(d_model, eps=1e-5), nn.LayerNorm(d_model, eps=1e-5)
        self.p = dropout

    def forward(self, x: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        attended, weights = self.attention(query=x, key=x, value=x, mask=mask)
        x = self.ln1(F.dropout(attended, self.p, self.training) + x)
        hidden = F.relu(F.dropout(self.feed_forward["linear1"](x), self.p, self.training))
        fed = self.feed_forward["linear2"](hidden)
        return [self.ln2(F.dropout(fed, self.p, self.training) + x), weights]


class _OwnNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        deviation = (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
        return self.weight * centred / deviation + self.bias


@variant(replaces="TransformerBlock")
class norm_of_its_own(nn.Module):
    """A layer norm of its own, and another attention: both have the parameters that are asked for."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        from solutions.encoder_decoder.step21_encoder.reference import FeedForward

        self.attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.ln1, self.ln2 = _OwnNorm(d_model), _OwnNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        attended, weights = self.attention(x, x, x, mask)
        x = self.ln1(torch.add(x, self.drop(attended)))
        return self.ln2(torch.add(x, self.drop(self.feed_forward(x)))), weights


@variant(
    replaces="SimpleTransformer",
    trades="No positions are made on any device; a slice beyond the table is silently short, so a check is needed.",
)
class slice_of_the_table(nn.Module):
    """Positions as a slice of the table, an assertion for the length, a tuple of weights."""

    def __init__(
        self, vocab_size: int, d_model: int = 512, n_heads: int = 8, n_layers: int = 6, d_ff: int = 2048,
        max_seq_len: int = 5000, dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        from solutions.encoder_decoder.step21_encoder.reference import TransformerBlock

        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(max_seq_len, d_model)
        self.transformer_blocks = nn.ModuleList()
        for _layer in range(n_layers):
            self.transformer_blocks.append(TransformerBlock(d_model, n_heads, d_ff, dropout))
        self.ln_final, self.drop = nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, tuple[Tensor, ...]]:
        length = x.shape[-1]
        assert length <= len(self.position_embedding.weight), "too long"
        stream = F.embedding(x, self.token_embedding.weight) + self.position_embedding.weight[:length]
        stream = self.drop(stream)
        collected: tuple[Tensor, ...] = ()
        for block in self.transformer_blocks:
            stream, weights = block(stream, mask=mask)
            collected = (*collected, weights)
        return self.ln_final(stream), collected


@variant(
    replaces="SentimentAnalyzer",
    trades="The mean is one product, and what padding holds never enters it; that it is a mean shows less.",
)
class mean_by_matrix_product(nn.Module):
    """The mean as a product of shares and outputs; the padding's outputs are set to 0 first."""

    def __init__(
        self, vocab_size: int, d_model: int = 256, n_heads: int = 8, n_layers: int = 4, n_classes: int = 3,
        d_ff: int = 2048, max_seq_len: int = 5000, dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        from solutions.encoder_decoder.step21_encoder.reference import SimpleTransformer

        self.classifier = nn.Sequential(
            nn.Linear(d_model, 128), nn.ReLU(inplace=True), nn.Dropout(dropout), nn.Linear(128, n_classes)
        )
        self.transformer = SimpleTransformer(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        shown = x.new_ones(x.shape, dtype=torch.bool) if mask is None else mask
        pairs = shown[:, None, None, :] | (~shown)[:, None, :, None]  # padding asks everybody, and nobody asks it
        output = self.transformer(x, pairs)[0].masked_fill(~shown[..., None], 0.0)
        counts = shown.sum(dim=1, keepdim=True).to(output.dtype)
        shares = shown.to(output.dtype) / counts
        return self.classifier(torch.bmm(shares.unsqueeze(1), output).squeeze(1))
