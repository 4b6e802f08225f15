"""Window attention: each token looks at its neighbours

Most of what a token needs stands near it. A window lets each token attend to its neighbours only, so that the work
grows with the length and no longer with its square. A few global tokens, which see all and are seen by all, carry what
has to travel farther.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. Instead of -inf a mask may fill in a finite number:
next to visible scores of up to ±1,000 a hidden one must stay without weight. Where a ValueError is named, any error
will do.

Off limits: flex_attention and nn.MultiheadAttention, in window_attention. scaled_dot_product_attention is allowed, on
blocks.
"""

import torch
from torch import Tensor


def window_mask(
    num_tokens: int,
    window: int,
    is_causal: bool = True,
    num_global: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Return the bool mask (T, T), True where query i may attend to key j. T is num_tokens.

    That is where |i - j| < window, and wherever i or j is one of the first num_global tokens. is_causal then hides
    every later key, from global queries too: a causal token sees itself and the window - 1 tokens before it.
    """
    ### BEGIN SOLUTION
    positions = torch.arange(num_tokens, device=device)
    return may_attend(positions, positions, window, is_causal, num_global)  # (T, T)
    ### END SOLUTION


def window_attention(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Scaled softmax attention under exactly the mask that window_mask gives, without a T x T matrix.

    query, key: (B, H, T, d), value: (B, H, T, d_v) -> context: (B, H, T, d_v). Any T: also shorter than the window,
    also no multiple of it. window >= 1, num_global <= T. Exact in float32 and float64 with scores of +-1000.
    Raises ValueError when query and key differ in length, or when window < 1.
    Memory: no tensor, a mask included, may hold a T x T matrix, nor a copy of the window for each token. Per batch and
    head the largest storage has at most 4 * (T + window) * (max(window, d, d_v) + num_global + 1) elements, and all
    that are there at the same time have at most 6 times as many. Pairs outside of the window are not multiplied either:
    for 320 tokens and a window of 8, matrix products take at most 0.4 * 2 * T * T * (d + d_v) operations.
    """
    ### BEGIN SOLUTION
    num_tokens = query.shape[-2]
    if key.shape[-2] != num_tokens:
        raise ValueError(f"a window needs as many queries as keys, not {num_tokens} queries and {key.shape[-2]} keys")
    if window < 1:
        raise ValueError(f"a window of {window} shows no token, not even the token itself")

    positions = torch.arange(num_tokens, device=query.device)
    contexts = []
    if num_global:  # global queries look at everything: a few rows of full length
        contexts.append(attend(query, key, value, positions[:num_global], positions, window, is_causal, num_global))
    for first in range(num_global, num_tokens, window):
        rows = positions[first : first + window]
        # What any query of this block sees of its neighbours, without the global keys: those would count twice.
        start = max(num_global, first - window + 1)
        stop = first + (window if is_causal else 2 * window - 1)
        seen = torch.cat((positions[:num_global], positions[start:stop]))
        contexts.append(attend(query, key, value, rows, seen, window, is_causal, num_global))
    return torch.cat(contexts, dim=-2)  # (B, H, T, d_v)
    ### END SOLUTION


### BEGIN SOLUTION
def may_attend(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    """Which of the queries at these positions may attend to which of the keys: bool, one row per query."""
    queries = queries[:, None]  # (rows, 1), against keys (columns,)
    allowed = ((queries - keys).abs() < window) | (queries < num_global) | (keys < num_global)
    return allowed & (keys <= queries) if is_causal else allowed  # (rows, columns)


def attend(
    query: Tensor, key: Tensor, value: Tensor, rows: Tensor, seen: Tensor, window: int, is_causal: bool, num_global: int
) -> Tensor:
    """Attention of the queries at the positions `rows` to the keys at the positions `seen`: (B, H, rows, d_v)."""
    queries = query[..., rows, :] * query.shape[-1] ** -0.5  # (B, H, rows, d)
    scores = queries @ key[..., seen, :].transpose(-2, -1)  # (B, H, rows, seen)
    # Every query sees itself, so that no row is -inf throughout.
    scores = scores.masked_fill(~may_attend(rows, seen, window, is_causal, num_global), -torch.inf)
    return torch.softmax(scores, dim=-1) @ value[..., seen, :]


### END SOLUTION
