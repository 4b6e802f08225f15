"""The checks of step 18: rotary positions, the two layouts, and attention with them."""

import torch
from torch import Tensor

from grader.checks.assertions import (
    Draw,
    Implementation,
    _,
    agree,
    drawn_as,
    exactly,
    future_has_no_effect,
    must_raise,
    points,
    twins,
    unmodified,
)
from grader.checks.lazy import at_once
from grader.checks.regimes import NO_DROPOUT, NUMBERS, AskedFunction, AskedModule, every_regime

BUILT_IN = ("multi_head_attention",)
OFF_LIMITS = {
    "rotary_frequencies": BUILT_IN,
    "apply_rotary": BUILT_IN,
    "to_half_split": BUILT_IN,
    "to_interleaved": BUILT_IN,
    "RotarySelfAttention": BUILT_IN,
}

# `terms` for the accuracy that the step asks for, from the room of one term: 16 roundings of the dtype. Entries of
# ordinary size reach 4, which `agree` counts in.
NEAR = int((1e-5 / (16 * torch.finfo(torch.float32).eps)) ** 2)  # 1e-5, at the first 10 positions
NEAR_IN_DOUBLE = int((1e-5 / (16 * torch.finfo(torch.float64).eps)) ** 2)  # the same for angles made in float32
FAR = int((2e-3 / (16 * torch.finfo(torch.float32).eps)) ** 2)  # 2e-3, up to position 4096


def row_of_pairs(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, ...]:
    return (draw.normal(*leading, tokens, 6),)


CALLS = {
    "rotary_frequencies": NUMBERS,
    "apply_rotary": AskedFunction(
        lambda draw, leading, tokens: (draw.normal(*leading, tokens, 6), draw.integers(0, 10, tokens)), terms=NEAR,
        without={"length": "the check of far positions asks for 4,097"},
    ),
    "to_half_split": AskedFunction(row_of_pairs),
    "to_interleaved": AskedFunction(row_of_pairs),
    "RotarySelfAttention": AskedModule(
        lambda tokens: (4, 2), lambda draw, leading, tokens: (draw.normal(*leading, tokens, 4),), {"bias": False},
        terms=NEAR, axes=(2,), without=NO_DROPOUT,
    ),
}  # fmt: skip


@points(0.5)
@drawn_as("arrows")
def test_rotation_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A token of width 4 at the positions 0, 1 and 2 is turned by 0, 1 and 2 radians, and by a tenth of them."""
    x = torch.tensor([1.0, 0.0, 0.0, 2.0]).repeat(3, 1)
    expected = torch.tensor(
        [
            [1.0, 0.0, 0.0, 2.0],
            [0.54030231, 0.84147098, -0.19966683, 1.99000833],
            [-0.41614684, 0.90929743, -0.39733866, 1.96013316],
        ]
    )
    agree(student.apply_rotary(x, base=100.0), expected, terms=NEAR)


@points(0.5)
def test_frequencies(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each pair has its frequency, for any even width, any base and any device; an odd width is an error."""
    agree(student.rotary_frequencies(4, base=100.0), torch.tensor([1.0, 0.1]), terms=4)
    for width in (2, 6, 64):
        agree(student.rotary_frequencies(width), reference.rotary_frequencies(width), terms=64)
    base = float(draw.integer(20, 900))
    agree(student.rotary_frequencies(10, base), reference.rotary_frequencies(10, base), terms=64)
    agree(student.rotary_frequencies(6, device="meta"), reference.rotary_frequencies(6, device="meta"))
    must_raise(lambda: student.rotary_frequencies(5), _("{width} columns are no pairs").format(width=5))


