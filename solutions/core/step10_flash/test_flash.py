"""The checks of step 10: sdpa, flash attention, and what the matrix of scores would take."""

import math
from typing import Any

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
    holds,
    must_raise,
    points,
    unmodified,
)
from grader.checks.regimes import LONG, NUMBERS, AskedFunction, every_regime

OFF_LIMITS: dict[str, tuple[str, ...]] = {
    "flash_attention": ("scaled_dot_product_attention", "flex_attention", "multi_head_attention"),
}

# Scores of size 1000 are rounded to 1000 times the dtype's step, and weights may be that far off: sqrt(terms) = 1000.
LARGE_SCORES = 1_000_000
DEFAULT_BLOCK = 64
BYTES = 8  # of an element of the largest dtype


def attended(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, ...]:
    return tuple(draw.normal(2, 3, tokens, 4) for _input in range(3))


def few_queries(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Any, ...]:
    # A few blocks, of any input: one of each of the many keys would take its time.
    B, H = (1, 1) if tokens == LONG else (2, 2)
    inputs = (draw.normal(B, H, count, 4) for count in (2, tokens, tokens))
    return *inputs, False, 512 if tokens == LONG else 2


CALLS = {
    "attention_matrix_bytes": NUMBERS,
    "sdpa": AskedFunction(attended, terms=9, axes=()),
    "flash_attention": AskedFunction(few_queries, terms=9, long_terms=LONG, axes=()),
}


@points(0.5)
def test_matrix_bytes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The matrix takes one number for every pair of tokens, in every head."""
    agree(student.attention_matrix_bytes(1, 1, 6), 144.0)
    agree(student.attention_matrix_bytes(2, 3, 5, bytes_per_element=2), 300.0)
    sizes = [draw.integer(2, 9) for _size in range(3)]
    agree(student.attention_matrix_bytes(*sizes, 8), float(reference.attention_matrix_bytes(*sizes, 8).value))


@points(0.5)
def test_sdpa_is_causal(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """sdpa is causal attention, and the built-in does the work."""
    for shape in ((1, 1, 3, 2), (2, 3, 6, 4), (1, 1, 1, 4)):  # one token tells little apart, so it comes last
        query, key, value = (draw.normal(*shape) for _input in range(3))
        expected = reference.using(gradients=True).sdpa(query, key, value)
        got = student.using(gradients=True, functions=True).sdpa(query, key, value)
        agree(got, expected, terms=shape[-2])
        holds(
            any("scaled_dot_product" in name for name in got.functions),
            _("sdpa did not call F.scaled_dot_product_attention. Here, and only here, the built-in is required."),
        )


@points(0.5)
def test_sdpa_dropout(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """sdpa drops weights in training, and only then."""
    tokens, rate = 48, draw.integer(20, 35) / 100
    query, key = draw.normal(1, 2, tokens, 4, scale=0.5), draw.normal(1, 2, tokens, 4, scale=0.5)
    # With these values each context is the row of weights itself, twice side by side.
    value = torch.eye(tokens).repeat(1, 2).expand(1, 2, tokens, 2 * tokens).contiguous()
    expected = reference.using(gradients=True).sdpa(query, key, value)

    # All are asked before one is judged: who mistakes training for evaluation is told apart from who always drops.
    plain = student.using(gradients=True).sdpa(query, key, value, dropout_p=rate, training=False)
    undropped = student.using(gradients=True).sdpa(query, key, value, 0.0, True)
    got, again = student.sdpa(query, key, value, rate), student.sdpa(query, key, value, rate, True)
    agree(plain, expected, terms=tokens)
    agree(undropped, expected, terms=tokens)
    holds(
        got.tensor().shape == again.tensor().shape == expected.tensor().shape,
        _("In training the context has shape {got}, and it should have shape {expected}.").format(
            got=tuple(got.tensor().shape), expected=tuple(expected.tensor().shape)
        ),
    )
    weights, dropped_weights = expected.tensor()[..., :tokens], got.tensor()[..., :tokens]
    seen = weights > 0
    dropped = seen & (dropped_weights == 0)
    observed = float(dropped.sum() / seen.sum())
    holds(
        abs(observed - rate) <= binomial_bound(int(seen.sum()), rate),
        _("In training {observed:.3f} of the weights were dropped, with dropout_p = {rate:.2f}.").format(
            observed=observed, rate=rate
        ),
    )
    holds(
        torch.allclose(dropped_weights, got.tensor()[..., tokens:], rtol=1e-4, atol=1e-6),
        _("A weight was dropped for one number of its value and kept for another: dropout did not act on the weights."),
    )
    kept = seen & ~dropped
    holds(
        torch.allclose(dropped_weights[kept], weights[kept] / (1 - rate), rtol=1e-3, atol=1e-6),
        _("The weights that were kept should be divided by 1 - dropout_p, and they were not."),
    )
    holds(
        not torch.equal(got.tensor(), again.tensor()),
        _("Two calls in training dropped the same weights. Each call should draw anew."),
    )


@points(1)
def test_two_blocks_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Three keys in blocks of two give the context worked out by hand."""
    query = torch.ones(1, 1, 1, 1)
    key = torch.tensor([0.0, 0.0, math.log(3.0)]).view(1, 1, 3, 1)
    value = torch.tensor([4.0, 8.0, 16.0]).view(1, 1, 3, 1)
    agree(student.flash_attention(query, key, value, block_size=2), torch.tensor([[[[12.0]]]]), terms=3)


