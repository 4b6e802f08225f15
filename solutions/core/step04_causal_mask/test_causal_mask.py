"""The checks of step 4: the causal mask, the softmax under a mask, and renormalised weights."""

import torch
from torch import Tensor

from grader.checks.assertions import (
    GUARDED,
    Draw,
    Implementation,
    _,
    agree,
    exactly,
    holds,
    points,
    sums_to_one,
    unmodified,
)
from grader.checks.regimes import NO_TENSOR, AskedFunction, every_regime

OFF_LIMITS: dict[str, tuple[str, ...]] = {
    "causal_mask": ("scaled_dot_product_attention",),
    "masked_softmax": ("scaled_dot_product_attention",),
    "renormalise": ("scaled_dot_product_attention",),
}

LN_2, LN_3 = 0.6931471805599453, 1.0986122886681098
LOWER_LEFT = torch.tensor([[True, False, False], [True, True, False], [True, True, True]])
HUGE = 10_000.0

CALLS = {
    # Only the length is left to be asked.
    "causal_mask": AskedFunction(lambda draw, leading, tokens: (tokens,), {"device": "meta"}, without=NO_TENSOR),
    "masked_softmax": AskedFunction(
        lambda draw, leading, tokens: (draw.normal(*leading, 4, tokens), draw.mask(*leading, 4, tokens)), terms=5
    ),
    "renormalise": AskedFunction(
        lambda draw, leading, tokens: (draw.uniform(*leading, 4, tokens, low=0.5), draw.mask(*leading, 4, tokens)),
        terms=5,
    ),
}


@points(2)
def test_mask_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The mask of three tokens is the one you can draw by hand."""
    exactly(student.causal_mask(3), LOWER_LEFT)


@points(0.5)
def test_masked_softmax_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Three rows of scores give the weights that you can work out by hand."""
    scores = torch.tensor([[0.0, 5.0, 9.0], [LN_3, 0.0, 7.0], [0.0, 0.0, LN_2]])
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.75, 0.25, 0.0], [0.25, 0.25, 0.5]])
    agree(student.masked_softmax(scores, LOWER_LEFT), weights, terms=3)


@points(0.5)
def test_renormalise_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Three rows of weights are renormalised as you can work out by hand."""
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.4, 0.5], [0.1, 0.6, 0.3]])
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.2, 0.8, 0.0], [0.1, 0.6, 0.3]])
    agree(student.renormalise(weights, LOWER_LEFT), expected, terms=3)


@points(1.5)
def test_mask_of_any_length(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The mask is right for any number of tokens, one included."""
    for num_tokens in (1, 2, draw.integer(4, 9), draw.integer(130, 150)):
        exactly(student.causal_mask(num_tokens), reference.causal_mask(num_tokens))


@points(0.5)
def test_mask_on_its_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The mask is made on the device that is asked for."""
    for device in ("cpu", "meta"):
        exactly(student.causal_mask(4, device=device), reference.causal_mask(4, device=device))
    # No other check asks for eleven tokens: a mask may be kept by its length for as long as the default is the same.
    theirs, ours = student.using(made_on_meta=True), reference.using(made_on_meta=True)
    note = _("No device is given here, and torch's default device is not the CPU.")
    exactly(theirs.causal_mask(11), ours.causal_mask(11), note=note)


@points(0.25)
def test_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Fresh scores and masks give the weights they should."""
    cases = (
        (draw.normal(1, 1), draw.mask(1, 1)),
        (draw.normal(2, 4, 6), draw.mask(6)),  # one row of the mask for all
        (draw.normal(2, 3, 4, 4, scale=3.0), draw.mask(2, 1, 4, 4)),  # one mask for the heads of a batch entry
        (draw.normal(2, 1, 3, 2, 4), draw.mask(2, 1, 3, 2, 4)),
    )
    for scores, mask in cases:
        got = student.masked_softmax(scores, mask)
        agree(got, reference.masked_softmax(scores, mask), terms=scores.shape[-1])
        unmodified(got)


