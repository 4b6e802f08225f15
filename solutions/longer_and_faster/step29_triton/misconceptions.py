"""What learners get wrong in step 29, each with the check that catches it.

One kernel takes every decision in the right way or in a wrong one. What a wrong way reads stays inside of the tensors:
these run in the judge, which has to survive them.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from grader.checks.catalogue import misconception, together

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
    LOGSUMEXP: tl.constexpr, EXCHANGED: tl.constexpr,
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
        at = key_at + keys[:, None] * key_row + columns[None, :] * key_column
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
        scores = tl.where(visible, scores, HIDDEN)

        new_maximum = tl.maximum(maximum, tl.max(scores, 1))
        if MAXIMUM == "none":
            new_maximum = maximum
        if MAXIMUM == "one for the block":
            new_maximum = tl.maximum(maximum, tl.max(tl.max(scores, 1), 0))
        if MAXIMUM == "of each block":
            new_maximum = tl.max(scores, 1)
        if MAXIMUM == "of the first block":
            new_maximum = tl.where(first_key > 0, maximum, new_maximum)
        rescale = tl.exp2(maximum - new_maximum)
        if MAXIMUM == "of each block":
            rescale = tl.full([BLOCK_Q], 1.0, tl.float32)
        weights = tl.exp2(scores - new_maximum[:, None])
        total = tl.sum(weights, 1)
        if DIVIDED == "in every block":
            weights = weights / total[:, None]
        if DENOMINATOR_RESCALED:
            denominator = denominator * rescale
        denominator += total
        if CONTEXT_RESCALED:
            context = context * rescale[:, None]
        at = keys[:, None] * value_row + value_columns[None, :] * value_column
        block = tl.load(value + at, mask=inside[:, None] & (value_columns[None, :] < value_width), other=0.0)
        context += tl.dot(weights.to(block.dtype), block, input_precision="ieee")
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
    **decisions: Any,
) -> Both:  # fmt: skip
    """Attention by the kernel above, with some decisions taken otherwise; `dense` strides are those of a contiguous
    tensor, whatever the tensor's are."""
    if refuses:
        _require(query, key, is_causal)
    batch, heads, num_queries, width = query.shape
    num_keys, value_width = value.shape[2:]
    output = query.new_zeros(batch, heads, num_queries, value_width, dtype=dtype or query.dtype)
    logsumexp = query.new_zeros(batch, heads, num_queries, dtype=sum_dtype)
    strides = [_dense(x) if dense else x.stride() for x in (query, key, value)]
    blocks = triton.cdiv(num_queries, block_q) if whole_grid else num_queries // block_q
    if blocks:
        with np.errstate(all="ignore"):  # what overflows here is meant to
            _attend[(blocks, batch * heads)](
                *(query, key, value, output, logsumexp),
                *(step for each in strides for step in each),
                *(heads, num_queries, num_keys, width, value_width, _reach(query), _reach(key)),
                *(width**-0.5 if scale is None else scale, log2_e),
                *(is_causal, block_q, block_k, _padded(width), _padded(value_width)),
                *(RIGHT | decisions).values(),
                num_stages=1,
            )
    return output, logsumexp


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
def context_not_rescaled(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The output was not rescaled when the maximum grew.

    What was added up before is in units of a smaller maximum, and so counts too much beside what comes after.

    By which factor do the weights of the earlier blocks change when the maximum grows?
    """
    return _run(query, key, value, is_causal, block_q, block_k, CONTEXT_RESCALED=False)


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
def denominator_not_rescaled(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The sum of the weights was not rescaled when the maximum grew.

    It then counts earlier keys in another unit than the output does, and the weights no longer sum to 1.

    Which two of your running values are sums of exponentials?
    """
    return _run(query, key, value, is_causal, block_q, block_k, DENOMINATOR_RESCALED=False)


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
def each_block_its_own_maximum(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Each block of keys was taken relative to its own maximum, and the blocks were added up as they were.

    Blocks whose maxima differ are then added in different units.

    What has to happen to the sums so far before a block with another maximum is added?
    """
    return _run(query, key, value, is_causal, block_q, block_k, MAXIMUM="of each block")


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
def divided_in_every_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The weights were divided by their sum in every block of keys.

    Each block then has a whole weight of 1, however small its scores are, and the output is the sum of the
    blocks' means.

    How often does a softmax over all keys divide?
    """
    return _run(query, key, value, is_causal, block_q, block_k, DIVIDED="in every block")


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
def never_divided(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The output was never divided by the sum of the weights.

    It is then a sum of values and not a mean of them.

    What do the weights of a query have to sum to?
    """
    return _run(query, key, value, is_causal, block_q, block_k, DIVIDED="never")


@misconception(replaces="flash_forward", caught_by="test_large_scores")
def no_maximum(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """No maximum was subtracted from the scores.

    The exponential of a score of 1000 is infinite in float32, and all of those of a row near -1000 are 0.

    What does exp give at 1000, and what at 0?
    """
    return _run(query, key, value, is_causal, block_q, block_k, MAXIMUM="none")


@misconception(replaces="flash_forward", caught_by="test_large_scores")
def maximum_from_zero(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The running maximum started at 0.

    Where all scores are far below 0, their exponentials relative to 0 are all 0, and 0 / 0 is NaN.

    Which number is smaller than every score?
    """
    return _run(query, key, value, is_causal, block_q, block_k, MAXIMUM="from zero")


@misconception(replaces="flash_forward", caught_by="test_large_scores")
def maximum_of_the_first_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The maximum was taken from the first block of keys and kept for the others.

    A later key whose score is larger by 100 has an infinite exponential relative to it.

    What if the largest score is in the last block?
    """
    return _run(query, key, value, is_causal, block_q, block_k, MAXIMUM="of the first block")


@misconception(replaces="flash_forward", caught_by="test_large_scores")
def one_maximum_for_the_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """One maximum served all queries of a block.

    A query whose scores are all far below those of its neighbours loses all its weights.

    Along which axis of a block of scores is the maximum of a query?
    """
    return _run(query, key, value, is_causal, block_q, block_k, MAXIMUM="one for the block")


# --- the keys ---------------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
def keys_beyond_the_end_attended(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The places of a block that lie beyond the last key were attended.

    They are read as 0, which is a score like any other and gets a weight.

    What should the score of a key be that does not exist?
    """
    return _run(query, key, value, is_causal, block_q, block_k, BEYOND_HIDDEN=False)


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
def last_block_dropped(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The last block of keys was left out where it was not full.

    Its keys count like all others.

    How many blocks of 16 do 35 keys need?
    """
    return _run(query, key, value, is_causal, block_q, block_k, WHOLE_BLOCKS_ONLY=True)


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
def queries_of_the_last_block_dropped(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The grid had no program for the last block of queries where that was not full.

    These rows of the output were never written.

    What is the difference between T // block and triton.cdiv(T, block)?
    """
    return _run(query, key, value, is_causal, block_q, block_k, whole_grid=False)


@misconception(replaces="flash_forward", caught_by="test_any_widths")
def columns_not_masked(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Where the width is no power of two, the columns beyond it were read from what follows in memory.

    The next row begins there, and its numbers get into the scores.

    Which columns of the block does a row of width 20 fill, and what is read in the others?
    """
    return _run(query, key, value, is_causal, block_q, block_k, COLUMNS_MASKED=False)


@misconception(replaces="flash_forward", caught_by="test_any_widths")
def only_powers_of_two(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The kernel worked only where the width is a power of two.

    tl.arange needs a power of two, and a head may be 20 or 80 wide.

    How can a block be wider than the row that it holds?
    """
    if any(width & (width - 1) for width in (query.shape[-1], value.shape[-1])):
        raise ValueError("arange's range must be a power of 2")
    return _run(query, key, value, is_causal, block_q, block_k)


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
def not_scaled(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The scores were not divided by the square root of d.

    Attention is scaled: without it the weights get sharper as the heads get wider.

    What does step 1 divide by?
    """
    return _run(query, key, value, is_causal, block_q, block_k, scale=1.0)


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
def exp2_without_log2_e(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """exp2 was taken of the scores without multiplying them by log2(e).

    2 to the power of x is smaller than e to the power of x, for x above 0: the weights are too even.

    By what has x to be multiplied so that 2 to that power is e to the power of x?
    """
    return _run(query, key, value, is_causal, block_q, block_k, log2_e=1.0)


# --- the causal mask --------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_causal")
def is_causal_ignored(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """is_causal was not looked at: every query saw every key.

    A token would see what it is to predict.

    Where in your kernel does a position of a query meet a position of a key?
    """
    return _run(query, key, value, is_causal, block_q, block_k, VISIBLE="all", LAST_BLOCK="all")


@misconception(replaces="flash_forward", caught_by="test_causal")
def future_in_the_diagonal_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Later blocks of keys were left out, and within the last one nothing was hidden.

    In the block on the diagonal, half of the keys are later than the query.

    Which queries may see the last key of their own block?
    """
    return _run(query, key, value, is_causal, block_q, block_k, VISIBLE="all")


@misconception(replaces="flash_forward", caught_by="test_causal")
def one_key_ahead(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Each query also saw the key after it.

    Query i attends to keys 0 to i, and key i + 1 is what it has to predict.

    Is the comparison of positions <= or <?
    """
    return _run(query, key, value, is_causal, block_q, block_k, VISIBLE="one ahead")


@misconception(replaces="flash_forward", caught_by="test_causal")
def own_key_hidden(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Each query saw only the keys before its own.

    Query i attends to keys 0 to i. The first query has then nothing to see at all, and is NaN.

    Is the comparison of positions <= or <?
    """
    return _run(query, key, value, is_causal, block_q, block_k, VISIBLE="not itself")


@misconception(replaces="flash_forward", caught_by="test_causal")
def mask_turned_over(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Each query saw the later keys and not the earlier ones.

    The mask is the wrong way round: the past is hidden and the future visible.

    Which of the two positions is the larger one where a query may look?
    """
    return _run(query, key, value, is_causal, block_q, block_k, VISIBLE="later", LAST_BLOCK="all")


@misconception(replaces="flash_forward", caught_by="test_causal")
def positions_within_the_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Positions were counted from the start of the block, for queries and for keys.

    They are right in the first block only. A query of the second block then sees too little of the first.

    What has to be added to tl.arange to get positions in the text?
    """
    return _run(query, key, value, is_causal, block_q, block_k, VISIBLE="within the block")


@misconception(replaces="flash_forward", caught_by="test_causal")
def loop_ends_at_the_diagonal(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The loop over the keys ended before the block on the diagonal.

    A query's own block holds keys that it may see, its own first of all.

    Up to which key does the last query of the block look?
    """
    return _run(query, key, value, is_causal, block_q, block_k, LAST_BLOCK="before the diagonal")


@misconception(replaces="flash_forward", caught_by="test_causal")
def loop_counts_other_blocks(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The number of the block of queries was taken for a number of blocks of keys where the loop ends.

    It fits where both blocks are of one size, and looks at too little, or too much, where they differ.

    How many keys come before the end of the second block of queries?
    """
    return _run(query, key, value, is_causal, block_q, block_k, LAST_BLOCK="counted in blocks of queries")


@misconception(replaces="flash_forward", caught_by="test_causal")
def hidden_by_zero(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The scores of later keys were set to 0.

    0 is a score like any other, and gets a weight above 0.

    Of which score is the exponential 0?
    """
    return _run(query, key, value, is_causal, block_q, block_k, HIDDEN=0.0)


@misconception(replaces="flash_forward", caught_by="test_large_scores")
def hidden_by_a_finite_number(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Hidden scores were set to -1000.

    Where the visible scores of a row are near -1000 as well, what is hidden gets as much weight as they.

    Which number stays below every score?
    """
    return _run(query, key, value, is_causal, block_q, block_k, HIDDEN=-1000.0)


@misconception(replaces="flash_forward", caught_by="test_unequal_lengths_are_refused")
def unequal_lengths_accepted(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """is_causal was accepted with different numbers of queries and keys.

    It is not said then which query stands beside which key.

    Which error does the docstring ask for?
    """
    return _run(query, key, value, is_causal, block_q, block_k, refuses=False)


# --- the logsumexp ----------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
def logsumexp_in_base_2(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The logsumexp was left in base 2.

    log2(x) is larger than the natural logarithm by a factor of 1.44.

    How many natural units is a power of 2?
    """
    return _run(query, key, value, is_causal, block_q, block_k, LOGSUMEXP="in base 2")


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
def logsumexp_without_the_maximum(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The logsumexp was the logarithm of the sum alone, without the maximum.

    The sum is of exponentials relative to the maximum, which has to be added again.

    What is log(exp(m) * s)?
    """
    return _run(query, key, value, is_causal, block_q, block_k, LOGSUMEXP="without the maximum")


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
def logsumexp_in_two_bases(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The maximum in base 2 was added to a natural logarithm.

    The scores were multiplied by log2(e), and so their maximum is in other units than the logarithm.

    In which base is your running maximum?
    """
    return _run(query, key, value, is_causal, block_q, block_k, LOGSUMEXP="in two bases")


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
def sum_in_place_of_its_logarithm(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The maximum and the sum were added without a logarithm.

    The logsumexp is the maximum plus the logarithm of the sum.

    What is log(exp(m) * s)?
    """
    return _run(query, key, value, is_causal, block_q, block_k, LOGSUMEXP="of the sum alone")


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
def maximum_in_place_of_the_logsumexp(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The largest score was given back in place of the logsumexp.

    That is all of it only where one key outweighs all others.

    What is the logsumexp of three scores of 0?
    """
    return _run(query, key, value, is_causal, block_q, block_k, LOGSUMEXP="the maximum alone")


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
def logsumexp_of_unscaled_scores(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The maximum in the logsumexp was that of the scores before scaling.

    The weights are exponentials of the scaled scores, and so is their sum.

    Which scores did your exponentials get?
    """
    return _run(query, key, value, is_causal, block_q, block_k, LOGSUMEXP="of unscaled scores")


# --- the tensors ------------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_halves_strides_and_inputs")
def strides_taken_for_granted(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The kernel took every input for contiguous.

    Heads out of a split are transposed views: the next row is elsewhere than after the last column.

    What does query.stride() say, and does the kernel get it?
    """
    return _run(query, key, value, is_causal, block_q, block_k, dense=True)


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
def batch_and_head_exchanged(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The number of a program was split into batch and head in the wrong way.

    Programs then read one head and write another.

    In which order do the heads of the sequences lie in the output?
    """
    return _run(query, key, value, is_causal, block_q, block_k, EXCHANGED="batch and head")


@misconception(replaces="flash_forward", caught_by="test_halves_strides_and_inputs")
def output_always_float32(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The output was float32 also for a float16 input.

    Sums are float32, but what is given back has the dtype of the query.

    Where is the dtype of your output decided?
    """
    return _run(query, key, value, is_causal, block_q, block_k, dtype=torch.float32)


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
]
