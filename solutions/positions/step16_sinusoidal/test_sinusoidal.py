"""The checks of step 16: the sinusoidal encoding, and the module that adds it."""

import torch

from grader.checks.assertions import (
    Draw,
    Implementation,
    _,
    agree,
    drawn_as,
    holds,
    must_raise,
    points,
    twins,
    unmodified,
)
from grader.checks.regimes import AXES, NO_BIAS, NO_DROPOUT, AskedModule, every_regime, not_asked

OFF_LIMITS: dict[str, tuple[str, ...]] = {}

# `terms` for the accuracy that the step asks for, from the room of one term: 16 roundings of the dtype.
NEAR = int((1e-5 / (16 * torch.finfo(torch.float32).eps)) ** 2)  # 1e-5, at the first 64 positions
FAR = int((1e-3 / (16 * torch.finfo(torch.float32).eps)) ** 2)  # 1e-3, up to position 4096
NEAR_IN_DOUBLE = int((1e-5 / (16 * torch.finfo(torch.float64).eps)) ** 2)  # a float32 table widened

CALLS = {
    "sinusoidal_encoding": not_asked(
        "it takes no tensor; the check of far positions asks for 4,097", lambda draw, leading, tokens: (tokens, 6)
    ),
    "PositionalEncoding": AskedModule(
        lambda tokens: (6, 1100), lambda draw, leading, tokens: (draw.normal(*leading, tokens, 6),),
        terms=NEAR, axes=AXES, without=NO_DROPOUT | NO_BIAS,
    ),
}  # fmt: skip


@points(0.5)
@drawn_as("curves")
def test_encoding_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Three positions of width 4 hold the sines and cosines of p and of p / 10."""
    expected = torch.tensor(
        [
            [0.0, 1.0, 0.0, 1.0],
            [0.84147098, 0.54030231, 0.09983342, 0.99500417],
            [0.90929743, -0.41614684, 0.19866933, 0.98006658],
        ]
    )
    agree(student.sinusoidal_encoding(3, 4, base=100.0), expected, terms=NEAR)


@points(1)
@drawn_as("curves")
def test_any_shape(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any number of positions and any even width have the right encoding."""
    for num_positions, width in ((1, 2), (6, 6), (draw.integer(7, 20), 8), (64, 16), (5, 64)):
        agree(
            student.sinusoidal_encoding(num_positions, width),
            reference.sinusoidal_encoding(num_positions, width),
            terms=NEAR,
        )
    base = float(draw.integer(20, 900))
    agree(student.sinusoidal_encoding(9, 10, base), reference.sinusoidal_encoding(9, 10, base), terms=NEAR)


@points(0.5)
@drawn_as("curves")
def test_odd_widths(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """An odd width ends with a sine."""
    for num_positions, width in ((5, 3), (8, 7), (4, 1), (11, 11)):
        agree(
            student.sinusoidal_encoding(num_positions, width),
            reference.sinusoidal_encoding(num_positions, width),
            terms=NEAR,
        )


@points(0.5)
@drawn_as("curves")
def test_far_positions(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The encoding is right up to position 4096."""
    for count, width in ((4097, 6), (700, 32)):
        agree(student.sinusoidal_encoding(count, width), reference.sinusoidal_encoding(count, width), terms=FAR)


@points(0.25)
def test_encoding_on_its_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The encoding is float32, and made on the device that is asked for."""
    for device in ("cpu", "meta"):
        agree(
            student.sinusoidal_encoding(6, 4, device=device),
            reference.sinusoidal_encoding(6, 4, device=device),
            terms=NEAR,
        )


@points(1)
def test_adds_the_encoding(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each token gets the encoding of its position added, in training as in evaluation."""
    names = sorted(student.PositionalEncoding(4, 8).parameters())
    sentence = _(
        "The module has parameters ({names}), which an optimizer would change. The encoding is computed and not "
        "learned: a table belongs in a buffer."
    )
    holds(not names, sentence.format(names=", ".join(names)))
    for batch, tokens, width in ((1, 3, 4), (3, 5, 6), (4, 4, 8)):
        theirs, ours = twins(student, reference, draw, "PositionalEncoding", width, 8)
        x = draw.normal(batch, tokens, width)
        for switched in (theirs.eval, theirs.train):
            got = switched().using(gradients=True)(x)
            agree(got, ours.using(gradients=True)(x), terms=NEAR)
            unmodified(got)


@points(0.25)
def test_any_leading_dimensions(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The tokens may stand alone, or behind other dimensions, in any memory order."""
    theirs, ours = twins(student, reference, draw, "PositionalEncoding", 6, 9)
    for x in (
        draw.normal(5, 6),
        draw.normal(6, 6),
        draw.normal(2, 3, 4, 6),
        draw.normal(3, 6, 4).transpose(1, 2),
    ):
        agree(theirs(x), ours(x), terms=NEAR)


@points(0.5)
def test_other_dtypes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """In halves the encoding is off by its own rounding only, with the module moved or not; float64 is kept."""
    for dtype in (torch.bfloat16, torch.float16):
        theirs, ours = twins(student, reference, draw, "PositionalEncoding", 16, 700)
        short, long = draw.normal(2, 5, 16, dtype=dtype), torch.zeros(1, 700, 16, dtype=dtype)
        for x in (short, long):  # zeros show the encoding itself
            agree(theirs(x), ours(x))
        theirs.to(dtype=dtype)
        for x in (short, long):
            agree(theirs(x), ours(x))
    theirs, ours = twins(student, reference, draw, "PositionalEncoding", 6, 9)
    x = draw.normal(2, 5, 6, dtype=torch.float64)
    agree(theirs(x), ours(x), terms=NEAR_IN_DOUBLE)


@points(0.5)
def test_lengths(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Every length up to max_len works, in any order, and a longer one is an error."""
    theirs, ours = twins(student, reference, draw, "PositionalEncoding", 4, 6)
    for tokens in (2, 6, 1, 5):
        x = draw.normal(7, tokens, 4)
        agree(theirs(x), ours(x), terms=NEAR)
    too_long = draw.normal(2, 7, 4)
    must_raise(lambda: theirs(too_long), _("{tokens} tokens are more than max_len = {most}").format(tokens=7, most=6))
    theirs, ours = twins(student, reference, draw, "PositionalEncoding", 2)
    x, too_long = torch.zeros(1, 5000, 2), torch.zeros(5001, 2)  # the same under each seed: tapes hold them once
    agree(theirs(x), ours(x), terms=FAR)
    reason = _("{tokens} tokens are more than max_len = {most}").format(tokens=5001, most=5000)
    must_raise(lambda: theirs(too_long), reason)


@points(0.5)
def test_follows_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Everything the module needs moves with it to another device."""
    theirs, ours = twins(student, reference, draw, "PositionalEncoding", 4, 6)
    x = draw.normal(2, 5, 4)
    agree(theirs(x), ours(x), terms=NEAR)
    theirs.to(device="meta")
    ours.to(device="meta")
    note = _("The device `meta` has shapes and no values: what stays behind is found there.")
    agree(theirs(x), ours(x), note=note)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long sequences and `no_grad` change nothing, the module has no parameter, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)
