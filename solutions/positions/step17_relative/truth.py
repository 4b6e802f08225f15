"""The references of step 17 are right: held against the attention of VITS, SeamlessM4T v2, BLOOM and MPT.

All of them are made from small random configurations: nothing is downloaded.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from solutions.positions.step17_relative.reference import (
    RelativeSelfAttention,
    alibi_attention,
    alibi_bias,
    alibi_slopes,
    relative_positions,
)

B, T, D, H, K = 2, 5, 12, 3, 4


def drawn(module: nn.Module) -> nn.Module:
    """The module in float64, with normal parameters."""
    module.double().eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def loaded(max_distance: int, **weights: Tensor) -> RelativeSelfAttention:
    """Our module with these weights."""
    ours = RelativeSelfAttention(D, H, max_distance).double()
    ours.load_state_dict({name.replace("__", "."): weight.detach() for name, weight in weights.items()})
    return ours


@pytest.mark.parametrize("masked", (False, True))
def test_vits_keys_and_values(masked: bool) -> None:
    """VITS has Shaw's keys and values. Distances beyond its window get no vector: x stays within it."""
    from transformers import VitsConfig
    from transformers.models.vits.modeling_vits import VitsAttention

    torch.manual_seed(0)
    config = VitsConfig(hidden_size=D, num_attention_heads=H, window_size=K, attention_dropout=0.0, use_bias=True)
    theirs = drawn(VitsAttention(config))
    for layer in (theirs.q_proj, theirs.k_proj, theirs.v_proj):
        nn.init.zeros_(layer.bias)
    ours = loaded(
        K,
        W_query__weight=theirs.q_proj.weight,
        W_key__weight=theirs.k_proj.weight,
        W_value__weight=theirs.v_proj.weight,
        out_proj__weight=theirs.out_proj.weight,
        out_proj__bias=theirs.out_proj.bias,
        relative_key__weight=theirs.emb_rel_k[0],
        relative_value__weight=theirs.emb_rel_v[0],
    )
    for num_tokens in (1, 3, T):
        x = torch.randn(B, num_tokens, D, dtype=torch.float64)
        mask = torch.ones(B, 1, num_tokens, num_tokens, dtype=torch.bool).tril() if masked else None
        added = None if mask is None else torch.zeros(mask.shape, dtype=x.dtype).masked_fill(~mask, -math.inf)
        assert_close(ours(x, mask), theirs(x, attention_mask=added)[0], atol=1e-12, rtol=0.0)


def test_seamless_keys_beyond_the_distance() -> None:
    """SeamlessM4T v2 clips as Shaw does, and has keys only: our values' table is zero here."""
    from transformers import SeamlessM4Tv2Config
    from transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2 import SeamlessM4Tv2ConformerSelfAttention

    torch.manual_seed(1)
    config = SeamlessM4Tv2Config(
        hidden_size=D, speech_encoder_attention_heads=H, speech_encoder_dropout=0.0, attn_implementation="eager",
        position_embeddings_type="relative_key", left_max_position_embeddings=2, right_max_position_embeddings=2,
    )  # fmt: skip
    theirs = drawn(SeamlessM4Tv2ConformerSelfAttention(config))
    for layer in (theirs.linear_q, theirs.linear_k, theirs.linear_v):
        nn.init.zeros_(layer.bias)
    ours = loaded(
        2,
        W_query__weight=theirs.linear_q.weight,
        W_key__weight=theirs.linear_k.weight,
        W_value__weight=theirs.linear_v.weight,
        out_proj__weight=theirs.linear_out.weight,
        out_proj__bias=theirs.linear_out.bias,
        relative_key__weight=theirs.distance_embedding.weight,
        relative_value__weight=torch.zeros(5, D // H, dtype=torch.float64),
    )
    x = torch.randn(B, 9, D, dtype=torch.float64)
    assert_close(ours(x), theirs(x)[0], atol=1e-6, rtol=0.0)  # their softmax may run in float32


def test_shaw_by_loops() -> None:
    """Shaw's equations (3) and (4), one pair of tokens after the other, where distances are clipped."""
    torch.manual_seed(2)
    ours = drawn(RelativeSelfAttention(D, H, 2))
    x = torch.randn(B, 7, D, dtype=torch.float64)
    d = D // H
    query, key, value = ours.W_query(x), ours.W_key(x), ours.W_value(x)
    context = torch.zeros_like(x)
    for head in range(H):
        columns = slice(head * d, (head + 1) * d)
        for i in range(7):
            rows = [max(-2, min(2, j - i)) + 2 for j in range(7)]
            keys = torch.stack([key[:, j, columns] + ours.relative_key.weight[rows[j]] for j in range(7)], dim=1)
            values = torch.stack([value[:, j, columns] + ours.relative_value.weight[rows[j]] for j in range(7)], dim=1)
            weights = torch.softmax((keys @ query[:, i, columns, None])[..., 0] / math.sqrt(d), dim=-1)
            context[:, i, columns] = (weights[..., None] * values).sum(dim=1)
    assert_close(ours(x), ours.out_proj(context), atol=1e-12, rtol=0.0)


def test_relative_positions_of_the_paper() -> None:
    """Shaw's figure: k = 2, five tokens."""
    expected = [[2, 3, 4, 4, 4], [1, 2, 3, 4, 4], [0, 1, 2, 3, 4], [0, 0, 1, 2, 3], [0, 0, 0, 1, 2]]
    assert relative_positions(5, 2).tolist() == expected
    assert relative_positions(3, 0).tolist() == [[0] * 3] * 3


@pytest.mark.parametrize("heads", (*range(1, 21), 32, 40))
def test_slopes_of_bloom(heads: int) -> None:
    """BLOOM's slopes: those of its bias, a row of slope · j."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)  # (heads, 1, 2)
    assert_close(alibi_slopes(heads), theirs[:, 0, 1], atol=0.0, rtol=1e-6)


@pytest.mark.parametrize("heads", (1, 2, 4, 8, 16))
def test_bias_of_mpt(heads: int) -> None:
    """MPT's bias, a row of slope · (j - (T - 1)), is that of our last query."""
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    theirs = build_mpt_alibi_tensor(heads, 7)  # (heads, 1, 7)
    assert_close(alibi_bias(heads, 7)[:, -1], theirs[:, 0], atol=0.0, rtol=1e-6)


def test_slopes_of_the_paper() -> None:
    """The numbers printed in the paper for 8 and 16 heads, and its code's for 12."""
    assert alibi_slopes(8).tolist() == [2.0**-h for h in range(1, 9)]
    assert_close(alibi_slopes(16), torch.tensor([2 ** (-h / 2) for h in range(1, 17)]))
    twelve = [2.0**-h for h in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    assert_close(alibi_slopes(12), torch.tensor(twelve))


@pytest.mark.parametrize("heads", (2, 3, 8))
def test_alibi_as_bloom_attends(heads: int) -> None:
    """BLOOM adds slope · j and hides the future: another bias, and the same softmax."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    torch.manual_seed(3)
    query, key = torch.randn(2, B, heads, 6, 4, dtype=torch.float64)
    value = torch.randn(B, heads, 6, 5, dtype=torch.float64)
    theirs = build_alibi_tensor(torch.ones(B, 6), heads, torch.float64).view(B, heads, 1, 6)
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
    bias = theirs.expand(B, heads, 6, 6).masked_fill(hidden, -math.inf)
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    assert_close(alibi_attention(query, key, value), expected, atol=1e-6, rtol=0.0)
