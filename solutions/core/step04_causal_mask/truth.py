"""Step 4 held against printed numbers and torch's masked attention."""

from __future__ import annotations

import math

import pytest
import torch

from solutions.core.step01_scores.reference import scaled_scores
from solutions.core.step02_softmax.reference import softmax
from solutions.core.step03_attention.reference import SelfAttention
from solutions.core.step04_causal_mask.reference import causal_mask, masked_softmax, renormalise
from tests.truths import (
    JOURNEY,
    MASKS,
    WIDE,
    Case,
    agree,
    drawer,
    every_dtype,
    gradients,
    moves,
    normal,
    of,
    printed,
    weights_of,
)


def test_book_causal_mask() -> None:
    """Section 3.5.1: both ways to hide the future give the same printed weights."""
    torch.manual_seed(789)
    layer = SelfAttention(3, 2)
    query, key = layer.W_query(JOURNEY), layer.W_key(JOURNEY)
    expected = [
        [1.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.5517, 0.4483, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.3800, 0.3097, 0.3103, 0.0000, 0.0000, 0.0000],
        [0.2758, 0.2460, 0.2462, 0.2319, 0.0000, 0.0000],
        [0.2175, 0.1983, 0.1984, 0.1888, 0.1971, 0.0000],
        [0.1935, 0.1663, 0.1666, 0.1542, 0.1666, 0.1529],
    ]
    printed(masked_softmax(scaled_scores(query, key), causal_mask(6)), expected)
    printed(renormalise(softmax(scaled_scores(query, key)), causal_mask(6)), expected)


def test_causal_mask() -> None:
    """Exactly the keys to which torch's `is_causal` gives weight."""
    for num_tokens in (1, 2, 33):
        zeros = torch.zeros(num_tokens, 1)
        mask = causal_mask(num_tokens)
        assert mask.dtype == torch.bool
        assert torch.equal(mask, weights_of(zeros, zeros, is_causal=True) > 0)


@every_dtype
@pytest.mark.parametrize("size", (1.0, 1e4))
def test_masked_softmax(size: float, dtype: torch.dtype) -> None:
    """Torch's masked attention, whose weights these are when every score is given as a query."""
    scores = size * normal(2, 5, 6).clamp(-1, 1).to(dtype)
    identity = torch.eye(6, dtype=dtype).expand(2, 6, 6)
    for mask in (causal_mask(6)[:5], causal_mask(6)[1:], MASKS["one row"], MASKS["every head"][:, 0]):
        agree(lambda s, m=mask: masked_softmax(s, m), lambda s, m=mask: weights_of(s, identity, m, scale=1.0), scores)
        assert (masked_softmax(scores, mask).masked_select(~mask) == 0).all()


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_renormalise(dtype: torch.dtype) -> None:
    """On softmax outputs it is the softmax over what the mask leaves."""
    mask = causal_mask(6)[1:]
    agree(
        lambda s: renormalise(torch.softmax(s, dim=-1), mask),
        lambda s: torch.softmax(s.masked_fill(~mask, -math.inf), dim=-1),
        3 * normal(2, 5, 6, dtype=dtype),
    )


x = drawer()
mask = torch.ones(3, 4, dtype=torch.bool).tril(1)
CASES = {
    "causal_mask": Case(lambda: lambda like: causal_mask(4, like.device), (x(4),), 0),
    "masked_softmax": of(masked_softmax, x(3, 4), mask),
    "renormalise": of(renormalise, x(2, 3, 4).exp(), mask),
}

test_gradients = gradients(CASES)
test_meta_device_and_bfloat16 = moves(CASES)
