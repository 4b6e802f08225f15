"""What learners get wrong in `flash_forward`: the kernel."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.longer_and_faster.step29_triton.misconceptions.kernel import Both, padded, require


@misconception(replaces="flash_forward", caught_by="test_the_kernel_does_it", misses_the_point=True)
def by_torch(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Torch did the products and the softmax, and no kernel was launched.

    That is step 3: every intermediate matrix goes out to the GPU's memory and back, which is what a kernel is for.

    Which of your functions is decorated with @triton.jit, and who launches it?
    """
    require(query, key, is_causal)
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
    require(query, key, is_causal)
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
    require(query, key, is_causal)
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
    require(query, key, is_causal)
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    batch, heads, num_queries, width = query.shape
    num_keys, value_width = value.shape[2:]
    scores = query.new_empty(batch * heads, num_queries, num_keys, dtype=torch.float32)
    output = query.new_empty(batch, heads, num_queries, value_width)
    logsumexp = query.new_empty(batch, heads, num_queries, dtype=torch.float32)
    grid = (triton.cdiv(num_queries, block_q), triton.cdiv(num_keys, block_k), batch * heads)
    _scores[grid](
        *(query, key, scores, *query.stride()[1:], *key.stride()[1:], num_queries, num_keys, width, width**-0.5),
        *(is_causal, block_q, block_k, padded(width)),
    )
    _rows_of[(num_queries, batch * heads)](
        *(scores, value, output, logsumexp, *value.stride()[1:], num_queries, num_keys, value_width),
        *(triton.next_power_of_2(num_keys), padded(value_width)),
    )
    return output, logsumexp
