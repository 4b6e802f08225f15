"""Right ways of step 22 that are written differently; each gets full marks."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant
from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention
from solutions.encoder_decoder.step21_encoder.reference import FeedForward, SimpleTransformer
from solutions.encoder_decoder.step22_decoder.reference import DecoderBlock, EncoderDecoderTransformer

EVERYTHING = ("DecoderBlock", "EncoderDecoderTransformer", "greedy_translate")


@variant(replaces=EVERYTHING)
def as_the_tutorials_write_it() -> dict[str, Any]:
    """A dropout module for each branch, a causal mask by triu, a list of ids that stops early and is filled up."""

    class Decoder(nn.Module):
        def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
            super().__init__()
            self.self_attention = MultiHeadAttention(d_model, n_heads, dropout)
            self.cross_attention = MultiHeadAttention(d_model, n_heads, dropout)
            self.feed_forward = FeedForward(d_model, d_ff, dropout)
            self.ln1 = nn.LayerNorm(d_model)
            self.ln2 = nn.LayerNorm(d_model)
            self.ln3 = nn.LayerNorm(d_model)
            self.dropout1, self.dropout2, self.dropout3 = (nn.Dropout(dropout) for _ in range(3))

        def forward(
            self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
        ) -> Tensor:
            self_attn_output, _ = self.self_attention(tgt, tgt, tgt, tgt_mask)
            tgt = self.ln1(tgt + self.dropout1(self_attn_output))
            cross_attn_output, _ = self.cross_attention(
                query=tgt, key=encoder_output, value=encoder_output, mask=src_mask
            )
            tgt = self.ln2(tgt + self.dropout2(cross_attn_output))
            return self.ln3(tgt + self.dropout3(self.feed_forward(tgt)))

    class Model(nn.Module):
        def __init__(
            self, src_vocab_size: int, tgt_vocab_size: int, d_model: int = 512, n_heads: int = 8, n_layers: int = 6,
            d_ff: int = 2048, max_seq_len: int = 5000, dropout: float = 0.1,
        ) -> None:  # fmt: skip
            super().__init__()
            self.encoder = SimpleTransformer(src_vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
            self.decoder_embedding = nn.Embedding(tgt_vocab_size, d_model)
            self.decoder_pos_embedding = nn.Embedding(max_seq_len, d_model)
            self.decoder_blocks = nn.ModuleList([Decoder(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)])
            self.ln_final = nn.LayerNorm(d_model)
            self.output_projection = nn.Linear(d_model, tgt_vocab_size)
            self.dropout = nn.Dropout(dropout)

        def generate_causal_mask(self, size: int, device: torch.device) -> Tensor:
            return torch.triu(torch.ones(size, size, device=device), diagonal=1) == 0

        def forward(
            self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
        ) -> Tensor:
            batch_size, tgt_len = tgt.size()
            encoder_output, _ = self.encoder(src, src_mask)
            positions = torch.arange(tgt_len, device=tgt.device).unsqueeze(0).expand(batch_size, -1)
            x = self.dropout(self.decoder_embedding(tgt) + self.decoder_pos_embedding(positions))
            causal_mask = self.generate_causal_mask(tgt_len, tgt.device).unsqueeze(0).unsqueeze(0)
            if tgt_mask is not None:
                causal_mask = torch.logical_and(causal_mask, tgt_mask)
            for block in self.decoder_blocks:
                x = block(x, encoder_output, causal_mask, src_mask)
            return self.output_projection(self.ln_final(x))

    @torch.no_grad()
    def greedy(
        model: nn.Module, src: Tensor, bos_id: int, eos_id: int, max_new_tokens: int, src_mask: Tensor | None = None
    ) -> Tensor:
        mode = model.training
        model.eval()
        generated = torch.tensor([[bos_id]], device=src.device).repeat(src.size(0), 1)
        finished = torch.zeros(src.size(0), dtype=torch.bool, device=src.device)
        for _ in range(max_new_tokens):
            next_token = model(src, generated, src_mask)[:, -1, :].argmax(dim=-1)
            next_token = torch.where(finished, torch.full_like(next_token, eos_id), next_token)
            generated = torch.cat([generated, next_token.unsqueeze(1)], dim=1)
            finished |= next_token == eos_id
            if finished.all():
                break
        missing = 1 + max_new_tokens - generated.size(1)
        model.train(mode)
        return F.pad(generated, (0, missing), value=eos_id)

    return {"DecoderBlock": Decoder, "EncoderDecoderTransformer": Model, "greedy_translate": greedy}


@variant(replaces="DecoderBlock")
class branches_by_name(nn.Module):
    """Functional dropout, norms in a loop over the three branches."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.ln1, self.ln2, self.ln3 = (nn.LayerNorm(d_model, eps=1e-5) for _ in range(3))
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.cross_attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.self_attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.p = dropout

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Tensor:
        x = tgt
        branches = (
            lambda x: self.self_attention(x, x, x, tgt_mask)[0],
            lambda x: self.cross_attention(x, encoder_output, encoder_output, mask=src_mask)[0],
            self.feed_forward,
        )
        for branch, norm in zip(branches, (self.ln1, self.ln2, self.ln3), strict=True):
            x = norm(x.add(F.dropout(branch(x), p=self.p, training=self.training)))
        return x


