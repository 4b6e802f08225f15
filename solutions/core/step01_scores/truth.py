"""Step 1 held against printed numbers, `torch.einsum` and difference quotients."""

from __future__ import annotations

import math

import pytest
import torch

from solutions.core.step01_scores.reference import dot_product_scores, scaled_scores
from tests.truths import (
    JOURNEY,
    WIDE,
    agree,
    drawer,
    gradients,
    moves,
    normal,
    of,
    printed,
)


def test_book_attention_without_weights() -> None:
    """Section 3.3 of the book: the second token's scores, without scaling."""
    journey = JOURNEY[1:2]  # the second token as the one query
    scores = [[0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865]]
    printed(dot_product_scores(journey, JOURNEY), scores)
    printed(scaled_scores(journey * math.sqrt(3), JOURNEY), scores)  # the book does not scale yet


def test_book_attention_with_drawn_weights() -> None:
    """Section 3.4.1: the scores of the second token, from two of three random matrices."""
    torch.manual_seed(123)
    query, key, _value = (JOURNEY @ torch.rand(3, 2) for _ in range(3))
    printed(dot_product_scores(query, key)[1], [1.2705, 1.8524, 1.8111, 1.0795, 0.5577, 1.5440])


SHAPES = (
    ((5, 4), (3, 4)),
    ((2, 5, 4), (2, 3, 4)),
    ((2, 3, 1, 4), (2, 3, 6, 4)),
)  # of query and key


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_scores(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: torch.dtype) -> None:
    """Scores are what `torch.einsum` gives."""
    query, key = (normal(*shape, dtype=dtype) for shape in shapes)
    agree(dot_product_scores, lambda q, k: torch.einsum("...qd,...kd->...qk", q, k), query, key)
    agree(scaled_scores, lambda q, k: torch.einsum("...qd,...kd->...qk", q, k) / 2, query, key)  # sqrt(4) = 2


x = drawer()
CASES = {
    "dot_product_scores": of(dot_product_scores, x(2, 2, 3), x(2, 4, 3)),
    "scaled_scores": of(scaled_scores, x(2, 2, 3), x(2, 4, 3)),
}

test_gradients = gradients(CASES)
test_meta_device_and_bfloat16 = moves(CASES)
