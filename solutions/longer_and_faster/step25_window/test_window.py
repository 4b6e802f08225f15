"""The checks of step 25: the mask of a window, and attention that never makes a matrix of that size."""

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
    must_raise,
    points,
    unmodified,
)
from grader.checks.common import no_pairs, no_pieces
from grader.checks.regimes import LONG, NO_TENSOR, AskedFunction, every_regime

OFF_LIMITS: dict[str, tuple[str, ...]] = {"window_attention": ("flex_attention", "multi_head_attention")}

# Scores of size 1000 are rounded to 1000 times the dtype's step, and weights may be that far off: sqrt(terms) = 1000.
LARGE_SCORES = 1_000_000

MANY = 320  # tokens, beyond which whoever multiplies all pairs takes several times the products of any right way

# T, window, is_causal, num_global: shorter than the window, as long as it, a multiple of it, and not.
SIZES = (
    (3, 5, True, 0),
    (4, 4, True, 0),
    (6, 3, True, 0),
    (7, 3, True, 0),
    (5, 1, True, 0),
    (9, 2, True, 0),
    (4, 6, False, 0),
    (8, 4, False, 0),
    (7, 3, False, 0),
    (6, 1, False, 0),
    (11, 2, False, 0),
)
# First those in which global tokens lie outside each other's windows, and one is later than another.
WITH_GLOBALS = (
    (7, 2, False, 5),
    (9, 3, True, 2),
    (5, 2, False, 1),
    (8, 2, True, 1),
    (9, 3, False, 2),
    (7, 4, True, 3),
    (4, 1, False, 4),
    (5, 9, False, 2),
)


def attended(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor | int | bool, ...]:
    """Queries, keys and values, and a window that looks both ways, with a global token."""
    return *(draw.normal(2, 3, tokens, 4) for _input in range(3)), 3, False, 1


CALLS = {
    # Only the length is left to be asked.
    "window_mask": AskedFunction(lambda draw, leading, tokens: (tokens, 3), {"device": "meta"}, without=NO_TENSOR),
    "window_attention": AskedFunction(
        attended,
        terms=9,
        tokens=9,
        axes=(),
        without={"length": "asked with values: `meta` is slow for a loop over tokens"},
    ),
}


@points(0.25)
def test_mask_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The masks of four tokens and a window of 2 are those you can draw by hand."""
    causal = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    both_sides = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    first_is_global = [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 1, 1]]
    causal_and_global = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]]
    # What is most telling comes first: a diagnosis sees no more than the first wrong answer.
    exactly(student.window_mask(4, 2, False, 1), torch.tensor(first_is_global).bool())
    exactly(student.window_mask(4, 2), torch.tensor(causal).bool())
    exactly(student.window_mask(4, 2, is_causal=False), torch.tensor(both_sides).bool())
    exactly(student.window_mask(4, 2, True, num_global=1), torch.tensor(causal_and_global).bool())


@points(0.25)
def test_mask_of_any_size(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The mask is right for any length, window and number of global tokens, and on the device asked for."""
    for sizes in (*SIZES, *WITH_GLOBALS, (1, 1, True, 0)):
        exactly(student.window_mask(*sizes), reference.window_mask(*sizes))
    tokens, window = draw.integer(10, 40), draw.integer(2, 9)
    for is_causal in (True, False):
        exactly(student.window_mask(tokens, window, is_causal), reference.window_mask(tokens, window, is_causal))
    on_meta = reference.window_mask(5, 2, True, 1, device="meta")
    exactly(student.window_mask(5, 2, True, 1, device="meta"), on_meta)


