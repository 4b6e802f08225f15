"""The checks of step 7: splitting the width into heads, and merging the heads."""

import torch

from grader.checks.assertions import Draw, Implementation, _, agree, exactly, must_raise, points, unmodified
from grader.checks.regimes import AskedFunction, every_regime

OFF_LIMITS: dict[str, tuple[str, ...]] = {}

# Two tokens of width 4 and two heads: the numbers tell where they came from. Tokens are the tens, columns the ones.
TOKENS = torch.tensor([[[10.0, 11.0, 12.0, 13.0], [20.0, 21.0, 22.0, 23.0]]])  # (1, 2, 4)
HEADS = torch.tensor([[[[10.0, 11.0], [20.0, 21.0]], [[12.0, 13.0], [22.0, 23.0]]]])  # (1, 2, 2, 2)

SHAPES = ((1, 1, 1, 1), (2, 1, 3, 2), (2, 5, 1, 3), (1, 4, 3, 1), (3, 5, 4, 2))  # batch, tokens, heads, width of a head

CALLS = {
    "split_heads": AskedFunction(lambda draw, leading, tokens: (draw.normal(*leading, tokens, 6), 3), axes=(2,)),
    "merge_heads": AskedFunction(lambda draw, leading, tokens: (draw.normal(*leading, 3, tokens, 2),), axes=(2,)),
}


@points(1)
def test_split_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Two tokens of width 4 are split into two heads of width 2."""
    exactly(student.split_heads(TOKENS, 2), HEADS)


@points(1)
def test_merge_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Two heads of width 2 are merged into two tokens of width 4."""
    exactly(student.merge_heads(HEADS), TOKENS)


@points(0.75)
def test_split_any_shape(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Head h holds the columns h * d to (h + 1) * d - 1, for any shape."""
    for batch, tokens, heads, d in SHAPES:
        x = draw.normal(batch, tokens, heads * d)
        got = student.split_heads(x, heads)
        exactly(got, reference.split_heads(x, heads))
        unmodified(got)


@points(0.5)
def test_merge_any_shape(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each token gets the columns of its heads side by side, for any shape."""
    for batch, tokens, heads, d in SHAPES:
        x = draw.normal(batch, heads, tokens, d)
        got = student.merge_heads(x)
        exactly(got, reference.merge_heads(x))
        unmodified(got)


@points(0.5)
def test_merge_non_contiguous(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Merging works in whatever order the numbers lie in memory."""
    layouts = (
        draw.normal(2, 5, 3, 2).transpose(1, 2),  # as `split_heads` leaves it
        draw.normal(2, 3, 2, 5).transpose(2, 3),  # as after a product with a transposed matrix
        draw.normal(3, 5, 2, 4).permute(2, 0, 1, 3),  # the heads before the batch
    )
    for x in layouts:
        exactly(student.merge_heads(x), reference.merge_heads(x))


@points(0.5)
def test_merging_undoes_splitting(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Merging undoes splitting, and splitting undoes merging."""
    x, heads = draw.normal(2, 5, 6), draw.normal(2, 3, 5, 2)
    split = student.split_heads(x, 3)
    exactly(split, reference.split_heads(x, 3))
    exactly(student.merge_heads(split), x)
    exactly(student.split_heads(student.merge_heads(heads), 3), heads)


@points(0.5)
def test_indivisible_width_is_an_error(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A width that the heads cannot share equally is an error."""
    for width, num_heads in ((6, 4), (5, 2)):
        x = draw.normal(2, 4, width)
        reason = _("the width {width} is not divisible by {heads} heads").format(width=width, heads=num_heads)
        must_raise(lambda x=x, num_heads=num_heads: student.split_heads(x, num_heads), reason)
    x = draw.normal(2, 4, 6)
    exactly(student.split_heads(x, 3), reference.split_heads(x, 3))


@points(0.25)
def test_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The gradient finds its way back to the element it belongs to."""
    theirs, ours = student.using(gradients=True), reference.using(gradients=True)
    x, heads = draw.normal(2, 4, 6), draw.normal(2, 3, 4, 2)
    agree(theirs.split_heads(x, 3), ours.split_heads(x, 3))
    agree(theirs.merge_heads(heads), ours.merge_heads(heads))


@points(0.5)
def test_dtype_and_device_kept(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The dtype and the device are kept."""
    for dtype in (torch.float64, torch.bfloat16):
        x, heads = draw.normal(2, 3, 4, dtype=dtype), draw.normal(2, 2, 3, 2, dtype=dtype)
        exactly(student.split_heads(x, 2), reference.split_heads(x, 2))
        exactly(student.merge_heads(heads), reference.merge_heads(heads))
    x, heads = draw.normal(2, 3, 4), draw.normal(2, 2, 3, 2)
    theirs, ours = student.using(device="meta"), reference.using(device="meta")
    note = _(
        "The device `meta` has shapes but no values: creating a tensor on another device, or looking at "
        "values, fails there."
    )
    agree(theirs.split_heads(x, 2), ours.split_heads(x, 2), note=note)
    agree(theirs.merge_heads(heads), ours.merge_heads(heads), note=note)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long inputs and `no_grad` change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)