@points(1)
@drawn_as("arrows")
def test_rotation_of_any_shape(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any number of leading dimensions, any width and any base give the right result and gradients."""
    cases = (
        (draw.normal(4, 2), None, 10000.0),
        (draw.normal(6, 6), None, 10000.0),
        (draw.normal(2, 5, 8), None, 500.0),
        (draw.normal(2, 3, 7, 6), None, 10000.0),
        (draw.normal(4, 4, 4, 4), None, 10000.0),
        (draw.normal(2, 1, 3, 5, 4), torch.tensor([4, 0, 9, 4, 1]), float(draw.integer(20, 900))),
        (draw.normal(3, 8, 6).transpose(1, 2), draw.integers(0, 10, 6), 10000.0),
    )
    for x, positions, base in cases:
        got = student.using(gradients=True).apply_rotary(x, positions, base)
        agree(got, reference.using(gradients=True).apply_rotary(x, positions, base), terms=NEAR)
        unmodified(got)
    # Short, long, short, and another base: nothing may be kept from one call to the next.
    for tokens, base in ((3, 10000.0), (9, 10000.0), (2, 10000.0), (9, 50.0), (9, 10000.0)):
        x = draw.normal(2, tokens, 6)
        agree(student.apply_rotary(x, base=base), reference.apply_rotary(x, base=base), terms=NEAR)
    odd = draw.normal(2, 3, 5)
    must_raise(lambda: student.apply_rotary(odd), _("{width} columns are no pairs").format(width=5))


@points(0.5)
@drawn_as("arrows")
def test_far_positions(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The rotation is right up to position 4096, in any order."""
    positions = torch.tensor([4096, 4095, *range(4001, 0, -61), 0])
    x = draw.normal(1, len(positions), 8)
    agree(student.apply_rotary(x, positions=positions), reference.apply_rotary(x, positions=positions), terms=FAR)
    long = torch.tensor([1.0, 0.0]).repeat(4097, 1)  # narrow, and the same under each seed: tapes hold it once
    agree(student.apply_rotary(long), reference.apply_rotary(long), terms=FAR)


@points(0.5)
def test_rotation_dtypes_and_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """float64 and halves are kept, with angles that no half precision made, and so is the device."""
    x = draw.normal(2, 10, 8, dtype=torch.float64)
    agree(student.apply_rotary(x), reference.apply_rotary(x), terms=NEAR_IN_DOUBLE)
    positions = torch.tensor([3000, 17, 4001, 555, 1023])
    for dtype in (torch.bfloat16, torch.float16):
        x = draw.normal(2, 5, 16, dtype=dtype)
        agree(student.apply_rotary(x, positions), reference.apply_rotary(x, positions))
        long = torch.tensor([1.0, 0.0], dtype=dtype).repeat(700, 1)  # beyond 256, bfloat16 can't count
        agree(student.apply_rotary(long), reference.apply_rotary(long))
    x = draw.normal(2, 5, 6)
    note = _(
        "The device `meta` has shapes and no values: what is made on another device, or looks at values, fails there."
    )
    for given in (None, positions):
        here = student.apply_rotary(x, given)  # what is kept of it has to fit the device of the next one
        agree(here, reference.apply_rotary(x, given), terms=FAR)
        theirs = student.using(device="meta").apply_rotary(x, given)
        agree(theirs, reference.using(device="meta").apply_rotary(x, given), note=note)


@points(1)
def test_layouts(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Columns go from pairs side by side to halves, and back, for any shape and dtype."""
    columns = torch.tensor([10.0, 11.0, 20.0, 21.0, 30.0, 31.0])
    halves = torch.tensor([10.0, 20.0, 30.0, 11.0, 21.0, 31.0])
    with at_once():  # the input of the second call is the answer to the first
        exactly(student.to_half_split(columns), halves)
    exactly(student.to_interleaved(halves), columns)
    for x in (
        draw.normal(2),
        draw.normal(3, 10),
        draw.normal(2, 3, 4, 8, dtype=torch.float64),
        draw.normal(6, 6, dtype=torch.bfloat16),
        draw.normal(2, 8, 5).transpose(1, 2),
    ):
        for name in ("to_half_split", "to_interleaved"):
            got = getattr(student.using(gradients=True), name)(x)
            exactly(got, getattr(reference.using(gradients=True), name)(x))
            unmodified(got)
    x = draw.normal(2, 8)
    for name in ("to_half_split", "to_interleaved"):
        agree(getattr(student.using(device="meta"), name)(x), getattr(reference.using(device="meta"), name)(x))


@points(1.5)
def test_attention_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Fresh tokens and parameters give the right result and gradients."""
    cases = ((1, 4, 4, 1, True, 10000.0), (2, 5, 12, 3, False, 10000.0), (4, 4, 16, 4, True, 100.0))
    for batch, tokens, width, heads, bias, base in cases:
        theirs, ours = twins(student, reference, draw, "RotarySelfAttention", width, heads, bias=bias, base=base)
        x = draw.normal(batch, tokens, width)
        for switched in (theirs.eval, theirs.train):
            got = switched().using(gradients=True)(x)
            agree(got, ours.using(gradients=True)(x), terms=max(NEAR, batch * tokens * width))
            unmodified(got)


@points(0.5)
def test_attention_at_any_positions(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Positions may come in any order, with gaps and repeats; what is hidden follows the rows."""
    theirs, ours = twins(student, reference, draw, "RotarySelfAttention", 8, 2)
    x = draw.normal(2, 5, 8)
    for positions in (torch.tensor([7, 7, 2, 9, 2]), torch.tensor([4, 3, 2, 1, 0]), draw.permutation(5)):
        got = theirs(x, positions=positions)
        agree(got, ours(x, positions=positions), terms=NEAR)
        unmodified(got)
    agree(theirs(x), ours(x), terms=NEAR)
    far = draw.integer(100, 200)
    # Only distances count: all tokens moved by as much give the same.
    agree(theirs(x, torch.arange(5) + far), ours(x), terms=100 * NEAR)


@points(0.5)
def test_future_has_no_effect(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """No token sees one of a later row, at any length, one token included."""
    theirs, ours = twins(student, reference, draw, "RotarySelfAttention", 8, 2)
    future_has_no_effect(theirs, draw.normal(2, 4, 8))
    for tokens in (6, 1, 40, 3):
        x = draw.normal(2, tokens, 8)
        agree(theirs(x), ours(x), terms=FAR if tokens > 10 else NEAR)


@points(0.25)
def test_head_counts(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Unequal heads are an error, and so is an odd head width."""
    theirs, ours = twins(student, reference, draw, "RotarySelfAttention", 12, 2)
    x = draw.normal(2, 3, 12)
    agree(theirs(x), ours(x), terms=NEAR)
    reason = _("{width} columns cannot be shared out evenly among {heads} heads").format(width=12, heads=5)
    must_raise(lambda: student.RotarySelfAttention(12, 5)(x), reason)
    x = draw.normal(2, 3, 6)
    reason = _("{heads} heads of {width} columns each have an odd width").format(heads=2, width=3)
    must_raise(lambda: student.RotarySelfAttention(6, 2)(x), reason)


@points(0.5)
def test_attention_in_other_dtypes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The module works in float64 and bfloat16, also after other calls, at far positions too."""
    theirs, ours = twins(student, reference, draw, "RotarySelfAttention", 16, 2)
    x, at_zero = draw.normal(2, 5, 16, dtype=torch.float64), torch.zeros(5, dtype=torch.int64)
    theirs.to(dtype=torch.float64)
    ours.to(dtype=torch.float64)
    agree(theirs(x), ours(x), terms=NEAR_IN_DOUBLE)
    agree(theirs(x, at_zero), ours(x, at_zero), terms=NEAR_IN_DOUBLE)
    theirs.to(dtype=torch.bfloat16)
    ours.to(dtype=torch.bfloat16)
    x = x.bfloat16()
    agree(theirs(x), ours(x), terms=3 * 8 + 5)
    positions = torch.tensor([4001, 4002, 4004, 4007, 4012])
    agree(theirs(x, positions), ours(x, positions), terms=3 * 8 + 5)


@points(0.25)
def test_follows_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Everything the module needs moves with it to another device."""
    theirs, ours = twins(student, reference, draw, "RotarySelfAttention", 8, 2)
    x, positions = draw.normal(2, 5, 8), torch.tensor([3, 1, 4, 1, 5])
    agree(theirs(x), ours(x), terms=NEAR)
    theirs.to(device="meta")
    ours.to(device="meta")
    note = _("The device `meta` has shapes and no values: what stays behind is found there.")
    agree(theirs(x, positions), ours(x, positions), note=note)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long sequences and `no_grad` change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)
