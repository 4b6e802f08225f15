"""Right ways to write step 29 that are not the reference's."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from grader.checks.catalogue import variant

Both = tuple[Tensor, Tensor]


def _empty(query: Tensor, value: Tensor) -> Both:
    """The two results, not yet filled."""
    output = query.new_empty(*query.shape[:3], value.shape[-1])
    return output, query.new_empty(query.shape[:3], dtype=torch.float32)


def _require(query: Tensor, key: Tensor, is_causal: bool) -> None:
    if is_causal and query.shape[2] != key.shape[2]:
        raise ValueError("lengths differ")


def _padded(width: int) -> int:
    return max(16, triton.next_power_of_2(width))


@triton.jit
def _all_blocks(
    query, key, value, output, logsumexp, num_queries, num_keys, width, value_width, scale,
    IS_CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    rows = tl.program_id(1) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns, value_columns = tl.arange(0, WIDTH), tl.arange(0, VALUE_WIDTH)
    at = (head * num_queries + rows[:, None]) * width + columns[None, :]
    queries = tl.load(query + at, mask=(rows[:, None] < num_queries) & (columns[None, :] < width), other=0.0)
    maximum = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    context = tl.zeros([BLOCK_Q, VALUE_WIDTH], tl.float32)
    for start in range(0, num_keys, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        # Read as its transpose, one key in each column.
        at = (head * num_keys + keys[None, :]) * width + columns[:, None]
        block = tl.load(key + at, mask=(keys[None, :] < num_keys) & (columns[:, None] < width), other=0.0)
        scores = tl.dot(queries, block, input_precision="ieee") * scale
        visible = keys[None, :] < num_keys
        if IS_CAUSAL:
            visible = visible & (rows[:, None] >= keys[None, :])
        scores += tl.where(visible, 0.0, float("-inf"))
        larger = tl.maximum(maximum, tl.max(scores, axis=1))
        weights = tl.exp(scores - larger[:, None])
        rescale = tl.exp(maximum - larger)
        at = (head * num_keys + keys[:, None]) * value_width + value_columns[None, :]
        inside = (keys[:, None] < num_keys) & (value_columns[None, :] < value_width)
        block = tl.load(value + at, mask=inside, other=0.0).to(tl.float32)
        context = tl.dot(weights, block, acc=context * rescale[:, None], input_precision="ieee")
        total = total * rescale + tl.sum(weights, axis=1)
        maximum = larger
    at = (head * num_queries + rows[:, None]) * value_width + value_columns[None, :]
    seen = (rows[:, None] < num_queries) & (value_columns[None, :] < value_width)
    tl.store(output + at, (context / total[:, None]).to(output.dtype.element_ty), mask=seen)
    tl.store(logsumexp + head * num_queries + rows, maximum + tl.log(total), mask=rows < num_queries)


@variant(replaces="flash_forward")
def every_block_and_powers_of_e(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Contiguous copies; every block of keys is looked at and masked; natural exponentials; keys read transposed."""
    _require(query, key, is_causal)
    output, logsumexp = _empty(query, value)
    batch, heads, num_queries, width = query.shape
    grid = (batch * heads, triton.cdiv(num_queries, block_q))
    _all_blocks[grid](
        *(query.contiguous(), key.contiguous(), value.contiguous(), output, logsumexp),
        *(num_queries, key.shape[2], width, value.shape[3], width**-0.5),
        *(is_causal, block_q, block_k, _padded(width), _padded(value.shape[3])),
        num_stages=1,
    )
    return output, logsumexp


