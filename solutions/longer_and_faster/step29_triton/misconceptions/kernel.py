"""One kernel that takes every decision in the right way or in a wrong one."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

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
    if LOGSUMEXP == "in the other two bases":
        natural = maximum / log2_e + tl.log2(denominator)
    if LOGSUMEXP == "the sum itself":
        natural = denominator
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


def require(query: Tensor, key: Tensor, is_causal: bool) -> None:
    """What the contract refuses."""
    if is_causal and query.shape[2] != key.shape[2]:
        raise ValueError("is_causal needs as many queries as keys")


def run(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool, block_q: int, block_k: int,
    *, refuses: bool = True, scale: float | None = None, log2_e: float = LOG2_E, dense: bool = False,
    whole_grid: bool = True, dtype: torch.dtype | None = None, sum_dtype: torch.dtype = torch.float32,
    widths: tuple[int, int] | None = None, unwritten: float = math.nan, every_head: bool = True, **decisions: Any,
) -> Both:  # fmt: skip
    """Attention by the kernel above, with some decisions taken otherwise; `dense` strides are those of a contiguous
    tensor, whatever the tensor's are, `widths` those of the blocks, and `unwritten` is what no program writes."""
    if refuses:
        require(query, key, is_causal)
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
                *(is_causal, block_q, block_k, *(widths or (padded(width), padded(value_width)))),
                *(RIGHT | decisions).values(),
                num_stages=1,
            )
    return output, logsumexp


def by(**decisions: Any) -> Callable[[Callable[[], None]], Callable[..., Both]]:
    """The function with these decisions, under the name and with the words of what is decorated."""

    def made(words: Callable[[], None]) -> Callable[..., Both]:
        def flash_forward(
            query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
        ) -> Both:
            return run(query, key, value, is_causal, block_q, block_k, **decisions)

        flash_forward.__name__, flash_forward.__doc__ = words.__name__, words.__doc__
        return flash_forward

    return made


def padded(width: int) -> int:
    return max(16, triton.next_power_of_2(width))


def _dense(x: Tensor) -> tuple[int, ...]:
    _batch, heads, rows, columns = x.shape
    return heads * rows * columns, rows * columns, columns, 1


def _reach(x: Tensor) -> int:
    """The elements from the tensor's first to the last of its storage that belongs to it."""
    return 1 + sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
