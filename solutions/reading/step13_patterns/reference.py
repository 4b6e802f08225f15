"""Patterns of attention, and how to read weights

A trained head is a matrix of numbers, and a few shapes turn up again and again: the own token, the first token, the
neighbours, all tokens alike. Here you make these patterns, and write what a plot of real weights needs beside it: a
test that the weights are weights, the strongest keys of each query, how widely it looks, and how far.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right.

Nothing is off limits.
"""

import torch
from torch import Tensor

from solutions.core.step04_causal_mask.reference import causal_mask


def attention_diagonal(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """Weights with which each token attends to itself alone: float32, `(T, T)`, T being `num_tokens`."""
    ### BEGIN SOLUTION
    return torch.eye(num_tokens, dtype=torch.float32, device=device)  # (T, T)
    ### END SOLUTION


def attention_uniform(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """Weights with which each token attends to all tokens alike: float32, `(T, T)`, T being `num_tokens`."""
    ### BEGIN SOLUTION
    return torch.full((num_tokens, num_tokens), 1 / num_tokens, dtype=torch.float32, device=device)  # (T, T)
    ### END SOLUTION


def attention_first(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """Weights with which each token attends to the first one alone: float32, `(T, T)`, T being `num_tokens`."""
    ### BEGIN SOLUTION
    weights = torch.zeros(num_tokens, num_tokens, dtype=torch.float32, device=device)  # (T, T)
    weights[:, 0] = 1.0  # rows are queries, columns are keys
    return weights
    ### END SOLUTION


def attention_causal(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """Weights with which each token attends alike to itself and to every earlier one: float32, `(T, T)`."""
    ### BEGIN SOLUTION
    return shared_out(causal_mask(num_tokens, device))  # (T, T)
    ### END SOLUTION


def attention_local(num_tokens: int, radius: int = 1, device: torch.device | str | None = None) -> Tensor:
    """Weights with which each token attends alike to the tokens at most `radius` away, itself included.

    Shapes: float32, `(T, T)`, T being `num_tokens`. Each row sums to 1, also at the edges, where neighbours are missing
    on one side. `radius` is 0 or more, and may be larger than T.
    """
    ### BEGIN SOLUTION
    positions = torch.arange(num_tokens, device=device)  # (T,)
    apart = (positions.unsqueeze(1) - positions).abs()  # (T, T)
    return shared_out(apart <= radius)  # (T, T)
    ### END SOLUTION


### BEGIN SOLUTION
def shared_out(visible: Tensor) -> Tensor:
    """The weight 1 of each query, in equal shares for the keys that it sees: bool `(T, T)` -> float32 `(T, T)`."""
    return visible.float() / visible.sum(dim=-1, keepdim=True)  # (T, T)


### END SOLUTION


def validate_attention(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Say of each query's row what is wrong with it, raising nothing.

    Shapes: `weights` is `(..., T_q, T_k)`. The result is a dict of four boolean tensors, `(..., T_q)` each, True where
    the row has the fault:

    - `"not_finite"`: one of its entries is NaN or infinite;
    - `"negative"`: one of its entries is below 0;
    - `"above_one"`: one of its entries is above 1 + tolerance;
    - `"sum"`: its sum is not within `tolerance` of 1. The sum is taken in float32 at least. A sum that is NaN is not.

    Each fault is judged by itself: an infinity is judged by its sign, too, and NaN is neither negative nor above 1.
    """
    ### BEGIN SOLUTION
    # Whole rows of bfloat16 are often off by 1e-3, and a sum that is rounded to bfloat16 hides it.
    sums = weights.sum(dim=-1, dtype=torch.promote_types(weights.dtype, torch.float32))  # (..., T_q)
    return {
        "not_finite": ~weights.isfinite().all(dim=-1),
        "negative": (weights < 0).any(dim=-1),
        "above_one": (weights > 1 + tolerance).any(dim=-1),
        "sum": ~((sums - 1).abs() <= tolerance),  # a comparison with NaN is False, so "not within" has to be asked
    }
    ### END SOLUTION


def top_attended(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest weights of each query and the keys that they belong to, `(values, indices)`, largest first.

    Shapes: `weights` is `(..., T_q, T_k)`; both results are `(..., T_q, min(k, T_k))`, the indices int64. Of equal
    weights the earlier key comes first. `k` is 1 or more.
    """
    ### BEGIN SOLUTION
    values, indices = weights.sort(dim=-1, descending=True, stable=True)  # (..., T_q, T_k) each
    return values[..., :k], indices[..., :k]  # (..., T_q, min(k, T_k)) each
    ### END SOLUTION


def attention_entropy(weights: Tensor) -> Tensor:
    """How widely each query looks: minus the sum of w ln w over its keys, in nats, of rows that sum to 1.

    Shapes: `(..., T_q, T_k)` -> `(..., T_q)`. A weight of 0 counts 0. It is right within 1e-5 in float64. Gradients are
    asked for where no weight is 0.
    """
    ### BEGIN SOLUTION
    return torch.special.entr(weights).sum(dim=-1)  # (..., T_q)
    ### END SOLUTION


def attention_distance(weights: Tensor, offset: int = 0) -> Tensor:
    """How far a head looks: the sum over keys j of w_ij |i + offset - j|, averaged over the queries i.

    Shapes: `(..., T_q, T_k)` -> `(...)`, so weights `(B, H, T_q, T_k)` give one number per sequence and head. `offset`
    is the position of the first query, counted like the keys.
    """
    ### BEGIN SOLUTION
    num_queries, num_keys = weights.shape[-2:]
    queries = torch.arange(num_queries, device=weights.device).unsqueeze(1) + offset  # (T_q, 1)
    keys = torch.arange(num_keys, device=weights.device)  # (T_k,)
    return (weights * (queries - keys).abs()).sum(dim=-1).mean(dim=-1)  # (..., T_q) -> (...)
    ### END SOLUTION
