"""The checks of step 8: several heads, one after the other and all at once."""

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

OFF_LIMITS = {
    "MultiHeadAttentionWrapper": ("scaled_dot_product_attention", "multi_head_attention", "flex_attention"),
    "MultiHeadAttention": ("scaled_dot_product_attention", "multi_head_attention", "flex_attention"),
}

LN_2 = 0.6931471805599453
DROPPED = 0.2  # not 0.5: there 1 / p and 1 / (1 - p) are the same

HEADS = AskedModule(
    lambda tokens: (4, 4, tokens, 0.5, 2), lambda draw, leading, tokens: (draw.normal(*leading, tokens, 4),),
    {"qkv_bias": False}, terms=20,
)  # fmt: skip
CALLS = {"MultiHeadAttentionWrapper": HEADS, "MultiHeadAttention": HEADS}


@points(1)
def test_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Two heads of width 1 give the result that you can work out by hand."""
    theirs = student.MultiHeadAttention(2, 2, 3, 0.0, 2)
    theirs.load_parameters(
        {
            "W_query.weight": torch.tensor([[1.0, 1.0], [0.0, -1.0]]),
            "W_key.weight": torch.tensor([[LN_2, 0.0], [0.0, LN_2]]),
            "W_value.weight": torch.tensor([[21.0, 42.0], [63.0, 42.0]]),
            "out_proj.weight": torch.tensor([[0.0, 1.0], [1.0, 0.0]]),  # the two heads change places
            "out_proj.bias": torch.tensor([10.0, 20.0]),
        }
    )
    theirs.eval()
    tokens = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]]])
    agree(theirs(tokens), torch.tensor([[[73.0, 41.0], [66.0, 48.0], [64.0, 32.0]]]), terms=4)


@points(1.75)
def test_wrapper_concatenates(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The wrapper puts the outputs of its heads next to each other."""
    for batch, tokens, d_in, d_out, heads, qkv_bias in (
        (1, 2, 3, 1, 2, False),
        (2, 5, 4, 3, 3, True),
        (3, 1, 2, 2, 2, False),
    ):
        arguments = (d_in, d_out, tokens + 1, 0.0, heads)
        theirs, ours = twins(student, reference, draw, "MultiHeadAttentionWrapper", *arguments, qkv_bias=qkv_bias)
        x = draw.normal(batch, tokens, d_in)
        if qkv_bias:
            theirs.train()  # with p = 0 the mode makes no difference
        got = theirs.using(gradients=True)(x)
        agree(got, ours.using(gradients=True)(x), terms=batch * tokens * (d_in + d_out))
        unmodified(got)


@points(0.75)
def test_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Fresh tokens and parameters give the result they should."""
    for batch, tokens, d_in, d_out, heads, qkv_bias in ((1, 3, 4, 2, 1, False), (3, 5, 4, 6, 3, True)):
        arguments = (d_in, d_out, tokens, 0.0, heads)
        theirs, ours = twins(student, reference, draw, "MultiHeadAttention", *arguments, qkv_bias=qkv_bias)
        x = draw.normal(batch, tokens, d_in)
        got = theirs(x)
        agree(got, ours(x), terms=d_in + 2 * d_out + tokens)
        unmodified(got)


@points(0.75)
def test_future_has_no_effect(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """No token sees a later one, in any head."""
    theirs, ours = twins(student, reference, draw, "MultiHeadAttention", 3, 6, 4, 0.0, 3)
    x = draw.normal(2, 4, 3)
    future_has_no_effect(theirs, x)
    # A result that ignores the tokens altogether keeps the rule, too. Gradients flow in eval mode as well.
    agree(theirs.using(gradients=True)(x), ours.using(gradients=True)(x), terms=2 * 4 * 9)


@points(1)
def test_lengths_and_head_counts(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Shorter sequences work; too long ones and unequal heads are errors."""
    # Batch and width may well be larger than the context length: only T is compared with it.
    theirs, ours = twins(student, reference, draw, "MultiHeadAttention", 6, 4, 5, 0.0, 2)
    for tokens in (1, 4, 3):
        x = draw.normal(7, tokens, 6)
        agree(theirs(x), ours(x), terms=6 + 2 * 4 + tokens)
    too_long = draw.normal(1, 6, 6)
    reason = _("{tokens} tokens are more than the context length of {length}").format(tokens=6, length=5)
    must_raise(lambda: theirs(too_long), reason)
    x = draw.normal(1, 2, 3)
    reason = _("{width} columns cannot be shared out evenly among {heads} heads").format(width=6, heads=4)
    must_raise(lambda: student.MultiHeadAttention(3, 6, 5, 0.0, 4)(x), reason)


