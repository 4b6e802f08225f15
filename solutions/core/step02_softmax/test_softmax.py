"""Step 2: are the slices turned into weights, exactly, whatever their size, dimension and dtype?"""

import math

import torch
from torch import Tensor

from grader.checks.assertions import GUARDED, Draw, Implementation, _, agree, holds, points, sums_to_one, unmodified
from grader.checks.regimes import AskedFunction, every_regime

OFF_LIMITS: dict[str, tuple[str, ...]] = {"softmax": ("softmax", "scaled_dot_product_attention")}

LN_2, LN_3, LN_5 = math.log(2), math.log(3), math.log(5)

# A score near 10⁴ may be rounded before anything is subtracted from it, twice by half of a float32's step there, 2⁻¹⁰:
# that is 0.1 per cent of a weight. The room grows with the root of `terms`; this is 0.2 per cent.
ROOM_OF_LARGE_ENTRIES = 1_000**2

# log(4096) is about 8.3. A bfloat16 rounds it by up to 2⁻⁵ (from 8 on, half of a step of 2⁻⁴), so that a right way
# through the logarithm of the sum misses 1 by 3 per cent. A float16 is eight times as fine.
ROOM_OF_HALVES = {torch.bfloat16: 0.05, torch.float16: 0.01}

CALLS = {"softmax": AskedFunction(lambda draw, leading, tokens: (draw.normal(*leading, 3, tokens),), terms=5)}


@points(0.5)
def test_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Three scores give the three weights worked out by hand."""
    agree(student.softmax(torch.tensor([0.0, LN_2, LN_5])), torch.tensor([0.125, 0.25, 0.625]), terms=3)


@points(1)
def test_every_dimension(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The slices run along the dimension that `dim` names."""
    table = torch.tensor([[0.0, LN_2], [LN_3, LN_2]])
    agree(student.softmax(table, 0), torch.tensor([[1 / 4, 1 / 2], [3 / 4, 1 / 2]]), terms=2)
    agree(student.softmax(table, 1), torch.tensor([[1 / 3, 2 / 3], [3 / 5, 2 / 5]]), terms=2)
    for shape, dim in [
        ((5,), 0),
        ((3, 4), -2),
        ((2, 70, 4), 1),
        ((2, 3, 4), 0),
        ((2, 3, 1, 4), 2),
        ((2, 3, 2, 4, 3), -4),
    ]:
        x = draw.normal(*shape)
        agree(student.softmax(x, dim=dim), reference.softmax(x, dim=dim), terms=shape[dim])


