"""The checks of step 14: attention in NumPy alone."""

import math

import numpy as np
from numpy.typing import NDArray

from grader.checks.assertions import GUARDED, Answer, Draw, Implementation, _, agree, holds, points, unmodified
from grader.checks.regimes import LONG, AskedFunction, every_regime

FUNCTIONS = (
    "softmax", "self_attention", "causal_self_attention", "batch_self_attention", "memory_efficient_attention",
)  # fmt: skip
OFF_LIMITS: dict[str, tuple[str, ...]] = dict.fromkeys(FUNCTIONS, ("torch",))

Array = NDArray[np.floating]
LN_2, LN_3 = math.log(2), math.log(3)
HUGE = 10_000.0
DOUBLE = GUARDED  # `terms` with which float64 has room for 1e-10
# Scores of 10000 are rounded by 10000 eps before the softmax sees them.
LARGE_SCORES = int(HUGE) ** 2


def sequence(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Array, ...]:
    return (draw.arrays.normal(*leading, tokens, 4), *(draw.arrays.normal(4, width) for width in (3, 3, 2)))


NOT_OF_ARRAYS = {
    "length": "arrays have no `meta`: long ones are asked beside the table",
    "no_grad": "NumPy differentiates nothing",
    "device": "arrays have none",
}
CALLS = {
    "softmax": AskedFunction(
        lambda draw, leading, tokens: (draw.arrays.normal(*leading, 4, tokens),), {"axis": -2}, terms=16,
        without=NOT_OF_ARRAYS,
    ),
    "self_attention": AskedFunction(sequence, terms=16, axes=(), without=NOT_OF_ARRAYS),
    "causal_self_attention": AskedFunction(sequence, terms=16, axes=(), without=NOT_OF_ARRAYS),
    "batch_self_attention": AskedFunction(sequence, terms=16, without=NOT_OF_ARRAYS),
    "memory_efficient_attention": AskedFunction(
        lambda draw, leading, tokens: tuple(draw.arrays.normal(tokens, width) for width in (3, 3, 2)),
        {"chunk_size": 2}, terms=16, axes=(), without=NOT_OF_ARRAYS,
    ),
}  # fmt: skip


@points(0.5)
def test_softmax_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Rows and columns get the weights that you can work out by hand."""
    x = np.array([[0.0, LN_3], [LN_2, 0.0]])
    agree(student.softmax(x), np.array([[1 / 4, 3 / 4], [2 / 3, 1 / 3]]), terms=DOUBLE)
    agree(student.softmax(x, axis=0), np.array([[1 / 3, 3 / 4], [2 / 3, 1 / 4]]), terms=DOUBLE)
    agree(student.softmax(np.array([0.0, LN_2, 0.0])), np.array([0.25, 0.5, 0.25]), terms=DOUBLE)


@points(0.5)
def test_softmax_of_any_shape(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any shape, any axis, views included, and the argument is left as it was."""
    for shape in ((5,), (1,), (4, 4), (3, 6), (3, 3, 3), (2, 3, 1, 5)):
        x = draw.arrays.normal(*shape, scale=2.0, dtype=np.float64)
        for axis in range(-len(shape), len(shape)):
            got = student.softmax(x, axis)
            agree(got, reference.softmax(x, axis), terms=DOUBLE)
            unmodified(got)
        for view in (x.T, x[..., ::-1], x[::2]):
            agree(student.softmax(view, axis=0), reference.softmax(view, axis=0), terms=DOUBLE)


