"""Step 3: are the values mixed by the softmax of the scaled scores, with a mask and without, and in a module?"""

import math

import torch
from torch import Tensor

from grader.checks.assertions import GUARDED_TWICE, Draw, Implementation, _, agree, points, twins, unmodified
from grader.checks.regimes import AXES, LONG, NO_DROPOUT, AskedFunction, AskedModule, every_regime

OFF_LIMITS: dict[str, tuple[str, ...]] = {
    "attention": ("scaled_dot_product_attention", "multi_head_attention", "flex_attention"),
    "SelfAttention": ("scaled_dot_product_attention", "multi_head_attention", "flex_attention"),
}

# Worked out in the lesson: the scaled scores are [[0, ln 3], [ln 7, 0]].
QUERY = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
KEY = torch.tensor([[0.0, math.log(7), 0.0, 0.0], [math.log(3), 0.0, 0.0, 0.0]])
VALUE = torch.tensor([[4.0, 0.0], [8.0, 4.0]])
CONTEXT = torch.tensor([[7.0, 3.0], [4.5, 0.5]])
WEIGHTS = torch.tensor([[1 / 4, 3 / 4], [7 / 8, 1 / 8]])
# The first key gets one millionth of the attention, and its value is a million: the context is 1.
FAR_KEY = torch.tensor([[0.0, 0.0, 0.0, 0.0], [math.log(999_999), 0.0, 0.0, 0.0]])
FAR_VALUE = torch.tensor([[1_000_000.0], [0.0]])
FIRST_SEES_ITSELF = torch.tensor([[True, False], [True, True]])


def attended(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, ...]:
    # A loop over all pairs is right and slow: few queries meet the many keys.
    shapes = (2, 4), (tokens, 4), (tokens, 2)
    query, key, value = (draw.normal(*leading, *shape) for shape in shapes)
    return query, key, value, draw.mask(*leading, 2, tokens)


CALLS = {
    "attention": AskedFunction(attended, terms=9, long_terms=LONG),
    "SelfAttention": AskedModule(
        lambda tokens: (3, 4), lambda draw, leading, tokens: (draw.normal(*leading, tokens, 3),), {"qkv_bias": False},
        terms=15, axes=AXES, without=NO_DROPOUT,
    ),
}  # fmt: skip


@points(1)
def test_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Two queries get the contexts and weights worked out by hand."""
    agree(student.attention(QUERY, KEY, VALUE), (CONTEXT, WEIGHTS), terms=4)
    context, weights = torch.tensor([[1.0]]), torch.tensor([[1e-6, 0.999999]])
    agree(student.attention(QUERY[:1], FAR_KEY, FAR_VALUE), (context, weights), terms=16)


@points(1)
def test_mask_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A hidden key gets weight 0, and the row still sums to 1."""
    context = torch.tensor([[4.0, 0.0], [4.5, 0.5]])
    weights = torch.tensor([[1.0, 0.0], [7 / 8, 1 / 8]])
    agree(student.attention(QUERY, KEY, VALUE, FIRST_SEES_ITSELF), (context, weights), terms=4)


@points(1)
def test_shapes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any batch, any number of queries and keys and any widths work."""
    for leading, num_queries, num_keys, d, d_v in (
        ((), 1, 1, 3, 2),
        ((), 3, 5, 4, 2),
        ((9,), 4, 3, 3, 70),
        ((2, 3), 5, 4, 65, 3),
        ((2, 1, 3), 2, 66, 3, 2),
    ):
        query, key = draw.normal(*leading, num_queries, d), draw.normal(*leading, num_keys, d)
        value = draw.normal(*leading, num_keys, d_v)
        agree(student.attention(query, key, value), reference.attention(query, key, value), terms=d + num_keys)


@points(1)
def test_masks(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Every mask that broadcasts to the weights hides what it should."""
    query, key, value = draw.normal(2, 4, 3), draw.normal(2, 5, 3), draw.normal(2, 5, 2)
    for mask in (draw.mask(4, 5), draw.mask(5), draw.mask(2, 4, 5), draw.mask(2, 1, 5)):
        got = student.attention(query, key, value, mask=mask)
        agree(got, reference.attention(query, key, value, mask=mask), terms=8)
    query, key, value = draw.normal(2, 3, 4, 3), draw.normal(2, 3, 5, 3), draw.normal(2, 3, 5, 2)
    for mask in (draw.mask(2, 1, 1, 5), draw.mask(3, 4, 5)):
        agree(student.attention(query, key, value, mask), reference.attention(query, key, value, mask), terms=8)
    query, key, value = draw.normal(2, 1, 3, 4, 3), draw.normal(2, 1, 3, 66, 3), draw.normal(2, 1, 3, 66, 2)
    mask = draw.mask(2, 1, 3, 4, 66)
    agree(student.attention(query, key, value, mask), reference.attention(query, key, value, mask), terms=69)


