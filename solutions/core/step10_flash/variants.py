"""Right ways to write step 10 that are not the reference's."""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import variant


@variant(replaces="attention_matrix_bytes")
def product(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> int:
    """The shape of the scores, multiplied out."""
    return math.prod((batch, num_heads, num_tokens, num_tokens)) * bytes_per_element


@variant(replaces="attention_matrix_bytes")
def product_by_numpy(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> np.integer:
    """The same with NumPy, whose whole number is not Python's."""
    return np.prod((batch, num_heads, num_tokens, num_tokens)) * bytes_per_element


@variant(replaces="sdpa")
def sdpa_with_a_mask(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """A boolean mask made on the fly instead of is_causal."""
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout_p * training)


@variant(replaces="sdpa")
def sdpa_under_another_name(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """The built-in's binding in torch._C, with its own scale said aloud, called in two branches."""
    built_in = torch._C._nn.scaled_dot_product_attention
    if training:
        return built_in(query, key, value, None, dropout_p, True, scale=1 / math.sqrt(query.size(-1)))
    return built_in(query, key, value, is_causal=True)


@variant(
    replaces="flash_attention",
    trades="One loop instead of two is simpler; the scores of all queries with one block are in memory together.",
)
def keys_only(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """One loop over blocks of keys for all queries at once, the maximum detached, everything in the input's dtype."""
    T_q, T_k = query.shape[2], key.shape[2]
    assert not is_causal or T_q == T_k
    maximum = torch.full(query.shape[:3], torch.finfo(query.dtype).min, dtype=query.dtype, device=query.device)
    total = torch.zeros_like(maximum)
    context = torch.zeros(*query.shape[:3], value.shape[-1], dtype=query.dtype, device=query.device)
    positions = torch.arange(T_q, device=query.device)
    for start in range(0, T_k, block_size):
        scores = torch.einsum("bhqd,bhkd->bhqk", query, key[:, :, start : start + block_size]) / query.shape[-1] ** 0.5
        if is_causal:
            seen = torch.arange(start, start + scores.shape[-1], device=query.device) <= positions[:, None]
            scores = torch.where(seen, scores, torch.finfo(scores.dtype).min)
        larger = torch.maximum(maximum, scores.max(dim=-1).values).detach()
        weights = (scores - larger[..., None]).exp()
        factor = (maximum - larger).exp()
        total = total * factor + weights.sum(-1)
        context = context * factor[..., None] + torch.einsum(
            "bhqk,bhkv->bhqv", weights, value[:, :, start : start + block_size]
        )
        maximum = larger
    return context / (total[..., None] + 1e-12)


@variant(replaces="flash_attention")
def guarded_sums(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """As the first PyTorch versions of the paper's algorithm 1 have it: the context is kept divided, blocks of keys
    come in the outer loop, and the sum of each block is guarded by 1e-10."""
    T_q, T_k = query.shape[2], key.shape[2]
    if is_causal and T_q != T_k:
        raise ValueError(f"{T_q} queries and {T_k} keys")
    hidden_score = -1e10 if query.dtype != torch.float16 else -6e4
    scaled = (query / torch.sqrt(torch.tensor(float(query.shape[-1])))).split(block_size, dim=2)
    contexts = [torch.zeros(*block.shape[:3], value.shape[-1]).to(block) for block in scaled]
    totals = [torch.zeros(*block.shape[:3], 1).to(block) for block in scaled]
    maxima = [torch.full((*block.shape[:3], 1), hidden_score).to(block) for block in scaled]
    for column, (keys, values) in enumerate(
        zip(key.split(block_size, dim=2), value.split(block_size, dim=2), strict=True)
    ):
        for row, queries in enumerate(scaled):
            scores = torch.einsum("bhid,bhjd->bhij", queries, keys)
            if is_causal:
                i = row * block_size + torch.arange(queries.shape[2], device=query.device)
                j = column * block_size + torch.arange(keys.shape[2], device=query.device)
                scores = scores.masked_fill(j > i[:, None], hidden_score)
            highest = scores.amax(dim=-1, keepdim=True)
            exponentials = torch.exp(scores - highest)
            if is_causal:
                exponentials = exponentials.masked_fill(j > i[:, None], 0.0)
            total = exponentials.sum(dim=-1, keepdim=True) + 1e-10
            maximum = torch.maximum(maxima[row], highest)
            before, now = torch.exp(maxima[row] - maximum), torch.exp(highest - maximum)
            together = before * totals[row] + now * total
            contexts[row] = (totals[row] * before * contexts[row] + now * (exponentials @ values)) / together
            totals[row], maxima[row] = together, maximum
    return torch.cat(contexts, dim=2)


@variant(
    replaces="flash_attention",
    trades="Blocks don't depend on each other and could run at the same time; merging them takes more exponentials.",
)
def merged_by_logsumexp(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """Each block is attention by itself; two blocks are merged by the logarithm of their denominators."""
    if is_causal and query.size(2) != key.size(2):
        raise RuntimeError("lengths differ")
    rows = []
    for i, q in enumerate(query.split(block_size, dim=2)):
        context, log_total = None, None
        for j, (k, v) in enumerate(zip(key.split(block_size, 2), value.split(block_size, 2), strict=True)):
            if is_causal and j > i:
                continue
            scores = q @ k.mT / math.sqrt(q.size(-1))
            if is_causal and i == j:
                hidden = torch.ones(scores.shape[-2:], device=q.device).triu(1).bool()
                scores = scores.masked_fill(hidden, float("-inf"))
            block_log_total = torch.logsumexp(scores, dim=-1, keepdim=True)
            block_context = torch.softmax(scores, dim=-1) @ v
            if context is None or log_total is None:
                context, log_total = block_context, block_log_total
                continue
            merged = torch.logaddexp(log_total, block_log_total)
            context = context * (log_total - merged).exp() + block_context * (block_log_total - merged).exp()
            log_total = merged
        assert context is not None
        rows.append(context)
    return torch.cat(rows, dim=2)


@variant(replaces="flash_attention")
def base_two_with_a_column_of_ones(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """Powers of two; a column of ones beside the values makes the denominator the last column of the context."""
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("lengths differ")
    ones = torch.ones(*value.shape[:-1], 1, dtype=value.dtype, device=value.device)
    value = torch.cat((value, ones), dim=-1)
    scale = math.log2(math.e) / math.sqrt(query.shape[-1])
    out = torch.empty(*query.shape[:-1], value.shape[-1], dtype=value.dtype, device=value.device)
    for first in range(0, query.shape[-2], block_size):
        q = query[..., first : first + block_size, :]
        maximum, context = torch.tensor(-torch.inf, dtype=q.dtype, device=q.device), torch.zeros_like(value[..., :1, :])
        for start in range(0, key.shape[-2], block_size):
            if is_causal and start > first:
                break
            k, v = key[..., start : start + block_size, :], value[..., start : start + block_size, :]
            scores = torch.matmul(q, k.transpose(-1, -2)) * scale
            if is_causal and start == first:
                bias = torch.full(scores.shape[-2:], -torch.inf, dtype=q.dtype, device=q.device).triu(1)
                scores = scores + bias
            larger = torch.maximum(maximum, scores.amax(-1, True))
            context = torch.exp2(maximum - larger) * context + torch.exp2(scores - larger) @ v
            maximum = larger
        out[..., first : first + block_size, :] = context
    return out[..., :-1] / out[..., -1:]


@variant(
    replaces="flash_attention",
    trades="The maximum is known before anything is added, so nothing is rescaled; every score is computed twice.",
)
def two_passes_over_padded_keys(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """Keys padded to whole blocks; one pass finds the maximum of every query, the second adds up."""
    T_q, T_k = query.shape[-2], key.shape[-2]
    if is_causal:
        assert T_q == T_k, (T_q, T_k)
    padding = -T_k % block_size
    key, value = F.pad(key, (0, 0, 0, padding)), F.pad(value, (0, 0, 0, padding))

    def block(q: Tensor, first: int, start: int) -> Tensor:
        scores = q @ key[..., start : start + block_size, :].transpose(-2, -1) / math.sqrt(q.shape[-1])
        columns = torch.arange(start, start + block_size, device=q.device)
        hidden = (columns >= T_k).expand(q.shape[-2], -1)
        if is_causal:
            hidden = hidden | (columns > torch.arange(first, first + q.shape[-2], device=q.device)[:, None])
        return scores.masked_fill(hidden, -torch.inf)

    contexts = []
    for first in range(0, T_q, block_size):
        q = query[..., first : first + block_size, :]
        starts = range(0, T_k, block_size)
        maximum = block(q, first, 0).amax(-1, keepdim=True)
        for start in starts:
            maximum = maximum.maximum(block(q, first, start).amax(-1, keepdim=True))
        weights_and_starts = ((torch.exp(block(q, first, start) - maximum), start) for start in starts)
        total, context = 0.0, 0.0
        for weights, start in weights_and_starts:
            total = total + weights.sum(-1, keepdim=True)
            context = context + weights @ value[..., start : start + block_size, :]
        contexts.append(context / total)
    return torch.cat(contexts, dim=-2)


@variant(replaces="flash_attention")
def head_by_head(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """A loop over sequences and heads, in float64, the running tensors changed in place of the names only."""
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("lengths differ")

    def one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = []
        for first in range(0, len(q), block_size):
            rows = q[first : first + block_size]
            m = rows.new_full((len(rows), 1), -1e9)
            total, context = rows.new_zeros(len(rows), 1), rows.new_zeros(len(rows), v.shape[1])
            for start in range(0, len(k), block_size):
                scores = rows @ k[start : start + block_size].T / q.shape[1] ** 0.5
                if is_causal:
                    offset = first - start
                    scores = scores.masked_fill(torch.ones_like(scores).tril(offset) == 0, -1e9)
                new = torch.maximum(m, scores.max(1, keepdim=True)[0])
                weights = torch.exp(scores - new)
                total = total * torch.exp(m - new) + weights.sum(1, keepdim=True)
                context = torch.addmm(context * torch.exp(m - new), weights, v[start : start + block_size])
                m = new
            out.append(context / total)
        return torch.cat(out)

    wide = (query.double(), key.double(), value.double())
    heads = [torch.stack([one(*qkv) for qkv in zip(*batch, strict=True)]) for batch in zip(*wide, strict=True)]
    return torch.stack(heads).to(query.dtype)


class _Flash(torch.autograd.Function):
    """The forward pass keeps the logarithm of each denominator; the backward pass makes each block's weights again."""

    @staticmethod
    def blocks(query: Tensor, key: Tensor, is_causal: bool, size: int) -> Any:
        for i in range(0, query.shape[-2], size):
            for j in range(0, key.shape[-2], size):
                if is_causal and j > i:
                    continue
                rows, columns = slice(i, i + size), slice(j, j + size)
                scores = query[..., rows, :] @ key[..., columns, :].mT * query.shape[-1] ** -0.5
                if is_causal and i == j:
                    scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
                yield rows, columns, scores

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, size: int) -> Tensor:
        maximum = query.new_full((*query.shape[:-1], 1), -torch.inf)
        total, context = torch.zeros_like(maximum), query.new_zeros((*query.shape[:-1], value.shape[-1]))
        for rows, columns, scores in _Flash.blocks(query, key, is_causal, size):
            old = maximum[..., rows, :].clone()
            new = torch.maximum(old, scores.amax(-1, keepdim=True))
            weights = (scores - new).exp()
            total[..., rows, :] = total[..., rows, :] * (old - new).exp() + weights.sum(-1, keepdim=True)
            context[..., rows, :] = context[..., rows, :] * (old - new).exp() + weights @ value[..., columns, :]
            maximum[..., rows, :] = new
        context /= total
        ctx.save_for_backward(query, key, value, context, maximum + total.log())
        ctx.is_causal, ctx.size = is_causal, size
        return context

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, context, log_total = ctx.saved_tensors
        (gradient,) = gradients
        d_query, d_key, d_value = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
        share = (gradient * context).sum(-1, keepdim=True)
        scale = query.shape[-1] ** -0.5
        for rows, columns, scores in _Flash.blocks(query, key, ctx.is_causal, ctx.size):
            weights = (scores - log_total[..., rows, :]).exp()
            d_value[..., columns, :] += weights.mT @ gradient[..., rows, :]
            d_weights = gradient[..., rows, :] @ value[..., columns, :].mT
            d_scores = weights * (d_weights - share[..., rows, :]) * scale
            d_query[..., rows, :] += d_scores @ key[..., columns, :]
            d_key[..., columns, :] += d_scores.mT @ query[..., rows, :]
        return d_query, d_key, d_value, None, None


@variant(replaces="flash_attention")
def own_backward(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """A torch.autograd.Function whose backward pass is written by hand."""
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("lengths differ")
    context: Tensor = _Flash.apply(query, key, value, is_causal, block_size)
    return context
