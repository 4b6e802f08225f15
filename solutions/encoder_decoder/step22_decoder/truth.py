"""The reference of step 22 is right: `nn.TransformerDecoderLayer` with the same weights gives the same."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from solutions.encoder_decoder.step21_encoder.truth import load_attention, spread
from solutions.encoder_decoder.step22_decoder.reference import (
    DecoderBlock,
    EncoderDecoderTransformer,
    greedy_translate,
)

B, S, T, H, D, FF, LAYERS, VOCABULARY = 3, 6, 5, 2, 8, 12, 3, 11


def load_block(theirs: nn.TransformerDecoderLayer, ours: DecoderBlock) -> None:
    """The weights of our block into torch's."""
    load_attention(theirs.self_attn, ours.self_attention)
    load_attention(theirs.multihead_attn, ours.cross_attention)
    theirs.linear1.load_state_dict(ours.feed_forward.linear1.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.linear2.state_dict())
    for name in ("1", "2", "3"):
        getattr(theirs, f"norm{name}").load_state_dict(getattr(ours, f"ln{name}").state_dict())


def _drawn() -> tuple[EncoderDecoderTransformer, Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    model = EncoderDecoderTransformer(VOCABULARY, VOCABULARY + 1, D, H, LAYERS, FF, 8, 0.0).double().eval()
    spread(model)
    real_src = torch.arange(S) < torch.tensor([[6], [4], [1]])
    real_tgt = torch.arange(T) < torch.tensor([[5], [2], [4]])
    src, tgt = torch.randint(0, VOCABULARY, (B, S)), torch.randint(0, VOCABULARY + 1, (B, T))
    return model, src, tgt, real_src, real_tgt


@pytest.mark.parametrize("masked", (False, True))
def test_block_is_torchs(masked: bool) -> None:
    """With and without masks of both kinds."""
    model, _src, _tgt, real_src, real_tgt = _drawn()
    block = model.decoder_blocks[0]
    theirs = nn.TransformerDecoderLayer(D, H, FF, 0.0, batch_first=True, norm_first=False).double().eval()
    load_block(theirs, block)
    stream, encoded = torch.randn(B, T, D, dtype=torch.float64), torch.randn(B, S, D, dtype=torch.float64)
    causal = torch.ones(T, T, dtype=torch.bool).tril()
    if masked:
        got = block(stream, encoded, causal & real_tgt[:, None, None, :], real_src[:, None, None, :])
        hidden = {"tgt_key_padding_mask": ~real_tgt, "memory_key_padding_mask": ~real_src}
        assert_close(got, theirs(stream, encoded, tgt_mask=~causal, **hidden))
    else:
        assert_close(block(stream, encoded), theirs(stream, encoded))


@pytest.mark.parametrize("masked", (False, True))
def test_logits_are_torchs(masked: bool) -> None:
    """torch's decoder behind our encoder, which step 21 proves."""
    model, src, tgt, real_src, real_tgt = _drawn()
    layer = nn.TransformerDecoderLayer(D, H, FF, 0.0, batch_first=True, norm_first=False)
    theirs = nn.TransformerDecoder(layer, LAYERS, norm=nn.LayerNorm(D)).double().eval()
    for their_block, our_block in zip(theirs.layers, model.decoder_blocks, strict=True):
        load_block(their_block, our_block)
    theirs.norm.load_state_dict(model.ln_final.state_dict())
    src_mask, tgt_mask = (real_src[:, None, None, :], real_tgt[:, None, None, :]) if masked else (None, None)
    hidden = {"tgt_key_padding_mask": ~real_tgt, "memory_key_padding_mask": ~real_src} if masked else {}
    encoded, _weights = model.encoder(src, src_mask)
    x = model.decoder_embedding.weight[tgt] + model.decoder_pos_embedding.weight[:T]
    causal = nn.Transformer.generate_square_subsequent_mask(T) != 0
    expected = model.output_projection(theirs(x, encoded, tgt_mask=causal, **hidden))
    assert_close(model(src, tgt, src_mask, tgt_mask), expected)


def test_greedy_ids_are_the_largest_logits() -> None:
    """Every token that was written is the arg max at its place, in one pass over the whole; an ended row stays so."""
    model, src, _tgt, real_src, _real_tgt = _drawn()
    mask = real_src[:, None, None, :]
    for eos_id in range(VOCABULARY + 1):
        ids = greedy_translate(model.train(), src, 1, eos_id, 7, mask)
        assert model.training
        assert ids.shape == (B, 8)
        largest = model.eval()(src, ids[:, :-1], mask).argmax(dim=-1)
        for row in range(B):
            written, due = ids[row, 1:].tolist(), largest[row].tolist()
            end = written.index(eos_id) + 1 if eos_id in written else 7
            assert written[:end] == due[:end]
            assert set(written[end:]) <= {eos_id}
