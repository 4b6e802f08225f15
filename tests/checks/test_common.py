"""What the checks of several steps share: each accepts what it should, and refuses what it is there to refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from grader.base.errors import CheckFailed
from grader.checks import common

RATE = 0.25


def refused(check: Callable[..., object], *given: object) -> str:
    """What a check says of what it refuses; nothing where it accepts it."""
    try:
        check(*given)
    except CheckFailed as failure:
        return failure.message
    return ""


def dropped(*shape: int, seed: int = 0) -> Tensor:
    """Which of so many weights dropout at `RATE` drops."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < RATE


def test_a_share_is_the_expected_one() -> None:
    weights = dropped(4000)
    assert refused(common.share_is_near, weights, RATE, "{count} {rate:.2f} {expected}") == ""
    assert refused(common.share_is_near, weights, 0.5, "{count} {expected}") == "4000 0.5"
    assert refused(common.share_is, weights, RATE, RATE, "them") == ""
    assert "a share of 0.2" in refused(common.share_is, weights, 0.5, 0.5, "them")
    assert refused(common.share_is, weights[:0], 0.5, 0.5, "them") == ""  # nothing says nothing


def test_weights_are_zero_or_scaled() -> None:
    plain = torch.full((2, 2, 8, 8), 0.125)
    kept = (plain / (1 - RATE)).masked_fill(dropped(*plain.shape), 0)
    assert refused(common.weights_are_zero_or_scaled, kept, plain, RATE) == ""
    assert "makes 0.1667" in refused(common.weights_are_zero_or_scaled, kept * (1 - RATE), plain, RATE)


@pytest.mark.parametrize(("dim", "said"), [(0, "Two sequences"), (1, "Two heads"), (2, "Two queries"), (3, "Two keys")])
def test_weights_fall_alone(dim: int, said: str) -> None:
    weights = dropped(8, 8, 16, 16)
    assert refused(common.weights_fall_alone, weights, RATE) == ""
    twice = torch.cat([weights.chunk(2, dim)[0]] * 2, dim)
    assert refused(common.weights_fall_alone, twice, RATE).startswith(said)
    if dim != 1:
        assert refused(common.weights_fall_alone, twice[:, 0].repeat_interleave(8, 0), RATE) != ""


def test_columns_drop() -> None:
    """Columns at -1 are those that fell, in front of a norm; a token of zeros lost all of them."""
    first, second = (torch.where(dropped(4000, 4, seed=seed), -1.0, 1.0) for seed in (1, 2))
    assert refused(common.columns_drop, first, second, RATE, "it", "") == ""
    assert "Each call should draw" in refused(common.columns_drop, first, first, RATE, "it", "")
    assert "a share of 0.000 of inner" in refused(common.columns_drop, first, second, RATE, "it", "inner")
    assert "nothing is dropped" in refused(common.columns_drop, first * 0, second, RATE, "it", "")
    sizes = torch.where(first > 0, torch.rand(first.shape) + 1, first)
    assert "different sizes" in refused(common.columns_drop, sizes, second, RATE, "it", "")


def test_a_result_has_its_shape() -> None:
    x = torch.zeros(2, 3)
    assert common.of_shape(x, (2, 3)) is x
    assert common.of_shape((x, None), (2, 3)) is x
    for got in (x, (x, x), None, (), "text"):
        assert "has shape" in refused(common.of_shape, got, (3, 2))


def test_texts_end_as_their_words_say() -> None:
    """Row 0 ends after two words and row 1 after one; without an end both go on."""
    after = torch.tensor([[0, 2, 3, 3, 3], [0, 0, 3, 1, 1]])  # the word that follows each word, per row

    def logits_of(ids: Tensor) -> Tensor:
        words = after.gather(1, ids)
        return torch.nn.functional.one_hot(words, 5).float()

    start = torch.tensor([[1], [2]])
    right = torch.tensor([[1, 2, 3, 3], [2, 3, 1, 0]])
    assert common.written(logits_of, right) is right
    free = common.written(logits_of, torch.cat([start, torch.zeros(2, 3, dtype=torch.int64)], dim=1))
    assert free.tolist() == [[1, 2, 3, 3], [2, 3, 1, 0]]
    assert common.until(free, 3).tolist() == [[1, 2, 3, 3], [2, 3, 3, 3]]
    assert common.until(free, 1).tolist() == [[1, 2, 3, 3], [2, 3, 1, 1]]  # the first id was given, and ends nothing
    assert common.ends(free, 3) == 1  # row 0 goes on with 3 anyway
    assert common.ends(free, 0) == 1  # and row 1 ends with 0 anyway: it says nothing
    assert common.telling(free, 5, 1) in (2, 3, 4)
    assert common.sooner_end_first(torch.arange(2), free, 3).tolist() == [1, 0]