@points(0.5)
def test_any_lengths(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any number of queries and keys, in blocks of any size, is exact."""
    for num_queries, num_keys, width, value_width, block_size in (
        (2, 3, 2, 3, 1),
        (3, 5, 4, 6, 16),
        (4, 6, 3, 2, 2),
        (7, 5, 3, 3, 3),
        (5, 8, 4, 2, 3),
        (1, 1, 2, 3, 2),
    ):
        # The width is 4, so that a root taken in float32 is exact and passes in float64 too.
        for dtype in (torch.float32, torch.float64) if num_queries == 5 else (torch.float32,):
            query = draw.normal(2, 3, num_queries, width, dtype=dtype)
            key = draw.normal(2, 3, num_keys, width, dtype=dtype)
            value = draw.normal(2, 3, num_keys, value_width, dtype=dtype)
            expected = reference.flash_attention(query, key, value, False, block_size)
            terms = GUARDED_TWICE if dtype == torch.float64 else num_keys
            agree(student.flash_attention(query, key, value, False, block_size), expected, terms=terms)


@points(0.5)
def test_causal(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """With is_causal each query sees its past, across all blocks."""
    for tokens, block_size in ((1, 4), (3, 8), (5, 2), (6, 3), (8, 3)):
        query, key, value = (draw.normal(2, 2, tokens, 3) for _input in range(3))
        expected = reference.flash_attention(query, key, value, True, block_size)
        agree(student.flash_attention(query, key, value, True, block_size), expected, terms=tokens)
    for num_queries, num_keys in ((2, 3), (3, 2)):
        query, key = draw.normal(1, 1, num_queries, 2), draw.normal(1, 1, num_keys, 2)
        must_raise(
            lambda query=query, key=key: student.flash_attention(query, key, key, is_causal=True, block_size=2),
            _("is_causal=True with {num_queries} queries and {num_keys} keys").format(
                num_queries=num_queries, num_keys=num_keys
            ),
        )


@points(2.5)
def test_large_scores(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Scores of 1000 and -1000 give finite and exact results, also block by block."""
    for is_causal, dtype in ((False, torch.float32), (True, torch.float32), (False, torch.float64)):
        query, key = large_scores(draw, 5, dtype)
        value = draw.normal(2, 2, 5, 3, dtype=dtype)
        expected = reference.using(gradients=True).flash_attention(query, key, value, is_causal, 3)
        got = student.using(gradients=True).flash_attention(query, key, value, is_causal, 3)
        agree(got, expected, terms=GUARDED_TWICE if dtype == torch.float64 else LARGE_SCORES)
    # Whoever has no running maximum but whole rows instead is exact, and misses the point all the same.
    query, key = large_scores(draw, 5, torch.float32)
    query, key = query[:1, :1].repeat(1, 1, 6, 1), key[:1, :1].repeat(1, 1, 102, 1)
    value = draw.normal(1, 1, 510, 3)
    expected = reference.flash_attention(query, key, value, False, 30)
    got = student.using(measures=("largest",)).flash_attention(query, key, value, False, 30)
    agree(got, expected, terms=LARGE_SCORES)
    within_bound(got.measured("largest"), (30, 510), 4, 30)


def large_scores(draw: Draw, tokens: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Queries and keys whose scores, row by row, lie near 1000, near -1000, rise, fall, or are of ordinary size.

    The same row of another sequence or head has the opposite sign, so that no two rows can share a maximum.
    """
    signs = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=dtype)[..., None]
    levels = signs * torch.tensor([2000.0, -2000.0, 0.0, 0.0, 0.0], dtype=dtype).repeat(2)[:tokens]
    slopes = signs * torch.tensor([0.0, 0.0, 2000.0, -2000.0, 0.0], dtype=dtype).repeat(2)[:tokens]
    steady, rising = torch.ones(tokens, dtype=dtype), torch.linspace(-1.0, 1.0, tokens, dtype=dtype)

    def beside_noise(first: Tensor, second: Tensor) -> Tensor:
        columns = torch.stack((first, second), dim=-1).expand(2, 2, tokens, 2)
        return torch.cat((columns, draw.normal(2, 2, tokens, 2, dtype=dtype)), dim=-1)  # (2, 2, T, 4): scaled by 1 / 2

    return beside_noise(levels, slopes), beside_noise(steady, rising)


@points(0.5)
def test_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The gradients of query, key and value are those of attention."""
    # A backward pass by hand may keep sums in float32: only in halves do they meet tensors of another dtype.
    for num_queries, num_keys, is_causal, dtype in (
        (1, 4, False, torch.bfloat16),
        (5, 8, False, torch.float64),
        (5, 5, True, torch.float32),
    ):
        query, key = draw.normal(2, 2, num_queries, 4, dtype=dtype), draw.normal(2, 2, num_keys, 4, dtype=dtype)
        value = draw.normal(2, 2, num_keys, 3, dtype=dtype)
        expected = reference.using(gradients=True).flash_attention(query, key, value, is_causal, 3)
        got = student.using(gradients=True).flash_attention(query, key, value, is_causal, 3)
        agree(got, expected, terms=GUARDED_TWICE if dtype == torch.float64 else num_queries * num_keys)


@points(2.5)
def test_memory(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Exact without a tensor, an array or a mask as large as the matrix of scores."""
    # There are more keys than the default block has, so that whoever ignores block_size needs less than all the scores;
    # blocks of half the length need more than is asked for. One block of queries against many keys tells whole rows of
    # scores from blocks of them. The call before it leaves both options to their defaults; in it, scores are large
    # enough to overflow without a maximum.
    width = 2
    for num_queries, num_keys, *options in (
        (16, 80, False, 8), (320, 320, True, 32), (100, 400), (32, 512, False, 32),
    ):  # fmt: skip
        query = draw.normal(1, 1, num_queries, width)
        key, value = draw.normal(1, 1, num_keys, width), draw.normal(1, 1, num_keys, width)
        terms = num_keys
        if num_queries == 32:
            query[..., -1, :], key[..., -1, :] = 20.0, 20.0  # the last of its row by far: a score of 566
            terms = LARGE_SCORES
        expected = reference.flash_attention(query, key, value, *options)
        got = student.using(measures=("largest",)).flash_attention(query, key, value, *options)
        agree(got, expected, terms=terms)
        within_bound(got.measured("largest"), (num_queries, num_keys), width, options[1] if options else DEFAULT_BLOCK)
    # In pieces that are kept, the matrix is there as a whole. Each block costs: with 25, it is twice what is allowed.
    num_queries, num_keys, block_size = 144, 3600, 144
    query, key = draw.normal(1, 1, num_queries, width), draw.normal(1, 1, num_keys, width)
    value = draw.normal(1, 1, num_keys, width)
    expected = reference.flash_attention(query, key, value, False, block_size)
    got = student.using(measures=("live", "products")).flash_attention(query, key, value, False, block_size)
    agree(got, expected, terms=num_keys)
    _no_pieces(got, (num_queries, num_keys), width, block_size)
    # As a NumPy array or as lists the matrix takes memory outside of torch. Small inputs first, so that what Python
    # makes once is there already.
    query, key, value = draw.normal(1, 1, 32, width), draw.normal(1, 1, 512, width), draw.normal(1, 1, 512, width)
    student.using(measures=("peak",)).flash_attention(query[..., :2, :], key[..., :4, :], value[..., :4, :], False, 2)
    expected = reference.flash_attention(query, key, value, False, 32)
    got = student.using(measures=("peak",)).flash_attention(query, key, value, False, 32)
    agree(got, expected, terms=512)
    most = BYTES * most_elements((32, 512), width, 32)
    holds(
        got.measured("peak") <= most,
        _(
            "Outside of torch, in arrays of NumPy or in lists, the call took {got} bytes, and at most {most} are "
            "allowed: the whole matrix of scores has no place there either."
        ).format(got=got.measured("peak"), most=most),
    )


def _no_pieces(got: Answer, lengths: tuple[int, int], width: int, block_size: int) -> None:
    """Fails if the tensors that were there at once had more elements than some blocks, or pairs were multiplied again
    and again."""
    num_queries, num_keys = lengths
    live, allowed = got.measured("live"), 4 * most_elements(lengths, width, block_size)
    holds(
        live <= allowed,
        _(
            "The tensors that were there at the same time had {live} elements. With {num_queries} queries, {num_keys} "
            "keys and block_size = {block_size} at most {allowed} are allowed; the whole matrix of scores has "
            "{matrix}, also in pieces that are kept in a list."
        ).format(
            live=live, num_queries=num_queries, num_keys=num_keys, block_size=block_size, allowed=allowed,
            matrix=num_queries * num_keys,
        ),
    )  # fmt: skip
    products, most = sum(got.measured("products").values()), 4 * 2 * num_queries * num_keys * 2 * width
    holds(
        products <= most,
        _(
            "The matrix products took {products} operations, and at most {most} are allowed: 4 passes over all pairs."
        ).format(products=products, most=most),
    )


def most_elements(lengths: tuple[int, int], width: int, block_size: int) -> int:
    """The elements that blocks need, for these many queries and keys."""
    num_queries, num_keys = lengths
    return 2 * (num_queries + num_keys + block_size) * (width + 1) + 2 * num_queries * block_size


def within_bound(largest: int, lengths: tuple[int, int], width: int, block_size: int) -> None:
    """Fails if a storage was larger than blocks need."""
    num_queries, num_keys = lengths
    allowed = most_elements(lengths, width, block_size)
    holds(
        largest <= allowed,
        _(
            "The largest tensor made has {largest} elements. With {num_queries} queries, {num_keys} keys, the larger "
            "of d and d_v = {width} and block_size = {block_size} at most {allowed} are allowed; the whole matrix of "
            "scores, or a mask of its shape, would have {matrix}, and one block of queries against all keys {rows}."
        ).format(
            largest=largest, num_queries=num_queries, num_keys=num_keys, width=width, block_size=block_size,
            allowed=allowed, matrix=num_queries * num_keys, rows=min(block_size, num_queries) * num_keys,
        ),
    )  # fmt: skip


@points(0.5)
def test_halves_meta_and_inputs(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Half precision, any device, and inputs left as they were."""
    # Only in float32 is it seen whether a way that converts to float32 and then works in place changes its inputs.
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        query, key, value = (draw.normal(2, 2, 7, 4, dtype=dtype) for _input in range(3))
        expected = reference.flash_attention(query, key, value, True, 3)
        got = student.flash_attention(query, key, value, True, 3)
        agree(got, expected, terms=GUARDED_TWICE if dtype == torch.float64 else 7)
        unmodified(got)
    expected = reference.using(device="meta").flash_attention(query, key, value, True, 4)
    agree(student.using(device="meta").flash_attention(query, key, value, True, 4), expected)
    for dtype in (torch.float64, torch.bfloat16):
        query, key, value = (draw.normal(2, 2, 7, 4, dtype=dtype) for _input in range(3))
        expected, got = reference.sdpa(query, key, value), student.sdpa(query, key, value)
        agree(got, expected, terms=7)
        unmodified(got)
    agree(student.using(device="meta").sdpa(query, key, value), reference.using(device="meta").sdpa(query, key, value))


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long inputs and `no_grad` change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)
