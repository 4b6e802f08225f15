"""What learners get wrong in step 29, each with the check that catches it.

One kernel takes every decision in the right way or in a wrong one. What a wrong way reads stays inside of the tensors:
these run in the judge, which has to survive them.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from grader.checks.catalogue import another_form, misconception, together

Both = tuple[Tensor, Tensor]


@triton.jit
def _attend(
    query, key, value, output, logsumexp,
    query_batch, query_head, query_row, query_column, key_batch, key_head, key_row, key_column,
    value_batch, value_head, value_row, value_column,
    num_heads, num_queries, num_keys, width, value_width, query_elements, key_elements, scale, log2_e,
    IS_CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr,
    CONTEXT_RESCALED: tl.constexpr, DENOMINATOR_RESCALED: tl.constexpr, MAXIMUM: tl.constexpr,
    BEYOND_HIDDEN: tl.constexpr, WHOLE_BLOCKS_ONLY: tl.constexpr, COLUMNS_MASKED: tl.constexpr,
    DIVIDED: tl.constexpr, VISIBLE: tl.constexpr, HIDDEN: tl.constexpr, LAST_BLOCK: tl.constexpr,
    LOGSUMEXP: tl.constexpr, EXCHANGED: tl.constexpr, RESCALED_BY: tl.constexpr, SAFE: tl.constexpr,
    KEYS_STEP: tl.constexpr, VALUES_STEP: tl.constexpr,
):  # fmt: skip
    batch, head = tl.program_id(1) // num_heads, tl.program_id(1) % num_heads
    if EXCHANGED == "batch and head":
        batches = tl.num_programs(1) // num_heads
        batch, head = tl.program_id(1) % batches, tl.program_id(1) // batches
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns, value_columns = tl.arange(0, WIDTH), tl.arange(0, VALUE_WIDTH)
    at = batch * query_batch + head * query_head + rows[:, None] * query_row + columns[None, :] * query_column
    there = (rows[:, None] < num_queries) & (columns[None, :] < width)
    if not COLUMNS_MASKED:  # what follows a row in memory, as far as there is anything
        there = (rows[:, None] < num_queries) & (at < query_elements)
    queries = tl.load(query + at, mask=there, other=0.0)
    key_at = batch * key_batch + head * key_head
    value += batch * value_batch + head * value_head
    maximum = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    if MAXIMUM == "none" or MAXIMUM == "from zero":
        maximum = tl.zeros([BLOCK_Q], tl.float32)
    denominator = tl.zeros([BLOCK_Q], tl.float32)
    context = tl.zeros([BLOCK_Q, VALUE_WIDTH], tl.float32)

    last_key = num_keys
    if IS_CAUSAL:
        if LAST_BLOCK == "right":
            last_key = tl.minimum((tl.program_id(0) + 1) * BLOCK_Q, num_keys)
        if LAST_BLOCK == "counted in blocks of queries":
            last_key = tl.minimum((tl.program_id(0) + 1) * BLOCK_K, num_keys)
        if LAST_BLOCK == "before the diagonal":
            last_key = tl.minimum(tl.maximum(tl.program_id(0) * BLOCK_Q, 1), num_keys)
    if WHOLE_BLOCKS_ONLY:
        last_key = last_key // BLOCK_K * BLOCK_K
    for first_key in range(0, last_key, BLOCK_K):
        keys = first_key + tl.arange(0, BLOCK_K)
        inside = keys < num_keys
        read = keys
        if not KEYS_STEP:
            read = tl.arange(0, BLOCK_K)
        at = key_at + read[:, None] * key_row + columns[None, :] * key_column
        there = inside[:, None] & (columns[None, :] < width)
        if not COLUMNS_MASKED:
            there = inside[:, None] & (at < key_elements)
        scores = tl.dot(queries, tl.trans(tl.load(key + at, mask=there, other=0.0)), input_precision="ieee")
        scores = scores * scale * log2_e
        visible = inside[None, :] & (rows[:, None] >= 0)
        if not BEYOND_HIDDEN:
            visible = (keys[None, :] >= 0) & (rows[:, None] >= 0)
        if IS_CAUSAL:
            if VISIBLE == "right":
                visible = visible & (keys[None, :] <= rows[:, None])
            if VISIBLE == "one ahead":
                visible = visible & (keys[None, :] <= rows[:, None] + 1)
            if VISIBLE == "not itself":
                visible = visible & (keys[None, :] < rows[:, None])
            if VISIBLE == "later":
                visible = visible & (keys[None, :] >= rows[:, None])
            if VISIBLE == "within the block":
                own = tl.arange(0, BLOCK_Q)
                visible = visible & (tl.arange(0, BLOCK_K)[None, :] <= own[:, None])
            if VISIBLE == "keys within the block":
                visible = visible & (tl.arange(0, BLOCK_K)[None, :] <= rows[:, None])
            if VISIBLE == "queries within the block":
                visible = visible & (keys[None, :] <= tl.arange(0, BLOCK_Q)[:, None])
        scores = tl.where(visible, scores, HIDDEN)

        new_maximum = tl.maximum(maximum, tl.max(scores, 1))
        if MAXIMUM == "none":
            new_maximum = maximum
        if MAXIMUM == "one for the block":
            new_maximum = tl.maximum(maximum, tl.max(tl.max(scores, 1), 0))
        if MAXIMUM == "of each block" or MAXIMUM == "of the newest block":
            new_maximum = tl.max(scores, 1)
        if MAXIMUM == "of the first block":
            new_maximum = tl.where(first_key > 0, maximum, new_maximum)
        rescale = tl.exp2(maximum - new_maximum)
        if RESCALED_BY == "its inverse":
            rescale = tl.exp2(new_maximum - maximum)
        if MAXIMUM == "of each block":
            rescale = tl.full([BLOCK_Q], 1.0, tl.float32)
        weights = tl.exp2(scores - new_maximum[:, None])
        if SAFE:  # where nothing was visible yet, nothing is added
            rescale = tl.where(maximum == -float("inf"), 1.0, rescale)
            weights = tl.where(visible, weights, 0.0)
        total = tl.sum(weights, 1)
        if DIVIDED == "in every block":
            weights = weights / total[:, None]
        if DENOMINATOR_RESCALED:
            denominator = denominator * rescale
        denominator += total
        if CONTEXT_RESCALED:
            context = context * rescale[:, None]
        read = keys
        if not VALUES_STEP:
            read = tl.arange(0, BLOCK_K)
        at = read[:, None] * value_row + value_columns[None, :] * value_column
        block = tl.load(value + at, mask=inside[:, None] & (value_columns[None, :] < value_width), other=0.0)
        context += tl.dot(weights.to(block.dtype), block, input_precision="ieee")
        if DIVIDED == "so far":
            context = context / denominator[:, None]
        if MAXIMUM != "never kept":
            maximum = new_maximum

    if DIVIDED == "at the end":
        context /= denominator[:, None]
    place = tl.program_id(1) * num_queries + rows
    at = place[:, None] * value_width + value_columns[None, :]
    seen = (rows[:, None] < num_queries) & (value_columns[None, :] < value_width)
    tl.store(output + at, context.to(output.dtype.element_ty), mask=seen)
    natural = (maximum + tl.log2(denominator)) / log2_e
    if LOGSUMEXP == "in base 2":
        natural = maximum + tl.log2(denominator)
    if LOGSUMEXP == "without the maximum":
        natural = tl.log(denominator)
    if LOGSUMEXP == "in two bases":
        natural = maximum + tl.log(denominator)
    if LOGSUMEXP == "of the sum alone":
        natural = maximum / log2_e + denominator
    if LOGSUMEXP == "the maximum alone":
        natural = maximum / log2_e
    if LOGSUMEXP == "of the inverse":
        natural = maximum / log2_e - tl.log(denominator)
    if LOGSUMEXP == "of unscaled scores":
        natural = maximum / log2_e / scale + tl.log(denominator)
    tl.store(logsumexp + place, natural.to(logsumexp.dtype.element_ty), mask=rows < num_queries)


RIGHT: dict[str, Any] = {
    "CONTEXT_RESCALED": True,
    "DENOMINATOR_RESCALED": True,
    "MAXIMUM": "right",
    "BEYOND_HIDDEN": True,
    "WHOLE_BLOCKS_ONLY": False,
    "COLUMNS_MASKED": True,
    "DIVIDED": "at the end",
    "VISIBLE": "right",
    "HIDDEN": -float("inf"),
    "LAST_BLOCK": "right",
    "LOGSUMEXP": "right",
    "EXCHANGED": "",
    "RESCALED_BY": "right",
    "SAFE": False,
    "KEYS_STEP": True,
    "VALUES_STEP": True,
}
LOG2_E = 1.4426950408889634


def _require(query: Tensor, key: Tensor, is_causal: bool) -> None:
    """What the contract refuses."""
    if is_causal and query.shape[2] != key.shape[2]:
        raise ValueError("is_causal needs as many queries as keys")


def _run(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, block_q: int, block_k: int,
    *, refuses: bool = True, scale: float | None = None, log2_e: float = LOG2_E, dense: bool = False,
    whole_grid: bool = True, dtype: torch.dtype | None = None, sum_dtype: torch.dtype = torch.float32,
    widths: tuple[int, int] | None = None, unwritten: float = math.nan, every_head: bool = True, **decisions: Any,
) -> Both:  # fmt: skip
    """Attention by the kernel above, with some decisions taken otherwise; `dense` strides are those of a contiguous
    tensor, whatever the tensor's are, `widths` those of the blocks, and `unwritten` is what no program writes."""
    if refuses:
        _require(query, key, is_causal)
    batch, heads, num_queries, width = query.shape
    num_keys, value_width = value.shape[2:]
    output = query.new_full((batch, heads, num_queries, value_width), unwritten, dtype=dtype or query.dtype)
    logsumexp = query.new_full((batch, heads, num_queries), unwritten, dtype=sum_dtype)
    strides = [_dense(x) if dense else x.stride() for x in (query, key, value)]
    blocks = triton.cdiv(num_queries, block_q) if whole_grid else num_queries // block_q
    if blocks:
        with np.errstate(all="ignore"):  # what overflows here is meant to
            _attend[(blocks, batch * heads if every_head else batch)](
                *(query, key, value, output, logsumexp),
                *(step for each in strides for step in each),
                *(heads, num_queries, num_keys, width, value_width, _reach(query), _reach(key)),
                *(width**-0.5 if scale is None else scale, log2_e),
                *(is_causal, block_q, block_k, *(widths or (_padded(width), _padded(value_width)))),
                *(RIGHT | decisions).values(),
                num_stages=1,
            )
    return output, logsumexp


