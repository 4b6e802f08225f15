"""The reference of step 13 held against torch's own softmax, NumPy, SciPy and plain sums."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import entropy as scipy_entropy
from torch.testing import assert_close

from solutions.reading.step13_patterns.reference import (
    attention_causal,
    attention_diagonal,
    attention_distance,
    attention_entropy,
    attention_first,
    attention_local,
    attention_uniform,
    top_attended,
    validate_attention,
)


def attention_that_sees(mask: torch.Tensor) -> torch.Tensor:
    """The weights that torch's own attention gives to equal scores: it is handed the identity as values."""
    tokens = len(mask)
    return F.scaled_dot_product_attention(
        torch.zeros(1, tokens, 4), torch.zeros(1, tokens, 4), torch.eye(tokens)[None], mask
    )[0]


@pytest.mark.parametrize("tokens", (1, 2, 7, 40))
def test_patterns_are_attention_to_equal_scores(tokens: int) -> None:
    """torch's attention, scores alike, under the mask of each pattern."""
    first = torch.zeros(tokens, tokens, dtype=torch.bool)
    first[:, 0] = True
    assert_close(attention_diagonal(tokens), attention_that_sees(torch.eye(tokens, dtype=torch.bool)))
    assert_close(attention_uniform(tokens), attention_that_sees(torch.ones(tokens, tokens, dtype=torch.bool)))
    assert_close(attention_first(tokens), attention_that_sees(first))
    assert_close(attention_causal(tokens), attention_that_sees(torch.ones(tokens, tokens, dtype=torch.bool).tril()))
    for radius in (0, 1, 3, 100):
        band = torch.from_numpy(np.tri(tokens, k=radius, dtype=bool) & np.tri(tokens, k=radius, dtype=bool).T)
        assert_close(attention_local(tokens, radius), attention_that_sees(band))


def test_entropy_is_scipys() -> None:
    """SciPy's entropy, zeros included."""
    weights = torch.rand(3, 4, 9, dtype=torch.float64)
    weights[..., ::3] = 0.0
    weights /= weights.sum(-1, keepdim=True)
    assert_close(attention_entropy(weights), torch.from_numpy(scipy_entropy(weights.numpy(), axis=-1)))
    assert float(attention_entropy(attention_uniform(8))[0]) == pytest.approx(math.log(8))


def test_top_is_numpys_stable_order() -> None:
    """NumPy's stable sort of the negated weights."""
    weights = torch.randint(0, 4, (2, 5, 60)) / 4
    order = np.argsort(-weights.numpy(), axis=-1, kind="stable")
    for k in (1, 7, 60, 90):
        values, indices = top_attended(weights, k)
        assert (indices.numpy() == order[..., :k]).all()
        assert (values.numpy() == np.take_along_axis(weights.numpy(), order[..., :k], -1)).all()


def test_distance_is_a_plain_sum() -> None:
    """Sums in Python, and patterns whose distance is known."""
    weights = torch.rand(2, 3, 5, dtype=torch.float64)
    for offset in (0, 4):
        for sequence in range(2):
            total = sum(float(weights[sequence, i, j]) * abs(i + offset - j) for i in range(3) for j in range(5))
            assert float(attention_distance(weights, offset)[sequence]) == pytest.approx(total / 3)
    assert float(attention_distance(attention_diagonal(9))) == 0
    assert float(attention_distance(attention_first(9))) == 4  # the mean of 0 to 8


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16))
def test_faults_are_plain_comparisons(dtype: torch.dtype) -> None:
    """Python's own comparisons of Python's own floats, and math.fsum for the sum."""
    choice = torch.tensor([0.0, 0.25, 0.5, 1.0, 1.5, -0.25, math.nan, math.inf, -math.inf], dtype=dtype)
    weights = choice[torch.randint(0, 9, (400, 3))]
    weights[:200] = choice[torch.randint(0, 6, (200, 3))]
    found = validate_attention(weights, 1e-3)
    for row, entries in enumerate(weights.tolist()):
        finite = all(map(math.isfinite, entries))
        assert bool(found["not_finite"][row]) == (not finite)
        assert bool(found["negative"][row]) == any(entry < 0 for entry in entries)
        assert bool(found["above_one"][row]) == any(entry > 1.001 for entry in entries)
        assert bool(found["sum"][row]) == (not finite or abs(math.fsum(entries) - 1) > 1e-3)
