"""The reference of step 14 held against SciPy's softmax and torch's own attention, in both dtypes."""

import tracemalloc

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose
from scipy.special import softmax as scipy_softmax

from solutions.reading.step14_numpy.reference import (
    batch_self_attention,
    causal_self_attention,
    memory_efficient_attention,
    self_attention,
    softmax,
)

ROOM = {np.float32: 2e-6, np.float64: 1e-13}
both_dtypes = pytest.mark.parametrize("dtype", (np.float32, np.float64))


def drawn(*shape: int, dtype: type) -> np.ndarray:
    """Normal values, the same each time."""
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def torchs(X: np.ndarray, *matrices: np.ndarray, is_causal: bool = False) -> np.ndarray:
    """torch's own attention of X to itself."""
    query, key, value = (torch.from_numpy(X @ matrix)[None] for matrix in matrices)
    return F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)[0].numpy()


@both_dtypes
def test_softmax_is_scipys(dtype: type) -> None:
    """SciPy's softmax along each axis, and at the extremes."""
    x = drawn(2, 3, 4, dtype=dtype) * dtype(5)
    for axis in range(-3, 3):
        assert_allclose(softmax(x, axis), scipy_softmax(x, axis), rtol=0, atol=ROOM[dtype], strict=True)
    x = np.array([[1e4, 1e4, -1e4], [-np.inf, -1e4, -1e4 - 1]], dtype=dtype)
    assert_allclose(softmax(x), scipy_softmax(x, -1), rtol=0, atol=ROOM[dtype], strict=True)


@both_dtypes
def test_attention_is_torchs(dtype: type) -> None:
    """torch's attention, with and without a causal mask; the weights are what it gives to the identity as values."""
    X, *matrices = (drawn(*shape, dtype=dtype) for shape in ((6, 5), (5, 4), (5, 4), (5, 3)))
    for function, is_causal in ((self_attention, False), (causal_self_attention, True)):
        output, weights = function(X, *matrices)
        assert_allclose(output, torchs(X, *matrices, is_causal=is_causal), rtol=0, atol=ROOM[dtype], strict=True)
        query, key = (torch.from_numpy(X @ matrix)[None] for matrix in matrices[:2])
        identity = torch.eye(6, dtype=query.dtype)[None]
        expected = F.scaled_dot_product_attention(query, key, identity, is_causal=is_causal)[0].numpy()
        assert_allclose(weights, expected, rtol=0, atol=ROOM[dtype], strict=True)


@both_dtypes
def test_batch_is_torchs(dtype: type) -> None:
    """torch's attention of each sequence by itself."""
    matrices = [drawn(5, width, dtype=dtype) for width in (4, 4, 3)]
    for leading in ((), (2,), (2, 3)):
        X = drawn(*leading, 6, 5, dtype=dtype)
        expected = np.array([torchs(one, *matrices) for one in X.reshape(-1, 6, 5)]).reshape(*leading, 6, 3)
        assert_allclose(batch_self_attention(X, *matrices), expected, rtol=0, atol=ROOM[dtype], strict=True)


@both_dtypes
def test_chunks_are_torchs_attention_in_little_memory(dtype: type) -> None:
    """torch's attention for any chunk, and a peak below the bound."""
    Q, K, V = (drawn(*shape, dtype=dtype) for shape in ((50, 4), (70, 4), (70, 3)))
    whole = F.scaled_dot_product_attention(*(torch.from_numpy(array)[None] for array in (Q, K, V)))[0].numpy()
    for chunk_size in (1, 7, 32, 100):
        assert_allclose(memory_efficient_attention(Q, K, V, chunk_size), whole, rtol=0, atol=ROOM[dtype], strict=True)
    Q = K = V = drawn(1500, 8, dtype=dtype)
    tracemalloc.start()
    memory_efficient_attention(Q, K, V, 8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * (8 * 8 * 1500 + 4 * 3000 * 16)