@points(0.75)
def test_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The gradients of the tokens and of every parameter are right."""
    theirs, ours = twins(student, reference, draw, "MultiHeadAttention", 3, 4, 5, 0.0, 2, qkv_bias=True)
    theirs.train()  # with p = 0 the mode makes no difference
    x = draw.normal(2, 5, 3)
    agree(theirs.using(gradients=True)(x), ours.using(gradients=True)(x), terms=2 * 5 * 8)


@points(0.75)
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
            "W_query.weight": torch.eye(4).repeat(2, 1),
            "W_key.weight": keys.repeat(2, 1),
            "W_value.weight": draw.normal(8, 4),
            "out_proj.weight": torch.eye(8),
            "out_proj.bias": torch.zeros(8),
        }
        theirs, ours = student.MultiHeadAttention(4, 8, 5, 0.0, 2), reference.MultiHeadAttention(4, 8, 5, 0.0, 2)
        for module in (theirs, ours):
            module.load_parameters(parameters)
            module.eval()
        agree(theirs(x), ours(x), terms=terms)


@points(0.5)
def test_other_dtypes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Both modules work in float64 and bfloat16, also after other calls."""
    # A head's width is 4, so that a root taken in float32 is exact and passes in float64 too.
    for name, d_out in (("MultiHeadAttentionWrapper", 4), ("MultiHeadAttention", 8)):
        theirs, ours = twins(student, reference, draw, name, 3, d_out, 6, 0.0, 2)
        for dtype, terms in ((torch.float64, GUARDED_TWICE), (torch.bfloat16, 3 + 2 * d_out + 5)):
            theirs.to(dtype=dtype)
            ours.to(dtype=dtype)
            x = draw.normal(2, 5, 3, dtype=dtype)
            agree(theirs(x), ours(x), terms=terms)
        training, _ours = twins(student, reference, draw, name, 3, d_out, 6, DROPPED, 2)
        training.to(dtype=x.dtype)
        got = training.train()(x).tensor()
        sentence = _("In training the result has dtype {got}, and it should have {expected}.")
        holds(got.dtype == x.dtype, sentence.format(got=got.dtype, expected=x.dtype))


