"""The checks of step 17: Shaw's relative positions, and ALiBi."""

import torch

from grader.checks.assertions import (
    GUARDED,
    Draw,
    Implementation,
    _,
    agree,
    deadline,
    exactly,
    must_raise,
    points,
    twins,
    unmodified,
    with_values,
)
from grader.checks.regimes import NO_BIAS, NO_DROPOUT, NUMBERS, AskedFunction, AskedModule, every_regime, not_asked

BUILT_IN = ("multi_head_attention",)
OFF_LIMITS = {
    "relative_positions": BUILT_IN,
    "RelativeSelfAttention": BUILT_IN,
    "alibi_slopes": BUILT_IN,
    "alibi_bias": BUILT_IN,
    "alibi_attention": BUILT_IN,
}

LN_2, LN_1_5 = 0.6931471805599453, 0.4054651081081644

# What takes no tensor leaves the length alone; and a million entries, filled in one by one by a loop, which is right,
# take longer than a call may.
NO_REGIME = not_asked("it takes no tensor", lambda draw, leading, tokens: (tokens,))
CALLS = {
    "relative_positions": NO_REGIME,
    "RelativeSelfAttention": AskedModule(
        lambda tokens: (8, 2, 2), lambda draw, leading, tokens: (draw.normal(*leading, tokens, 8),),
        terms=32, axes=(2,), without=NO_DROPOUT | NO_BIAS,
    ),
    "alibi_slopes": NUMBERS,
    "alibi_bias": NO_REGIME,
    "alibi_attention": AskedFunction(
        lambda draw, leading, tokens: tuple(draw.normal(2, 3, tokens, width) for width in (4, 4, 5)), terms=9, axes=()
    ),
}  # fmt: skip


@points(0.5)
def test_positions_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Four tokens and a distance of at most 2 give the table rows that you can write down by hand."""
    expected = torch.tensor([[2, 3, 4, 4], [1, 2, 3, 4], [0, 1, 2, 3], [0, 0, 1, 2]])
    exactly(student.relative_positions(4, 2), expected)


@points(0.5)
def test_positions_of_any_length(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any number of tokens and any distance give the right rows, a distance of 0 included."""
    cases = ((1, 1), (1, 0), (5, 0), (3, 9), (6, 5), (6, 6), (draw.integer(60, 80), draw.integer(2, 30)))
    for num_tokens, max_distance in cases:
        exactly(
            student.relative_positions(num_tokens, max_distance),
            reference.relative_positions(num_tokens, max_distance),
        )


@points(0.25)
def test_positions_on_their_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The relative positions are int64, and made on the device that is asked for."""
    for device in ("cpu", "meta"):
        exactly(student.relative_positions(5, 2, device=device), reference.relative_positions(5, 2, device=device))


@points(1)
def test_attention_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Three equal tokens, told apart by their distances alone, give the result that you can work out by hand."""
    values = {
        "W_query.weight": torch.tensor([[1.0]]),
        "W_key.weight": torch.tensor([[2.0]]),  # the same for every key: it changes no weight
        "W_value.weight": torch.tensor([[24.0]]),
        "out_proj.weight": torch.tensor([[1.0]]),
        "out_proj.bias": torch.tensor([100.0]),
        "relative_key.weight": torch.tensor([[-LN_2], [0.0], [LN_1_5]]),  # before, itself, after
        "relative_value.weight": torch.tensor([[24.0], [0.0], [8.0]]),
    }
    theirs = with_values(student, values, "RelativeSelfAttention", 1, 1, 1)
    agree(theirs(torch.ones(1, 3, 1)), torch.tensor([[[130.0], [132.0], [136.0]]]), terms=3)


@points(1.5)
def test_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Fresh tokens and parameters give the right result and gradients."""
    for batch, tokens, width, heads, most in ((1, 4, 3, 1, 1), (2, 6, 8, 2, 2), (3, 5, 12, 3, 0), (4, 4, 16, 4, 2)):
        theirs, ours = twins(student, reference, draw, "RelativeSelfAttention", width, heads, most)
        x = draw.normal(batch, tokens, width)
        for switched in (theirs.eval, theirs.train):
            got = switched().using(gradients=True)(x)
            agree(got, ours.using(gradients=True)(x), terms=2 * batch * tokens * width)
            unmodified(got)


@points(1)
def test_masks(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A mask of any shape that broadcasts hides what it says, in every head."""
    batch, heads, tokens = 3, 2, 5
    theirs, ours = twins(student, reference, draw, "RelativeSelfAttention", 8, heads, 1)
    x = draw.normal(batch, tokens, 8)
    masks = (
        torch.ones(tokens, tokens, dtype=torch.bool).tril(),
        draw.mask(tokens, tokens),
        draw.mask(batch, 1, 1, tokens),
        draw.mask(heads, 1, tokens),
        draw.mask(batch, heads, tokens, tokens),
    )
    for mask in masks:
        got = theirs(x, mask=mask)
        agree(got, ours(x, mask=mask), terms=2 * 8 + tokens)
        unmodified(got)
    agree(theirs(x, masks[0]), ours(x, masks[0]), terms=2 * 8 + tokens)
    square = draw.normal(heads, heads, 8)  # as many tokens as heads and sequences
    mask = draw.mask(heads, 1, 1, heads)
    agree(theirs(square, mask=mask), ours(square, mask=mask), terms=2 * 8 + heads)


