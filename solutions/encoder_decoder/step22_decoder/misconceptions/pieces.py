"""The reference's classes cut into pieces, the model made of its blocks."""

from typing import Any

import torch
from torch import Tensor, nn

from grader.checks.catalogue import all_made_of
from solutions.encoder_decoder.step22_decoder import reference

Masks = tuple[Tensor | None, Tensor | None]  # of the target and of the source


class Block(reference.DecoderBlock):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def ask_itself(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.self_attention(x, x, x, mask)[0]

    def ask_source(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return self.cross_attention(x, source, source, mask)[0]

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + self.dropout(attended))

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(x + self.dropout(attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(x + self.dropout(self.feed_forward(x)))

    def masks(self, tgt_mask: Tensor | None, src_mask: Tensor | None) -> Masks:
        return tgt_mask, src_mask

    def own(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.add_own(x, self.ask_itself(x, mask))

    def crossed(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return self.add_crossed(x, self.ask_source(x, source, mask))

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        tgt_mask, src_mask = self.masks(tgt_mask, src_mask)
        return self.add_fed(self.crossed(self.own(tgt, tgt_mask), encoder_output, src_mask))


class Model(reference.EncoderDecoderTransformer):
    """As `Block`."""

    made_of: type = reference.DecoderBlock

    def __init__(
        self,
        src_vocab_size,
        tgt_vocab_size,
        d_model=512,
        n_heads=8,
        n_layers=6,
        d_ff=2048,
        max_seq_len=5000,
        dropout=0.1,
    ):
        super().__init__(src_vocab_size, tgt_vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.decoder_blocks = self.blocks(n_layers, d_model, n_heads, d_ff, dropout)

    def blocks(self, n_layers: int, *given: Any) -> nn.ModuleList:
        return nn.ModuleList(self.made_of(*given) for _ in range(n_layers))

    def encode(self, src: Tensor, mask: Tensor | None) -> Tensor:
        return self.encoder(src, mask)[0]

    def causal(self, tgt: Tensor) -> Tensor:
        return torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).tril()

    def join(self, causal: Tensor, mask: Tensor | None) -> Tensor | None:
        return causal if mask is None else causal & mask

    def positions(self, tgt: Tensor) -> Tensor:
        return self.decoder_pos_embedding(torch.arange(tgt.shape[1], device=tgt.device))

    def embed(self, tgt: Tensor) -> Tensor:
        return self.dropout(self.decoder_embedding(tgt) + self.positions(tgt))

    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        for block in self.decoder_blocks:
            x = block(x, encoded, visible, src_mask)
            x = x[0] if isinstance(x, tuple) else x  # a wrong block may give more than its output
        return x

    def finish(self, x: Tensor) -> Tensor:
        return self.output_projection(self.ln_final(x))

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        if tgt.shape[1] > self.max_seq_len:
            raise ValueError(f"tgt has {tgt.shape[1]} tokens, but max_seq_len is {self.max_seq_len}")
        encoded = self.encode(src, src_mask)
        return self.finish(self.decode(self.embed(tgt), encoded, self.join(self.causal(tgt), tgt_mask), src_mask))


whole = all_made_of({"DecoderBlock": Block, "EncoderDecoderTransformer": Model})
