"""The reference of step 24 is right: torch's encoder layers under a causal mask, and `nn.MultiheadAttention`, agree."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from solutions.encoder_decoder.step21_encoder.truth import load_attention, load_block, spread
from solutions.images.step24_captions.reference import ImageCaptioning, caption_loss, greedy_caption

B, R, T, H, D, FF, LAYERS, VOCABULARY, FEATURES = 3, 6, 5, 2, 8, 12, 3, 11, 7  # sizes as in step 21's proof


def _drawn() -> tuple[ImageCaptioning, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    model = ImageCaptioning(VOCABULARY, D, H, LAYERS, FF, FEATURES, 8, 0.0).double().eval()
    spread(model)
    features = torch.randn(B, R, FEATURES, dtype=torch.float64)
    return model, features, torch.randint(0, VOCABULARY, (B, T)), torch.arange(R) < torch.tensor([[6], [4], [1]])


@pytest.mark.parametrize("masked", (False, True))
def test_model_is_made_of_torchs(masked: bool) -> None:
    """Logits, and every head's weights over the regions."""
    model, features, ids, there = _drawn()
    layer = nn.TransformerEncoderLayer(D, H, FF, 0.0, batch_first=True, norm_first=False)
    stack = nn.TransformerEncoder(layer, LAYERS, norm=nn.LayerNorm(D), enable_nested_tensor=False).double().eval()
    for theirs, ours in zip(stack.layers, model.text_decoder.transformer_blocks, strict=True):
        load_block(theirs, ours)
    stack.norm.load_state_dict(model.text_decoder.ln_final.state_dict())
    cross = nn.MultiheadAttention(D, H, batch_first=True).double().eval()
    load_attention(cross, model.cross_attention)
    embedded = model.text_decoder.token_embedding.weight[ids] + model.text_decoder.position_embedding.weight[:T]
    hidden = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    text = stack(embedded, mask=hidden)
    regions = F.linear(features, model.image_encoder.weight, model.image_encoder.bias)
    absent = ~there if masked else None
    attended, expected = cross(text, regions, regions, key_padding_mask=absent, average_attn_weights=False)
    logits, weights = model(features, ids, there if masked else None)
    assert_close(logits, model.output_projection(text + attended))
    assert_close(weights, expected)


@pytest.mark.parametrize("pad_id", (0, 4, VOCABULARY - 1))
def test_loss_is_the_mean_over_words(pad_id: int) -> None:
    """`nn.NLLLoss` of the words that are there, picked out one by one; the value and its gradient."""
    _model, _features, targets, _there = _drawn()
    targets[0, 3:], targets[2, 1:] = pad_id, pad_id
    logits = (300 * torch.randn(B, T, VOCABULARY, dtype=torch.float64)).requires_grad_()
    there = targets != pad_id
    expected = nn.NLLLoss()(nn.LogSoftmax(dim=-1)(logits[there]), targets[there])
    got = caption_loss(logits, targets, pad_id)
    assert_close(got, expected)
    assert_close(torch.autograd.grad(got, logits), torch.autograd.grad(expected, logits))


def test_greedy_ids_are_the_largest_logits() -> None:
    """Every word that was written is the arg max at its place, in one pass over the whole; an ended row stays so."""
    model, features, _ids, there = _drawn()
    for eos_id in range(VOCABULARY):
        ids = greedy_caption(model.train(), features, 1, eos_id, 7, there)
        assert model.training
        assert ids.shape == (B, 8)
        largest = model.eval()(features, ids[:, :-1], there)[0].argmax(dim=-1)
        for row in range(B):
            written, due = ids[row, 1:].tolist(), largest[row].tolist()
            end = written.index(eos_id) + 1 if eos_id in written else 7
            assert written[:end] == due[:end]
            assert set(written[end:]) <= {eos_id}


def test_too_long_is_an_error() -> None:
    """More words than positions."""
    model, features, _ids, _there = _drawn()
    with pytest.raises(ValueError, match="9"):
        model(features, torch.zeros(B, 9, dtype=torch.int64))