@points(0.5)
def test_softmax_extremes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Entries of 10000 and -10000 do no harm, and minus infinity gets weight exactly 0."""
    for dtype in (np.float64, np.float32):
        offset = np.array([[HUGE], [-HUGE], [0.0]], dtype=dtype)
        x = (draw.arrays.integers(-3, 4, 3, 6) / 2).astype(dtype) + offset  # halves are exact next to 10000
        hidden = np.where(draw.arrays.mask(3, 6), x, np.array(-np.inf, dtype=dtype))
        for given in (x, hidden):
            for axis, turned in ((-1, given), (0, given.T)):
                got = student.softmax(turned, axis=axis)
                agree(got, reference.softmax(turned, axis=axis), terms=DOUBLE if dtype == np.float64 else 6)
                _sums_to_one(got, axis)
                _nothing_where(got, np.isneginf(turned))
    wide = (draw.arrays.integers(-20, 21, 2, 3, 7) * 500).astype(np.float32)
    got = student.softmax(wide, axis=1)
    agree(got, reference.softmax(wide, axis=1), terms=3)
    _sums_to_one(got, 1)


@points(0.5)
def test_self_attention_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Two tokens attend to each other with the weights that you can work out by hand."""
    # Queries (2, 0, 0, 0) and 0; keys with a first number of 0 and ln 3; d_k = 4, so a score is halved.
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    W_Q, W_K = np.zeros((2, 4)), np.zeros((2, 4))
    W_Q[0, 0], W_K[1, 0] = 2.0, LN_3
    W_V = np.array([[4.0, 0.0, 1.0], [8.0, 4.0, 1.0]])
    weights = np.array([[1 / 4, 3 / 4], [1 / 2, 1 / 2]])
    agree(
        student.self_attention(X, W_Q, W_K, W_V), (np.array([[7.0, 3.0, 1.0], [6.0, 2.0, 1.0]]), weights), terms=DOUBLE
    )


