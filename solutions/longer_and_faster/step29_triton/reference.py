"""Flash attention as a Triton kernel

Step 10 went through keys and values block by block in Python: the memory was small, but each block was a dozen
launches on the GPU, and everything in between went out to its memory and back. A kernel of one's own does the same work
in one launch. A block of queries stays on the chip while the keys and values pass by.

Asked everywhere: views with any strides, more than 1,024 tokens, and calls under `torch.no_grad()`. Inputs stay
unmodified, and later calls leave earlier results as they are. Where a ValueError is named, any error will do.

Off limits in flash_forward: products, exponentials, logarithms and softmax made by torch, scaled_dot_product_attention,
flex_attention and nn.MultiheadAttention, and a detour through arrays or lists. The kernel does all of that.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


def flash_forward(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> tuple[Tensor, Tensor]:
    """Exact attention by blocks, in at least one kernel of yours decorated with @triton.jit.

    query: (B, H, T_q, d), key: (B, H, T_k, d), value: (B, H, T_k, d_v) -> (output, logsumexp).
    output: (B, H, T_q, d_v) in the dtype of query; logsumexp: (B, H, T_q) in float32, the natural logarithm of each
    query's sum of exponentials of its scores, which are scaled by 1 / sqrt(d).
    Any lengths; d and d_v up to 128, also no powers of two; any strides. block_q and block_k are powers of two from
    16: how many queries a program takes, and how many keys at a time.
    is_causal: query i attends to keys 0 to i. When T_q and T_k differ then, that is a ValueError.
    float32, with scores of +-1000 too, and float16; sums in float32, products in full precision
    (input_precision="ieee"). Forward only: no gradient is asked for. The inputs stay as they were.
    Memory: no tensor holds T_q x T_k elements.
    On a CPU the kernel runs in Triton's interpreter, on CUDA it is compiled. The device meta is not asked for.
    """
    ### BEGIN SOLUTION
    batch, num_heads, num_queries, width = query.shape
    num_keys, value_width = value.shape[-2:]
    if is_causal and num_queries != num_keys:
        raise ValueError(f"is_causal needs as many queries as keys, not {num_queries} queries and {num_keys} keys")

    output = query.new_empty(batch, num_heads, num_queries, value_width)
    logsumexp = query.new_empty(batch, num_heads, num_queries, dtype=torch.float32)
    # One program for each block of queries of each head.
    grid = (triton.cdiv(num_queries, block_q), batch * num_heads)
    attend[grid](
        *(query, key, value, output, logsumexp),
        *(*query.stride(), *key.stride(), *value.stride(), *output.stride()),
        *(num_heads, num_queries, num_keys, width, value_width, width**-0.5),
        *(is_causal, block_q, block_k),
        # A block has a power of two of columns, and a matrix product on the GPU at least 16.
        WIDTH=max(16, triton.next_power_of_2(width)),
        VALUE_WIDTH=max(16, triton.next_power_of_2(value_width)),
        num_stages=2 if query.dtype == torch.float16 else 1,  # blocks of float32 fill the chip's memory by themselves
    )
    return output, logsumexp  # (B, H, T_q, d_v), (B, H, T_q)
    ### END SOLUTION


### BEGIN SOLUTION
@triton.jit
def attend(
    query, key, value, output, logsumexp,
    query_batch, query_head, query_row, query_column, key_batch, key_head, key_row, key_column,
    value_batch, value_head, value_row, value_column, output_batch, output_head, output_row, output_column,
    num_heads, num_queries, num_keys, width, value_width, scale,
    IS_CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr,
):  # fmt: skip
    """One block of queries of one head: its rows of the output and of logsumexp."""
    batch, head = tl.program_id(1).to(tl.int64) // num_heads, tl.program_id(1).to(tl.int64) % num_heads
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)  # (BLOCK_Q,)
    columns, value_columns = tl.arange(0, WIDTH), tl.arange(0, VALUE_WIDTH)

    query += batch * query_batch + head * query_head
    at = rows[:, None] * query_row + columns[None, :] * query_column
    # What lies beyond the end, of the rows and of the width, is read as 0 and adds nothing to a product.
    queries = tl.load(query + at, mask=(rows[:, None] < num_queries) & (columns[None, :] < width), other=0.0)
    # Everything is in powers of 2, which the hardware is faster at than at powers of e: 2 ** (x log2(e)) = e ** x.
    scale *= 1.4426950408889634  # log2(e)

    key += batch * key_batch + head * key_head
    value += batch * value_batch + head * value_head
    maximum = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    denominator = tl.zeros([BLOCK_Q], tl.float32)
    context = tl.zeros([BLOCK_Q, VALUE_WIDTH], tl.float32)
    # Blocks of keys that all queries here see as a whole need no mask: all but the last one or two.
    last_key, whole = num_keys, num_keys
    if IS_CAUSAL:
        whole = tl.program_id(0) * BLOCK_Q + 1
        last_key = tl.minimum(whole + BLOCK_Q - 1, num_keys)
    whole = whole // BLOCK_K * BLOCK_K
    for first_key in range(0, last_key, BLOCK_K):
        keys = first_key + tl.arange(0, BLOCK_K)  # (BLOCK_K,)
        inside = keys < num_keys
        at = keys[:, None] * key_row + columns[None, :] * key_column
        block = tl.load(key + at, mask=inside[:, None] & (columns[None, :] < width), other=0.0)
        scores = tl.dot(queries, tl.trans(block), input_precision="ieee") * scale  # (BLOCK_Q, BLOCK_K)
        if first_key >= whole:
            visible = inside[None, :]
            if IS_CAUSAL:
                visible = visible & (keys[None, :] <= rows[:, None])
            scores = tl.where(visible, scores, -float("inf"))

        # As in step 10: what was added up is in units of 2 ** maximum, and changes unit when the maximum grows.
        new_maximum = tl.maximum(maximum, tl.max(scores, 1))
        rescale = tl.exp2(maximum - new_maximum)
        weights = tl.exp2(scores - new_maximum[:, None])
        denominator = denominator * rescale + tl.sum(weights, 1)
        at = keys[:, None] * value_row + value_columns[None, :] * value_column
        block = tl.load(value + at, mask=inside[:, None] & (value_columns[None, :] < value_width), other=0.0)
        context = context * rescale[:, None] + tl.dot(weights.to(block.dtype), block, input_precision="ieee")
        maximum = new_maximum

    context /= denominator[:, None]
    output += batch * output_batch + head * output_head
    at = rows[:, None] * output_row + value_columns[None, :] * output_column
    seen = (rows[:, None] < num_queries) & (value_columns[None, :] < value_width)
    tl.store(output + at, context.to(output.dtype.element_ty), mask=seen)
    # Back from powers of 2 to powers of e: log(x) = log2(x) * ln 2.
    natural = (maximum + tl.log2(denominator)) * 0.6931471805599453  # ln 2
    tl.store(logsumexp + tl.program_id(1).to(tl.int64) * num_queries + rows, natural, mask=rows < num_queries)


### END SOLUTION
