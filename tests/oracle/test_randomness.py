"""What of a drawn answer does not hang on the draw."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from grader.calls.call import Outcome
from grader.calls.values import PlacedTensor
from grader.oracle import randomness

X = torch.arange(1.0, 4097.0).reshape(64, 64) / 1000

SHUFFLED = X.flatten()[torch.randperm(4096, generator=torch.Generator().manual_seed(0))].reshape(64, 64)


def smallest_dropped(x: Tensor, share: float) -> Tensor:
    """The smallest elements dropped: a choice by value."""
    return x * (x > x.flatten().quantile(share)) / 0.7


def dropped(x: Tensor, seed: int, p: float = 0.3, shape: tuple[int, ...] = (64, 64), scale: float = 1 / 0.7) -> Tensor:
    """Elements dropped with probability `p`, one draw for each element of `shape`."""
    return x * (torch.rand(shape, generator=torch.Generator().manual_seed(seed)) >= p) * scale


def alike(first: Tensor, second: Tensor) -> bool:
    """Whether the two are taken for two draws of one manner."""
    one, other = (Outcome(PlacedTensor(value, "cpu")) for value in (first, second))
    return randomness.alike(randomness.profile(one), randomness.profile(other), randomness.shapes(one))


def test_two_draws_are_one_manner() -> None:
    """Two hundred pairs of draws: none is taken for two manners."""
    for seed in range(200):
        assert alike(dropped(X, seed), dropped(X, seed + 1000))


@pytest.mark.parametrize(
    "other",
    [
        lambda seed: dropped(X, seed, scale=1.0),
        lambda seed: dropped(X, seed, scale=1 / 0.3),
        lambda seed: dropped(X, seed, p=0.7),
        lambda seed: dropped(X, seed, p=0.2),
        lambda seed: dropped(X, seed, shape=(64, 1)),
        lambda seed: dropped(X, seed, shape=(1, 64)),
        lambda seed: X / 0.7,
        lambda seed: torch.zeros_like(X),
        lambda seed: dropped(X, seed).T,
        lambda seed: X * torch.rand(X.shape, generator=torch.Generator().manual_seed(seed)),
    ],
)
def test_two_manners_are_told_apart(other: Callable[[int], Tensor]) -> None:
    """Another scale, another rate, elements that fall together, nothing dropped, everything: under twenty seeds."""
    for seed in range(20):
        assert not alike(dropped(X, seed), other(seed + 1000))


def test_draws_that_may_not_look_alike() -> None:
    """Those of few elements, and those that keep less than half: opposite ones have nothing in common."""
    for value, missed in (
        (dropped(X, 1), False),
        (dropped(X, 1, p=0.7), True),
        (dropped(X, 1)[:4, :8], True),
        (X, False),
        (0 * X, False),
    ):
        assert randomness.may_miss(randomness.profile(Outcome(PlacedTensor(value, "cpu")))) is missed


def test_a_choice_by_value_is_no_draw() -> None:
    """Also where one and the same mask in every call would look alike; two ways of choosing the smallest are one."""
    chosen = smallest_dropped(SHUFFLED, 0.3)
    assert not any(
        alike(dropped(SHUFFLED, seed), chosen) or alike(chosen, dropped(SHUFFLED, seed)) for seed in range(20)
    )
    assert alike(chosen, smallest_dropped(SHUFFLED, 0.302))


def test_zeros_that_may_be_there_on_purpose() -> None:
    """Nothing is said of answers whose zeros lie together, as under a causal mask."""
    assert not alike(dropped(X, 1).tril(), dropped(X, 2).tril())
    assert not alike(dropped(X, 1, shape=(64, 1)), dropped(X, 2, shape=(64, 1)))


def test_what_was_not_dropped_is_compared_as_it_is() -> None:
    """Numbers without a zero among them have no profile that tells anything, not even the same ones."""
    assert not alike(X, X)
    assert not alike(torch.zeros(3), torch.zeros(3))
