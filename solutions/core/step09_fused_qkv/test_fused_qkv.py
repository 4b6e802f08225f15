"""The checks of step 9: query, key and value from one linear layer, in GPT-2's layout."""

import torch
from torch import Tensor

from grader.checks.assertions import (
    GUARDED_TWICE,
    Draw,
    Implementation,
    _,
    agree,
    exactly,
    future_has_no_effect,
    gradients_arrive,
    holds,
    must_raise,
    points,
    twins,
    unmodified,
    with_values,
)
from grader.checks.common import LARGE_SCORES, share_is_near
from grader.checks.regimes import AskedFunction, AskedModule, every_regime

OFF_LIMITS = {"CausalSelfAttention": ("multi_head_attention",), "fuse_qkv": ("multi_head_attention",)}

LN_2 = 0.6931471805599453
DROPPED = 0.25  # not 0.5: there 1 / p and 1 / (1 - p) are the same

CALLS = {
    "fuse_qkv": AskedFunction(
        lambda draw, leading, tokens: tuple(draw.normal(4, 4) for _three in range(3)), axes=(),
        without={"length": "of width 1,030 it would be a long row of features, and no long sequence"},
    ),
    "CausalSelfAttention": AskedModule(
        lambda tokens: (4, 2, tokens, 0.5), lambda draw, leading, tokens: (draw.normal(*leading, tokens, 4),),
        {"bias": False}, terms=20,
    ),
}  # fmt: skip


@points(1)
def test_fused_weight_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The fused weight has the rows of query, key and value, in this order."""
    three = [
        torch.tensor(rows) for rows in ([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]], [[9.0, 0.0], [1.0, 2.0]])
    ]
    fused = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 0.0], [1.0, 2.0]])
    exactly(student.fuse_qkv(*three), fused)


@points(0.5)
def test_fused_weight_learns(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Gradients flow back to the three weights, in every dtype."""
    for width, dtype in ((2, torch.float32), (4, torch.float64), (3, torch.bfloat16)):
        three = [draw.normal(width, width, dtype=dtype) for _number in range(3)]
        got = student.using(gradients=True).fuse_qkv(*three)
        exactly(got, reference.using(gradients=True).fuse_qkv(*three))
        unmodified(got)
    note = _(
        "The device `meta` has shapes but no values: creating a tensor on another device, or looking at "
        "values, fails there."
    )
    agree(student.using(device="meta").fuse_qkv(*three), reference.using(device="meta").fuse_qkv(*three), note=note)


@points(1)
def test_attention_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Two heads of width 1 give the result that you can work out by hand."""
    theirs = student.CausalSelfAttention(2, 2, 3)
    theirs.load_parameters(
        {
            "c_attn.weight": torch.tensor(
                [[1.0, 1.0], [0.0, -1.0], [LN_2, 0.0], [0.0, LN_2], [21.0, 42.0], [63.0, 42.0]],
            ),
            "c_attn.bias": torch.zeros(6),
            "c_proj.weight": torch.tensor([[0.0, 1.0], [1.0, 0.0]]),  # the two heads change places
            "c_proj.bias": torch.tensor([10.0, 20.0]),
        }
    )
    theirs.eval()
    tokens = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]]])
    agree(theirs(tokens), torch.tensor([[[73.0, 41.0], [66.0, 48.0], [64.0, 32.0]]]), terms=4)


@points(1)
def test_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Fresh tokens and parameters give the right result and gradients."""
    for batch, tokens, width, heads, bias in ((1, 3, 3, 1, False), (3, 5, 6, 3, True)):
        theirs, ours = twins(student, reference, draw, "CausalSelfAttention", width, heads, tokens, bias=bias)
        theirs.train()  # with p = 0 the mode makes no difference
        x = draw.normal(batch, tokens, width)
        got = theirs.using(gradients=True)(x)
        agree(got, ours.using(gradients=True)(x), terms=batch * tokens * width)
        unmodified(got)


