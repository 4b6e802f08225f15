"""The checks of step 29: flash attention in a kernel of one's own, run by Triton's interpreter or compiled.

A program takes some milliseconds for each block of keys in the interpreter, whatever the size of the blocks: the cases
have few blocks.
"""

import math

import torch
from torch import Tensor

from grader.checks.assertions import (
    Draw,
    Implementation,
    _,
    agree,
    deadline,
    holds,
    must_raise,
    points,
    unmodified,
)
from grader.checks.regimes import LONG, AskedFunction, every_regime

REQUIRES = {"triton>=3.3": "Triton"}  # from 3.3 on its interpreter knows NumPy 2.4

OFF_LIMITS = {
    "flash_forward": (
        "product",
        "exponential",
        "arrays",
        "softmax",
        "scaled_dot_product_attention",
        "flex_attention",
        "multi_head_attention",
    )
}

DEADLINE = 120  # seconds: the interpreter is slow, and a machine may be slower than ours

# Scores of size 1000 are rounded to 1000 times the dtype's step, and weights may be that far off: sqrt(terms) = 1000.
LARGE_SCORES = 1_000_000


def attended(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor | bool | int, ...]:
    """Queries, keys and values, in one block."""
    return *(draw.normal(2, 2, tokens, 4) for _input in range(3)), True, 32, 32


CALLS = {
    "flash_forward": AskedFunction(
        attended,
        terms=20,
        tokens=20,
        axes=(),
        without=dict.fromkeys(("length", "device"), "on `meta` no kernel runs: lengths are asked with values"),
    ),
}


def _of_output(student: Implementation) -> Implementation:
    """Compared by the first of the two results alone, so that a wrong logsumexp does not cost the points of the
    output."""
    return student.using(part=0)