@points(0.5)
def test_follows_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Everything the modules need moves with them to another device."""
    x = draw.normal(2, 5, 3)
    note = _("The device `meta` has shapes and no values: what stays behind is found there.")
    for name in ("MultiHeadAttentionWrapper", "MultiHeadAttention"):
        theirs, ours = twins(student, reference, draw, name, 3, 4, 6, 0.0, 2)
        agree(theirs(x), ours(x), terms=3 + 2 * 4 + 5)
        theirs.to(device="meta")
        ours.to(device="meta")
        expected = ours(x)
        agree(theirs(x), expected, note=note)
        training, _ours = twins(student, reference, draw, name, 3, 4, 6, DROPPED, 2)  # dropout has a mask, too
        training.to(device="meta")
        agree(training.train()(x), expected, note=note)


@points(1)
def test_dropout_acts_on_weights(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each weight of each sequence and head is dropped by itself."""
    # The result shows the weights, twice for each head: the values are unit vectors, and out_proj changes nothing. A
    # token's own score is above the others', so that dropout on scores shows, too.
    tokens, heads = 16, 4
    width = heads * 2 * tokens
    in_one = {
        "W_query.weight": 2 * torch.eye(tokens).repeat(2 * heads, 1),
        "W_key.weight": 2 * torch.eye(tokens).repeat(2 * heads, 1),
        "W_value.weight": torch.eye(tokens).repeat(2 * heads, 1),
        "out_proj.weight": torch.eye(width),
        "out_proj.bias": torch.zeros(width),
    }
    in_a_list = {
        f"heads.{head}.{name}": value.chunk(heads)[head]
        for head in range(heads)
        for name, value in in_one.items()
        if name.startswith("W_")
    }
    for name, d_out, parameters in (
        ("MultiHeadAttention", width, in_one),
        ("MultiHeadAttentionWrapper", width // heads, in_a_list),
    ):
        modules = [getattr(side, name)(tokens, d_out, tokens, DROPPED, heads) for side in (student, reference)]
        for module in modules:
            module.load_parameters(parameters)
        x = torch.eye(tokens).repeat(16, 1, 1)
        without = modules[1].eval()(x)
        # Where this is wrong, no rate says anything.
        evaluated = with_values(student, parameters, name, tokens, d_out, tokens, DROPPED, heads)
        agree(evaluated(x), without, terms=4 * width)
        _weights_are_dropped(modules[0](x).tensor(), without.tensor(), heads)


def _weights_are_dropped(got: Tensor, plain: Tensor, heads: int) -> None:
    # Fails unless `got` is `plain` (16, T, H * 2 * T), each head's weights twice, with single weights dropped.
    tokens = plain.shape[1]
    holds(
        got.shape == plain.shape,
        _("In training the result has shape {got}, and it should have {expected}.").format(
            got=tuple(got.shape), expected=tuple(plain.shape)
        ),
    )
    holds(
        bool(got.isfinite().all()),
        _(
            "In training the result holds NaN or infinity. A hidden score of -inf times 0 is NaN, and so is a row of "
            "zeros divided by its sum. Dropout comes after the softmax, and nothing is divided after it."
        ),
    )
    plain, got = (
        result.unflatten(-1, (heads, 2, tokens)).permute(3, 0, 2, 1, 4)  # (2, B, H, T, T)
        for result in (plain, got)
    )
    holds(
        (got[0] - got[1]).abs().max() <= 1e-5,
        _("Two equal columns of a head's values gave different results. Dropout belongs on the weights."),
    )
    plain, got = plain[0], got[0]  # (B, H, T, T)
    weights_are_zero_or_scaled(got, plain, DROPPED)
    dropped = got <= plain / 2
    visible, half = torch.ones(tokens, tokens, dtype=torch.bool).tril(), tokens // 2
    share_is_near(
        dropped[..., visible],
        DROPPED,
        _("Of {count} weights a share of {rate:.3f} was dropped, expected {expected:.3f}."),
    )
    # The later half of the queries sees all of the earlier half of the keys.
    weights_fall_alone(dropped[..., half:, :half], DROPPED)


@points(0.75)
def test_dropout_only_in_training(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Dropout is random in training, and off in eval mode."""
    x = draw.normal(2, 10, 3)
    for name in ("MultiHeadAttentionWrapper", "MultiHeadAttention"):
        theirs, ours = twins(student, reference, draw, name, 3, 4, 12, 0.5, 2)  # longer than the sequences
        theirs.train()
        # 220 weights would have to fall the same way twice: that happens with probability 2 ** -220.
        first, second = theirs(x).tensor(), theirs.using(gradients=True)(x)
        holds(not torch.equal(first, second.tensor()), _("Two calls in training mode dropped the same weights."))
        gradients_arrive(second)
        theirs.eval()
        agree(theirs(x), ours(x), terms=3 + 2 * 4 + 10)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, lengths, parents and a change of mode do no harm."""
    every_regime(student, reference, draw, CALLS)
