"""The checks of step 5: dropout as a function and as a module.

No check knows which elements a right way drops: it asks whether the numbers are possible, and how often they come. A
bound on a rate comes from `binomial_bound`: a right answer breaks it less than once in 10 ** 7 runs. Each check says
how often it refuses a right answer, and that is always less than once in 10 ** 6 runs.
"""

import torch
from torch import Tensor

from grader.checks.assertions import (
    GUARDED_TWICE,
    Answer,
    Draw,
    Implementation,
    _,
    agree,
    binomial_bound,
    exactly,
    holds,
    must_raise,
    points,
    unmodified,
)
from grader.checks.regimes import AXES, NO_BIAS, AskedFunction, AskedModule, every_regime

OFF_LIMITS: dict[str, tuple[str, ...]] = {"dropout": ("dropout",), "Dropout": ("dropout",)}

HALF_ROOM = 0.02  # in half precision the step lets the rate be this far off
SPREAD_ROOM = 1 / 3
SIZE_ROOM = 0.05


def drawn(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor]:
    return (draw.uniform(*leading, tokens, 8, low=0.5, high=1.5),)


def kept_or_dropped(got: Answer, inputs: tuple[Tensor, ...]) -> None:
    _agrees_where_kept(got, 2.0 * inputs[0])


CALLS = {
    "dropout": AskedFunction(drawn, judged=kept_or_dropped),
    "Dropout": AskedModule(lambda tokens: (0.5,), drawn, axes=AXES, without=NO_BIAS),
}


@points(1)
def test_kept_or_dropped_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each element is dropped to 0 or multiplied by 1 / (1 - p)."""
    # With p = 0.2 the scale is 1.25, so 4 becomes 5. A right answer is refused when it drops all: 7 in 10 ** 12 runs.
    fours = 4.0 * torch.arange(1.0, 17.0).reshape(2, 8)
    fives = 5.0 * torch.arange(1.0, 17.0).reshape(2, 8)
    _agrees_where_kept(student.dropout(fours, 0.2), fives)
    _agrees_where_kept(student.dropout(fours.repeat(8, 1), 0.2), fives.repeat(8, 1))


@points(1)
def test_rate(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A share p of the elements is dropped, and half when no p is given."""
    # Five bounds: a right answer is refused less than 5 times in 10 ** 7 runs.
    x = _away_from_zero(draw, 64, 64)
    for p in (0.2, 0.05, 0.8):
        _rate_is_near(student.dropout(x, p), x, p)
    by_default = student.dropout(x)
    _rate_is_near(by_default, x, 0.5)
    _agrees_where_kept(by_default, x * _scale(reference, 0.5, x.dtype))
    _rate_is_near(student.dropout(x.bfloat16(), 0.3), x, 0.3, HALF_ROOM)


