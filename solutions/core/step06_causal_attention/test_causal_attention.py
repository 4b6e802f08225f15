"""The checks of step 6: causal attention with dropout on the weights."""

import torch
from torch import Tensor

from grader.checks.assertions import (
    GUARDED_TWICE,
    Draw,
    Implementation,
    _,
    agree,
    future_has_no_effect,
    gradients_arrive,
    holds,
    must_raise,
    points,
    twins,
    unmodified,
    with_values,
)
from grader.checks.common import LARGE_SCORES, share_is_near, weights_are_zero_or_scaled, weights_fall_alone
from grader.checks.regimes import AskedModule, every_regime

OFF_LIMITS = {"CausalAttention": ("scaled_dot_product_attention", "multi_head_attention", "flex_attention")}

LN_2 = 0.6931471805599453
DROPPED = 0.2  # not 0.5: there 1 / p and 1 / (1 - p) are the same

CALLS = {
    "CausalAttention": AskedModule(
        lambda tokens: (3, 4, tokens, 0.5), lambda draw, leading, tokens: (draw.normal(*leading, tokens, 3),),
        {"qkv_bias": False}, terms=15,
    )
}  # fmt: skip


@points(1)
def test_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Three tokens give the context that you can work out by hand."""
    theirs = student.CausalAttention(2, 9, 3, 0.0)
    # Every query is (1, 0, ..., 0), so that only the keys decide, and d_out = 9 makes the scale 1 / 3. No other mistake
    # in the scale gives 3: not half the width, its logarithm, nor the root of another size.
    rows = {name: torch.zeros(9, 2) for name in ("W_query.weight", "W_key.weight", "W_value.weight")}
    rows["W_query.weight"][0] = torch.tensor([1.0, 1.0])
    rows["W_key.weight"][0] = torch.tensor([3 * LN_2, 0.0])
    rows["W_value.weight"][:2] = torch.tensor([[21.0, 0.0], [0.0, 21.0]])
    theirs.load_parameters(rows)
    theirs.eval()
    tokens = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]]])
    context = torch.zeros(1, 3, 9)
    context[0, :, :2] = torch.tensor([[21.0, 0.0], [14.0, 7.0], [30.0, -9.0]])
    agree(theirs(tokens), context, terms=4)


@points(0.25)
def test_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Fresh tokens and parameters give the context they should."""
    for batch, tokens, d_in, d_out, qkv_bias in ((1, 3, 3, 2, False), (3, 6, 4, 5, True)):
        theirs, ours = twins(student, reference, draw, "CausalAttention", d_in, d_out, tokens, 0.0, qkv_bias=qkv_bias)
        x = draw.normal(batch, tokens, d_in)
        got = theirs(x)
        agree(got, ours(x), terms=d_in + d_out + tokens)
        unmodified(got)


