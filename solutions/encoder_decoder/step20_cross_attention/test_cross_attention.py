"""The checks of step 20: attention between two sequences, in many heads, and the mask of the padding."""

import torch
from torch import Tensor

from grader.checks.assertions import (
    GUARDED,
    Draw,
    Handle,
    Implementation,
    _,
    agree,
    exactly,
    gradients_arrive,
    holds,
    must_raise,
    points,
    twins,
    unmodified,
    with_values,
)
from grader.checks.common import LARGE_SCORES, share_is_near, weights_are_zero_or_scaled, weights_fall_alone
from grader.checks.regimes import NO_BIAS, AskedFunction, AskedModule, every_regime

OFF_LIMITS = {
    "MultiHeadAttention": ("scaled_dot_product_attention", "multi_head_attention"),
    "padding_mask": ("scaled_dot_product_attention", "multi_head_attention"),
}

LN_3 = 1.0986122886681098
DROPPED = 0.2  # not 0.5: there 1 / p and 1 / (1 - p) are the same

CALLS = {
    "padding_mask": AskedFunction(
        lambda draw, leading, tokens: (draw.integers(0, 5, *leading, tokens), 3), axes=(2,)
    ),
    "MultiHeadAttention": AskedModule(
        lambda tokens: (4, 2, 0.5),
        lambda draw, leading, tokens: (
            *(draw.normal(*leading, tokens, 4) for _query_key_value in range(3)), draw.mask(*leading, 1, 1, tokens),
        ),
        terms=64, without=NO_BIAS,
    ),
}  # fmt: skip


@points(1)
def test_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """One query and two keys give the output and the weights that you can work out by hand."""
    one = torch.eye(2)
    # The output's matrix makes the two heads change places.
    values = {"W_q.weight": one, "W_k.weight": one, "W_v.weight": one, "W_o.weight": one.flip(0)}
    theirs = with_values(student, values, "MultiHeadAttention", 2, 2, 0.0)
    query, key = torch.tensor([[[1.0, 1.0]]]), torch.tensor([[[LN_3, 0.0], [0.0, 0.0]]])
    value = torch.tensor([[[8.0, 6.0], [4.0, 2.0]]])
    weights = torch.tensor([[[[0.75, 0.25]], [[0.5, 0.5]]]])
    agree(theirs(query, key, value), (torch.tensor([[[4.0, 7.0]]]), weights), terms=4)


@points(1.75)
def test_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Fresh queries, keys, values and parameters give the right output and weights."""
    for batch, queries, keys, width, heads in ((3, 3, 5, 6, 3), (2, 5, 2, 8, 2), (2, 2, 2, 4, 2), (1, 4, 4, 3, 1)):
        theirs, ours = twins(student, reference, draw, "MultiHeadAttention", width, heads)
        query = draw.normal(batch, queries, width, scale=2)
        key, value = draw.normal(batch, keys, width, scale=2), draw.normal(batch, keys, width)
        got = theirs(query, key, value)
        agree(got, ours(query, key, value), terms=4 * width + keys)
        unmodified(got)
        # One tensor three times is self-attention.
        agree(theirs(key, key, key), ours(key, key, key), terms=4 * width + keys)


@points(1)
def test_padding_is_hidden(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A mask of (B, 1, 1, T_k) hides keys from every query of every head."""
    for batch, queries, keys, heads in ((3, 4, 5, 2), (3, 3, 3, 3)):
        theirs, ours = twins(student, reference, draw, "MultiHeadAttention", 6, heads)
        _agree_under(theirs, ours, draw, (batch, queries, keys), draw.mask(batch, keys)[:, None, None, :])