@points(0.5)
def test_renormalise_agrees_with_masking(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Renormalised softmax outputs are the weights of the masked scores."""
    for shape, mask_shape in (
        ((1, 1), (1, 1)),
        ((2, 3), (2, 3)),
        ((2, 4, 70), (70,)),
        ((2, 3, 4, 4), (2, 1, 4, 4)),
        ((2, 2, 1, 3, 5), (2, 2, 1, 3, 5)),
    ):
        mask = draw.mask(*mask_shape)
        # Hidden scores lie near 4 and visible ones near -4, so that little of each row is left before the division:
        # some 3 in 10,000. Beside that a guard of 1e-10 is nothing, and one of 1e-8 is seen.
        scores = draw.uniform(*shape, low=-0.25, high=0.25) + torch.where(mask, -4.0, 4.0)
        weights = _softmax_outputs(reference, scores)
        got = student.renormalise(weights, mask)
        # The weights arrive rounded, which the division does not make worse: hence the room of 16 positions.
        agree(got, reference.masked_softmax(scores, mask), terms=16)
        _nothing_for_hidden(got.tensor(), mask)
        unmodified(got)


@points(0.5)
def test_hidden_weights_are_zero(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each hidden position gets weight exactly 0, and each row sums to 1."""
    for shape in ((2, 3), (2, 2, 5, 130)):
        scores, mask = draw.normal(*shape, scale=3.0), draw.mask(*shape)
        got = student.masked_softmax(scores, mask)
        weights = got.tensor()
        agree(got, reference.masked_softmax(scores, mask), terms=shape[-1])
        _nothing_for_hidden(weights, mask)
        sums_to_one(weights)


@points(0.5)
def test_large_scores(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Scores of 10000 and -10000, hidden or visible, do no harm."""
    for scores, mask in _large_scores(draw, torch.float32):
        asked = reference.using(gradients=True).masked_softmax(scores, mask)
        agree(student.using(gradients=True).masked_softmax(scores, mask), asked, terms=scores.shape[-1])
    # A score near 10000 may be rounded by 10000 eps before anything is subtracted from it; each row still sums to 1.
    near, mask = draw.integers(-3, 4, 2, 3, 6) / 2, draw.mask(3, 6)
    scores = near + torch.tensor([[[HUGE]], [[-HUGE]]])
    got = student.masked_softmax(scores, mask)
    agree(got, reference.masked_softmax(scores, mask), terms=int(HUGE) ** 2)
    sums_to_one(got.tensor())


@points(0.5)
def test_dtypes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """float64 and bfloat16 are kept and exact, float16 in the softmax too."""
    for dtype, terms in ((torch.float64, GUARDED), (torch.bfloat16, 6), (torch.float16, 6)):
        scores, mask = draw.normal(2, 4, 6, dtype=dtype), draw.mask(4, 6)
        if dtype == torch.float64:
            scores[0, 0] += HUGE  # beyond exp, in this dtype too
        got = student.masked_softmax(scores, mask)
        agree(got, reference.masked_softmax(scores, mask), terms=terms)
        _nothing_for_hidden(got.tensor(), mask)
        unmodified(got)  # a conversion to the dtype that is there already makes no copy to write over
    large = _large_scores(draw, torch.float16)
    for scores, mask in (*large, (large[-1][0].bfloat16(), large[-1][1])):
        agree(student.masked_softmax(scores, mask), reference.masked_softmax(scores, mask), terms=6)
    # Half of each row is hidden, and an eighth of its weight is left: a guard of 1e-10 makes 1e-9, and one of 1e-9 is
    # seen.
    mask = torch.tensor([[1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1], [1, 1, 0, 0, 0, 1], [0, 0, 1, 1, 1, 0]]).bool()
    for dtype, terms in ((torch.float64, 1000 * GUARDED), (torch.bfloat16, 6)):
        scores = draw.uniform(2, 4, 6, low=-0.3, high=0.3, dtype=dtype) + torch.where(mask, -1.0, 1.0).to(dtype)
        weights = _softmax_outputs(reference, scores)
        got = student.renormalise(weights, mask)
        agree(got, reference.renormalise(weights, mask), terms=terms)
        unmodified(got)


@points(0.25)
def test_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The gradients of the scores and of the weights are right."""
    scores, mask = draw.normal(2, 3, 5), draw.mask(3, 5)
    weights = _softmax_outputs(reference, draw.normal(2, 3, 5))
    for name, given in (("masked_softmax", scores), ("renormalise", weights)):
        expected = getattr(reference.using(gradients=True), name)(given, mask)
        agree(getattr(student.using(gradients=True), name)(given, mask), expected, terms=5)
    # A softmax may give a visible weight of exactly 0.
    with_zeros = weights.masked_fill(~draw.mask(2, 3, 5), 0.0) + 0.5 * _one_of_the_shown(mask)
    got = student.using(gradients=True).renormalise(with_zeros, mask)
    agree(got, reference.renormalise(with_zeros, mask).tensor(), terms=5)
    gradient = got.gradients["0"]
    sentence = _("Where a weight is 0 its gradient is {gradient}, and it should be a number.")
    strange = "nan" if gradient is None or bool(gradient.isnan().any()) else "inf"
    holds(gradient is not None and bool(gradient.isfinite().all()), sentence.format(gradient=strange))


@points(0.25)
def test_follows_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The weights stay on the device of what came in."""
    scores, mask = draw.normal(2, 3, 4), draw.mask(3, 4)
    note = _(
        "The device `meta` has shapes but no values: creating a tensor on another device, or looking at "
        "values, fails there."
    )
    for name, given in (("masked_softmax", scores), ("renormalise", _softmax_outputs(reference, scores))):
        agree(getattr(student, name)(given, mask), getattr(reference, name)(given, mask), terms=4)
        expected = getattr(reference.using(device="meta"), name)(given, mask)
        agree(getattr(student.using(device="meta"), name)(given, mask), expected, note=note)


@points(0.25)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long inputs and `no_grad` change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)


def _softmax_outputs(reference: Implementation, scores: Tensor) -> Tensor:
    return reference.masked_softmax(scores, torch.ones(scores.shape[-1], dtype=torch.bool)).tensor()


def _one_of_the_shown(mask: Tensor) -> Tensor:
    """A one in each row, at the first place that the mask shows."""
    return torch.nn.functional.one_hot(mask.int().argmax(-1), mask.shape[-1]).float()


def _nothing_for_hidden(weights: Tensor, mask: Tensor) -> None:
    leaked = weights.masked_fill(mask, 0.0).abs().max()
    holds(
        leaked == 0,
        _("A hidden position has the weight {weight:.3g}, and it should have exactly 0.").format(weight=float(leaked)),
    )


# Three cases: one huge score visible in each row; huge hidden scores; huge scores hidden and visible. Where visible
# scores are huge one of them stands alone at the top of its row: rounding near 10000 has no say there.
def _large_scores(draw: Draw, dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
    only = torch.zeros(3, 6, dtype=torch.bool)
    only[torch.arange(3), draw.integers(0, 6, 3)] = True
    signs = torch.tensor([[-1.0], [1.0], [-1.0]])
    lonely = torch.where(only, signs * HUGE, draw.normal(2, 3, 6)).to(dtype)

    mask = draw.mask(3, 6)
    towering = torch.where(mask, draw.normal(2, 3, 6), HUGE).to(dtype)

    several = only | draw.mask(3, 6)
    lower = torch.where(draw.mask(3, 6), 0.9 * HUGE, -HUGE)
    mixed = torch.where(only, HUGE, torch.where(several, lower, HUGE)).to(dtype)
    return [(lonely, only), (towering, mask), (mixed, several)]
