"""Agree, or say how not."""

from __future__ import annotations

import pytest
import torch

from grader.base.errors import CheckFailed
from grader.calls.values import Opaque, PlacedTensor
from grader.checks.compare import Tolerance, require_agreement, require_close, require_gradients


def on_cpu(tensor: torch.Tensor) -> PlacedTensor:
    """A tensor as a message carries it."""
    return PlacedTensor(tensor, "cpu")


def refusal(got: object, expected: object, tolerance: Tolerance | None = None) -> str:
    """What is said when the two do not agree."""
    with pytest.raises(CheckFailed) as caught:
        require_agreement(got, expected, tolerance or Tolerance())
    return caught.value.message


ONES = torch.ones(2, 3)


def test_equal_values_agree() -> None:
    """The same tensor, nested tuples of it, infinities and scalars."""
    infinite = on_cpu(torch.tensor([1.0, float("inf"), -float("inf")]))
    for value in (on_cpu(ONES), (on_cpu(ONES), infinite), None, True, 3, 2.5, "text"):
        require_agreement(value, value, Tolerance())


def test_detour_through_float32_is_told() -> None:
    """In float64, by the size of the difference: neither of a larger one, nor in float32."""
    thirds = torch.arange(1, 7, dtype=torch.float64) / 3
    said = "float32 somewhere on the way"
    assert said in refusal(on_cpu(thirds.float().double()), on_cpu(thirds))
    assert said not in refusal(on_cpu(thirds * 1.001), on_cpu(thirds))
    assert said not in refusal(on_cpu(thirds * (1 + 1e-12)), on_cpu(thirds))
    assert said not in refusal(on_cpu(thirds.float() * 1.001), on_cpu(thirds.float()))


def test_rounding_goes_up_and_down() -> None:
    """Numbers that all became smaller, or larger, by as little have another cause than float32."""
    thirds = torch.arange(1, 7, dtype=torch.float64) / 3
    for signs, rounded in (([1, -1, 1, -1, 1, -1], True), ([1] * 6, False), ([-1] * 6, False)):
        with pytest.raises(CheckFailed) as caught:
            require_agreement(
                on_cpu(thirds * (1 + 1e-7 * torch.tensor(signs, dtype=torch.float64))), on_cpu(thirds), Tolerance()
            )
        assert caught.value.as_float32 is rounded


def test_a_tensor_is_told_from_the_number_in_it() -> None:
    """Where both look the same the shape is said, and only there."""
    one = on_cpu(torch.tensor(2.5, dtype=torch.float64))
    assert "shape" in refusal(one, 2.5)
    assert "shape" not in refusal(on_cpu(torch.tensor(3.5)), 2.5) and "shape" not in refusal(
        on_cpu(torch.tensor(1.5)), 2.5
    )


@pytest.mark.parametrize(("shape", "place"), [((4,), [0, 1]), ((2, 4), [1, 1]), ((3, 2, 4), [1, 1])])
def test_a_picture_marks_the_place_in_its_matrix(shape: tuple[int, ...], place: list[int]) -> None:
    """A vector is a matrix of one row; of more dimensions the last two are drawn."""
    got = torch.zeros(shape)
    got[(*[1] * len(shape),)] = 1.0
    with pytest.raises(CheckFailed) as caught:
        require_close(got, torch.zeros(shape), 0.1)
    parting = caught.value.parting
    assert parting is not None and parting.place == place and parting.slice == [1] * (len(shape) - 2)
    assert parting.got[place[0]][place[1]] == 1.0


def test_rounding_agrees_and_more_does_not() -> None:
    """A few roundings of the dtype are allowed, a hundred are not, and none bit for bit."""
    near, far = ONES * (1 + 5e-7), ONES * (1 + 1e-5)
    require_agreement(on_cpu(near), on_cpu(ONES), Tolerance())
    assert "6 of 6 values differ" in refusal(on_cpu(far), on_cpu(ONES))
    assert "first difference at [0, 0]" in refusal(on_cpu(near), on_cpu(ONES), Tolerance(exact=True))