@points(0.25)
def test_hidden_has_no_effect(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """What a hidden key and its value hold has no effect."""
    query, key, value = draw.normal(2, 3, 4), draw.normal(2, 5, 4), draw.normal(2, 5, 2)
    visible = draw.mask(2, 1, 5)
    hidden = ~visible.transpose(-2, -1)
    before = student.attention(query, key, value, visible)
    after = student.attention(query, key.masked_fill(hidden, 3.0), value.masked_fill(hidden, 100.0), visible)
    agree(before, reference.attention(query, key, value, visible), terms=9)
    agree(after, before, terms=9, note=_("Only hidden keys and values were changed, so nothing should change."))


@points(1.5)
def test_self_attention(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The module projects the tokens and lets each attend to all."""
    for d_in, d_out, options, shapes in (
        (3, 2, {}, ((1, 1, 3), (2, 4, 3))),
        (4, 4, {"qkv_bias": True}, ((3, 4), (2, 3, 66, 4))),
    ):
        theirs, ours = twins(student, reference, draw, "SelfAttention", d_in, d_out, **options)
        for shape in shapes:
            x = draw.normal(*shape)
            got = theirs(x)
            agree(got, ours(x), terms=d_in + d_out + shape[-2])
            unmodified(got)


@points(0.5)
def test_large_scores(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Large scores, positive and negative, give finite weights."""
    # Scaled scores of 1024 and 1022, then of -1024 and -1022. A score of 1024 is rounded by 1024 eps.
    query = torch.tensor([[256.0, 0.0, 0.0, 0.0], [-256.0, 0.0, 0.0, 0.0]])
    key = torch.tensor([[8.0, 0.0, 0.0, 0.0], [7.984375, 0.0, 0.0, 0.0]])
    agree(student.attention(query, key, VALUE), reference.attention(query, key, VALUE), terms=1024**2)
    # Every score lies near -1024 here, hidden or not: what is filled in has to be far below that.
    low, keys = -query.abs().repeat(2, 1), key.repeat(3, 1)
    value, mask = draw.normal(6, 2), draw.mask(4, 6)
    agree(student.attention(low, keys, value, mask), reference.attention(low, keys, value, mask), terms=1024**2)
    query, key, value = draw.normal(2, 3, 4, scale=16), draw.normal(2, 5, 4, scale=16), draw.normal(2, 5, 2)
    agree(student.attention(query, key, value), reference.attention(query, key, value), terms=1024**2)
    theirs, ours = twins(student, reference, draw, "SelfAttention", 3, 4, qkv_bias=False)
    x = draw.normal(2, 5, 3, scale=64)
    agree(theirs(x), ours(x), terms=4096**2)


@points(1)
def test_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The gradient reaches queries, keys and values."""
    theirs, ours = student.using(gradients=True), reference.using(gradients=True)
    query, key, value = draw.normal(3, 4), draw.normal(5, 4), draw.normal(5, 2)
    agree(theirs.attention(query, key, value), ours.attention(query, key, value), terms=9)
    query, key, value, mask = draw.normal(2, 3, 4), draw.normal(2, 5, 4), draw.normal(2, 5, 2), draw.mask(2, 3, 5)
    agree(theirs.attention(query, key, value, mask), ours.attention(query, key, value, mask), terms=9)


@points(0.5)
def test_dtypes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Context and weights keep the dtype of the inputs, and its accuracy."""
    # The width is 4, so that a root taken in float32 is exact and passes in float64 too.
    mask = draw.mask(3, 5)
    for dtype, terms in ((torch.float64, GUARDED_TWICE), (torch.bfloat16, 9)):
        query, key = draw.normal(2, 3, 4, dtype=dtype), draw.normal(2, 5, 4, dtype=dtype)
        value = draw.normal(2, 5, 2, dtype=dtype)
        got = student.attention(query, key, value, mask)
        agree(got, reference.attention(query, key, value, mask), terms=terms)
        unmodified(got)  # a conversion to the dtype that is there already makes no copy to write over


@points(0.5)
def test_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Context and weights are on the device of the inputs."""
    query, key, value, mask = draw.normal(2, 3, 4), draw.normal(2, 5, 4), draw.normal(2, 5, 2), draw.mask(3, 5)
    agree(student.attention(query, key, value, mask), reference.attention(query, key, value, mask), terms=9)
    theirs, ours = student.using(device="meta"), reference.using(device="meta")
    agree(theirs.attention(query, key, value), ours.attention(query, key, value))
    agree(theirs.attention(query, key, value, mask), ours.attention(query, key, value, mask))


@points(0.25)
def test_inputs_unmodified(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The inputs and the mask are left as they were."""
    query, key, value = draw.normal(2, 3, 4), draw.normal(2, 5, 4), draw.normal(2, 5, 2)
    for mask in (None, draw.mask(2, 3, 5)):
        got = student.attention(query, key, value, mask)
        unmodified(got)
        agree(got, reference.attention(query, key, value, mask), terms=9)


@points(0.5)
def test_self_attention_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The gradient reaches the tokens and all three projections."""
    theirs, ours = twins(student, reference, draw, "SelfAttention", 3, 4, qkv_bias=True)
    x = draw.normal(2, 5, 3)
    expected = ours.using(gradients=True)(x)
    agree(theirs.using(gradients=True)(x), expected, terms=12)
    theirs.train()  # no argument asks for dropout, so the mode makes no difference
    agree(theirs.using(gradients=True)(x), expected, terms=12)


@points(0.5)
def test_self_attention_moves(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The module follows to another dtype and device, also after a call."""
    theirs, ours = twins(student, reference, draw, "SelfAttention", 3, 4)
    x = draw.normal(2, 5, 3, dtype=torch.float64)  # with more digits than a float32 holds
    agree(theirs(x.float()), ours(x.float()), terms=12)
    for dtype, terms in ((torch.float64, GUARDED_TWICE), (torch.bfloat16, 12)):
        theirs.to(dtype=dtype)
        ours.to(dtype=dtype)
        got = theirs(x.to(dtype))
        agree(got, ours(x.to(dtype)), terms=terms)
        unmodified(got)
    theirs.to(device="meta")
    ours.to(device="meta")
    agree(theirs(x.bfloat16()), ours(x.bfloat16()))


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, lengths, parents and a change of mode do no harm."""
    every_regime(student, reference, draw, CALLS)