@points(0.5)
def test_slices_sum_to_one(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """No weight is negative, and each slice sums to 1."""
    # exp of the first is a number still, and that of twice the first is none.
    for x in (60 + draw.normal(1), draw.normal(9, 3, 7, scale=3.0), draw.normal(2, 4096, scale=2.0)):
        got = student.softmax(x)
        agree(got, reference.softmax(x), terms=x.shape[-1])
        sums_to_one(got.tensor())
        holds(got.tensor().min() >= 0, _("A weight came out negative, and every weight is at least 0."))


@points(2.5)
def test_large_entries(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Scores of ten thousand and minus ten thousand are no problem."""
    theirs, ours = student.using(gradients=True), reference.using(gradients=True)
    near = draw.integers(-3, 4, 4, 5) / 2
    for x in (
        torch.tensor([10_000.0, 9_999.0, 9_998.0]),
        torch.tensor([-10_000.0, -9_999.0, -9_998.0]),
        torch.tensor([10_000.0, 10_000.0, -10_000.0], dtype=torch.float64),
        torch.cat([near + 10_000, near - 10_000]),
    ):
        got = theirs.softmax(x)
        agree(got, ours.softmax(x), terms=GUARDED if x.dtype == torch.float64 else ROOM_OF_LARGE_ENTRIES)
        sums_to_one(got.tensor())


@points(1)
def test_slices_far_apart(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A slice is not disturbed by a much larger one beside it."""
    rows = torch.tensor([[0.0, LN_3], [-10_000.0, -10_000.0]])
    agree(student.softmax(rows), torch.tensor([[1 / 4, 3 / 4], [1 / 2, 1 / 2]]), terms=2)
    x = draw.normal(3, 4) + torch.tensor([[-300.0], [0.0], [300.0]])
    for got, expected, dim in (
        (student.softmax(x), reference.softmax(x), -1),
        (student.softmax(x.t().contiguous(), 0), reference.softmax(x.t().contiguous(), 0), 0),
    ):
        agree(got, expected, terms=300**2)
        sums_to_one(got.tensor(), dim)


@points(0.5)
def test_minus_infinity(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A score of minus infinity gets weight exactly 0."""
    theirs, ours = student.using(gradients=True), reference.using(gradients=True)
    x = torch.tensor([[0.0, -torch.inf, LN_3], [-torch.inf, -torch.inf, 0.0]])
    drawn = draw.normal(2, 3, 6).masked_fill(~draw.mask(2, 3, 6), -torch.inf)
    for scores in (x, drawn):
        got = theirs.softmax(scores)
        agree(got, ours.softmax(scores), terms=scores.shape[-1])
        _nothing_for_minus_infinity(got.tensor(), scores)


@points(0.25)
def test_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The gradient reaches every score."""
    theirs, ours = student.using(gradients=True), reference.using(gradients=True)
    for shape, dim in [((3,), -1), ((4, 3), 0), ((2, 3, 5), 1)]:
        x = draw.normal(*shape)
        agree(theirs.softmax(x, dim), ours.softmax(x, dim), terms=shape[dim])


@points(0.5)
def test_dtypes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The weights keep the dtype of the scores, and its accuracy."""
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        x = draw.normal(3, 5, dtype=dtype)
        if dtype == torch.float64:
            x[0, 0] = -torch.inf  # e⁻²⁰⁰ is exactly 0 in float32, and not here
        got = student.softmax(x)
        agree(got, reference.softmax(x), terms=GUARDED if dtype == torch.float64 else 5)
        _nothing_for_minus_infinity(got.tensor(), x)
        unmodified(got)  # a conversion to the dtype that is there already makes no copy to write over


@points(0.5)
def test_half_precision(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Half precision copes with long slices and with large scores."""
    for dtype, room in ROOM_OF_HALVES.items():
        large = torch.tensor([[10_000.0, 10_000.0, -10_000.0], [-10_000.0, -torch.inf, -10_000.0]], dtype=dtype)
        agree(student.softmax(large), torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], dtype=dtype), terms=3)
        long = draw.uniform(1, 4096, dtype=dtype)
        got = student.softmax(long)
        agree(got, reference.softmax(long), terms=4)
        sums_to_one(got.tensor(), tolerance=room)


@points(0.25)
def test_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The weights are on the device of the scores."""
    x = draw.normal(2, 3, 5)
    agree(student.softmax(x, 1), reference.softmax(x, 1), terms=3)
    agree(student.using(device="meta").softmax(x, 1), reference.using(device="meta").softmax(x, 1))


@points(0.25)
def test_input_unmodified(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The scores are left as they were."""
    x = draw.normal(3, 4).masked_fill(~draw.mask(3, 4), -torch.inf)
    got = student.softmax(x)
    unmodified(got)
    agree(got, reference.softmax(x), terms=4)


@points(0.25)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long inputs and `no_grad` change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)


def _nothing_for_minus_infinity(weights: Tensor, scores: Tensor) -> None:
    largest = weights.masked_fill(scores != -torch.inf, 0.0).max()
    holds(
        largest == 0,
        _("A score of minus infinity got the weight {weight}, and it should get exactly 0.").format(
            weight=f"{float(largest):.3g}"
        ),
    )
