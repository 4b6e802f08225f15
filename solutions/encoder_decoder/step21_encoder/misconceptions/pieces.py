"""The reference's classes cut into pieces, each made of the one before."""

from typing import Any

import torch
from torch import Tensor, nn

from grader.checks.catalogue import all_made_of
from solutions.encoder_decoder.step21_encoder import reference


class FeedForward(reference.FeedForward):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def activate(self, hidden: Tensor) -> Tensor:
        return torch.relu(hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activate(self.linear1(x))))


class Block(reference.TransformerBlock):
    """As `FeedForward`."""

    made_of: type = reference.FeedForward

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.feed_forward = self.made_of(d_model, d_ff, dropout)

    def attend(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.attention(x, x, x, mask)

    def add_attended(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + self.dropout(attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln2(x + self.dropout(self.feed_forward(x)))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        attended, weights = self.attend(x, mask)
        return self.add_fed(self.add_attended(x, attended)), weights


class Encoder(reference.SimpleTransformer):
    """As `FeedForward`."""

    made_of: type = reference.TransformerBlock

    def __init__(self, vocab_size, d_model=512, n_heads=8, n_layers=6, d_ff=2048, max_seq_len=5000, dropout=0.1):
        super().__init__(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.transformer_blocks = self.blocks(n_layers, d_model, n_heads, d_ff, dropout)

    def blocks(self, n_layers: int, *given: Any) -> nn.ModuleList:
        return nn.ModuleList(self.made_of(*given) for _ in range(n_layers))

    def positions(self, ids: Tensor) -> Tensor:
        return self.position_embedding(torch.arange(ids.shape[1], device=ids.device))

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.token_embedding(ids) + self.positions(ids))

    def mask_of(self, layer: int, mask: Tensor | None) -> Tensor | None:
        return mask

    def finish(self, stream: Tensor) -> Tensor:
        return self.ln_final(stream)

    def give(self, output: Tensor, weights: list[Tensor]) -> Any:
        return output, weights

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        if x.shape[1] > self.max_seq_len:
            raise ValueError(f"x has {x.shape[1]} tokens, but max_seq_len is {self.max_seq_len}")
        stream, all_weights = self.embed(x), []
        for layer, block in enumerate(self.transformer_blocks):
            stream, weights = block(stream, self.mask_of(layer, mask))
            all_weights.append(weights)
        return self.give(self.finish(stream), all_weights)


class Classifier(reference.SentimentAnalyzer):
    """As `FeedForward`."""

    made_of: type = reference.SimpleTransformer
    hidden_width = 128

    def __init__(
        self, vocab_size, d_model=256, n_heads=8, n_layers=4, n_classes=3, d_ff=2048, max_seq_len=5000, dropout=0.1
    ):
        super().__init__(vocab_size, d_model, n_heads, n_layers, n_classes, d_ff, max_seq_len, dropout)
        self.transformer = self.made_of(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.classifier = nn.Sequential(*self.layers(d_model, n_classes, dropout))

    def layers(self, d_model: int, n_classes: int, dropout: float) -> list[nn.Module]:
        return [nn.Linear(d_model, 128), nn.ReLU(), nn.Dropout(dropout), nn.Linear(128, n_classes)]

    def attention_mask(self, mask: Tensor) -> Tensor | None:
        return mask[:, None, None, :]

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1).to(output.dtype)
        return (output * real).sum(dim=1) / real.sum(dim=1)

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        encoded = self.transformer(ids, self.attention_mask(mask))  # a wrong encoder may give its output alone
        return encoded if isinstance(encoded, Tensor) else encoded[0]

    def classify(self, mean: Tensor) -> Tensor:
        return self.classifier(mean)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            mask = torch.ones_like(x, dtype=torch.bool)
        return self.classify(self.pool(self.encode(x, mask), mask))


whole = all_made_of(
    {
        "FeedForward": FeedForward,
        "TransformerBlock": Block,
        "SimpleTransformer": Encoder,
        "SentimentAnalyzer": Classifier,
    }
)