@points(0.5)
def test_lengths_and_head_counts(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Sequences of any length work, one after the other; unequal heads are an error."""
    theirs, ours = twins(student, reference, draw, "RelativeSelfAttention", 6, 2, 3)
    for tokens in (5, 1, 40, 4, 2):
        x = draw.normal(2, tokens, 6)
        agree(theirs(x), ours(x), terms=2 * 6 + tokens)
    x = draw.normal(6, 7, 2).permute(1, 0, 2).repeat(1, 1, 3)[:, :, :6].transpose(0, 1)
    agree(theirs(x), ours(x), terms=2 * 6 + 7)
    x = draw.normal(1, 3, 6)
    reason = _("{width} columns cannot be shared out evenly among {heads} heads").format(width=6, heads=4)
    must_raise(lambda: student.RelativeSelfAttention(6, 4, 2)(x), reason)


@points(0.5)
def test_other_dtypes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The module works in float64 and bfloat16, with and without a mask."""
    # A head's width is 4, so that a root taken in float32 is exact and passes in float64 too.
    theirs, ours = twins(student, reference, draw, "RelativeSelfAttention", 8, 2, 2)
    for dtype, terms in ((torch.float64, GUARDED), (torch.bfloat16, 2 * 8 + 5)):
        theirs.to(dtype=dtype)
        ours.to(dtype=dtype)
        x, mask = draw.normal(2, 5, 8, dtype=dtype), draw.mask(2, 1, 5, 5)
        agree(theirs(x), ours(x), terms=terms)
        agree(theirs(x, mask=mask), ours(x, mask=mask), terms=terms)


@points(0.25)
def test_follows_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Everything the module needs moves with it to another device."""
    theirs, ours = twins(student, reference, draw, "RelativeSelfAttention", 4, 2, 2)
    x, mask = draw.normal(2, 5, 4), draw.mask(2, 1, 1, 5)
    agree(theirs(x), ours(x), terms=2 * 4 + 5)
    theirs.to(device="meta")
    ours.to(device="meta")
    note = _("The device `meta` has shapes and no values: what stays behind is found there.")
    agree(theirs(x, mask=mask), ours(x, mask=mask), note=note)


@points(0.5)
def test_slopes_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Four heads have the slopes 1/4, 1/16, 1/64 and 1/256, and three heads 1/16, 1/256 and 1/4."""
    agree(student.alibi_slopes(4), torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256]))
    agree(student.alibi_slopes(3), torch.tensor([1 / 16, 1 / 256, 1 / 4]))


@points(0.5)
def test_slopes_of_any_number(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any number of heads has its slopes, on the device that is asked for."""
    for heads in (1, 2, 7, 5, 6, 8, 12, 16, 20, 32, draw.integer(33, 63)):
        agree(student.alibi_slopes(heads), reference.alibi_slopes(heads), terms=16)
    agree(student.alibi_slopes(6, device="meta"), reference.alibi_slopes(6, device="meta"))


@points(0.5)
def test_bias_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Two heads and three tokens have the bias that you can write down by hand."""
    hidden = -torch.inf
    distances = torch.tensor([[0.0, hidden, hidden], [-1.0, 0.0, hidden], [-2.0, -1.0, 0.0]])
    agree(student.alibi_bias(2, 3), torch.stack([distances / 16, distances / 256]))


@points(0.5)
def test_bias_of_any_size(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any number of heads and tokens has its bias, on the device that is asked for."""
    for heads, tokens in ((1, 1), (3, 3), (6, 4), (4, 1), (5, draw.integer(20, 40)), (3, 260)):
        agree(student.alibi_bias(heads, tokens), reference.alibi_bias(heads, tokens), terms=16)
    agree(student.alibi_bias(3, 4, device="meta"), reference.alibi_bias(3, 4, device="meta"))


@points(1)
def test_alibi_attention(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Attention with ALiBi's bias gives the right result and gradients."""
    for batch, heads, tokens, d, d_v in ((1, 2, 4, 4, 3), (2, 3, 6, 2, 5), (4, 4, 4, 4, 4), (3, 1, 5, 3, 3)):
        query, key = draw.normal(batch, heads, tokens, d), draw.normal(batch, heads, tokens, d)
        value = draw.normal(batch, heads, tokens, d_v)
        got = student.using(gradients=True).alibi_attention(query, key, value)
        agree(got, reference.using(gradients=True).alibi_attention(query, key, value), terms=16 * d * tokens)
        unmodified(got)
    for tokens in (1, 40):
        query, key, value = (draw.normal(2, tokens, 3, 4).transpose(1, 2) for _number in range(3))
        agree(
            student.alibi_attention(query, key, value), reference.alibi_attention(query, key, value), terms=4 + tokens
        )


@points(0.5)
def test_alibi_dtypes_and_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """ALiBi's attention works in float64 and bfloat16, and on another device."""
    for dtype, terms in ((torch.float64, GUARDED), (torch.bfloat16, 4 + 6)):
        query, key, value = (draw.normal(2, 6, 6, 4, dtype=dtype) for _number in range(3))
        agree(student.alibi_attention(query, key, value), reference.alibi_attention(query, key, value), terms=terms)
    note = _(
        "The device `meta` has shapes and no values: what is made on another device, or looks at values, fails there."
    )
    query, key, value = (draw.normal(2, 3, 5, 4) for _number in range(3))
    agree(
        student.using(device="meta").alibi_attention(query, key, value),
        reference.using(device="meta").alibi_attention(query, key, value),
        note=note,
    )


@points(0.5)
@deadline(30)  # where the attention makes its positions or its bias by such a loop
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long sequences and `no_grad` change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)