def _by(**decisions: Any) -> Callable[[Callable[[], None]], Callable[..., Both]]:
    """The function with these decisions, under the name and with the words of what is decorated."""

    def made(words: Callable[[], None]) -> Callable[..., Both]:
        def flash_forward(
            query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
        ) -> Both:
            return _run(query, key, value, is_causal, block_q, block_k, **decisions)

        flash_forward.__name__, flash_forward.__doc__ = words.__name__, words.__doc__
        return flash_forward

    return made


def _padded(width: int) -> int:
    return max(16, triton.next_power_of_2(width))


def _dense(x: Tensor) -> tuple[int, ...]:
    _batch, heads, rows, columns = x.shape
    return heads * rows * columns, rows * columns, columns, 1


def _reach(x: Tensor) -> int:
    """The elements from the tensor's first to the last of its storage that belongs to it."""
    return 1 + sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))


# --- the running softmax ----------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
@_by(CONTEXT_RESCALED=False)
def context_not_rescaled() -> None:
    """The output was not rescaled when the maximum grew.

    What was added up before is in units of a smaller maximum, and so counts too much beside what comes after.

    By which factor do the weights of the earlier blocks change when the maximum grows?
    """


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
@_by(DENOMINATOR_RESCALED=False)
def denominator_not_rescaled() -> None:
    """The sum of the weights was not rescaled when the maximum grew.

    It then counts earlier keys in another unit than the output does, and the weights no longer sum to 1.

    Which two of your running values are sums of exponentials?
    """


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
@_by(MAXIMUM="of each block")
def each_block_its_own_maximum() -> None:
    """Each block of keys was taken relative to its own maximum, and the blocks were added up as they were.

    Blocks whose maxima differ are then added in different units.

    What has to happen to the sums so far before a block with another maximum is added?
    """


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
@_by(DIVIDED="in every block")
def divided_in_every_block() -> None:
    """The weights were divided by their sum in every block of keys.

    Each block then has a whole weight of 1, however small its scores are, and the output is the sum of the
    blocks' means.

    How often does a softmax over all keys divide?
    """


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
@_by(DIVIDED="never")
def never_divided() -> None:
    """The output was never divided by the sum of the weights.

    It is then a sum of values and not a mean of them.

    What do the weights of a query have to sum to?
    """


