"""The reference of step 20 is right: `nn.MultiheadAttention` with the same weights gives the same."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.testing import assert_close

from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention, padding_mask

B, H, D = 3, 4, 8


def same_weights(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    """torch's module with the weights of ours, which it keeps in one matrix."""
    theirs = nn.MultiheadAttention(D, H, bias=False, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.W_q.weight, ours.W_k.weight, ours.W_v.weight]))
        theirs.out_proj.weight.copy_(ours.W_o.weight)
    return theirs.eval()


def _drawn(queries: int, keys: int) -> tuple[MultiHeadAttention, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    query, key, value = (torch.randn(B, count, D, dtype=torch.float64) for count in (queries, keys, keys))
    return MultiHeadAttention(D, H).double().eval(), query, key, value


@pytest.mark.parametrize("queries, keys", ((5, 5), (3, 6), (6, 3), (1, 4)))
def test_output_and_weights_are_torchs(queries: int, keys: int) -> None:
    """Without a mask, with one of the padding, with a causal one, and with any full one."""
    ours, query, key, value = _drawn(queries, keys)
    theirs = same_weights(ours)
    padding = torch.rand(B, keys) < 0.6
    padding[:, 0] = True
    causal = torch.ones(queries, keys, dtype=torch.bool).tril()
    full = torch.rand(B, H, queries, keys) < 0.6
    full[..., 0] = True
    cases = (
        (None, {}),
        (padding[:, None, None, :], {"key_padding_mask": ~padding}),
        (causal, {"attn_mask": ~causal}),
        (causal[None, None], {"attn_mask": ~causal}),
        (full, {"attn_mask": ~full.flatten(0, 1)}),
    )
    for mask, given in cases:
        expected = theirs(query, key, value, average_attn_weights=False, **given)
        assert_close(ours(query, key, value, mask), expected)


def test_gradients_are_difference_quotients() -> None:
    """torch's gradcheck, through output and weights."""
    ours, query, key, value = (value.requires_grad_() for value in _drawn(2, 3))
    mask = torch.tensor([[True, False, True], [True, True, True]])
    assert gradcheck(ours, (query[:1], key[:1], value[:1], mask))


def test_dropout_keeps_the_mean() -> None:
    """In training the mean of many draws is the output without dropout."""
    ours, query, key, value = _drawn(2, 3)
    expected = ours(query, key, value)[0]
    ours.train()
    drawn = torch.stack([ours(query, key, value)[0] for _ in range(4000)])
    assert_close(drawn.mean(dim=0), expected, atol=0.02, rtol=0)


def test_padding_mask_hides_what_an_embedding_ignores() -> None:
    """`nn.Embedding`'s padding_idx gives zeros exactly where the mask is False."""
    ids = torch.randint(0, 5, (B, 7))
    for pad_id in (0, 3):
        embedded = F.embedding(ids, torch.ones(5, 1).index_fill(0, torch.tensor(pad_id), 0))
        mask = padding_mask(ids, pad_id)
        assert mask.dtype == torch.bool
        assert_close(mask, embedded.squeeze(-1).bool()[:, None, None, :])