@points(0.5)
@deadline(30)
def test_one_block_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """With scores of 0 and ln 3 the weights are 1/4 and 3/4; with equal scores the output is a mean."""
    query = torch.tensor([[2 * math.log(3.0), 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]).view(1, 1, 2, 4)
    key = torch.tensor([[0.0, 5.0, 0.0, 0.0], [1.0, 0.0, 5.0, 0.0]]).view(1, 1, 2, 4)
    value = torch.tensor([4.0, 8.0]).view(1, 1, 2, 1)
    got = _of_output(student).flash_forward(query, key, value)
    agree(got, torch.tensor([7.0, 6.0]).view(1, 1, 2, 1), terms=4)


@points(0.5)
@deadline(30)
def test_two_blocks_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Keys that come in two blocks count as they do in one, wherever the largest score is."""
    # 16 keys fill the first block. One key outweighs or is outweighed by the others, by a factor of 16.
    value = torch.cat((torch.full((16,), 1.0), torch.full((1,), 3.0))).view(1, 1, 17, 1)
    query = torch.full((1, 1, 1, 1), math.log(16.0))
    for last, wanted in ((1.0, 2.0), (0.0, 19 / 17), (-1.0, (256 + 3) / 257)):
        key = torch.cat((torch.zeros(16), torch.tensor([last]))).view(1, 1, 17, 1)
        got = _of_output(student).flash_forward(query, key, value, False, 16, 16)
        agree(got, torch.full((1, 1, 1, 1), wanted), terms=17)


@points(0.5)
@deadline(30)
def test_any_lengths(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any number of queries and keys, in blocks of any size: no multiple of it, or fewer than one block."""
    for batch, heads, queries, keys, *blocks in (
        (1, 1, 1, 1, 16, 16),
        (1, 1, 1, 35, 16, 16),
        (2, 2, 3, 5, 16, 16),
        (1, 2, 33, 17, 32, 16),
        (1, 1, 18, 32, 16, 32),
        (1, 1, 130, 20, 128, 128),  # more than the default
    ):
        query, key, value = (draw.normal(batch, heads, rows, 4, scale=2.0) for rows in (queries, keys, keys))
        expected = reference.flash_forward(query, key, value, False, *blocks)
        got = _of_output(student).flash_forward(query, key, value, False, *blocks)
        agree(got, expected, terms=keys)
    # Left to their defaults, the blocks are of 64 rows and nothing is hidden.
    agree(_of_output(student).flash_forward(query, key, value), expected, terms=keys)


@points(0.5)
@deadline(30)
def test_any_widths(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """d and d_v need not be equal, nor a power of two, nor as many as 16."""
    for width, value_width in ((1, 1), (3, 5), (20, 7), (8, 33), (72, 128)):
        query, key = (draw.normal(1, 1, rows, width) for rows in (7, 9))
        value = draw.normal(1, 1, 9, value_width)
        expected = reference.flash_forward(query, key, value, block_q=16, block_k=16)
        agree(
            _of_output(student).flash_forward(query, key, value, block_q=16, block_k=16), expected, terms=max(width, 9)
        )


@points(0.5)
@deadline(30)
def test_causal(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """With is_causal no query sees a later key, in any block, and each sees all the others."""
    for batch, heads, tokens, block_q, block_k in (
        (1, 1, 5, 16, 16),
        (1, 2, 32, 16, 16),
        (1, 1, 37, 16, 32),
        (1, 1, 37, 32, 16),
    ):
        query, key, value = (draw.normal(batch, heads, tokens, 4, scale=2.0) for _input in range(3))
        expected = reference.flash_forward(query, key, value, True, block_q, block_k)
        agree(_of_output(student).flash_forward(query, key, value, True, block_q, block_k), expected, terms=tokens)


@points(0.5)
@deadline(30)
def test_large_scores(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Scores of 1000 and -1000 are exact: each row has a maximum of its own, and it grows with the blocks."""
    for is_causal, tokens, first, last in ((False, 33, 0.6, 1.1), (True, 20, 1.1, 0.6)):
        # Row by row the scores lie around 1000, around -1000, and near 0; along the keys they rise, or fall.
        steep = torch.tensor([2000.0, -2000.0, 0.0, 1.0]).repeat(9)[:tokens, None].expand(1, 1, tokens, 1)
        slope = torch.linspace(first, last, tokens).view(1, 1, tokens, 1)
        query = torch.cat((steep, draw.normal(1, 1, tokens, 3)), dim=-1)
        key = torch.cat((slope, draw.normal(1, 1, tokens, 3)), dim=-1)
        value = draw.normal(1, 1, tokens, 4)
        expected = reference.flash_forward(query, key, value, is_causal, 16, 16)
        agree(_of_output(student).flash_forward(query, key, value, is_causal, 16, 16), expected, terms=LARGE_SCORES)


@points(0.5)
@deadline(30)
def test_logsumexp(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The second result is the natural logarithm of the sum of exponentials of each query's scaled scores."""
    silent = torch.zeros(1, 1, 3, 4)
    student = student.using(part=1)
    got = student.flash_forward(silent, silent, silent, True, 16, 16)
    agree(got, torch.tensor([1.0, 2.0, 3.0]).log().view(1, 1, 3), terms=4)
    for queries, keys, is_causal, scale in ((18, 33, False, 2.0), (20, 20, True, 2.0), (3, 20, False, 20.0)):
        query, key, value = (draw.normal(1, 1, rows, 5, scale=scale) for rows in (queries, keys, keys))
        expected = reference.flash_forward(query, key, value, is_causal, 16, 16)
        got = student.flash_forward(query, key, value, is_causal, 16, 16)
        agree(got, expected, terms=LARGE_SCORES if scale > 2 else keys)


@points(0.5)
@deadline(30)
def test_halves_strides_and_inputs(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """float16 gives float16 and sums in float32; any strides; the inputs stay as they were."""
    query, key, value = (draw.normal(2, 2, 20, 4, dtype=torch.float16) for _input in range(3))
    expected = reference.flash_forward(query, key, value, True, 32, 32)
    got = student.using(strided=True).flash_forward(query, key, value, True, 32, 32)
    unmodified(got)
    agree(got, expected, terms=20)
    # As heads come out of a split: transposed views, the value's from another tensor.
    query, key = (draw.normal(1, 9, 2, 4).transpose(1, 2) for _input in range(2))
    value = draw.normal(1, 2, 4, 9).transpose(-2, -1)
    agree(_of_output(student).flash_forward(query, key, value), reference.flash_forward(query, key, value), terms=9)


@points(2.5)
@deadline(30)
def test_the_kernel_does_it(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A kernel is launched, the result is exact, and no tensor holds the matrix of all pairs."""
    _by_a_kernel(student, reference, draw, is_causal=False)


@points(2.5)
@deadline(30)
def test_the_kernel_does_it_causal(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The same with is_causal."""
    _by_a_kernel(student, reference, draw, is_causal=True)


def _by_a_kernel(student: Implementation, reference: Implementation, draw: Draw, is_causal: bool) -> None:
    tokens = 256
    query, key, value = (draw.normal(1, 1, tokens, 8) for _input in range(3))
    got = student.using(measures=("largest", "launches"), part=0).flash_forward(query, key, value, is_causal)
    agree(got, reference.flash_forward(query, key, value, is_causal), terms=tokens)
    holds(got.measured("launches") > 0, _("No kernel was launched: nothing ran that is decorated with `@triton.jit`."))
    holds(
        got.measured("largest") < tokens * tokens,
        _(
            "The largest tensor made has {largest} elements; with {tokens} queries and as many keys the matrix of "
            "all pairs has {matrix}, and no tensor may hold as many."
        ).format(largest=got.measured("largest"), tokens=tokens, matrix=tokens * tokens),
    )


@points(0.5)
@deadline(30)
def test_unequal_lengths_are_refused(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """is_causal with more keys than queries, or fewer, is an error; without it both are fine."""
    query, key = draw.normal(1, 1, 3, 4), draw.normal(1, 1, 5, 4)
    for first, second in ((query, key), (key, query)):
        expected = reference.flash_forward(first, second, second, False, 16, 16)
        agree(_of_output(student).flash_forward(first, second, second, False, 16, 16), expected, terms=5)
        must_raise(
            lambda queries=first, keys=second: student.flash_forward(queries, keys, keys, True, 16, 16),
            _("{num_queries} queries and {num_keys} keys, with is_causal").format(
                num_queries=first.shape[2], num_keys=second.shape[2]
            ),
        )


@points(0.5)
@deadline(30)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long inputs and `no_grad` change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)
    query, key, value = draw.normal(1, 1, 2, 4), draw.normal(1, 1, LONG, 4), draw.normal(1, 1, LONG, 4)
    expected = reference.flash_forward(query, key, value, False, 16, 256)
    agree(_of_output(student).flash_forward(query, key, value, False, 16, 256), expected, terms=LONG)