@misconception(replaces="flash_forward", caught_by="test_large_scores")
@_by(MAXIMUM="none")
def no_maximum() -> None:
    """No maximum was subtracted from the scores.

    The exponential of a score of 1000 is infinite in float32, and all of those of a row near -1000 are 0.

    What does exp give at 1000, and what at 0?
    """


@misconception(replaces="flash_forward", caught_by="test_large_scores")
@_by(MAXIMUM="from zero")
def maximum_from_zero() -> None:
    """The running maximum started at 0.

    Where all scores are far below 0, their exponentials relative to 0 are all 0, and 0 / 0 is NaN.

    Which number is smaller than every score?
    """


@misconception(replaces="flash_forward", caught_by="test_large_scores")
@_by(MAXIMUM="of the first block")
def maximum_of_the_first_block() -> None:
    """The maximum was taken from the first block of keys and kept for the others.

    A later key whose score is larger by 100 has an infinite exponential relative to it.

    What if the largest score is in the last block?
    """


@misconception(replaces="flash_forward", caught_by="test_large_scores")
@_by(MAXIMUM="one for the block")
def one_maximum_for_the_block() -> None:
    """One maximum served all queries of a block.

    A query whose scores are all far below those of its neighbours loses all its weights.

    Along which axis of a block of scores is the maximum of a query?
    """


