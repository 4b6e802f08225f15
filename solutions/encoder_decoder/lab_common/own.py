"""Simple parts in place of steps 20 to 24 where they are not written: torch's own attention, with the steps' names."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Step 20's, by `nn.MultiheadAttention`: True in a mask means "may attend"."""

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, n_heads, dropout, bias=False, batch_first=True)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B, T, D), (B, S, D) -> (B, T, D), and weights (B, H, T, S)."""
        hidden = None
        if mask is not None:
            every = (len(query), self.inner.num_heads, query.shape[1], key.shape[1])
            hidden = ~mask.expand(every).flatten(0, 1)
        given: tuple[Tensor, Tensor] = self.inner(
            query, key, value, attn_mask=hidden, need_weights=True, average_attn_weights=False
        )
        return given


class Block(nn.Module):
    """A post-norm block; with `crossing` it also attends to what an encoder gives."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float, crossing: bool = False) -> None:
        super().__init__()
        self.self_attention = Attention(d_model, n_heads, dropout)
        self.cross_attention = Attention(d_model, n_heads, dropout) if crossing else None
        self.inside = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model), nn.Dropout(dropout))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _norm in range(3))

    def forward(
        self, x: Tensor, own: Tensor | None, other: Tensor | None = None, shown: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(B, T, D) -> the same, and the weights of its self-attention."""
        heard, weights = self.self_attention(x, x, x, own)
        x = self.norms[0](x + heard)
        if self.cross_attention is not None and other is not None:
            x = self.norms[1](x + self.cross_attention(x, other, other, shown)[0])
        return self.norms[2](x + self.inside(x)), weights


class Text(nn.Module):
    """Step 21's `SimpleTransformer`."""

    def __init__(self, words: int, width: int, heads: int, layers: int, inner: int, longest: int, drop: float) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.transformer_blocks = nn.ModuleList(Block(width, heads, inner, drop) for _layer in range(layers))

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        """(B, T) ids -> (B, T, D), and every block's weights."""
        x, seen = self.words(ids) + self.places.weight[: ids.shape[1]], []
        for layer in self.transformer_blocks:
            x, weights = layer(x, mask)
            seen.append(weights)
        return x, seen


def _no_later(ids: Tensor) -> Tensor:
    return ~nn.Transformer.generate_square_subsequent_mask(ids.shape[1], device=ids.device).isinf()


class Classifier(nn.Module):
    """Step 21's `SentimentAnalyzer`."""

    def __init__(
        self, vocab_size: int, d_model: int, n_heads: int, n_layers: int, n_classes: int, d_ff: int, max_seq_len: int,
        dropout: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.transformer = Text(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.last = nn.Linear(d_model, n_classes)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T) ids and a mask of the real ones -> logits (B, n_classes)."""
        there = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
        output, _weights = self.transformer(x, there[:, None, None])
        share = there / there.sum(1, keepdim=True)
        logits: Tensor = self.last(torch.einsum("bt,btd->bd", share.to(output.dtype), output))
        return logits


class Translator(nn.Module):
    """Step 22's `EncoderDecoderTransformer`."""

    def __init__(
        self, src_vocab_size: int, tgt_vocab_size: int, d_model: int, n_heads: int, n_layers: int, d_ff: int,
        max_seq_len: int, dropout: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.encoder = Text(src_vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.words, self.places = nn.Embedding(tgt_vocab_size, d_model), nn.Embedding(max_seq_len, d_model)
        self.decoder_blocks = nn.ModuleList(Block(d_model, n_heads, d_ff, dropout, True) for _layer in range(n_layers))
        self.last = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """(B, S) and (B, T) ids -> logits (B, T, V)."""
        read, _weights = self.encoder(src, src_mask)
        x = self.words(tgt) + self.places.weight[: tgt.shape[1]]
        for layer in self.decoder_blocks:
            x, _weights = layer(x, _no_later(tgt), read, src_mask)
        logits: Tensor = self.last(x)
        return logits


class Captioner(nn.Module):
    """Step 24's `ImageCaptioning`."""

    def __init__(
        self, vocab_size: int, d_model: int, n_heads: int, n_layers: int, d_ff: int, feature_dim: int, max_seq_len: int,
        dropout: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.see = nn.Linear(feature_dim, d_model)
        self.read = Text(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.cross_attention = Attention(d_model, n_heads, dropout)
        self.last = nn.Linear(d_model, vocab_size)

    def forward(self, image_features: Tensor, text_ids: Tensor) -> tuple[Tensor, Tensor]:
        """(B, R, F) and (B, T) ids -> logits (B, T, V), weights (B, H, T, R)."""
        text, _weights = self.read(text_ids, _no_later(text_ids))
        image = self.see(image_features)
        seen, weights = self.cross_attention(text, image, image)
        return self.last(text + seen), weights


@torch.no_grad()
def _written(ask: Any, model: nn.Module, rows: int, bos_id: int, eos_id: int, most: int) -> Tensor:
    mode = model.training
    model.eval()
    text = torch.full((rows, 1), bos_id, device=next(model.parameters()).device)
    for _word in range(most):
        text = F.pad(text, (0, 1))
        text[:, -1] = ask(text[:, :-1])[:, -1].argmax(-1)
        text[:, -1][(text[:, 1:-1] == eos_id).any(1)] = eos_id
    model.train(mode)
    return text


def greedy_translate(
    model: nn.Module, src: Tensor, bos_id: int, eos_id: int, max_new_tokens: int, src_mask: Tensor | None = None
) -> Tensor:
    """(B, S) ids -> (B, 1 + max_new_tokens) ids."""
    return _written(lambda ids: model(src, ids, src_mask), model, len(src), bos_id, eos_id, max_new_tokens)


def greedy_caption(model: nn.Module, image_features: Tensor, bos_id: int, eos_id: int, max_new_tokens: int) -> Tensor:
    """(B, R, F) -> (B, 1 + max_new_tokens) ids."""
    ask = lambda ids: model(image_features, ids)[0]  # noqa: E731
    return _written(ask, model, len(image_features), bos_id, eos_id, max_new_tokens)


def caption_loss(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The mean cross-entropy of the words that are there."""
    there = targets != pad_id
    return F.cross_entropy(logits[there], targets[there])


class PatchLayer(nn.Module):
    """Step 23's `PatchEmbedding`, as a convolution."""

    def __init__(self, patch_size: int, in_channels: int, d_model: int) -> None:
        super().__init__()
        self.inner = nn.Conv2d(in_channels, d_model, patch_size, patch_size)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> (B, N, d_model)."""
        vectors: Tensor = self.inner(images).flatten(2).transpose(1, 2)
        return vectors


class Encoder:
    """The names of step 21."""

    SentimentAnalyzer = Classifier


class Decoder:
    """The names of step 22."""

    EncoderDecoderTransformer, greedy_translate = Translator, staticmethod(greedy_translate)


class Patches:
    """The names of step 23."""

    PatchEmbedding = PatchLayer


class Captions:
    """The names of step 24."""

    ImageCaptioning = Captioner
    caption_loss, greedy_caption = staticmethod(caption_loss), staticmethod(greedy_caption)