@points(1)
def test_elements_are_independent(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each element is drawn by itself, in each row, batch entry and call."""
    calls, p, shape = 6, 0.3, (8, 16, 32)
    x = _away_from_zero(draw, *shape)
    first = _dropped(student.dropout(x, p), x)
    _blind_to_size(first, x)
    others = [_dropped(student.dropout(x, p), x) for _call in range(calls - 1)]
    dropped = torch.stack([first, *others])  # (6, 8, 16, 32)
    _varies_by_chance(
        dropped.sum(3),
        shape[2] * p * (1 - p),
        _(
            "The elements of a row depend on each other: the number of dropped ones in a row varies {ratio:.2f} times "
            "as much as when each is drawn by itself."
        ),
    )
    _varies_by_chance(
        dropped.sum(2),
        shape[1] * p * (1 - p),
        _(
            "The rows depend on each other: the number of dropped elements in a column varies {ratio:.2f} times as "
            "much as when each is drawn by itself."
        ),
    )
    _varies_by_chance(
        dropped.sum(1),
        shape[0] * p * (1 - p),
        _(
            "The batch entries depend on each other: the number of them in which one place is dropped varies "
            "{ratio:.2f} times as much as when each is drawn by itself."
        ),
    )
    _varies_by_chance(
        dropped.sum(0),
        calls * p * (1 - p),
        _(
            "The calls depend on each other: the number of calls in which one element is dropped varies {ratio:.2f} "
            "times as much as when each is drawn by itself."
        ),
    )
    _by_themselves_in_four_dimensions(student, draw, p)
    # One number comes up with a probability of at most 0.014 among 4096 elements: six times the same, below 10 ** -9.
    numbers = dropped.flatten(1).sum(1)
    holds(
        bool((numbers != numbers[0]).any()),
        _(
            "Each of {calls} calls dropped exactly {number} of {total} elements. When each element is drawn by itself, "
            "their number varies."
        ).format(calls=calls, number=int(numbers[0]), total=x.numel()),
    )


# The weights of several heads have four dimensions: sequences, heads, queries and keys. Four more bounds.
def _by_themselves_in_four_dimensions(student: Implementation, draw: Draw, p: float) -> None:
    shape = (8, 8, 16, 16)
    x = _away_from_zero(draw, *shape)
    dropped = _dropped(student.dropout(x, p), x)
    sentence = _(
        "Of a tensor with four dimensions, as the weights of several heads are, slices along dimension {dim} depend on "
        "each other: the number of dropped elements varies {ratio:.2f} times as much as when each is drawn by itself."
    )
    for dim, length in enumerate(shape):
        _varies_by_chance(dropped.sum(dim), length * p * (1 - p), sentence.replace("{dim}", str(dim)))


@points(0.5)
def test_seed_repeats(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Two calls differ, and the same `torch.manual_seed` repeats them."""
    # Two draws of 1024 elements with p = 0.5 are never the same, and those of 32 rows or columns seldom.
    x, seed, other_seed = _away_from_zero(draw, 32, 32), draw.seed(), draw.seed()
    first, second = student.dropout(x, 0.5).tensor(), student.dropout(x, 0.5).tensor()
    holds(not torch.equal(first, second), _("Two calls dropped the same elements. Each call has to draw anew."))
    seeded = student.using(seed=seed).dropout(x, 0.5).tensor()
    next_one = student.using(going_on=True).dropout(x, 0.5).tensor()
    holds(
        not torch.equal(seeded, next_one),
        _("Two calls, one right after the other and with no seed between them, dropped the same elements."),
    )
    exactly(
        student.using(seed=seed).dropout(x, 0.5),
        seeded,
        note=_(
            "Both calls came right after `torch.manual_seed` with the same seed, so both should drop the same elements."
        ),
    )
    other = student.using(seed=other_seed).dropout(x, 0.5).tensor()
    holds(
        seed == other_seed or not torch.equal(seeded, other),
        _("Two calls with different seeds dropped the same elements."),
    )
    holds(bool((seeded * x >= 0).all()), _("An element that was kept has another sign than before."))


@points(0.5)
def test_nothing_outside_training(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Outside training x comes back unchanged."""
    # So many elements that "nothing was dropped" is told from an unlikely draw.
    x = _away_from_zero(draw, 16, 32)
    theirs, ours = student.using(gradients=True), reference.using(gradients=True)
    for p in (0.2, 0.0, 1.0):
        exactly(theirs.dropout(x, p, False), ours.dropout(x, p, False))
    exactly(student.dropout(x, training=False), x)
    _agrees_where_kept(student.dropout(x, p=0.2, training=True), x * _scale(reference, 0.2, x.dtype))


@points(0.5)
def test_none_and_all(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """p = 0 changes nothing, and p = 1 gives zeros, never NaN."""
    # A learner may keep where the draw is > p: with p = 0 that drops one of these 8 elements once in 2 ** 21 runs. In
    # float64, since zeros made for p = 1 are easily made in float32.
    x = _away_from_zero(draw, 2, 4, dtype=torch.float64)
    for p in (0.0, 1.0):
        expected = reference.using(gradients=True).dropout(x, p)
        agree(student.using(gradients=True).dropout(x, p), expected, terms=GUARDED_TWICE)


@points(1)
def test_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The gradient passes through the same mask, with the same scale."""
    x = _away_from_zero(draw, 2, 2, 4, 8)  # four dimensions, as the weights of several heads have
    got = student.using(gradients=True).dropout(x, 0.3)
    _agrees_where_kept(got, x * _scale(reference, 0.3, x.dtype))
    _gradient_passes_the_mask(got, reference, x)


@points(0.5)
def test_wrong_probability_is_an_error(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """In training a p below 0 or above 1 is an error."""
    x = _away_from_zero(draw, 4, 8)
    for p in (1.5, -0.5, 1.01, -0.01):
        must_raise(lambda p=p: student.dropout(x, p), _("p = {p} is not between 0 and 1").format(p=p))
    _agrees_where_kept(student.dropout(x, 0.2), x * _scale(reference, 0.2, x.dtype))


@points(1)
def test_module_obeys_its_mode(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The module drops after `train()`, and does nothing after `eval()`."""
    # Four bounds: a right answer is refused less than 4 times in 10 ** 7 runs.
    p, x = 0.3, _away_from_zero(draw, 2, 64, 64)
    kept = x * _scale(reference, p, x.dtype)
    theirs = student.Dropout(p)
    # Both modes are asked before one is judged: a module that never drops is told from one that has them turned round.
    fresh = theirs(x)
    whole = theirs.eval().using(gradients=True)(x)
    unmodified(fresh)
    _agrees_where_kept(fresh, kept)
    _rate_is_near(fresh, x, p)
    exactly(whole, reference.using(gradients=True).dropout(x, p, False))
    theirs.train()
    again = theirs.using(gradients=True)(x)
    _agrees_where_kept(again, kept)
    _gradient_passes_the_mask(again, reference, x)
    _rate_is_near(again, x, p)
    # One of the 256 rows and columns is kept whole less than 4 times in 10 ** 8 runs.
    dropped = again.tensor() == 0
    holds(
        all(dropped.any(dim).all() and not dropped.all(dim).any() for dim in (1, 2)),
        _("The module dropped or kept a whole row or column of x together. Each element has to be drawn by itself."),
    )
    together, room = float((dropped[0] & dropped[1]).double().mean()), binomial_bound(dropped[0].numel(), p * p)
    holds(
        abs(together - p * p) <= room,
        _(
            "A share of {rate:.3f} of the places was dropped in both batch entries, and it should be within {room:.3f} "
            "of {expected:.3f}. Each element has to be drawn by itself."
        ).format(rate=together, room=room, expected=p * p),
    )
    holds(
        not torch.equal(fresh.tensor(), again.tensor()),
        _("Two calls of one module dropped the same elements. Each call has to draw anew."),
    )
    by_default = student.Dropout()(x)
    _rate_is_near(by_default, x, 0.5)
    _agrees_where_kept(by_default, x * _scale(reference, 0.5, x.dtype))
    # A module may do its own work: what holds of the function at both ends of p, of dtype and of device has to hold of
    # it. Where an element is kept when the draw is > p, one of these 8 is dropped with p = 0 once in 2 ** 21 runs.
    few = _away_from_zero(draw, 2, 4, dtype=torch.float64)
    for end in (0.0, 1.0):
        got = student.Dropout(p=end).using(gradients=True)(few)
        agree(got, reference.using(gradients=True).dropout(few, end), terms=GUARDED_TWICE)
        unmodified(got)
    for dtype in (torch.float64, torch.bfloat16):
        theirs.to(dtype=dtype)
        few = _away_from_zero(draw, 2, 2, 2, 4, dtype=dtype)
        _agrees_where_kept(theirs.train()(few), few * _scale(reference, p, dtype))
        exactly(theirs.eval()(few), few)
    theirs.to(device="meta")
    for training in (True, False):
        got = theirs.train()(few) if training else theirs.eval()(few)
        _is_on_meta(got, reference.using(device="meta").dropout(few, p, training))


@points(0.25)
def test_dtype_and_device_kept(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The result has the dtype and the device of x."""
    for dtype in (torch.float64, torch.bfloat16):
        x = _away_from_zero(draw, 8, 16, dtype=dtype)
        _agrees_where_kept(student.dropout(x, 0.3), x * _scale(reference, 0.3, dtype))
        exactly(student.dropout(x, 0.3, False), x)
    x = draw.normal(2, 3, 4)
    theirs, ours = student.using(device="meta"), reference.using(device="meta")
    for training in (True, False):
        _is_on_meta(theirs.dropout(x, 0.3, training), ours.dropout(x, 0.3, training))


@points(0.25)
def test_input_unmodified(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The tensor x is left as it was."""
    # All 64 elements are kept, so that a change stays hidden, with a probability of 2 ** -64.
    x = _away_from_zero(draw, 8, 8)
    got = student.dropout(x, 0.5)
    unmodified(got)
    _agrees_where_kept(got, x * _scale(reference, 0.5, x.dtype))
    unmodified(student.dropout(x, 1.0))  # where all is dropped there may be a way of its own


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, lengths, parents and a change of mode do no harm."""
    every_regime(student, reference, draw, CALLS)


# Values of both signs between 0.5 and 1.5 in size, so that a 0 in the result is an element that was dropped.
def _away_from_zero(draw: Draw, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    drawn = draw.uniform(*shape, low=-1.0, high=1.0, dtype=dtype)
    return drawn + torch.where(drawn < 0, -0.5, 0.5).to(dtype)


# What the reference makes of a 1 that it keeps. That it keeps none of the 256 does not happen (p ** 256).
def _scale(reference: Implementation, p: float, dtype: torch.dtype) -> Tensor:
    return reference.dropout(torch.ones(256, dtype=dtype), p).tensor().max()


def _dropped(got: Answer, x: Tensor) -> Tensor:
    value = got.tensor()
    holds(
        value.shape == x.shape,
        _("The result has shape {got}, and it should have {expected}.").format(
            got=tuple(value.shape), expected=tuple(x.shape)
        ),
    )
    return value == 0


# Each element is 0 or agrees with `kept`. A right answer is refused when it drops all n: p ** n is below 10 ** -11. Of
# 128 elements it drops none with a probability of (1 - p) ** 128, below 10 ** -12: p is 0.2 or more.
def _agrees_where_kept(got: Answer, kept: Tensor) -> None:
    value = got.tensor()
    expected = kept.masked_fill(value == 0, 0.0) if value.shape == kept.shape else kept
    note = _("Where the result is 0 the element counts as dropped, and 0 is expected there.")
    terms = GUARDED_TWICE if kept.dtype == torch.float64 else 1
    agree(got, expected, terms=terms, note=note if value.shape == kept.shape and value.dtype == kept.dtype else None)
    holds((value != 0).any(), _("Every element of the result is 0, and with this p some have to be kept."))
    if value.numel() >= 128:
        holds((value == 0).any(), _("No element of the result is 0, and with this p some have to be dropped."))


# The grader sends one fixed pattern back through every result; through the identity it arrives as it was sent.
def _gradient_passes_the_mask(got: Answer, reference: Implementation, x: Tensor) -> None:
    sent, arrived = reference.using(gradients=True).dropout(x, 0.0).gradients["0"], got.gradients["0"]
    holds(arrived is not None, _("No gradient arrives at x. Was something detached, or computed under no_grad?"))
    assert sent is not None
    assert arrived is not None
    expected = sent * got.tensor() / x
    apart = ~((arrived - expected).abs() <= 1e-5)
    if not apart.any():
        return
    place = tuple(apart.nonzero()[0].tolist())
    sentence = _(
        "At {place} the element {before:.4f} became {after:.4f}, and {sent:.4f} was sent back to it. There the "
        "gradient should be {expected:.4f}, and it is {arrived:.4f}."
    )
    holds(
        False,
        sentence.format(
            place=list(place),
            before=float(x[place]),
            after=float(got.tensor()[place]),
            sent=float(sent[place]),
            expected=float(expected[place]),
            arrived=float(arrived[place]),
        ),
    )


def _is_on_meta(got: Answer, expected: Answer) -> None:
    note = _(
        "The device `meta` has shapes but no values: creating a tensor on another device, or looking at "
        "values, fails there."
    )
    agree(got, expected, note=note)


def _rate_is_near(got: Answer, x: Tensor, p: float, room: float = 0.0) -> None:
    rate = float(_dropped(got, x).double().mean())
    room += binomial_bound(x.numel(), p)
    sentence = _(
        "Of {count} elements a share of {rate:.3f} was dropped, and with p = {p} it should be within {room:.3f} of {p}."
    )
    holds(abs(rate - p) <= room, sentence.format(count=x.numel(), rate=rate, p=p, room=room))


# Sizes are uniform between 0.5 and 1.5. Of 4096 elements, p = 0.3, the mean size of the dropped ones has a deviation of
# 0.007. The room is seven of them: a right answer is refused less than once in 10 ** 11 runs.
def _blind_to_size(dropped: Tensor, x: Tensor) -> None:
    sizes = x.double().abs()
    gone, all_ = float(sizes[dropped].mean()), float(sizes.mean())
    sentence = _(
        "The dropped elements have a mean size of {gone:.2f}, and all elements together one of {all:.2f}. Whether an "
        "element is dropped may not depend on its value."
    )
    holds(not dropped.any() or abs(gone - all_) <= SIZE_ROOM, sentence.format(gone=gone, all=all_))


# `variance` is that of a binomial number. The mean square of R standardised counts is 1, with a standard deviation of
# at most the root of 2 / R. Here R is 768 or more, so the room is 6.5 deviations: a right answer is refused less than
# once in 10 ** 8 runs.
def _varies_by_chance(numbers: Tensor, variance: float, sentence: str) -> None:
    numbers = numbers.double()
    ratio = float((numbers - numbers.mean()).square().mean()) / variance
    holds(abs(ratio - 1) <= SPREAD_ROOM, sentence.format(ratio=ratio))