@points(0.5)
def test_context_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Where all scores are equal each context is the mean of the values in the window."""
    silent = torch.zeros(1, 1, 4, 1)
    value = torch.tensor([2.0, 4.0, 9.0, 12.0]).view(1, 1, 4, 1)
    causal = torch.tensor([2.0, 3.0, 6.5, 10.5]).view(1, 1, 4, 1)
    agree(student.window_attention(silent, silent, value, 2), causal, terms=4)
    both_sides = torch.tensor([3.0, 5.0, 25 / 3, 10.5]).view(1, 1, 4, 1)
    agree(student.window_attention(silent, silent, value, 2, is_causal=False), both_sides, terms=4)
    first_is_global = torch.tensor([6.75, 5.0, 6.75, 23 / 3]).view(1, 1, 4, 1)
    agree(student.window_attention(silent, silent, value, 2, False, num_global=1), first_is_global, terms=4)


@points(0.5)
def test_any_length(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any length and window is exact, causal or looking both ways."""
    for place, (tokens, window, is_causal, _global) in enumerate(SIZES):
        value_width, dtype, terms = ((3, torch.float32, tokens), (4, torch.float64, GUARDED))[place % 2]
        query, key = (draw.normal(2, 3, tokens, 4, scale=1.5, dtype=dtype) for _input in range(2))
        value = draw.normal(2, 3, tokens, value_width, dtype=dtype)
        expected = reference.window_attention(query, key, value, window, is_causal)
        agree(student.window_attention(query, key, value, window, is_causal), expected, terms=terms)
    # Left to its default, the window is causal.
    expected = reference.window_attention(query, key, value, 3)
    agree(student.window_attention(query, key, value, 3), expected, terms=GUARDED)