@points(1)
def test_future_has_no_effect(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """No token sees a later one."""
    theirs, ours = twins(student, reference, draw, "CausalAttention", 3, 4, 6, 0.0)
    x = draw.normal(2, 6, 3)
    future_has_no_effect(theirs, x)
    # A context that ignores the tokens altogether keeps the rule, too. Gradients flow in eval mode as well.
    agree(theirs.using(gradients=True)(x), ours.using(gradients=True)(x), terms=2 * 6 * 4)


@points(0.25)
def test_shorter_sequences_work(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Sequences shorter than `context_length` work, in any order."""
    theirs, ours = twins(student, reference, draw, "CausalAttention", 3, 4, 8, 0.0)
    for tokens in (1, 5, 3):
        x = draw.normal(2, tokens, 3)
        agree(theirs(x), ours(x), terms=3 + 4 + tokens)


@points(0.25)
def test_too_long_is_an_error(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A sequence longer than `context_length` is an error."""
    # Batch and width may well be larger than the context length: only T is compared with it.
    theirs, ours = twins(student, reference, draw, "CausalAttention", 5, 2, 4, 0.0)
    x = draw.normal(6, 5, 5)
    agree(theirs(x[:, :4]), ours(x[:, :4]), terms=5 + 2 + 4)
    reason = _("{tokens} tokens are more than the context length of {length}").format(tokens=5, length=4)
    must_raise(lambda: theirs(x), reason)


@points(0.5)
def test_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The gradients of the tokens and of every parameter are right."""
    theirs, ours = twins(student, reference, draw, "CausalAttention", 3, 4, 5, 0.0, qkv_bias=True)
    theirs.train()  # with p = 0 the mode makes no difference
    x = draw.normal(2, 5, 3)
    agree(theirs.using(gradients=True)(x), ours.using(gradients=True)(x), terms=2 * 5 * 4)


@points(0.5)
def test_large_scores(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Scores near 200 and near -200, near 1,000 and near -1,000 give the right weights."""
    # In each sequence the scores of every other query lie near -200, of the rest near 200: no maximum but a row's own
    # will do. Whole numbers carry no rounding there.
    signs = torch.tensor([[-1.0, 1.0, -1.0, 1.0, -1.0], [1.0, -1.0, 1.0, -1.0, 1.0]])
    for size, spread, terms in LARGE_SCORES:
        large = 20.0 * torch.stack([signs, torch.ones(2, 5)], -1)
        x = torch.cat([large, draw.integers(-spread, spread + 1, 2, 5, 2)], -1)  # (2, 5, 4)
        keys = torch.eye(4)[[1, 0, 2, 3]] * torch.tensor([[size / 200], [0.0], [1.0], [1.0]])
        parameters = {
            "W_query.weight": torch.eye(4),
            "W_key.weight": keys,
            "W_value.weight": draw.normal(4, 4),
        }
        theirs, ours = student.CausalAttention(4, 4, 5, 0.0), reference.CausalAttention(4, 4, 5, 0.0)
        for module in (theirs, ours):
            module.load_parameters(parameters)
            module.eval()
        agree(theirs(x), ours(x), terms=terms)


@points(0.25)
def test_other_dtypes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The module works in float64 and bfloat16, also after other calls."""
    # d_out is 4, so that a root taken in float32 is exact and passes in float64 too.
    theirs, ours = twins(student, reference, draw, "CausalAttention", 3, 4, 6, 0.0, qkv_bias=True)
    for dtype, terms in ((torch.float64, GUARDED_TWICE), (torch.bfloat16, 3 + 4 + 5)):
        theirs.to(dtype=dtype)
        ours.to(dtype=dtype)
        x = draw.normal(2, 5, 3, dtype=dtype)
        agree(theirs(x), ours(x), terms=terms)
    training, _ours = twins(student, reference, draw, "CausalAttention", 3, 4, 6, DROPPED)
    training.to(dtype=x.dtype)
    got = training.train()(x).tensor()
    sentence = _("In training the context has dtype {got}, and it should have {expected}.")
    holds(got.dtype == x.dtype, sentence.format(got=got.dtype, expected=x.dtype))


@points(0.5)
def test_follows_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Everything the module needs moves with it to another device."""
    theirs, ours = twins(student, reference, draw, "CausalAttention", 3, 4, 6, 0.0)
    x = draw.normal(2, 5, 3)
    agree(theirs(x), ours(x), terms=3 + 4 + 5)
    note = _("The device `meta` has shapes and no values: what stays behind is found there.")
    theirs.to(device="meta")
    ours.to(device="meta")
    expected = ours(x)
    agree(theirs(x), expected, note=note)
    training, _ours = twins(student, reference, draw, "CausalAttention", 3, 4, 6, DROPPED)  # dropout has a mask, too
    training.to(device="meta")
    agree(training.train()(x), expected, note=note)


@points(3.5)
def test_dropout_acts_on_weights(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """In training single weights are dropped, and the others are scaled up."""
    # The context shows the weights, twice: all scores are 0, and the values are unit vectors.
    tokens = 32
    parameters = {
        "W_query.weight": torch.zeros(2 * tokens, tokens),
        "W_key.weight": torch.zeros(2 * tokens, tokens),
        "W_value.weight": torch.eye(tokens).repeat(2, 1),
    }
    theirs = student.CausalAttention(tokens, 2 * tokens, tokens, DROPPED)
    ours = reference.CausalAttention(tokens, 2 * tokens, tokens, DROPPED)
    theirs.load_parameters(parameters)
    ours.load_parameters(parameters)
    x = torch.eye(tokens).repeat(16, 1, 1)
    without = ours.eval()(x)
    # Where this is wrong, no rate says anything.
    evaluated = with_values(student, parameters, "CausalAttention", tokens, 2 * tokens, tokens, DROPPED)
    agree(evaluated(x), without, terms=4 * tokens)
    plain, got = without.tensor(), theirs(x).tensor()
    holds(
        got.shape == plain.shape,
        _("In training the context has shape {got}, and it should have {expected}.").format(
            got=tuple(got.shape), expected=tuple(plain.shape)
        ),
    )
    holds(
        bool(got.isfinite().all()),
        _(
            "In training the context holds NaN or infinity. A hidden score of -inf times 0 is NaN, and so is a row of "
            "zeros divided by its sum. Dropout comes after the softmax, and nothing is divided after it."
        ),
    )
    plain, got, copy = plain[..., :tokens], got[..., :tokens], got[..., tokens:]
    holds(
        (got - copy).abs().max() <= 1e-5,
        _("Two equal columns of the values gave different columns of the context. Dropout belongs on the weights."),
    )
    weights_are_zero_or_scaled(got, plain, DROPPED)
    dropped = got <= plain / 2
    visible, half = torch.ones(tokens, tokens, dtype=torch.bool).tril(), tokens // 2
    share_is_near(
        dropped[:, visible],
        DROPPED,
        _("Of {count} weights a share of {rate:.3f} was dropped, expected {expected:.3f}."),
    )
    # The later half of the queries sees all of the earlier half of the keys.
    weights_fall_alone(dropped[:, half:, :half], DROPPED)
    _bias_is_dropped_too(student)
    _scores_are_not_dropped(student, reference, parameters)


@points(1.5)
def test_dropout_only_in_training(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Dropout is random in training, and off in eval mode."""
    theirs, ours = twins(student, reference, draw, "CausalAttention", 3, 4, 12, 0.5)  # longer than the sequences
    x = draw.normal(4, 10, 3)
    expected = ours(x)
    agree(theirs(x), expected, terms=3 + 4 + 10)
    theirs.train()
    # 220 weights would have to fall the same way twice: that happens with probability 2 ** -220.
    first, second = theirs(x).tensor(), theirs.using(gradients=True)(x)
    holds(not torch.equal(first, second.tensor()), _("Two calls in training mode dropped the same weights."))
    gradients_arrive(second)
    theirs.eval()
    agree(theirs(x), expected, terms=3 + 4 + 10)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, lengths, parents and a change of mode do no harm."""
    every_regime(student, reference, draw, CALLS)


def _bias_is_dropped_too(student: Implementation) -> None:
    # Every value is the bias of W_value, 1, and every token is the only one: the context is its weight.
    parameters = {f"{name}.weight": torch.zeros(2, 2) for name in ("W_query", "W_key", "W_value")}
    parameters |= {"W_query.bias": torch.zeros(2), "W_key.bias": torch.zeros(2), "W_value.bias": torch.ones(2)}
    theirs = student.CausalAttention(2, 2, 2, DROPPED, qkv_bias=True)
    theirs.load_parameters(parameters)
    context = theirs(torch.zeros(16, 1, 2)).tensor()
    weights_are_zero_or_scaled(context, torch.ones_like(context), DROPPED)


def _scores_are_not_dropped(student: Implementation, reference: Implementation, values: dict[str, Tensor]) -> None:
    # Each token's own score is above the others' here: a score that is dropped changes the weights that are kept.
    tokens = len(values["W_value.weight"]) // 2
    values = values | dict.fromkeys(("W_query.weight", "W_key.weight"), 2 * values["W_value.weight"])
    theirs, ours = (
        with_values(side, values, "CausalAttention", tokens, 2 * tokens, tokens, DROPPED)
        for side in (student, reference)
    )
    x = torch.eye(tokens).repeat(4, 1, 1)
    without = ours(x)
    agree(theirs(x), without, terms=4 * tokens)
    got, plain = (answer.tensor()[..., :tokens] for answer in (theirs.train()(x), without))
    weights_are_zero_or_scaled(got, plain, DROPPED)
