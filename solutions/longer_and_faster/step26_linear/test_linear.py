"""The checks of step 26: the feature map, linear attention, and the state that it goes on from."""

import math

import torch
from torch import Tensor

from grader.checks.assertions import (
    Answer,
    Draw,
    Implementation,
    _,
    agree,
    holds,
    must_raise,
    points,
    unmodified,
)
from grader.checks.common import no_pairs, no_pieces
from grader.checks.regimes import LONG, AskedFunction, every_regime

# A guard of 1e-6 beside the denominator is right. Drawn entries lie between -1 and 2, so that no sum of weights is
# below a quarter, and a guarded context is off by less than 2e-5 of its size. In float64 nine digits are asked for
# where the sums are so large that a guard is nothing beside them.
GUARDED = 100
NINE_DIGITS = 10**11
LARGE = 2000.0


def some(draw: Draw, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Queries or keys whose features are neither tiny nor huge."""
    return draw.uniform(*shape, low=-1.0, high=2.0, dtype=dtype)


def attended(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, ...]:
    """Queries, keys and values."""
    return some(draw, 2, 3, tokens, 4), some(draw, 2, 3, tokens, 4), draw.normal(2, 3, tokens, 2)


def one_more(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor | tuple[Tensor, Tensor], ...]:
    """Query, key and value of one token, and the state of those before."""
    state = draw.normal(2, 3, 4, 2), draw.uniform(2, 3, 4, low=1.0, high=3.0)
    return some(draw, 2, 3, 4), some(draw, 2, 3, 4), draw.normal(2, 3, 2), state


CALLS = {
    "feature_map": AskedFunction(lambda draw, leading, tokens: (draw.normal(*leading, tokens, 4),), terms=4),
    "linear_attention": AskedFunction(
        attended,
        {"is_causal": True},
        terms=GUARDED,
        axes=(),
        without={"length": "asked with values: `meta` is slow for a loop over tokens"},
    ),
    "linear_attention_step": AskedFunction(one_more, terms=GUARDED, axes=(), without={"length": "it takes one token"}),
}


@points(0.5)
def test_feature_map(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The feature map is elu(x) + 1 in any shape and dtype, and its gradient is finite for large numbers too."""
    by_hand = torch.tensor([-1.0, 0.0, 2.0, math.log(0.5)])
    agree(student.feature_map(by_hand), torch.tensor([math.exp(-1), 1.0, 3.0, 0.5]), terms=4)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for shape in ((), (5,), (2, 3, 4, 2)):
            x = draw.normal(*shape, scale=2.0, dtype=dtype)
            got = student.feature_map(x)
            agree(got, reference.feature_map(x), terms=4)
            unmodified(got)
    agree(student.using(device="meta").feature_map(x), reference.using(device="meta").feature_map(x))
    for x in (torch.tensor([-200.0, -3.0, -0.5, 0.5, 3.0, 95.0, 1e4]), draw.normal(4, 6, scale=3.0)):
        agree(student.using(gradients=True).feature_map(x), reference.using(gradients=True).feature_map(x), terms=4)


@points(0.5)
def test_context_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Three keys with features 1, 2 and 3 weigh their values 1 : 2 : 3."""
    query, key = torch.full((1, 1, 3, 1), 1.0), torch.tensor([0.0, 1.0, 2.0]).view(1, 1, 3, 1)
    value = torch.tensor([6.0, 12.0, 24.0]).view(1, 1, 3, 1)
    agree(student.linear_attention(query[:, :, :1], key, value), torch.tensor([[[[17.0]]]]), terms=GUARDED)
    causal = torch.tensor([6.0, 10.0, 17.0]).view(1, 1, 3, 1)
    agree(student.linear_attention(query, key, value, is_causal=True), causal, terms=GUARDED)
    # One key alone has all of the weight, and its feature is exp(-1).
    one, below = torch.zeros(1, 1, 1, 1), torch.full((1, 1, 1, 1), -1.0)
    agree(student.linear_attention(one, below, torch.full((1, 1, 1, 1), 5.0)), torch.tensor([[[[5.0]]]]), terms=GUARDED)


@points(0.5)
def test_any_lengths(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any number of queries and keys, and any widths."""
    for num_queries, num_keys, width, value_width in (
        (3, 4, 2, 3),
        (5, 5, 3, 3),
        (4, 9, 2, 1),
        (9, 2, 4, 6),
        (1, 1, 2, 3),
    ):
        query, key = some(draw, 2, 3, num_queries, width), some(draw, 2, 3, num_keys, width)
        value = draw.normal(2, 3, num_keys, value_width)
        expected = reference.linear_attention(query, key, value)
        got = student.linear_attention(query, key, value)
        agree(got, expected, terms=GUARDED)
        unmodified(got)
    query, key, value = (draw.normal(2, 2, 7, 4, dtype=torch.float64) + LARGE for _input in range(3))
    expected = reference.linear_attention(query, key, value)
    agree(student.linear_attention(query, key, value), expected, terms=NINE_DIGITS)


@points(0.5)
def test_causal(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """With is_causal each query sums over itself and its past, in both sums, at any length."""
    for tokens, width, value_width in ((3, 2, 3), (1, 2, 2), (8, 3, 3), (37, 2, 4), (64, 2, 2), (130, 3, 1)):
        query, key = some(draw, 2, 2, tokens, width), some(draw, 2, 2, tokens, width)
        value = draw.normal(2, 2, tokens, value_width)
        expected = reference.linear_attention(query, key, value, True)
        got = student.linear_attention(query, key, value, True)
        agree(got, expected, terms=GUARDED)
        unmodified(got)
    query, key, value = (draw.normal(2, 2, 70, 4, dtype=torch.float64) + LARGE for _input in range(3))
    expected = reference.linear_attention(query, key, value, True)
    agree(student.linear_attention(query, key, value, True), expected, terms=NINE_DIGITS)
    for num_queries, num_keys in ((2, 3), (3, 2)):
        shorter, longer = query[:, :, :num_queries], key[:, :, :num_keys]
        must_raise(
            lambda shorter=shorter, longer=longer: student.linear_attention(shorter, longer, longer, True),
            _("is_causal=True with {num_queries} queries and {num_keys} keys").format(
                num_queries=num_queries, num_keys=num_keys
            ),
        )


@points(0.5)
def test_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The gradients of query, key and value are right, also where entries are large."""
    for tokens, is_causal, high in (
        (5, False, 2.0),
        (5, True, 2.0),
        (70, True, 2.0),
        (4, False, 300.0),
        (4, True, 300.0),
    ):
        query, key = (draw.uniform(2, 2, tokens, 4, low=-1.0, high=high) for _input in range(2))
        value = draw.normal(2, 2, tokens, 3)
        expected = reference.using(gradients=True).linear_attention(query, key, value, is_causal)
        got = student.using(gradients=True).linear_attention(query, key, value, is_causal)
        agree(got, expected, terms=GUARDED)


@points(2)
def test_memory(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """No tensor holds a matrix of all queries and keys."""
    for batch, heads, num_queries, num_keys in ((1, 1, 600, 700), (2, 2, 400, 400)):
        _fits(student, reference, draw, (batch, heads, num_queries, num_keys), False)


@points(2)
def test_causal_memory(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Nor with is_causal."""
    for batch, heads, tokens in ((1, 1, 600), (2, 2, 450)):
        _fits(student, reference, draw, (batch, heads, tokens, tokens), True)


def _fits(
    student: Implementation, reference: Implementation, draw: Draw, sizes: tuple[int, int, int, int], is_causal: bool
) -> None:
    batch, heads, num_queries, num_keys = sizes
    width, value_width = 4, 3
    query, key = some(draw, batch, heads, num_queries, width), some(draw, batch, heads, num_keys, width)
    value = draw.normal(batch, heads, num_keys, value_width)
    got = student.using(measures=("largest", "live", "products")).linear_attention(query, key, value, is_causal)
    agree(got, reference.linear_attention(query, key, value, is_causal), terms=GUARDED)
    allowed = batch * heads * (max(num_queries, num_keys) + 64) * max(64, (width + 1) * (value_width + 1))
    holds(
        got.measured("largest") <= allowed,
        _(
            "The largest tensor made has {largest} elements. With {batch} sequences, {heads} heads, {num_queries} "
            "queries, {num_keys} keys, d = {width} and d_v = {value_width} at most {allowed} are allowed; a matrix of "
            "all pairs would have {matrix}."
        ).format(
            largest=got.measured("largest"),
            batch=batch,
            heads=heads,
            num_queries=num_queries,
            num_keys=num_keys,
            width=width,
            value_width=value_width,
            allowed=allowed,
            matrix=batch * heads * num_queries * num_keys,
        ),
    )
    pairs = batch * heads * num_queries * num_keys
    no_pieces(got, 2 * allowed, pairs)
    no_pairs(got, 2 * pairs * (width + value_width) // 4)


@points(0.5)
def test_step_by_step(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Token by token, each with the state of the one before, gives causal attention, and the state itself."""
    # By hand, as above: features 1, 2 and 3, one token after the other.
    state: object = None
    for feature, value, context, sums in (
        (0.0, 6.0, 6.0, (6.0, 1.0)),
        (1.0, 12.0, 10.0, (30.0, 3.0)),
        (2.0, 24.0, 17.0, (102.0, 6.0)),
    ):
        one, key = torch.ones(1, 1, 1), torch.full((1, 1, 1), feature)
        got = student.linear_attention_step(one, key, torch.full((1, 1, 1), value), state)
        expected = (torch.full((1, 1, 1), context), (torch.full((1, 1, 1, 1), sums[0]), torch.full((1, 1, 1), sums[1])))
        agree(got, expected, terms=GUARDED)
        unmodified(got)
        state = got.value[1]
    for dtype, width, value_width, shift in (
        (torch.float32, 3, 2, 0.0),
        (torch.float32, 2, 2, 0.0),
        (torch.float64, 4, 3, LARGE),
    ):
        tokens = 5
        query, key = (some(draw, 2, 3, tokens, width, dtype=dtype) + shift for _input in range(2))
        value = draw.normal(2, 3, tokens, value_width, dtype=dtype)
        terms = NINE_DIGITS if dtype == torch.float64 else GUARDED
        whole = reference.linear_attention(query, key, value, True).tensor()
        theirs = ours = None
        for token in range(tokens):
            given = query[:, :, token], key[:, :, token], value[:, :, token]
            expected = reference.linear_attention_step(*given, ours)
            got = student.linear_attention_step(*given, theirs)
            agree(got, expected, terms=terms)
            unmodified(got)
            ours, theirs = expected.value[1], got.value[1]
        agree(_first(got), whole[:, :, -1], terms=terms)


def _first(answer: Answer) -> Answer:
    """The answer with the first of its two values only."""
    outcome = type(answer.outcome)(answer.outcome.value[0])
    return Answer(answer._implementation, answer.exchange, outcome)


@points(0.25)
def test_step_state(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The state passed in is not modified, and gradients flow through it."""
    for dtype in (torch.float32, torch.float64):
        shift = LARGE if dtype == torch.float64 else 0.0
        query, key = (some(draw, 2, 3, 4, dtype=dtype) + shift for _input in range(2))
        value = draw.normal(2, 3, 5, dtype=dtype)
        state = (draw.normal(2, 3, 4, 5, dtype=dtype), draw.uniform(2, 3, 4, low=1.0, high=3.0, dtype=dtype))
        expected = reference.using(gradients=True).linear_attention_step(query, key, value, state)
        got = student.using(gradients=True).linear_attention_step(query, key, value, state)
        unmodified(got)
        agree(got, expected, terms=GUARDED if dtype == torch.float32 else NINE_DIGITS)


@points(0.25)
def test_dtypes_strides_and_meta(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any dtype, strides and device."""
    for dtype, terms in ((torch.float32, GUARDED), (torch.bfloat16, 64)):
        for is_causal in (False, True):
            # As heads come out of a split: transposed views.
            query, key, value = (some(draw, 2, 6, 3, 4, dtype=dtype).transpose(1, 2) for _input in range(3))
            expected = reference.linear_attention(query, key, value, is_causal)
            got = student.linear_attention(query, key, value, is_causal)
            agree(got, expected, terms=terms)
            unmodified(got)
    for is_causal in (False, True):
        expected = reference.using(device="meta").linear_attention(query, key, value, is_causal)
        agree(student.using(device="meta").linear_attention(query, key, value, is_causal), expected)
    one = query[:, :, 0], key[:, :, 0], value[:, :, 0]
    expected = reference.using(device="meta").linear_attention_step(*one)
    agree(student.using(device="meta").linear_attention_step(*one), expected)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long inputs and `no_grad` change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)
    query, key, value = some(draw, 1, 1, LONG, 2), some(draw, 1, 1, LONG, 2), draw.normal(1, 1, LONG, 1)
    expected = reference.linear_attention(query, key, value, True)
    agree(student.linear_attention(query, key, value, True), expected, terms=GUARDED)