@variant(replaces="EncoderDecoderTransformer")
class slice_of_the_table(EncoderDecoderTransformer):
    """Positions as a slice of the table, the causal mask by comparing positions, masks multiplied."""

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        length = tgt.shape[1]
        assert length <= len(self.decoder_pos_embedding.weight), "too long"
        x = self.dropout(self.decoder_embedding(tgt) + self.decoder_pos_embedding.weight[:length])
        position = torch.arange(length, device=tgt.device)
        visible = position[:, None] >= position[None, :]
        if tgt_mask is not None:
            visible = visible * tgt_mask
        memory = self.encoder(src, mask=src_mask)[0]
        for block in self.decoder_blocks:
            x = block(x, memory, tgt_mask=visible, src_mask=src_mask)
        return F.linear(self.ln_final(x), self.output_projection.weight, self.output_projection.bias)


@variant(
    replaces="EncoderDecoderTransformer",
    trades="The mask is made once, and moves with the module; for 5,000 tokens it takes 25 MB, always.",
)
class causal_mask_in_a_buffer(nn.Module):
    """The causal mask in a buffer, as long as the table, and cut."""

    def __init__(
        self, src_vocab_size: int, tgt_vocab_size: int, d_model: int = 512, n_heads: int = 8, n_layers: int = 6,
        d_ff: int = 2048, max_seq_len: int = 5000, dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.decoder_embedding = nn.Embedding(tgt_vocab_size, d_model)
        self.decoder_pos_embedding = nn.Embedding(max_seq_len, d_model)
        self.decoder_blocks = nn.ModuleList()
        for _layer in range(n_layers):
            self.decoder_blocks.append(DecoderBlock(d_model, n_heads, d_ff, dropout))
        self.ln_final, self.drop = nn.LayerNorm(d_model), nn.Dropout(dropout)
        self.output_projection = nn.Linear(d_model, tgt_vocab_size, bias=True)
        self.encoder = SimpleTransformer(
            src_vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len=max_seq_len, dropout=dropout
        )
        self.register_buffer("causal", torch.ones(max_seq_len, max_seq_len).tril().bool(), persistent=False)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        if tgt.shape[1] > len(self.causal):
            raise IndexError(tgt.shape[1])
        shown = self.causal[None, None, : tgt.shape[1], : tgt.shape[1]]
        shown = shown if tgt_mask is None else shown & tgt_mask
        positions = torch.arange(tgt.shape[1], device=tgt.device).expand_as(tgt)
        x = self.drop(self.decoder_pos_embedding(positions) + self.decoder_embedding(tgt))
        encoded, *_rest = self.encoder(src, src_mask)
        for block in self.decoder_blocks:
            x = block(x, encoded, shown, src_mask)
        return self.output_projection(self.ln_final(x))


@variant(
    replaces="greedy_translate",
    trades="No step copies what is written; asking whether all rows have ended makes a GPU wait.",
)
def filled_in_place(
    model: nn.Module, src: Tensor, bos_id: int, eos_id: int, max_new_tokens: int, src_mask: Tensor | None = None
) -> Tensor:
    """A table of eos_id that is filled from the left; the largest logit by topk; the mode of every part restored."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    ids = torch.full((src.shape[0], 1 + max_new_tokens), eos_id, dtype=torch.long, device=src.device)
    ids[:, 0] = bos_id
    going = torch.ones(src.shape[0], dtype=torch.bool, device=src.device)
    with torch.inference_mode():
        for step in range(max_new_tokens):
            logits = model(src, ids[:, : step + 1], src_mask=src_mask)
            best = logits[:, step].topk(1).indices[:, 0]
            ids[:, step + 1] = torch.where(going, best, ids[:, step + 1])
            going = going & (best != eos_id)
    for module, mode in modes.items():
        module.training = mode
    return ids


@variant(
    replaces="greedy_translate",
    trades="Each row stops where it ends; every word of every row is a call of its own.",
)
def row_by_row(
    model: nn.Module, src: Tensor, bos_id: int, eos_id: int, max_new_tokens: int, src_mask: Tensor | None = None
) -> Tensor:
    """Each row by itself, as Python lists."""
    was_training, rows = model.training, []
    model.eval()
    for b in range(len(src)):
        written = [bos_id]
        while len(written) <= max_new_tokens:
            if len(written) > 1 and written[-1] == eos_id:
                written.append(eos_id)
                continue
            tgt = torch.tensor([written], device=src.device)
            mask = None if src_mask is None else src_mask[b : b + 1]
            with torch.no_grad():
                written.append(int(model(src[b : b + 1], tgt, mask)[0, -1].argmax()))
        rows.append(written)
    if was_training:
        model.train()
    return torch.tensor(rows, device=src.device)


@variant(replaces="greedy_translate")
def padded_and_read_again(
    model: nn.Module, src: Tensor, bos_id: int, eos_id: int, max_new_tokens: int, src_mask: Tensor | None = None
) -> Tensor:
    """The whole translation is there from the first step on, padded with eos_id, which the model reads too."""
    mode = model.training
    model.eval()
    ids = torch.full((len(src), 1 + max_new_tokens), eos_id, device=src.device)
    ids[:, 0] = bos_id
    ended = torch.zeros_like(ids[:, 0], dtype=torch.bool)
    with torch.no_grad():
        for step in range(max_new_tokens):
            logits = model(src, ids[:, :-1], src_mask)
            ids[:, step + 1] = logits[:, step].argmax(-1).masked_fill(ended, eos_id)
            ended |= ids[:, step + 1] == eos_id
    model.train(mode)
    return ids