@points(1)
def test_other_masks(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any mask that broadcasts to (B, H, T_q, T_k) is obeyed, next to scores of up to 1,000 and -1,000 as well."""
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    for mask in (causal, causal[None, None], draw.mask(2, 1, 4, 4), draw.mask(2, 3, 4, 4), torch.ones_like(causal)):
        theirs, ours = twins(student, reference, draw, "MultiHeadAttention", 6, 3)
        _agree_under(theirs, ours, draw, (2, 4, 4), mask)
    theirs, ours = twins(student, reference, draw, "MultiHeadAttention", 6, 3)
    _agree_under(theirs, ours, draw, (2, 3, 5), draw.mask(3, 5))
    values = {f"W_{part}.weight": torch.eye(4) for part in "qkvo"}
    theirs, ours = (with_values(side, values, "MultiHeadAttention", 4, 1, 0.0) for side in (student, reference))
    for size, spread, terms in LARGE_SCORES:
        signs = torch.tensor([[-1.0, 1.0, -1.0], [1.0, -1.0, 1.0]])[:, :, None]
        query = torch.cat([20.0 * signs, draw.integers(-spread, spread + 1, 2, 3, 3)], -1)
        key = torch.cat([torch.full((2, 5, 1), size / 10), draw.integers(-spread, spread + 1, 2, 5, 3)], -1)
        given = query, key, draw.normal(2, 5, 4), draw.mask(2, 1, 3, 5)
        agree(theirs(*given), ours(*given), terms=terms)


@points(1)
def test_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The gradients of query, key, value and every matrix are right."""
    theirs, ours = twins(student, reference, draw, "MultiHeadAttention", 4, 2, 0.0)
    theirs.train()  # with p = 0 the mode makes no difference
    # Views, not contiguous.
    query, key, value = (draw.normal(count, 2, 4).transpose(0, 1) for count in (3, 5, 5))
    for given in ((query, key, value), (query, key, value, draw.mask(2, 1, 1, 5))):
        agree(theirs.using(gradients=True)(*given), ours.using(gradients=True)(*given), terms=2 * 5 * 8)


@points(0.75)
def test_padding_mask(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """padding_mask is True where the id is not the padding's, with the shape (B, 1, 1, S)."""
    got = student.padding_mask(torch.tensor([[5, 7, 0], [5, 0, 0]]), 0)
    exactly(got, torch.tensor([[[[True, True, False]]], [[[True, False, False]]]]))
    for pad_id, shape in ((0, (2, 6)), (3, (4, 4)), (1, (1, 5))):
        ids = draw.integers(0, 5, *shape)
        got = student.padding_mask(ids, pad_id)
        exactly(got, reference.padding_mask(ids, pad_id))
        unmodified(got)
    note = _(
        "The device `meta` has shapes and no values: what is made on another device, or looks at values, fails there."
    )
    agree(
        student.using(device="meta").padding_mask(ids, 1),
        reference.using(device="meta").padding_mask(ids, 1),
        note=note,
    )


@points(0.5)
def test_unequal_heads_are_refused(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A d_model that is not divisible by n_heads is an error."""
    theirs, ours = twins(student, reference, draw, "MultiHeadAttention", 6, 3)
    x = draw.normal(1, 2, 6)
    agree(theirs(x, x, x), ours(x, x, x), terms=32)
    reason = _("{width} columns cannot be shared out evenly among {heads} heads").format(width=6, heads=4)
    zeros = torch.zeros(1, 2, 6)  # whatever parameters it was made with, a wrong way gives the same for them
    must_raise(lambda: student.MultiHeadAttention(6, 4, 0.0)(zeros, zeros, zeros), reason)


@points(0.5)
def test_other_dtypes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The module works in float64 and bfloat16, also after other calls."""
    # A head's width is 4, so that a root taken in float32 is exact and passes in float64 too.
    theirs, ours = twins(student, reference, draw, "MultiHeadAttention", 8, 2, DROPPED)
    for dtype, terms in ((torch.float32, 64), (torch.float64, GUARDED), (torch.bfloat16, 64)):
        theirs.to(dtype=dtype)
        ours.to(dtype=dtype)
        query, key = draw.normal(2, 3, 8, dtype=dtype), draw.normal(2, 5, 8, dtype=dtype)
        for mask in (None, draw.mask(2, 1, 1, 5)):
            agree(theirs(query, key, key, mask), ours(query, key, key, mask), terms=terms)
    for part in theirs.train()(query, key, key).tensors(2):
        sentence = _("In training the result has dtype {got}, and it should have {expected}.")
        holds(part.dtype == query.dtype, sentence.format(got=part.dtype, expected=query.dtype))


@points(0.5)
def test_follows_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Everything the module needs moves with it to another device."""
    theirs, ours = twins(student, reference, draw, "MultiHeadAttention", 6, 2, DROPPED)
    query, key, mask = draw.normal(2, 3, 6), draw.normal(2, 5, 6), draw.mask(2, 1, 1, 5)
    agree(theirs(query, key, key, mask), ours(query, key, key, mask), terms=64)
    note = _("The device `meta` has shapes and no values: what stays behind is found there.")
    theirs.to(device="meta")
    ours.to(device="meta")
    expected = ours(query, key, key, mask)
    for given in ((), (mask,)):  # a mask that is made where none was given has to be made there, too
        agree(theirs(query, key, key, *given), expected, note=note)
    agree(theirs.train()(query, key, key, mask), expected, note=note)  # dropout has a mask, too


@points(1)
def test_dropout_acts_on_weights(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """In training each weight of each sequence and head is dropped by itself, and the others are scaled up."""
    # The output shows the weights, twice for each head: all scores are 0, the values are unit vectors, and W_o changes
    # nothing.
    keys, heads = 16, 4
    width = heads * 2 * keys
    nothing, one = torch.zeros(width, width), torch.eye(width)
    values = {"W_q.weight": nothing, "W_k.weight": nothing, "W_v.weight": one, "W_o.weight": one}
    x = torch.eye(keys).repeat(16, 1, 2 * heads)
    plain = torch.full((16, heads, keys, keys), 1 / keys)
    sides = student, reference
    for rate, given in ((DROPPED, (DROPPED,)), (0.1, ())):  # 0.1 when it is not given
        theirs, ours = (with_values(side, values, "MultiHeadAttention", width, heads, *given) for side in sides)
        agree(theirs(x, x, x), ours(x, x, x), terms=4 * width)  # where this is wrong, no rate says anything
        got = theirs.train()(x, x, x).tensors(2)[0]
        holds(
            got.shape == x.shape,
            _("In training the result has shape {got}, and it should have {expected}.").format(
                got=tuple(got.shape), expected=tuple(x.shape)
            ),
        )
        shown = got.unflatten(-1, (heads, 2, keys)).permute(3, 0, 2, 1, 4)  # (2, B, H, T_q, T_k)
        holds(
            (shown[0] - shown[1]).abs().max() <= 1e-5,
            _("Two equal columns of a head's values gave different results. Dropout belongs on the weights."),
        )
        _weights_are_dropped(shown[0], plain, rate)


@points(0.5)
def test_dropout_only_in_training(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Dropout is random in training, and off in eval mode."""
    theirs, ours = twins(student, reference, draw, "MultiHeadAttention", 4, 2, 0.5)
    x = draw.normal(4, 10, 4)
    theirs.train()
    # 800 weights would have to fall the same way twice: that happens with probability 2 ** -800.
    first, second = theirs(x, x, x).tensors(2)[0], theirs.using(gradients=True)(x, x, x)
    holds(not torch.equal(first, second.tensors(2)[0]), _("Two calls in training mode dropped the same weights."))
    gradients_arrive(second)
    theirs.eval()
    agree(theirs(x, x, x), ours(x, x, x), terms=64)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, more than 1,024 tokens, a parent module and a switch of mode do no harm."""
    every_regime(student, reference, draw, CALLS)


def _agree_under(theirs: Handle, ours: Handle, draw: Draw, sizes: tuple[int, int, int], mask: Tensor) -> None:
    # Output and weights agree under the mask, and what it hides has weight exactly 0. Sizes: (B, T_q, T_k).
    batch, queries, keys = sizes
    query = draw.normal(batch, queries, 6, scale=2)
    key, value = draw.normal(batch, keys, 6, scale=2), draw.normal(batch, keys, 6)
    got = theirs(query, key, value, mask=mask)
    agree(got, ours(query, key, value, mask=mask), terms=64)
    weights = got.tensors(2)[1]
    hidden = weights.masked_fill(mask, 0.0)
    holds(
        bool((hidden == 0).all()),
        _("A hidden position got the weight {got:.2g}, and it should be exactly 0.").format(
            got=float(hidden.abs().max())
        ),
    )
    unmodified(got)


def _weights_are_dropped(got: Tensor, plain: Tensor, rate: float) -> None:
    # Fails unless `got` (B, H, T_q, T_k) is `plain` with single weights dropped at this rate.
    weights_are_zero_or_scaled(got, plain, rate)
    dropped = got <= plain / 2
    share_is_near(dropped, rate, _("Of {count} weights a share of {rate:.3f} was dropped, expected {expected:.3f}."))
    weights_fall_alone(dropped, rate)