@points(1)
def test_self_attention(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Fresh sequences and matrices of any width give the output and the weights they should."""
    for tokens, d_model, d_k, d_v in ((5, 3, 4, 2), (3, 3, 3, 3), (1, 4, 2, 3), (4, 6, 4, 6), (7, 2, 5, 4)):
        X, matrices = _inputs(draw, (tokens, d_model), d_k, d_v)
        got = student.self_attention(X, *matrices)
        agree(got, reference.self_attention(X, *matrices), terms=DOUBLE)
        unmodified(got)
    X, matrices = _inputs(draw, (6, 5), 3, 4)
    views = (np.asfortranarray(X)[::2], *(np.asfortranarray(W) for W in matrices))
    agree(student.self_attention(*views), reference.self_attention(*views), terms=DOUBLE)


@points(0.5)
def test_causal_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Three tokens see themselves and the past, with the weights that you can work out by hand."""
    # The scores of each row are 0, ln 2 and ln 3: queries of (2, 0, 0, 0), keys of these numbers, d_k = 4.
    X = np.eye(3)
    W_Q, W_K = np.zeros((3, 4)), np.zeros((3, 4))
    W_Q[:, 0], W_K[:, 0] = 2.0, (0.0, LN_2, LN_3)
    W_V = np.array([[6.0], [3.0], [12.0]])
    weights = np.array([[1.0, 0.0, 0.0], [1 / 3, 2 / 3, 0.0], [1 / 6, 2 / 6, 3 / 6]])
    got = student.causal_self_attention(X, W_Q, W_K, W_V)
    agree(got, (np.array([[6.0], [4.0], [8.0]]), weights), terms=DOUBLE)


@points(1)
def test_causal(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Fresh sequences: a later token has weight exactly 0, and each row sums to 1."""
    for tokens, d_model, d_k, d_v in ((5, 3, 4, 2), (3, 3, 3, 3), (1, 4, 2, 3), (40, 6, 4, 6)):
        X, matrices = _inputs(draw, (tokens, d_model), d_k, d_v)
        got = student.causal_self_attention(X, *matrices)
        agree(got, reference.causal_self_attention(X, *matrices), terms=DOUBLE)
        unmodified(got)
        _is_causal(got, tokens)


@points(0.5)
def test_causal_with_large_scores(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Scores of 10000 and -10000, visible or hidden, do no harm."""
    tokens, d_k = 6, 4
    for dtype in (np.float64, np.float32):
        for low, high in ((-HUGE, -HUGE), (HUGE, HUGE), (-HUGE, HUGE), (HUGE, -HUGE), (0.0, HUGE)):
            # One-hot tokens: every query is 2, and the keys are the scores of all rows.
            keys = np.linspace(low, high, tokens) + draw.arrays.integers(-4, 5, tokens) / 4
            W_Q, W_K = np.zeros((tokens, d_k), dtype=dtype), np.zeros((tokens, d_k), dtype=dtype)
            W_Q[:, 1], W_K[:, 1] = 2.0, keys
            call = (np.eye(tokens, dtype=dtype), W_Q, W_K, draw.arrays.normal(tokens, 3, dtype=dtype))
            got = student.causal_self_attention(*call)
            agree(got, reference.causal_self_attention(*call), terms=DOUBLE if dtype == np.float64 else LARGE_SCORES)
            _is_causal(got, tokens)


@points(1)
def test_batch(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each sequence of a batch attends by itself, with any number of leading axes."""
    for shape, d_k, d_v in (
        ((3, 5, 4), 2, 6), ((4, 3), 5, 2), ((2, 3, 4, 5), 3, 2), ((4, 4, 4), 4, 4), ((1, 6, 3), 2, 3),
        ((2, 1, 3, 2, 4), 3, 5), ((3, 3, 3, 3), 3, 3),
    ):  # fmt: skip
        X, matrices = _inputs(draw, shape, d_k, d_v)
        got = student.batch_self_attention(X, *matrices)
        agree(got, reference.batch_self_attention(X, *matrices), terms=DOUBLE)
        unmodified(got)
    X, matrices = _inputs(draw, (4, 3, 5), 2, 3)
    view = X.swapaxes(0, 1)[:, ::2]
    agree(student.batch_self_attention(view, *matrices), reference.batch_self_attention(view, *matrices), terms=DOUBLE)


@points(1)
def test_memory_efficient(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Chunks of any size give exact attention, for any number of queries and keys."""
    for num_queries, num_keys, d_k, d_v, *chunk_size in (
        (4, 4, 2, 2, 2), (7, 7, 3, 2, 3), (9, 2, 4, 4, 3), (5, 8, 2, 3, 2), (8, 5, 3, 4, 4), (3, 4, 4, 2, 16),
        (5, 5, 2, 2, 5), (4, 6, 3, 2, 1), (1, 1, 1, 2, 1), (40, 70, 4, 3),
    ):  # fmt: skip
        Q, K = (
            draw.arrays.normal(num_queries, d_k, scale=2.0, dtype=np.float64),
            draw.arrays.normal(num_keys, d_k, scale=2.0, dtype=np.float64),
        )
        call = (Q, K, draw.arrays.normal(num_keys, d_v, dtype=np.float64), *chunk_size)
        got = student.memory_efficient_attention(*call)
        agree(got, reference.memory_efficient_attention(*call), terms=DOUBLE)
        unmodified(got)
    Q, K, V = (draw.arrays.normal(9, width, dtype=np.float64)[::-1] for width in (4, 4, 3))
    Q, K = 40 * Q, 40 * K  # scores of some thousands
    call = (np.asfortranarray(Q), K, V)
    got = student.memory_efficient_attention(*call, chunk_size=2)
    agree(got, reference.memory_efficient_attention(*call, chunk_size=2), terms=DOUBLE)


@points(1.5)
def test_memory_stays_small(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """At many tokens the memory taken stays far below the whole matrix of scores."""
    d_v = 2  # narrow: each known mistake's answers are kept on tape
    # Few pairs of chunks: who cuts queries and keys, as step 10 does, takes a loop of Python for each of them.
    for num_queries, num_keys, width, dtype, *options in (
        (1000, 1000, 4, np.float32, 8), (100, 1000, 2, np.float64, 2), (200, 1000, 4, np.float64, 4),
        (LONG, LONG, 8, np.float32), (200, 200, 64, np.float64, 16),
    ):  # fmt: skip
        Q, K = draw.arrays.normal(num_queries, width, dtype=dtype), draw.arrays.normal(num_keys, width, dtype=dtype)
        call = (Q, K, draw.arrays.normal(num_keys, d_v, dtype=dtype), *options)
        got = student.using(measures=("peak",)).memory_efficient_attention(*call)
        expected = reference.memory_efficient_attention(*call)
        agree(got, expected, terms=DOUBLE if dtype == np.float64 else num_keys)
        chunk_size = options[0] if options else 32
        allowed = 8 * (8 * chunk_size * max(num_queries, num_keys) + 4 * (num_queries + num_keys) * (width + d_v))
        holds(
            got.measured("peak") <= allowed,
            _(
                "The call took {peak:,} bytes of NumPy's memory. With {num_queries} queries, {num_keys} keys, "
                "d_k = {width}, d_v = {d_v} and chunk_size = {chunk_size} at most {allowed:,} are allowed; the whole "
                "matrix of scores alone takes {matrix:,}."
            ).format(
                peak=got.measured("peak"), num_queries=num_queries, num_keys=num_keys, width=width, d_v=d_v,
                chunk_size=chunk_size, allowed=allowed, matrix=num_queries * num_keys * np.dtype(dtype).itemsize,
            ),
        )  # fmt: skip


@points(1)
def test_float32_stays_float32(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """float32 arrays give float32 results in each of the five functions."""
    x = draw.arrays.normal(3, 4, 5, dtype=np.float32)
    agree(student.softmax(x, axis=1), reference.softmax(x, axis=1), terms=16)
    X, matrices = _inputs(draw, (5, 4), 3, 2, dtype=np.float32)
    for name in ("self_attention", "causal_self_attention", "batch_self_attention"):
        agree(getattr(student, name)(X, *matrices), getattr(reference, name)(X, *matrices), terms=16)
    X, matrices = _inputs(draw, (2, 5, 4), 3, 2, dtype=np.float32)
    agree(student.batch_self_attention(X, *matrices), reference.batch_self_attention(X, *matrices), terms=16)
    Q, K, V = (draw.arrays.normal(7, width, dtype=np.float32) for width in (3, 3, 2))
    agree(
        student.memory_efficient_attention(Q, K, V, chunk_size=3),
        reference.memory_efficient_attention(Q, K, V, chunk_size=3),
        terms=16,
    )


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Reversed views and long sequences change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)
    # Equal tokens, whose weights are known: each sees itself and every earlier one alike.
    equal, one = np.zeros((LONG, 1), dtype=np.float32), np.ones((1, 1), dtype=np.float32)
    earlier = np.tri(LONG, dtype=np.float32) / np.arange(1, LONG + 1, dtype=np.float32)[:, None]
    agree(student.causal_self_attention(equal, one, one, one), (equal, earlier), terms=16)


def _inputs(
    draw: Draw, shape: tuple[int, ...], d_k: int, d_v: int, dtype: type = np.float64
) -> tuple[Array, tuple[Array, Array, Array]]:
    """X of this shape, and the three matrices that fit it."""
    W_Q, W_K, W_V = (draw.arrays.normal(shape[-1], width, dtype=dtype) for width in (d_k, d_k, d_v))
    return draw.arrays.normal(*shape, dtype=dtype), (W_Q, W_K, W_V)


def _sums_to_one(answer: Answer, axis: int) -> None:
    sums = np.asarray(answer.value, dtype=np.float64).sum(axis=axis)
    far = float(np.abs(sums - 1).max())
    holds(far <= 1e-5, _("A slice of weights sums to 1 only within {far:.2g}; it should within 1e-5.").format(far=far))


def _nothing_where(answer: Answer, hidden: NDArray[np.bool_]) -> None:
    weight = float(np.abs(np.asarray(answer.value))[hidden].max(initial=0.0))
    sentence = _("An entry of minus infinity has the weight {weight:.3g}, and it should have exactly 0.")
    holds(weight == 0, sentence.format(weight=weight))


def _is_causal(answer: Answer, tokens: int) -> None:
    weights = np.asarray(answer.value[1], dtype=np.float64)
    later = float(np.abs(np.triu(weights, k=1)).max())
    sentence = _("A later token has the weight {weight:.3g}, and it should have exactly 0.")
    holds(later == 0, sentence.format(weight=later))
    far = float(np.abs(weights.sum(axis=-1) - 1).max())
    holds(far <= 1e-5, _("A row of weights sums to 1 only within {far:.2g}; it should within 1e-5.").format(far=far))