@points(0.5)
def test_future_has_no_effect(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """No token sees a later one, in any head."""
    theirs, ours = twins(student, reference, draw, "CausalSelfAttention", 4, 2, 4)
    x = draw.normal(2, 4, 4)
    future_has_no_effect(theirs, x)
    # A result that ignores the tokens altogether keeps the rule, too. Gradients flow in eval mode as well.
    agree(theirs.using(gradients=True)(x), ours.using(gradients=True)(x), terms=2 * 4 * 4)


@points(0.5)
def test_large_scores(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Scores near 200 and near -200, near 1,000 and near -1,000 give the right weights."""
    # The scores of one query lie near 200, of the next near -200, so that no two rows can share a maximum; whole
    # numbers carry no rounding there.
    signs = torch.tensor([[1.0, -1.0, 1.0, -1.0, 1.0], [-1.0, 1.0, -1.0, 1.0, -1.0]])
    for size, spread, terms in LARGE_SCORES:
        large = torch.stack([20 * signs, torch.full((2, 5), 20.0)], -1)
        x = torch.cat([large, draw.integers(-spread, spread + 1, 2, 5, 2)], -1)
        query = torch.eye(4)
        query[1] = 0.0  # the first column of the query is the sign, that of the key large, and the second adds nothing
        key = torch.eye(4)[[1, 0, 2, 3]] * torch.tensor([[size / 200], [1.0], [1.0], [1.0]])
        parameters = {
            "c_attn.weight": torch.cat([query, key, draw.normal(4, 4)]),
            "c_proj.weight": torch.eye(4),
        }
        theirs = student.CausalSelfAttention(4, 1, 5, bias=False)
        ours = reference.CausalSelfAttention(4, 1, 5, bias=False)
        for module in (theirs, ours):
            module.load_parameters(parameters)
            module.eval()
        agree(theirs(x), ours(x), terms=terms)


@points(0.5)
def test_lengths_and_head_counts(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Shorter sequences work; too long ones and unequal heads are errors."""
    # Batch and width may well be larger than the block size: only T is compared with it.
    theirs, ours = twins(student, reference, draw, "CausalSelfAttention", 6, 2, 5)
    for tokens in (1, 4, 3):
        x = draw.normal(7, tokens, 6)
        agree(theirs(x), ours(x), terms=3 * 6 + tokens)
    too_long = draw.normal(1, 6, 6)
    reason = _("{tokens} tokens are more than the block size of {length}").format(tokens=6, length=5)
    must_raise(lambda: theirs(too_long), reason)
    x = draw.normal(1, 2, 6)
    reason = _("{width} columns cannot be shared out evenly among {heads} heads").format(width=6, heads=4)
    must_raise(lambda: student.CausalSelfAttention(6, 4, 5)(x), reason)


@points(0.5)
def test_other_dtypes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The module works in float64 and bfloat16, also after other calls."""
    # A head's width is 4, so that a root taken in float32 is exact and passes in float64 too.
    theirs, ours = twins(student, reference, draw, "CausalSelfAttention", 8, 2, 6)
    for dtype, terms in ((torch.float64, GUARDED_TWICE), (torch.bfloat16, 3 * 8 + 5)):
        theirs.to(dtype=dtype)
        ours.to(dtype=dtype)
        x = draw.normal(2, 5, 8, dtype=dtype)
        agree(theirs(x), ours(x), terms=terms)
    training, _ours = twins(student, reference, draw, "CausalSelfAttention", 8, 2, 6, DROPPED)
    training.to(dtype=x.dtype)
    got = training.train()(x).tensor()
    sentence = _("In training the result has dtype {got}, and it should have {expected}.")
    holds(got.dtype == x.dtype, sentence.format(got=got.dtype, expected=x.dtype))


@points(0.5)
def test_follows_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Everything the module needs moves with it to another device."""
    theirs, ours = twins(student, reference, draw, "CausalSelfAttention", 4, 2, 6)
    x = draw.normal(2, 5, 4)
    agree(theirs(x), ours(x), terms=3 * 4 + 5)
    theirs.to(device="meta")
    ours.to(device="meta")
    note = _("The device `meta` has shapes and no values: what stays behind is found there.")
    expected = ours(x)
    agree(theirs(x), expected, note=note)
    training, _ours = twins(student, reference, draw, "CausalSelfAttention", 4, 2, 6, DROPPED)  # dropout has masks, too
    training.to(device="meta")
    agree(training.train()(x), expected, note=note)


@points(1)
def test_dropout_on_weights_and_output(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """In training weights are dropped, and so are numbers of the output."""
    # The output shows the weights of the first and the last head, each of them four times: a head's values are unit
    # vectors, twice, and c_proj puts the columns of these two heads into both halves. A token's own score is above the
    # others', so that dropout on scores shows, too.
    tokens, heads = 16, 4
    width = heads * 2 * tokens
    half = torch.eye(width)[[*range(width // 4), *range(-width // 4, 0)]]
    values = torch.cat([torch.eye(tokens).repeat(2 * heads, 1), torch.zeros(width, width - tokens)], dim=1)
    parameters = {
        "c_attn.weight": torch.cat([2 * values, 2 * values, values]),
        "c_proj.weight": torch.cat([half, half]),
    }
    theirs = student.CausalSelfAttention(width, heads, tokens, dropout=DROPPED, bias=False)
    ours = reference.CausalSelfAttention(width, heads, tokens, dropout=DROPPED, bias=False)
    theirs.load_parameters(parameters)
    ours.load_parameters(parameters)
    x = torch.eye(width)[:tokens].repeat(16, 1, 1)
    without = ours.eval()(x)
    # Where this is wrong, no rate says anything.
    sizes = width, heads, tokens, DROPPED
    agree(with_values(student, parameters, "CausalSelfAttention", *sizes, bias=False)(x), without, terms=4 * width)
    plain, got = without.tensor(), theirs(x).tensor()
    holds(
        got.shape == plain.shape,
        _("In training the result has shape {got}, and it should have {expected}.").format(
            got=tuple(got.shape), expected=tuple(plain.shape)
        ),
    )
    plain, got = (
        result.unflatten(-1, (2, heads // 2, 2, tokens)).permute(2, 4, 0, 3, 1, 5)  # (2, 2, B, H / 2, T, T)
        for result in (plain, got)
    )
    _each_is_zero_or_scaled_twice(got, plain)
    visible, half = torch.ones(tokens, tokens, dtype=torch.bool).tril(), tokens // 2
    lost = got <= plain / 2
    one = lost[0, 0][..., visible]
    of_same_weight, of_same_number = lost[0, 1][..., visible], lost[1, 0][..., visible]
    rate = 1 - (1 - DROPPED) ** 2  # a number is lost with its weight, or by itself
    share_is_near(one, rate, _("Of {count} numbers a share of {rate:.3f} was 0, expected {expected:.3f}."))
    rate = DROPPED + (1 - DROPPED) * DROPPED**2  # two are lost with their weight, or each by itself
    sentence = _(
        "Two outputs that come from one weight, through different columns, were both 0 in {rate:.3f} of {count} pairs, "
        "expected {expected:.3f}. One dropout belongs on the weights."
    )
    share_is_near(one & of_same_weight, rate, sentence)
    sentence = _(
        "Two outputs that `c_proj` makes from one number were both 0 in {rate:.3f} of {count} pairs, "
        "expected {expected:.3f}. One dropout belongs after `c_proj`."
    )
    share_is_near(one & of_same_number, rate, sentence)
    # Are weights dropped by themselves, and outputs too? The later half of the tokens sees all of the earlier half.
    lost = lost[..., half:, :half]
    weights = lost.flatten(0, 1).all(0)  # (B, H / 2, T / 2, T / 2), all four are lost: taken for a dropped weight
    rate = DROPPED + (1 - DROPPED) * DROPPED**4
    _pairs_are_independent(
        weights,
        0,
        rate,
        _("Two sequences lost the same weights: {rate:.3f} of {count} pairs, expected {expected:.3f}."),
    )
    _pairs_are_independent(
        weights, 1, rate, _("Two heads lost the same weights: {rate:.3f} of {count} pairs, expected {expected:.3f}.")
    )
    _pairs_are_independent(
        weights, 2, rate, _("Two queries lost the same keys: {rate:.3f} of {count} pairs, expected {expected:.3f}.")
    )
    _pairs_are_independent(
        weights,
        3,
        rate,
        _("Two keys were lost to the same queries: {rate:.3f} of {count} pairs, expected {expected:.3f}."),
    )
    outputs = lost[0, 0] & ~weights
    rate = (1 - DROPPED) * DROPPED * (1 - DROPPED**3)
    _pairs_are_independent(
        outputs,
        0,
        rate,
        _("Two sequences lost the same outputs: {rate:.3f} of {count} pairs, expected {expected:.3f}."),
    )
    _pairs_are_independent(
        outputs, 2, rate, _("Two tokens lost the same outputs: {rate:.3f} of {count} pairs, expected {expected:.3f}.")
    )


@points(0.5)
def test_dropout_only_in_training(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Dropout is random in training, and off in eval mode."""
    theirs, ours = twins(student, reference, draw, "CausalSelfAttention", 4, 2, 12, 0.5)  # longer than the sequences
    x = draw.normal(2, 10, 4)
    # In between, so that who mistakes one mode for the other is told apart from who never drops.
    first = theirs.train()(x).tensor()
    agree(theirs.eval()(x), ours(x), terms=3 * 4 + 10)
    second = theirs.train().using(gradients=True)(x)
    # 220 weights and 80 outputs would have to fall the same way twice: a right answer does so with probability 2^-80
    # at most.
    holds(not torch.equal(first, second.tensor()), _("Two calls in training mode dropped the same numbers."))
    gradients_arrive(second)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, lengths, parents and a change of mode do no harm."""
    every_regime(student, reference, draw, CALLS)


def _each_is_zero_or_scaled_twice(got: Tensor, plain: Tensor) -> None:
    # Fails unless every number is either 0 or what it is without dropout, divided by 1 - p twice.
    kept = plain / (1 - DROPPED) ** 2
    stray = ~((got.abs() <= 1e-5) | ((got - kept).abs() <= 1e-5))
    if not stray.any():
        return
    place = tuple(stray.nonzero()[0].tolist())
    sentence = _(
        "With dropout {p} a number that is {plain:.4f} without dropout came out as {got:.4f}. Where nothing was "
        "dropped it is multiplied by 1 / (1 - {p}) twice, for the weights and for the output: that makes {kept:.4f}."
    )
    holds(
        False,
        sentence.format(p=DROPPED, plain=float(plain[place]), got=float(got[place]), kept=float(kept[place])),
    )


def _pairs_are_independent(lost: Tensor, dim: int, rate: float, sentence: str) -> None:
    # Fails unless two that lie half of `dim` apart are both lost as often as chance has it. None is in two pairs.
    first, second = lost.chunk(2, dim)
    share_is_near(first & second, rate**2, sentence)