@variant(
    replaces="flash_forward",
    trades="The kernel needs fewer masks; the inputs are copied before each launch.",
)
def filled_up_by_torch(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The widths are filled up with zeros before the launch and cut after it; blocks have a size of their own."""
    _require(query, key, is_causal)
    width, value_width = query.shape[3], value.shape[3]
    query, key = (F.pad(x, (0, _padded(width) - width)) for x in (query, key))
    value = F.pad(value, (0, _padded(value_width) - value_width))
    output, logsumexp = _empty(query, value)
    batch, heads, num_queries, padded = query.shape
    grid = (batch * heads, triton.cdiv(num_queries, 32))
    _all_blocks[grid](
        *(query.contiguous(), key.contiguous(), value.contiguous(), output, logsumexp),
        *(num_queries, key.shape[2], padded, value.shape[3], width**-0.5),
        *(is_causal, 32, 32, padded, value.shape[3]),
        num_stages=1,
    )
    return output[..., :value_width], logsumexp


@triton.jit
def _maxima_and_sums(
    query, key, logsumexp, query_head, query_row, query_column, key_head, key_row, key_column, num_queries, num_keys,
    width, scale, IS_CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    rows, columns = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q), tl.arange(0, WIDTH)
    at = tl.program_id(1) * query_head + rows[:, None] * query_row + columns[None, :] * query_column
    queries = tl.load(query + at, mask=(rows[:, None] < num_queries) & (columns[None, :] < width), other=0.0)
    maximum = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    for start in range(0, num_keys, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        at = tl.program_id(1) * key_head + keys[:, None] * key_row + columns[None, :] * key_column
        block = tl.load(key + at, mask=(keys[:, None] < num_keys) & (columns[None, :] < width), other=0.0)
        scores = tl.dot(queries, tl.trans(block), input_precision="ieee") * scale
        visible = (keys[None, :] < num_keys) & ((keys[None, :] <= rows[:, None]) | (not IS_CAUSAL))
        scores = tl.where(visible, scores, float("-inf"))
        larger = tl.maximum(maximum, tl.max(scores, 1))
        total = total * tl.exp(maximum - larger) + tl.sum(tl.exp(scores - larger[:, None]), 1)
        maximum = larger
    tl.store(logsumexp + tl.program_id(1) * num_queries + rows, maximum + tl.log(total), mask=rows < num_queries)


@triton.jit
def _weighted(
    query, key, value, output, logsumexp, query_head, query_row, query_column, key_head, key_row, key_column,
    value_head, value_row, value_column, num_queries, num_keys, width, value_width, scale, IS_CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    rows, columns = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q), tl.arange(0, WIDTH)
    value_columns = tl.arange(0, VALUE_WIDTH)
    at = head * query_head + rows[:, None] * query_row + columns[None, :] * query_column
    queries = tl.load(query + at, mask=(rows[:, None] < num_queries) & (columns[None, :] < width), other=0.0)
    total = tl.load(logsumexp + head * num_queries + rows, mask=rows < num_queries, other=0.0)
    context = tl.zeros([BLOCK_Q, VALUE_WIDTH], tl.float32)
    for start in range(0, num_keys, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        at = head * key_head + keys[:, None] * key_row + columns[None, :] * key_column
        block = tl.load(key + at, mask=(keys[:, None] < num_keys) & (columns[None, :] < width), other=0.0)
        scores = tl.dot(queries, tl.trans(block), input_precision="ieee") * scale
        visible = (keys[None, :] < num_keys) & ((keys[None, :] <= rows[:, None]) | (not IS_CAUSAL))
        # Rows beyond the end have no logsumexp, and are not stored.
        visible = visible & (rows[:, None] < num_queries)
        weights = tl.exp(tl.where(visible, scores, float("-inf")) - total[:, None])
        at = head * value_head + keys[:, None] * value_row + value_columns[None, :] * value_column
        inside = (keys[:, None] < num_keys) & (value_columns[None, :] < value_width)
        block = tl.load(value + at, mask=inside, other=0.0)
        context += tl.dot(weights.to(block.dtype), block, input_precision="ieee")
    at = (head * num_queries + rows[:, None]) * value_width + value_columns[None, :]
    seen = (rows[:, None] < num_queries) & (value_columns[None, :] < value_width)
    tl.store(output + at, context.to(output.dtype.element_ty), mask=seen)


@variant(
    replaces="flash_forward",
    trades="Nothing is rescaled, and a backward kernel can start from the logsumexp; every score is computed twice.",
)
def two_passes(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """One kernel for the logsumexp, and a second one that has it and needs no running maximum."""
    _require(query, key, is_causal)
    output, logsumexp = _empty(query, value)
    batch, heads, num_queries, width = query.shape
    grid = (triton.cdiv(num_queries, block_q), batch * heads)
    query, key, value = (x.reshape(-1, *x.shape[2:]) for x in (query, key, value))
    strides = [step for x in (query, key) for step in x.stride()]
    sizes = (num_queries, key.shape[1], width)
    _maxima_and_sums[grid](
        query, key, logsumexp, *strides, *sizes, width**-0.5, is_causal, block_q, block_k, _padded(width), num_stages=1
    )
    _weighted[grid](
        *(query, key, value, output, logsumexp, *strides, *value.stride(), *sizes, value.shape[2], width**-0.5),
        *(is_causal, block_q, block_k, _padded(width), _padded(value.shape[2])),
        num_stages=1,
    )
    return output, logsumexp


@triton.jit
def _one_head(
    query, key, value, output, logsumexp, query_row, query_column, key_row, key_column, value_row, value_column,
    output_row, num_queries, num_keys, width, value_width, scale, IS_CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr,
):  # fmt: skip
    columns, value_columns = tl.arange(0, WIDTH), tl.arange(0, VALUE_WIDTH)
    first_row = tl.program_id(0) * BLOCK_Q
    rows = first_row + tl.arange(0, BLOCK_Q)
    at = rows[:, None] * query_row + columns[None, :] * query_column
    queries = tl.load(query + at, mask=(rows[:, None] < num_queries) & (columns[None, :] < width), other=0.0)
    queries = queries.to(tl.float32) * scale
    maximum = tl.full([BLOCK_Q], -1e30, tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    context = tl.zeros([BLOCK_Q, VALUE_WIDTH], tl.float32)
    start, end = 0, num_keys
    if IS_CAUSAL:
        end = tl.minimum(first_row + BLOCK_Q, num_keys)
    while start < end:
        keys = start + tl.arange(0, BLOCK_K)
        at = keys[:, None] * key_row + columns[None, :] * key_column
        block = tl.load(key + at, mask=(keys[:, None] < end) & (columns[None, :] < width), other=0.0)
        scores = tl.dot(queries, tl.trans(block.to(tl.float32)), input_precision="ieee")
        visible = (keys[None, :] < end) & (rows[:, None] < num_queries)
        if IS_CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None])
        scores = tl.where(visible, scores, -1e30)
        larger = tl.maximum(maximum, tl.max(scores, 1))
        weights = tl.where(visible, tl.exp(scores - larger[:, None]), 0.0)
        total *= tl.exp(maximum - larger)
        context *= tl.exp(maximum - larger)[:, None]
        maximum = larger
        total += tl.sum(weights, 1)
        at = keys[:, None] * value_row + value_columns[None, :] * value_column
        inside = (keys[:, None] < end) & (value_columns[None, :] < value_width)
        context += tl.dot(weights, tl.load(value + at, mask=inside, other=0.0).to(tl.float32), input_precision="ieee")
        start += BLOCK_K
    total = tl.where(rows < num_queries, total, 1.0)
    at = rows[:, None] * output_row + value_columns[None, :]
    seen = (rows[:, None] < num_queries) & (value_columns[None, :] < value_width)
    tl.store(output + at, (context / total[:, None]).to(output.dtype.element_ty), mask=seen)
    tl.store(logsumexp + rows, maximum + tl.log(total), mask=rows < num_queries)


@variant(replaces="flash_forward")
def a_launch_for_each_head(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """One launch per sequence and head, a large finite number for what is hidden, and the queries scaled at first."""
    if is_causal:
        assert query.shape[2] == key.shape[2]
    output, logsumexp = _empty(query, value)
    for batch in range(query.shape[0]):
        for head in range(query.shape[1]):
            q, k, v, out = (x[batch, head] for x in (query, key, value, output))
            _one_head[(triton.cdiv(len(q), block_q),)](
                *(q, k, v, out, logsumexp[batch, head], *q.stride(), *k.stride(), *v.stride(), out.stride(0)),
                *(len(q), len(k), q.shape[1], v.shape[1], q.shape[1] ** -0.5),
                *(is_causal, block_q, block_k, _padded(q.shape[1]), _padded(v.shape[1])),
                num_stages=1,
            )
    return output, logsumexp


@triton.jit
def _without_dot(
    query, key, value, output, logsumexp, num_queries, num_keys, width, value_width, scale, IS_CAUSAL: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr,
):  # fmt: skip
    columns, value_columns = tl.arange(0, WIDTH), tl.arange(0, VALUE_WIDTH)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    place = tl.program_id(1) * num_queries + rows
    queries = tl.load(
        query + place[:, None] * width + columns[None, :],
        mask=(rows[:, None] < num_queries) & (columns[None, :] < width),
        other=0.0,
    ).to(tl.float32)
    maximum = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    context = tl.zeros([ROWS, VALUE_WIDTH], tl.float32)
    for start in range(0, num_keys, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        at = (tl.program_id(1) * num_keys + keys[:, None]) * width + columns[None, :]
        block = tl.load(key + at, mask=(keys[:, None] < num_keys) & (columns[None, :] < width), other=0.0)
        scores = tl.sum(queries[:, None, :] * block.to(tl.float32)[None, :, :], 2) * scale
        visible = (keys[None, :] < num_keys) & ((keys[None, :] <= rows[:, None]) | (not IS_CAUSAL))
        scores = tl.where(visible, scores, -float("inf"))
        larger = tl.maximum(maximum, tl.max(scores, 1))
        weights = tl.exp(scores - larger[:, None])
        rescale = tl.exp(maximum - larger)
        at = (tl.program_id(1) * num_keys + keys[:, None]) * value_width + value_columns[None, :]
        inside = (keys[:, None] < num_keys) & (value_columns[None, :] < value_width)
        block = tl.load(value + at, mask=inside, other=0.0).to(tl.float32)
        context = context * rescale[:, None] + tl.sum(weights[:, :, None] * block[None, :, :], 1)
        total = total * rescale + tl.sum(weights, 1)
        maximum = larger
    at = output + place[:, None] * value_width + value_columns[None, :]
    seen = (rows[:, None] < num_queries) & (value_columns[None, :] < value_width)
    tl.store(at, (context / total[:, None]).to(output.dtype.element_ty), mask=seen)
    tl.store(logsumexp + place, maximum + tl.log(total), mask=rows < num_queries)


@variant(
    replaces="flash_forward",
    trades="Blocks may be of any size; the tensor cores, which do most of the work on a GPU, stay idle.",
)
def products_without_dot(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Products by multiplying and adding, without tl.dot, in blocks that need not be 16 wide."""
    _require(query, key, is_causal)
    output, logsumexp = _empty(query, value)
    batch, heads, num_queries, width = query.shape
    _without_dot[(triton.cdiv(num_queries, 16), batch * heads)](
        *(query.contiguous(), key.contiguous(), value.contiguous(), output, logsumexp),
        *(num_queries, key.shape[2], width, value.shape[3], width**-0.5),
        *(is_causal, 16, 32, triton.next_power_of_2(width), triton.next_power_of_2(value.shape[3])),
    )
    return output, logsumexp