# --- the keys ---------------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
@_by(BEYOND_HIDDEN=False)
def keys_beyond_the_end_attended() -> None:
    """The places of a block that lie beyond the last key were attended.

    They are read as 0, which is a score like any other and gets a weight.

    What should the score of a key be that does not exist?
    """


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
@_by(WHOLE_BLOCKS_ONLY=True)
def last_block_dropped() -> None:
    """The last block of keys was left out where it was not full.

    Its keys count like all others.

    How many blocks of 16 do 35 keys need?
    """


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
@_by(whole_grid=False)
def queries_of_the_last_block_dropped() -> None:
    """The grid had no program for the last block of queries where that was not full.

    These rows of the output were never written.

    What is the difference between T // block and triton.cdiv(T, block)?
    """


@misconception(replaces="flash_forward", caught_by="test_any_widths")
@_by(COLUMNS_MASKED=False)
def columns_not_masked() -> None:
    """Where the width is no power of two, the columns beyond it were read from what follows in memory.

    The next row begins there, and its numbers get into the scores.

    Which columns of the block does a row of width 20 fill, and what is read in the others?
    """


@misconception(replaces="flash_forward", caught_by="test_any_widths")
def only_powers_of_two(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The kernel worked only where the width is a power of two.

    tl.arange needs a power of two, and a head may be 20 or 80 wide.

    How can a block be wider than the row that it holds?
    """
    return _run(query, key, value, is_causal, block_q, block_k, widths=(query.shape[-1], value.shape[-1]))


@misconception(replaces="flash_forward", caught_by="test_any_widths")
def narrow_widths_fail(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The kernel worked only for widths from 16.

    A matrix product of blocks on the GPU needs 16 of each, but a width may be smaller: then the block is to be
    filled up.

    What can stand in the columns from d to 16 so that no product changes?
    """
    if min(query.shape[-1], value.shape[-1]) < 16:
        raise AssertionError("Input shapes should have M >= 1, N >= 1 and K >= 16")
    return _run(query, key, value, is_causal, block_q, block_k)


# --- the scores -------------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
@_by(scale=1.0)
def not_scaled() -> None:
    """The scores were not divided by the square root of d.

    Attention is scaled: without it the weights get sharper as the heads get wider.

    What does step 1 divide by?
    """


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
def scaled_by_the_width(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The scores were divided by d and not by its square root.

    They are then too small, and the weights too even.

    How does the spread of a sum of d products grow with d?
    """
    return _run(query, key, value, is_causal, block_q, block_k, scale=1.0 / query.shape[-1])


@misconception(replaces="flash_forward", caught_by="test_any_widths")
def scaled_by_the_padded_width(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The scores were divided by the square root of the width of the block, which was filled up to a power of
    two.

    The zeros that were added to fill it change no score, and are not to change the scale either.

    How wide is the query that you were given?
    """
    return _run(query, key, value, is_causal, block_q, block_k, scale=_padded(query.shape[-1]) ** -0.5)


@misconception(replaces="flash_forward", caught_by="test_any_widths")
def scaled_by_the_width_of_value(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The scores were divided by the square root of d_v.

    Scores are products of queries and keys: their width counts, which may differ from the value's.

    Which of the inputs go into a score?
    """
    return _run(query, key, value, is_causal, block_q, block_k, scale=value.shape[-1] ** -0.5)


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
@_by(log2_e=1.0)
def exp2_without_log2_e() -> None:
    """exp2 was taken of the scores without multiplying them by log2(e).

    2 to the power of x is smaller than e to the power of x, for x above 0: the weights are too even.

    By what has x to be multiplied so that 2 to that power is e to the power of x?
    """


# --- the causal mask --------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_causal")
@_by(VISIBLE="all", LAST_BLOCK="all")
def is_causal_ignored() -> None:
    """is_causal was not looked at: every query saw every key.

    A token would see what it is to predict.

    Where in your kernel does a position of a query meet a position of a key?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@_by(VISIBLE="all")
def future_in_the_diagonal_block() -> None:
    """Later blocks of keys were left out, and within the last one nothing was hidden.

    In the block on the diagonal, half of the keys are later than the query.

    Which queries may see the last key of their own block?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@_by(VISIBLE="one ahead")
def one_key_ahead() -> None:
    """Each query also saw the key after it.

    Query i attends to keys 0 to i, and key i + 1 is what it has to predict.

    Is the comparison of positions <= or <?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@_by(VISIBLE="not itself")
def own_key_hidden() -> None:
    """Each query saw only the keys before its own.

    Query i attends to keys 0 to i. The first query has then nothing to see at all, and is NaN.

    Is the comparison of positions <= or <?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@_by(VISIBLE="later", LAST_BLOCK="all")
def mask_turned_over() -> None:
    """Each query saw the later keys and not the earlier ones.

    The mask is the wrong way round: the past is hidden and the future visible.

    Which of the two positions is the larger one where a query may look?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@_by(VISIBLE="within the block")
def positions_within_the_block() -> None:
    """Positions were counted from the start of the block, for queries and for keys.

    They are right in the first block only. A query of the second block then sees too little of the first.

    What has to be added to tl.arange to get positions in the text?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@_by(LAST_BLOCK="before the diagonal")
def loop_ends_at_the_diagonal() -> None:
    """The loop over the keys ended before the block on the diagonal.

    A query's own block holds keys that it may see, its own first of all.

    Up to which key does the last query of the block look?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@_by(LAST_BLOCK="counted in blocks of queries")
def loop_counts_other_blocks() -> None:
    """The number of the block of queries was taken for a number of blocks of keys where the loop ends.

    It fits where both blocks are of one size, and looks at too little, or too much, where they differ.

    How many keys come before the end of the second block of queries?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@_by(HIDDEN=0.0)
def hidden_by_zero() -> None:
    """The scores of later keys were set to 0.

    0 is a score like any other, and gets a weight above 0.

    Of which score is the exponential 0?
    """


@misconception(replaces="flash_forward", caught_by="test_large_scores")
@_by(HIDDEN=-1000.0)
def hidden_by_a_finite_number() -> None:
    """Hidden scores were set to -1000.

    Where the visible scores of a row are near -1000 as well, what is hidden gets as much weight as they.

    Which number stays below every score?
    """


@misconception(replaces="flash_forward", caught_by="test_unequal_lengths_are_refused")
@_by(refuses=False)
def unequal_lengths_accepted() -> None:
    """is_causal was accepted with different numbers of queries and keys.

    It is not said then which query stands beside which key.

    Which error does the docstring ask for?
    """


# --- the logsumexp ----------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@_by(LOGSUMEXP="in base 2")
def logsumexp_in_base_2() -> None:
    """The logsumexp was left in base 2.

    log2(x) is larger than the natural logarithm by a factor of 1.44.

    How many natural units is a power of 2?
    """


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@_by(LOGSUMEXP="without the maximum")
def logsumexp_without_the_maximum() -> None:
    """The logsumexp was the logarithm of the sum alone, without the maximum.

    The sum is of exponentials relative to the maximum, which has to be added again.

    What is log(exp(m) * s)?
    """


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@_by(LOGSUMEXP="in two bases")
def logsumexp_in_two_bases() -> None:
    """The maximum in base 2 was added to a natural logarithm.

    The scores were multiplied by log2(e), and so their maximum is in other units than the logarithm.

    In which base is your running maximum?
    """


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@_by(LOGSUMEXP="of the sum alone")
def sum_in_place_of_its_logarithm() -> None:
    """The maximum and the sum were added without a logarithm.

    The logsumexp is the maximum plus the logarithm of the sum.

    What is log(exp(m) * s)?
    """


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@_by(LOGSUMEXP="the maximum alone")
def maximum_in_place_of_the_logsumexp() -> None:
    """The largest score was given back in place of the logsumexp.

    That is all of it only where one key outweighs all others.

    What is the logsumexp of three scores of 0?
    """


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@_by(LOGSUMEXP="of unscaled scores")
def logsumexp_of_unscaled_scores() -> None:
    """The maximum in the logsumexp was that of the scores before scaling.

    The weights are exponentials of the scaled scores, and so is their sum.

    Which scores did your exponentials get?
    """


# --- the running softmax, once more -----------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
@_by(RESCALED_BY="its inverse")
def rescaled_by_the_inverse() -> None:
    """The sums were rescaled by exp(new - old) where exp(old - new) is meant.

    When the maximum grows, what was added up before becomes smaller beside it. Before the first block the old maximum
    is -inf, so that the factor is infinite and the output NaN.

    What is the factor when the maximum grows by 3, above 1 or below?
    """


@misconception(replaces="flash_forward", caught_by="test_large_scores")
@_by(MAXIMUM="of the newest block")
def maximum_of_the_newest_block() -> None:
    """The maximum was that of the newest block, and not the largest score so far.

    It falls again where a block has smaller scores: what came before is then scaled up, until it overflows.

    Which of the two maxima is to be kept, that of the sums so far or that of the new block?
    """


@another_form(maximum_of_the_newest_block)
@_by(MAXIMUM="of the newest block", LAST_BLOCK="all")
def newest_maximum_of_hidden_blocks() -> None:
    """Blocks of later keys are gone through, too."""


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
@_by(MAXIMUM="never kept")
def maximum_never_kept() -> None:
    """The new maximum was not kept for the next block: the running one stayed at -inf.

    Each block then takes itself for the first one, and everything before it is multiplied by exp(-inf), which is 0.

    Which of the running values have to be set at the end of the loop?
    """


@another_form(divided_in_every_block)
@_by(DIVIDED="so far")
def context_divided_in_every_block() -> None:
    """What was added up so far is divided, again and again."""


@another_form(divided_in_every_block)
@_by(DIVIDED="in every block", LAST_BLOCK="all")
def hidden_blocks_divided() -> None:
    """Blocks of later keys are gone through, too, and their sum is 0."""


@another_form(each_block_its_own_maximum)
@_by(MAXIMUM="of each block", LAST_BLOCK="all")
def own_maximum_of_hidden_blocks() -> None:
    """Blocks of later keys are gone through, too."""


# --- what is read and written, once more ------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
@_by(KEYS_STEP=False)
def same_keys_in_every_block() -> None:
    """The keys of the first block were read again for every block.

    The loop counts on, but the addresses that it reads do not: they lack the block's first position.

    Which of your addresses depend on the position where a block of keys begins?
    """


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
@_by(VALUES_STEP=False)
def same_values_in_every_block() -> None:
    """The values of the first block were read again for every block.

    Weights of later keys then meet the values of the first ones.

    Which of your addresses depend on the position where a block of keys begins?
    """


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
@_by(every_head=False)
def one_head_of_each_sequence() -> None:
    """The grid had no programs for the other heads: it counted sequences only.

    Their part of the result is never written, and holds whatever was in memory.

    How many pairs of sequence and head are there, and who works on each?
    """


@another_form(one_head_of_each_sequence)
@_by(every_head=False, unwritten=0.0)
def other_heads_left_at_zero() -> None:
    """The result was made of zeros."""


@another_form(queries_of_the_last_block_dropped)
@_by(whole_grid=False, unwritten=0.0)
def last_queries_left_at_zero() -> None:
    """The result was made of zeros."""


@another_form(only_powers_of_two)
def value_not_padded(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The width of the value alone."""
    return _run(query, key, value, is_causal, block_q, block_k, widths=(_padded(query.shape[-1]), value.shape[-1]))


@misconception(replaces="flash_forward", caught_by="test_any_widths")
def value_as_wide_as_the_key(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The block of values was made as wide as that of the keys.

    d_v may be larger than d: the columns beyond are never written.

    Which of your blocks depend on d, and which on d_v?
    """
    return _run(query, key, value, is_causal, block_q, block_k, widths=(_padded(query.shape[-1]),) * 2)


@misconception(replaces="flash_forward", caught_by="test_any_widths")
@_by(widths=(64, 64))
def width_always_64() -> None:
    """The blocks were 64 columns wide, whatever the width is.

    What lies beyond column 64 is neither read nor written, and d and d_v may be up to 128.

    How wide does a block have to be for d = 72?
    """


# --- the causal mask and the logsumexp, once more ---------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
def always_causal(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Later keys were hidden without is_causal, too.

    Without it every query sees all keys, however many of them there are.

    What does the kernel do differently when is_causal is False?
    """
    _require(query, key, is_causal)
    return _run(query, key, value, True, block_q, block_k, refuses=False)


@another_form(mask_turned_over)
@_by(VISIBLE="later", LAST_BLOCK="all", SAFE=True)
def hidden_blocks_add_nothing() -> None:
    """Blocks in which a query sees nothing add nothing."""


@another_form(positions_within_the_block)
@_by(VISIBLE="keys within the block")
def keys_within_the_block() -> None:
    """Those of the keys alone."""


@another_form(positions_within_the_block)
@_by(VISIBLE="queries within the block", LAST_BLOCK="all")
def queries_within_the_block() -> None:
    """Those of the queries alone."""


@another_form(one_key_ahead)
@_by(VISIBLE="one ahead", LAST_BLOCK="all")
def one_key_ahead_in_any_block() -> None:
    """Blocks of later keys are gone through, too."""


@another_form(hidden_by_zero)
@_by(HIDDEN=0.0, LAST_BLOCK="all")
def hidden_by_zero_in_any_block() -> None:
    """Blocks of later keys are gone through, too."""


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@_by(LOGSUMEXP="of the inverse")
def logarithm_subtracted() -> None:
    """The logarithm of the sum was subtracted from the maximum.

    The logsumexp is at least as large as the largest score, since every other key adds to the sum.

    What is log(exp(m) * s)?
    """


# --- the tensors ------------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_halves_strides_and_inputs")
@_by(dense=True)
def strides_taken_for_granted() -> None:
    """The kernel took every input for contiguous.

    Heads out of a split are transposed views: the next row is elsewhere than after the last column.

    What does query.stride() say, and does the kernel get it?
    """


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
@_by(EXCHANGED="batch and head")
def batch_and_head_exchanged() -> None:
    """The number of a program was split into batch and head in the wrong way.

    Programs then read one head and write another.

    In which order do the heads of the sequences lie in the output?
    """


@misconception(replaces="flash_forward", caught_by="test_halves_strides_and_inputs")
@_by(dtype=torch.float32)
def output_always_float32() -> None:
    """The output was float32 also for a float16 input.

    Sums are float32, but what is given back has the dtype of the query.

    Where is the dtype of your output decided?
    """


@misconception(replaces="flash_forward", caught_by="test_halves_strides_and_inputs")
def logsumexp_in_the_inputs_dtype(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The logsumexp was float16 for a float16 input.

    It is float32 always: a backward pass takes exponentials of it.

    Which dtype does the docstring give for the logsumexp?
    """
    return _run(query, key, value, is_causal, block_q, block_k, sum_dtype=query.dtype)


@misconception(replaces="flash_forward", caught_by="test_halves_strides_and_inputs")
def query_scaled_in_place(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The query was multiplied by the scale in place.

    It belongs to the caller, who may go on with it.

    Which of your lines writes into a tensor that you were given?
    """
    scale = query.shape[-1] ** -0.5
    return _run(query.mul_(scale), key, value, is_causal, block_q, block_k, scale=1.0)


# --- the kernel -------------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_the_kernel_does_it", misses_the_point=True)
def by_torch(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Torch did the products and the softmax, and no kernel was launched.

    That is step 3: every intermediate matrix goes out to the GPU's memory and back, which is what a kernel is for.

    Which of your functions is decorated with @triton.jit, and who launches it?
    """
    _require(query, key, is_causal)
    scores = (query @ key.mT).float() * query.shape[-1] ** -0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return torch.softmax(scores, dim=-1).to(value.dtype) @ value, torch.logsumexp(scores, dim=-1)


@misconception(replaces="flash_forward", caught_by="test_the_kernel_does_it", misses_the_point=True)
def by_the_built_in(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """scaled_dot_product_attention did the work.

    It is what your kernel is to be compared with.

    What happens between loading a block of keys and storing a block of the output?
    """
    _require(query, key, is_causal)
    output = F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
    return output, (query @ key.mT).float().logsumexp(dim=-1)


@triton.jit
def _copy(x, out, elements, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < elements, other=0.0), mask=at < elements)


@misconception(replaces="flash_forward", caught_by="test_the_kernel_does_it", misses_the_point=True)
def kernel_that_copies(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """A kernel was launched that only copies, and torch did the rest.

    The products, the exponentials and the sums are the kernel's work.

    Which line of your kernel multiplies queries and keys?
    """
    _require(query, key, is_causal)
    dense = query.contiguous()
    copied = torch.empty_like(dense)
    _copy[(triton.cdiv(dense.numel(), 64),)](dense, copied, dense.numel(), 64)
    output, logsumexp = by_torch(copied, key, value, is_causal)
    return output, logsumexp


@triton.jit
def _scores(
    query, key, scores, query_head, query_row, query_column, key_head, key_row, key_column, num_queries, num_keys,
    width, scale, IS_CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    keys, columns = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K), tl.arange(0, WIDTH)
    at = tl.program_id(2) * query_head + rows[:, None] * query_row + columns[None, :] * query_column
    queries = tl.load(query + at, mask=(rows[:, None] < num_queries) & (columns[None, :] < width), other=0.0)
    at = tl.program_id(2) * key_head + keys[:, None] * key_row + columns[None, :] * key_column
    block = tl.load(key + at, mask=(keys[:, None] < num_keys) & (columns[None, :] < width), other=0.0)
    found = tl.dot(queries, tl.trans(block), input_precision="ieee") * scale
    if IS_CAUSAL:
        found = tl.where(keys[None, :] <= rows[:, None], found, -float("inf"))
    at = (tl.program_id(2) * num_queries + rows[:, None]) * num_keys + keys[None, :]
    tl.store(scores + at, found, mask=(rows[:, None] < num_queries) & (keys[None, :] < num_keys))


@triton.jit
def _rows_of(
    scores, value, output, logsumexp, value_head, value_row, value_column, num_queries, num_keys, value_width,
    KEYS: tl.constexpr, VALUE_WIDTH: tl.constexpr,
):  # fmt: skip
    keys, columns = tl.arange(0, KEYS), tl.arange(0, VALUE_WIDTH)
    place = tl.program_id(1) * num_queries + tl.program_id(0)
    found = tl.load(scores + place * num_keys + keys, mask=keys < num_keys, other=-float("inf"))
    maximum = tl.max(found, 0)
    weights = tl.exp(found - maximum)
    total = tl.sum(weights, 0)
    at = tl.program_id(1) * value_head + keys[:, None] * value_row + columns[None, :] * value_column
    block = tl.load(value + at, mask=(keys[:, None] < num_keys) & (columns[None, :] < value_width), other=0.0)
    context = tl.sum(weights[:, None] * block, 0) / total
    tl.store(output + place * value_width + columns, context.to(output.dtype.element_ty), mask=columns < value_width)
    tl.store(logsumexp + place, maximum + tl.log(total))


@misconception(replaces="flash_forward", caught_by="test_the_kernel_does_it", misses_the_point=True)
def whole_matrix_in_memory(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """One kernel wrote all scores into a tensor, and another read them again.

    That is the T_q x T_k matrix that flash attention is there to avoid: it goes out to the GPU's memory and back.

    How long does a block of scores have to live?
    """
    _require(query, key, is_causal)
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    batch, heads, num_queries, width = query.shape
    num_keys, value_width = value.shape[2:]
    scores = query.new_empty(batch * heads, num_queries, num_keys, dtype=torch.float32)
    output = query.new_empty(batch, heads, num_queries, value_width)
    logsumexp = query.new_empty(batch, heads, num_queries, dtype=torch.float32)
    grid = (triton.cdiv(num_queries, block_q), triton.cdiv(num_keys, block_k), batch * heads)
    _scores[grid](
        *(query, key, scores, *query.stride()[1:], *key.stride()[1:], num_queries, num_keys, width, width**-0.5),
        *(is_causal, block_q, block_k, _padded(width)),
    )
    _rows_of[(num_queries, batch * heads)](
        *(scores, value, output, logsumexp, *value.stride()[1:], num_queries, num_keys, value_width),
        *(triton.next_power_of_2(num_keys), _padded(value_width)),
    )
    return output, logsumexp


# --- two at once ------------------------------------------------------------------------------------------------------

SCALES: dict[Any, dict[str, Any]] = {not_scaled: {"scale": 1.0}, exp2_without_log2_e: {"log2_e": 1.0}}
SUMS: dict[Any, dict[str, Any]] = {
    context_not_rescaled: {"CONTEXT_RESCALED": False},
    denominator_not_rescaled: {"DENOMINATOR_RESCALED": False},
    divided_in_every_block: {"DIVIDED": "in every block"},
    no_maximum: {"MAXIMUM": "none"},
}
MASKS: dict[Any, dict[str, Any]] = {
    is_causal_ignored: {"VISIBLE": "all", "LAST_BLOCK": "all"},
    one_key_ahead: {"VISIBLE": "one ahead"},
    keys_beyond_the_end_attended: {"BEYOND_HIDDEN": False},
}
LOGARITHMS: dict[Any, dict[str, Any]] = {
    logsumexp_in_base_2: {"LOGSUMEXP": "in base 2"},
    logsumexp_without_the_maximum: {"LOGSUMEXP": "without the maximum"},
}


def _both(first: dict[str, Any], second: dict[str, Any]) -> object:
    def flash_forward(
        query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
    ) -> Both:
        return _run(query, key, value, is_causal, block_q, block_k, **first, **second)

    return flash_forward


# Few: each is recorded for a learner's kit, and the interpreter is slow.
PAIRS = [
    *together(SCALES, SUMS, _both),
    *together({not_scaled: SCALES[not_scaled]}, MASKS, _both),
    *together({context_not_rescaled: SUMS[context_not_rescaled]}, LOGARITHMS, _both),
    *together(
        {context_not_rescaled: SUMS[context_not_rescaled]},
        {denominator_not_rescaled: SUMS[denominator_not_rescaled]},
        _both,
    ),
]