def test_longer_sums_have_more_room() -> None:
    """The tolerance grows with the root of the number of terms."""
    assert Tolerance(64).of(torch.float32, 1.0) == 8 * Tolerance(1).of(torch.float32, 1.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_nan_never_agrees(dtype: torch.dtype) -> None:
    """NaN fails, even where NaN was expected."""
    broken = torch.tensor([1.0, float("nan")], dtype=dtype)
    assert "got nan" in refusal(on_cpu(broken), on_cpu(torch.ones(2, dtype=dtype)))
    refusal(on_cpu(broken), on_cpu(broken))


def test_kind_comes_before_values() -> None:
    """Shape, then dtype, then device."""
    assert "shape (3, 2)" in refusal(on_cpu(ONES.T), on_cpu(ONES))
    assert "dtype float64" in refusal(on_cpu(ONES.double()), on_cpu(ONES))
    assert "device cuda:0" in refusal(PlacedTensor(ONES, "cuda:0"), on_cpu(ONES))


def test_other_kinds_of_value() -> None:
    """Something that is no tensor, a tuple too short, a bool for an int."""
    assert "an object of type Always" in refusal(Opaque("an object of type Always"), on_cpu(ONES))
    assert "a tuple of 2 values" in refusal((on_cpu(ONES),), (on_cpu(ONES), on_cpu(ONES)))
    refusal(True, 1)
    refusal(None, on_cpu(ONES))
    refusal(1 << 4000, 2.5)
    refusal(float("nan"), 2.5)


def test_the_differing_place_is_shown() -> None:
    """Of a large tensor the row in which the first difference lies."""
    expected = torch.zeros(4, 30)
    got = expected.clone()
    got[2, 17] = 0.5
    said = refusal(on_cpu(got), on_cpu(expected))
    assert "first difference at [2, 17]: expected 0.0, got 0.5000" in said
    assert "[2, :] = […" in said.replace("[… ", "[…")


def test_a_single_number_has_no_place() -> None:
    """It is shown once, with as many digits as tell the two apart."""
    said = refusal(on_cpu(torch.tensor(0.12502)), on_cpu(torch.tensor(0.12500)))
    assert said == "expected  0.125\ngot       0.12502"


def test_numbers_that_look_alike_get_more_digits() -> None:
    """Never "expected 0.1250, got 0.1250"."""
    said = refusal(on_cpu(torch.tensor([0.12500])), on_cpu(torch.tensor([0.12502])))
    assert "expected 0.12502, got 0.125" in said
    broken = torch.tensor([float("nan")])
    assert "holds NaN, which agrees with nothing" in refusal(on_cpu(broken), on_cpu(broken))


def test_gradients() -> None:
    """A cut gradient is named; one that is zero by cancellation is judged by the size of its neighbours."""
    expected = {"query": on_cpu(ONES), "bias": on_cpu(torch.full((3,), 1e-9))}
    noisy = {"query": on_cpu(ONES), "bias": on_cpu(torch.full((3,), -2e-8))}
    require_gradients(noisy, expected, Tolerance())
    with pytest.raises(CheckFailed, match="`query` does not exist"):
        require_gradients({"query": None, "bias": None}, expected, Tolerance())
    with pytest.raises(CheckFailed, match="gradient of `query`"):
        require_gradients({**expected, "query": on_cpu(ONES * 1.01)}, expected, Tolerance())


def test_only_what_lies_outside_the_tolerance_is_marked() -> None:
    """A parting knows the check's room: a difference within it is none, however large the others are."""
    expected = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    got = expected + torch.tensor([[0.0, 0.01], [0.02, 0.5]])
    with pytest.raises(CheckFailed) as failed:
        require_close(got, expected, 0.015)
    parting = failed.value.parting
    assert parting is not None
    assert parting.differs == [[False, False], [True, True]]
    assert parting.place == [1, 0]
    with pytest.raises(CheckFailed) as failed:
        require_close(torch.tensor([True, True]), torch.tensor([True, False]), 0.0)
    assert failed.value.parting is not None
    assert failed.value.parting.expected == [[True, False]]
