"""Right ways to write step 25 that are not the reference's."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import variant


@variant(replaces="window_mask")
def band_by_triangles(
    num_tokens: int,
    window: int,
    is_causal: bool = True,
    num_global: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """A band cut out by tril and triu, with rows and columns opened in place."""
    mask = torch.ones(num_tokens, num_tokens, device=device).bool().tril(window - 1).triu(1 - window)
    mask[:num_global] = True
    mask[:, :num_global] = True
    return mask.tril() if is_causal else mask


@variant(replaces="window_attention")
def row_by_row(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """A loop over the queries, each with the keys it sees."""
    assert window > 0
    assert query.shape[2] == key.shape[2]
    T = query.shape[2]
    rows = []
    for i in range(T):
        end = i + 1 if is_causal else min(T, i + window)
        if i < num_global:
            seen = torch.arange(i + 1 if is_causal else T, device=query.device)
        else:
            begin = max(0, i - window + 1)
            seen = torch.arange(begin, end, device=query.device)
            seen = torch.cat((torch.arange(min(num_global, begin), device=query.device), seen))
        scores = (query[:, :, i : i + 1] * key[:, :, seen]).sum(-1) / math.sqrt(query.shape[-1])  # (B, H, seen)
        rows.append((scores.softmax(-1)[..., None] * value[:, :, seen]).sum(2))
    return torch.stack(rows, dim=2)


@variant(
    replaces="window_attention",
    trades="The built-in does the work of each block, in one call; the mask of a block still has to be made by hand.",
)
def built_in_on_blocks(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """scaled_dot_product_attention for each block of queries, with a mask made for the block."""
    T = query.size(-2)
    if key.size(-2) != T or window < 1:
        raise ValueError("lengths or window")
    out = torch.empty(*query.shape[:-1], value.shape[-1], dtype=query.dtype, device=query.device)
    for start in range(0, T, window):
        stop = min(start + window, T)
        low = 0 if start < num_global else max(0, start - window + 1)
        high = T if start < num_global else min(T, stop + window - 1)
        high = stop if is_causal else high
        low = min(low, high)
        i = torch.arange(start, stop, device=query.device)[:, None]
        j = torch.arange(low, high, device=query.device)
        mask = ((i - j).abs() < window) | (i < num_global) | (j < num_global)
        k, v = key[..., low:high, :], value[..., low:high, :]
        if low > 0 and num_global > 0:
            extra = min(num_global, low)
            k, v = torch.cat((key[..., :extra, :], k), -2), torch.cat((value[..., :extra, :], v), -2)
            mask = torch.cat((torch.ones(stop - start, extra, dtype=torch.bool, device=query.device), mask), 1)
            j = torch.cat((torch.arange(extra, device=query.device), j))
        if is_causal:
            mask = mask & (j <= i)
        out[..., start:stop, :] = F.scaled_dot_product_attention(query[..., start:stop, :], k, v, attn_mask=mask)
    return out


@variant(
    replaces="window_attention",
    trades="Only what the window shows is computed; it takes as many launches as the window is wide.",
)
def one_diagonal_at_a_time(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """A column of scores for each distance, from shifted copies; global rows and columns beside them."""
    T, d = query.shape[-2:]
    if key.shape[-2] != T:
        raise ValueError(f"{T} queries, {key.shape[-2]} keys")
    if window <= 0:
        raise ValueError("no window")
    at = torch.arange(T, device=query.device)
    reach = range(1 - window, 1 if is_causal else window)
    columns = []
    for step in reach:
        shifted = at + step
        inside = (shifted >= num_global) & (shifted < T)
        score = (query * key[..., shifted.clamp(0, T - 1), :]).sum(-1) / d**0.5
        columns.append(score.masked_fill(~inside, float("-inf")))
    scores = torch.stack(columns, -1)  # (B, H, T, distances)
    to_global = query @ key[..., :num_global, :].mT / d**0.5
    if is_causal:
        to_global = to_global.masked_fill(at[:num_global] > at[:, None], float("-inf"))
    weights = torch.cat((scores, to_global), -1).softmax(-1)
    context = weights[..., len(reach) :] @ value[..., :num_global, :]
    for column, step in enumerate(reach):
        context = context + weights[..., column, None] * value[..., (at + step).clamp(0, T - 1), :]
    if num_global:
        rows = query[..., :num_global, :] @ key.mT / d**0.5
        if is_causal:
            rows = rows.masked_fill(at > at[:num_global, None], float("-inf"))
        context = torch.cat((rows.softmax(-1) @ value, context[..., num_global:, :]), -2)
    return context


@variant(
    replaces="window_attention",
    trades="A few large products do the work of the loop; keys and values are in memory two or three times.",
)
def unfolded_blocks(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """All blocks at once: keys padded and unfolded into overlapping blocks, as Longformer does it."""
    B, H, T, d = query.shape
    if key.shape[2] != T or window < 1:
        raise RuntimeError("wrong arguments")
    w = min(window, T)
    pad = -T % w
    blocks = (T + pad) // w
    q = F.pad(query, (0, 0, 0, pad)).view(B, H, blocks, w, d)
    ahead = 0 if is_causal else w - 1
    k = F.pad(key, (0, 0, w - 1, pad + ahead)).unfold(2, 2 * w - 1 + ahead, w)  # (B, H, blocks, d, span)
    v = F.pad(value, (0, 0, w - 1, pad + ahead)).unfold(2, 2 * w - 1 + ahead, w)
    i = torch.arange(T + pad, device=query.device).view(blocks, w, 1)
    j = i[:, :1] + torch.arange(1 - w, w + ahead, device=query.device)  # (blocks, 1, span)
    near = ((i - j).abs() < window) & (j >= num_global) & (j < T) & (i < T)
    if is_causal:
        near = near & (j <= i)
    scores = torch.einsum("bhnqd,bhnds->bhnqs", q, k) / d**0.5
    g = torch.arange(num_global, device=query.device)
    to_global = torch.einsum("bhnqd,bhgd->bhnqg", q, key[:, :, :num_global]) / d**0.5
    open_to = torch.ones_like(i, dtype=torch.bool) & (g >= 0)
    if is_causal:
        open_to = open_to & (g <= i)
    low = torch.finfo(scores.dtype).min
    scores = torch.cat((scores.masked_fill(~near, low), to_global.masked_fill(~open_to, low)), -1)
    weights = scores.softmax(-1)
    span = v.shape[-1]
    context = torch.einsum("bhnqs,bhnds->bhnqd", weights[..., :span], v)
    context = context + torch.einsum("bhnqg,bhgd->bhnqd", weights[..., span:], value[:, :, :num_global])
    context = context.reshape(B, H, T + pad, -1)[:, :, :T]
    if num_global == 0:
        return context
    first = query[:, :, :num_global] @ key.transpose(-1, -2) / d**0.5
    if is_causal:
        first = first.masked_fill(torch.arange(T, device=query.device) > g[:, None], low)
    return torch.cat((first.softmax(-1) @ value, context[:, :, num_global:]), 2)


@variant(replaces="window_attention")
def online_softmax(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Blocks of keys with running sums, as in step 10, but for those that no query of a block sees."""
    T, size = query.shape[-2], 16
    if window < 1 or key.shape[-2] != T:
        raise ValueError("wrong arguments")
    contexts = []
    for begin in range(0, T, size):
        q = query[..., begin : begin + size, :] / query.shape[-1] ** 0.5
        i = torch.arange(begin, begin + q.shape[-2], device=query.device)[:, None]
        top = torch.full_like(q[..., :1], -1e30)
        total, context = torch.zeros_like(top), torch.zeros_like(value[..., :1, :])
        for start in range(0, begin + q.shape[-2] if is_causal else T, size):
            is_near = start < begin + size + window and begin < start + size + window
            if not is_near and min(begin, start) >= num_global:
                continue
            k, v = key[..., start : start + size, :], value[..., start : start + size, :]
            j = torch.arange(start, start + k.shape[-2], device=query.device)
            mask = ((i - j).abs() < window) | (i < num_global) | (j < num_global)
            mask = mask & (j <= i) if is_causal else mask
            scores = torch.where(mask, q @ k.mT, -1e30)
            larger = torch.maximum(top, scores.amax(-1, keepdim=True)).detach()
            weights, factor = torch.where(mask, (scores - larger).exp(), 0.0), (top - larger).exp()
            total = total * factor + weights.sum(-1, keepdim=True)
            context = context * factor + weights @ v
            top = larger
        contexts.append(context / total)
    return torch.cat(contexts, -2)
