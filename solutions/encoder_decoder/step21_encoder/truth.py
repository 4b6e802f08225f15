"""The reference of step 21 is right: `nn.TransformerEncoderLayer` with the same weights gives the same."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from solutions.encoder_decoder.step21_encoder.reference import SentimentAnalyzer, SimpleTransformer, TransformerBlock

B, T, H, D, FF, LAYERS, VOCABULARY = 3, 6, 2, 8, 12, 3, 11


def load_attention(theirs: nn.MultiheadAttention, ours: nn.Module) -> None:
    """The weights of step 20's module into torch's, whose biases become 0."""
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.W_q.weight, ours.W_k.weight, ours.W_v.weight]))
        theirs.out_proj.weight.copy_(ours.W_o.weight)
        theirs.in_proj_bias.zero_()
        theirs.out_proj.bias.zero_()


def load_block(theirs: nn.TransformerEncoderLayer, ours: TransformerBlock) -> None:
    """The weights of our block into torch's."""
    load_attention(theirs.self_attn, ours.attention)
    theirs.linear1.load_state_dict(ours.feed_forward.linear1.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.linear2.state_dict())
    theirs.norm1.load_state_dict(ours.ln1.state_dict())
    theirs.norm2.load_state_dict(ours.ln2.state_dict())


def spread(module: nn.Module) -> None:
    """Norms' weights and biases that show: as they are made they are 1 and 0."""
    for part in module.modules():
        if isinstance(part, nn.LayerNorm):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.uniform_(part.bias, -0.5, 0.5)


def torchs_encoder(ours: SimpleTransformer) -> nn.TransformerEncoder:
    """torch's encoder with the weights of ours."""
    layer = nn.TransformerEncoderLayer(D, H, FF, batch_first=True, norm_first=False)
    theirs = nn.TransformerEncoder(layer, LAYERS, norm=nn.LayerNorm(D), enable_nested_tensor=False).double()
    for their_block, our_block in zip(theirs.layers, ours.transformer_blocks, strict=True):
        load_block(their_block, our_block)
    theirs.norm.load_state_dict(ours.ln_final.state_dict())
    # Its fast path rounds otherwise, and gives no weights.
    return theirs.train().requires_grad_(False)


def _drawn() -> tuple[SimpleTransformer, Tensor, Tensor]:
    torch.manual_seed(0)
    ours = SimpleTransformer(VOCABULARY, D, H, LAYERS, FF, T, 0.0).double().eval()
    spread(ours)
    real = torch.arange(T) < torch.tensor([[6], [4], [1]])
    return ours, torch.randint(0, VOCABULARY, (B, T)), real


@pytest.mark.parametrize("masked", (False, True))
def test_block_is_torchs(masked: bool) -> None:
    """Output and every head's weights."""
    ours, ids, real = _drawn()
    block = ours.transformer_blocks[0]
    theirs = nn.TransformerEncoderLayer(D, H, FF, 0.0, batch_first=True, norm_first=False).double().eval()
    load_block(theirs, block)
    x = ours.token_embedding(ids)
    hidden = {"src_key_padding_mask": ~real} if masked else {}
    output, weights = block(x, real[:, None, None, :] if masked else None)
    assert_close(output, theirs(x, **hidden))
    expected = theirs.self_attn(x, x, x, key_padding_mask=~real if masked else None, average_attn_weights=False)[1]
    assert_close(weights, expected)


@pytest.mark.parametrize("masked", (False, True))
def test_encoder_is_torchs(masked: bool) -> None:
    """Embeddings, three layers and the norm."""
    ours, ids, real = _drawn()
    theirs = torchs_encoder(ours)
    for module in theirs.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    x = ours.token_embedding.weight[ids] + ours.position_embedding.weight[:T]
    expected = theirs(x, src_key_padding_mask=~real if masked else None)
    output, weights = ours(ids, real[:, None, None, :] if masked else None)
    assert_close(output, expected)
    assert len(weights) == LAYERS


def test_classifier_reads_each_sentence_by_itself() -> None:
    """A batch with padding gives what torch's encoder gives for each sentence alone, without padding."""
    torch.manual_seed(1)
    model = SentimentAnalyzer(VOCABULARY, D, H, LAYERS, 3, FF, T, 0.0).double().eval()
    spread(model)
    _ours, ids, real = _drawn()
    logits = model(ids, real)
    for row, length in enumerate(real.sum(dim=1).tolist()):
        sentence = ids[row : row + 1, :length]
        embedded = model.transformer.token_embedding(sentence) + model.transformer.position_embedding.weight[:length]
        stack = torchs_encoder(model.transformer).eval()
        torch.backends.mha.set_fastpath_enabled(False)
        expected = model.classifier(stack(embedded).mean(dim=1))
        torch.backends.mha.set_fastpath_enabled(True)
        assert_close(logits[row : row + 1], expected)
        assert_close(model(sentence), expected)
