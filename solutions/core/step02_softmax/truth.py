"""Step 2 held against printed numbers, `torch.softmax` and difference quotients."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch.testing import assert_close

from solutions.core.step02_softmax.reference import softmax
from tests.truths import (
    DOUBLE,
    JOURNEY,
    ROOM,
    agree,
    drawer,
    every_dtype,
    gradients,
    moves,
    normal,
    of,
    printed,
)


def test_book_weights() -> None:
    """Section 3.3 of the book: the second token's weights."""
    weights = [[0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581]]
    printed(softmax(JOURNEY[1:2] @ JOURNEY.T), weights)


@every_dtype
@pytest.mark.parametrize(
    ("shape", "dim"), [((7,), 0), ((3, 5), 0), ((3, 5), -1), ((2, 3, 5), 1), ((2, 3, 4, 5), -3), ((2, 1), 1)], ids=str
)
def test_softmax(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    """Values and gradients of `torch.softmax`, along any dimension."""
    agree(lambda x: softmax(x, dim), lambda x: torch.softmax(x, dim), normal(*shape, dtype=dtype))


@every_dtype
def test_softmax_at_the_edges(dtype: torch.dtype) -> None:
    """Scores of 10000, entries of minus infinity, and a slice of 4096."""
    infinity = math.inf
    for row in (
        [0.0, 1.0, -1.0, 0.0],
        [1e4, 1e4, -1e4, 0.0],
        [-1e4, -1e4, -1e4, -1e4],
        [-infinity, 1.0, 2.0, -infinity],
        [-infinity, -infinity, -infinity, -1e4],
    ):
        agree(softmax, partial(torch.softmax, dim=-1), torch.tensor(row, dtype=dtype))
    long = 3 * normal(2, 4096, dtype=dtype)
    agree(softmax, partial(torch.softmax, dim=-1), long)
    exact = torch.softmax(long.to(DOUBLE), dim=-1)
    assert_close(softmax(long).to(DOUBLE), exact, rtol=0.0, atol=ROOM[dtype] * exact.max().item())


x = drawer()
CASES = {
    "softmax": of(softmax, x(2, 3, 4)),
    "softmax/first dimension": of(softmax, x(3, 4), dim=0),
}

test_gradients = gradients(CASES)
test_meta_device_and_bfloat16 = moves(CASES)
