"""Step 3 held against printed numbers and `scaled_dot_product_attention`."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from solutions.core.step03_attention.reference import SelfAttention, attention
from tests.truths import (
    JOURNEY,
    MASKS,
    Case,
    agree,
    by_projections,
    close,
    drawer,
    drawn,
    every_dtype,
    gradients,
    has_parameters,
    moves,
    normal,
    of,
    printed,
    projections,
    weights_of,
    with_and_without_bias,
)


def test_book_attention_without_weights() -> None:
    """Section 3.3 of the book: the second token's weights and context, without scaling."""
    came_context, came_weights = attention(JOURNEY[1:2] * math.sqrt(3), JOURNEY, JOURNEY)  # the book does not scale yet
    printed(came_weights, [[0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581]])
    printed(came_context, [[0.4419, 0.6515, 0.5683]])


def test_book_attention_with_drawn_weights() -> None:
    """Section 3.4.1: scaled attention with three random matrices."""
    torch.manual_seed(123)
    query, key, value = (JOURNEY @ torch.rand(3, 2) for _ in range(3))
    context, weights = attention(query, key, value)
    printed(weights[1], [0.1500, 0.2264, 0.2199, 0.1311, 0.0906, 0.1820])
    expected = [[0.2996, 0.8053], [0.3061, 0.8210], [0.3058, 0.8203], [0.2948, 0.7939], [0.2927, 0.7891]]
    printed(context, [*expected, [0.2990, 0.8040]])


def test_book_self_attention() -> None:
    """Section 3.4.2: the same as a module of linear layers."""
    torch.manual_seed(789)
    expected = [[-0.0739, 0.0713], [-0.0748, 0.0703], [-0.0749, 0.0702], [-0.0760, 0.0685], [-0.0763, 0.0679]]
    printed(SelfAttention(3, 2)(JOURNEY), [*expected, [-0.0754, 0.0693]])


@every_dtype
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_attention(mask: Tensor | None, dtype: torch.dtype) -> None:
    """Context, weights and gradients of `scaled_dot_product_attention`; 5 queries, 6 keys, width 4, values of 3."""
    query, key, value = (
        normal(2, 3, 5, 4, dtype=dtype),
        normal(2, 3, 6, 4, dtype=dtype),
        normal(2, 3, 6, 3, dtype=dtype),
    )
    agree(
        lambda q, k, v: attention(q, k, v, mask)[0],
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        query,
        key,
        value,
    )
    agree(lambda q, k: attention(q, k, value, mask)[1], lambda q, k: weights_of(q, k, mask), query, key)


def test_attention_without_batch() -> None:
    """Leading dimensions may be missing, and one more than usual is fine."""
    for leading in ((), (2,), (2, 1, 3)):
        query, key, value = normal(*leading, 5, 4), normal(*leading, 6, 4), normal(*leading, 6, 3)
        agree(lambda q, k, v: attention(q, k, v)[0], F.scaled_dot_product_attention, query, key, value)
        large = (100 * query, 100 * key, value)  # scores of about 10000; softmax gradients are noise there
        close(attention(*large)[0], F.scaled_dot_product_attention(*large))


@with_and_without_bias
def test_self_attention(bias: bool) -> None:
    """Torch's attention behind three linear layers, with the parameters that the step names."""
    module = drawn(SelfAttention(4, 6, qkv_bias=bias))
    has_parameters(module, projections(4, 6, bias))
    for num_tokens in (1, 3, 5):
        x = normal(2, num_tokens, 4)
        close(module(100 * x), by_projections(module, 100 * x))
        agree(module, partial(by_projections, module), x, at=module.parameters())


x = drawer()
mask = torch.ones(3, 4, dtype=torch.bool).tril(1)
CASES = {
    "attention": of(attention, x(2, 3), x(4, 3), x(4, 2)),
    "attention/mask": of(attention, x(3, 2), x(4, 2), x(4, 3), mask),
    "SelfAttention": Case(lambda: SelfAttention(3, 2, qkv_bias=True), (x(2, 4, 3),)),
}

test_gradients = gradients(CASES)
test_meta_device_and_bfloat16 = moves(CASES)