@points(0.5)
def test_global_tokens(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Global tokens see all and are seen by all; with is_causal they see no later token either."""
    for tokens, window, is_causal, num_global in WITH_GLOBALS:
        query, key, value = (draw.normal(2, 2, tokens, 3, scale=1.5) for _input in range(3))
        expected = reference.window_attention(query, key, value, window, is_causal, num_global)
        agree(student.window_attention(query, key, value, window, is_causal, num_global), expected, terms=tokens)


@points(0.5)
def test_large_scores_and_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Scores of 1000 give finite and exact results, and the gradients are those of attention."""
    for tokens, window, is_causal, num_global in ((7, 3, True, 0), (7, 3, False, 1), (3, 8, True, 1), (8, 4, False, 0)):
        for dtype in (torch.float32, torch.float64):
            query, key, value = (draw.normal(2, 2, tokens, 4, dtype=dtype) for _input in range(3))
            options = (window, is_causal, num_global)
            expected = reference.using(gradients=True).window_attention(query, key, value, *options)
            got = student.using(gradients=True).window_attention(query, key, value, *options)
            agree(got, expected, terms=GUARDED if dtype == torch.float64 else 4 * tokens)
            # Row by row the scores lie near 1000, near -1000, and near 0: no two rows can share a maximum.
            steep = torch.tensor([2000.0, -2000.0, 0.0, 1.0], dtype=dtype).repeat(2)[:tokens, None]
            query = torch.cat((steep.expand(2, 2, tokens, 1), query[..., 1:]), dim=-1)
            key = torch.cat((torch.ones(2, 2, tokens, 1, dtype=dtype), key[..., 1:]), dim=-1)
            expected = reference.using(gradients=True).window_attention(query, key, value, *options)
            got = student.using(gradients=True).window_attention(query, key, value, *options)
            agree(got, expected, terms=GUARDED if dtype == torch.float64 else LARGE_SCORES)
    # Of a width of 64 a score of 1000 is a product of 8000: a hidden one may be 16,000 above what is seen before both
    # are divided. Two neighbours see what lies near -1000, and hide what lies near 1000.
    query, key, value = (draw.normal(2, 2, 12, 64) for _input in range(3))
    query[..., 0], key[..., 0] = 8000.0, (2 * draw.integers(0, 2, 2, 2, 12) - 1).float()
    for is_causal in (True, False):
        expected = reference.window_attention(query, key, value, 2, is_causal)
        agree(student.window_attention(query, key, value, 2, is_causal), expected, terms=LARGE_SCORES)


@points(0.5)
def test_wrong_arguments_are_refused(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Unequal lengths, and a window that shows nothing, are errors."""
    query, key = draw.normal(1, 2, 6, 4), draw.normal(1, 2, 6, 4)
    agree(student.window_attention(query, key, key, 2), reference.window_attention(query, key, key, 2), terms=6)
    for num_queries, num_keys in ((4, 6), (6, 4)):
        must_raise(
            lambda rows=num_queries, columns=num_keys: student.window_attention(
                query[:, :, :rows], key[:, :, :columns], key[:, :, :columns], 2
            ),
            _("{num_queries} queries and {num_keys} keys").format(num_queries=num_queries, num_keys=num_keys),
        )
    for window in (0, -1):
        must_raise(
            lambda window=window: student.window_attention(query, key, key, window),
            _("window = {window} shows no token").format(window=window),
        )


@points(0.5)
def test_halves_meta_and_inputs(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any dtype, strides and device, and inputs left as they were."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for options in ((3, True, 0), (2, False, 1)):
            # As heads come out of a split: transposed views.
            query, key, value = (draw.normal(2, 7, 2, 4, dtype=dtype).transpose(1, 2) for _input in range(3))
            expected = reference.window_attention(query, key, value, *options)
            got = student.window_attention(query, key, value, *options)
            agree(got, expected, terms=GUARDED if dtype == torch.float64 else 7)
            unmodified(got)
    for options in ((3, True, 0), (2, False, 1)):
        expected = reference.using(device="meta").window_attention(query, key, value, *options)
        agree(student.using(device="meta").window_attention(query, key, value, *options), expected)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long inputs and `no_grad` change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)
    query, key, value = (draw.normal(1, 1, LONG, 2) for _input in range(3))
    expected = reference.window_attention(query, key, value, LONG, False)
    agree(student.window_attention(query, key, value, LONG, False), expected, terms=LONG)


@points(2)
def test_memory(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Exact without a tensor, or a mask, as large as the whole matrix, nor a copy of the window for each token."""
    # With one head an unfolded window is a view that is multiplied without a copy; a mask shows with one head alone.
    sizes = (((2, 3), 160, 16, True), ((1, 1), MANY, 8, True), ((2, 2), 140, 16, False))
    for shape, tokens, window, is_causal in sizes:
        _fits(student, reference, draw, shape, tokens, (window, is_causal, 0))


@points(2)
def test_memory_with_global_tokens(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The same with global tokens: they add a few rows and columns, and no matrix."""
    for shape, tokens, window, is_causal in (
        ((2, 2), 160, 16, False),
        ((1, 1), MANY, 8, False),
        ((2, 2), 140, 12, True),
    ):
        _fits(student, reference, draw, shape, tokens, (window, is_causal, 2))


def _fits(
    student: Implementation,
    reference: Implementation,
    draw: Draw,
    shape: tuple[int, int],
    tokens: int,
    options: tuple[int, bool, int],
) -> None:
    window, is_causal, num_global = options
    width = 8
    # Each head of each sequence has the same rows, from another one on: a tape keeps them once.
    drawn = [draw.normal(tokens, width) for _input in range(3)]
    turned = [[rows.roll(7 * head, dims=0) for head in range(shape[0] * shape[1])] for rows in drawn]
    query, key, value = (torch.stack(heads).view(*shape, tokens, width) for heads in turned)
    asked = student.using(measures=("largest", "live", "products") if tokens == MANY else ("largest", "live"))
    got = asked.window_attention(query, key, value, *options)
    agree(got, reference.window_attention(query, key, value, *options), terms=tokens)
    allowed = shape[0] * shape[1] * 4 * (tokens + window) * (max(window, width) + num_global + 1)
    holds(
        got.measured("largest") <= allowed,
        _(
            "The largest tensor made has {largest} elements. With {batch} sequences, {heads} heads, {tokens} tokens, "
            "d = d_v = {width}, window = {window} and num_global = {num_global} at most {allowed} are allowed; a "
            "matrix of all pairs of tokens would have {matrix}."
        ).format(
            largest=got.measured("largest"),
            batch=shape[0],
            heads=shape[1],
            tokens=tokens,
            width=width,
            window=window,
            num_global=num_global,
            allowed=allowed,
            matrix=shape[0] * shape[1] * tokens * tokens,
        ),
    )
    no_pieces(got, 6 * allowed, shape[0] * shape[1] * tokens * tokens)
    if tokens == MANY:
        no_pairs(got, int(0.4 * 2 * shape[0] * shape[1] * tokens * tokens * 2 * width))
