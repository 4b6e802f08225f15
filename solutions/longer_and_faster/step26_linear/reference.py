"""Linear attention: a state in place of a matrix

Attention compares each query with each key. Take the softmax away, put a feature map on queries and keys in its place,
and the sums can be taken in another order: first over keys and values, into one small matrix, then with each query. No
T x T matrix is left, and a causal model needs no more memory of its past than that one matrix.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. Where a ValueError is named, any error will do.

Off limits: nothing.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def feature_map(x: Tensor) -> Tensor:
    """Return elu(x) + 1, element by element: x + 1 above 0, exp(x) below. Any shape; always positive.

    Its gradient is finite for any finite x.
    """
    ### BEGIN SOLUTION
    return F.elu(x) + 1
    ### END SOLUTION


def linear_attention(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Attention whose weights are phi(query) . phi(key), phi being feature_map, divided by their sum over the keys.

    query: (B, H, T_q, d), key: (B, H, T_k, d), value: (B, H, T_k, d_v) -> context: (B, H, T_q, d_v). Nothing is divided
    by the root of d. A guard of up to 1e-6 beside the denominator is right.
    is_causal: both sums, of the values and of the weights, are over the keys 0 to i for query i. Raises ValueError when
    T_q and T_k differ then.
    Memory: no tensor may hold a T_q x T_k matrix. Per batch and head the largest storage has at most
    (max(T_q, T_k) + 64) * max(64, (d + 1) * (d_v + 1)) elements, and all that are there at the same time have at most
    twice as many. Matrix products take at most a quarter of the 2 * T_q * T_k * (d + d_v) operations of all pairs.
    """
    ### BEGIN SOLUTION
    num_queries, num_keys = query.shape[-2], key.shape[-2]
    if is_causal and num_queries != num_keys:
        raise ValueError(f"is_causal needs as many queries as keys, not {num_queries} queries and {num_keys} keys")
    query, key = feature_map(query), feature_map(key)
    # A column of ones beside the values: its weighted sum is the sum of the weights, the denominator.
    value = torch.cat((value, torch.ones_like(value[..., :1])), dim=-1)  # (B, H, T_k, d_v + 1)
    sums = causal_sums(query, key, value) if is_causal else query @ (key.transpose(-2, -1) @ value)
    return sums[..., :-1] / sums[..., -1:]  # (B, H, T_q, d_v)
    ### END SOLUTION


def linear_attention_step(
    query: Tensor, key: Tensor, value: Tensor, state: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """One more token of causal linear attention: return (output, state).

    query, key: (B, H, d), value: (B, H, d_v) -> output: (B, H, d_v), what linear_attention gives for this token with
    is_causal. state is the pair of the sums over all tokens up to and including this one: of phi(key) value^T,
    (B, H, d, d_v), and of phi(key), (B, H, d). None stands for no token yet. The state that is passed in is not
    modified, and gradients flow through it.
    """
    ### BEGIN SOLUTION
    query, key = feature_map(query), feature_map(key)  # (B, H, d)
    products = key[..., :, None] * value[..., None, :]  # (B, H, d, 1) * (B, H, 1, d_v) -> (B, H, d, d_v)
    if state is not None:
        products, key = products + state[0], key + state[1]
    weighted = (query[..., None, :] @ products).squeeze(-2)  # (B, H, 1, d) @ (B, H, d, d_v) -> (B, H, d_v)
    total = (query * key).sum(dim=-1, keepdim=True)  # (B, H, 1)
    return weighted / total, (products, key)
    ### END SOLUTION


### BEGIN SOLUTION
CHUNK = 32  # tokens whose weights are made at once: a small matrix, and a state for each chunk and not each token


def causal_sums(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The sums of phi(q_i) . phi(k_j) v_j over j <= i: the past by its state, the own chunk by its weights."""
    state = torch.zeros_like(key[..., :1, :].transpose(-2, -1) * value[..., :1, :])  # (B, H, d, d_v)
    sums = []
    for q, k, v in zip(query.split(CHUNK, -2), key.split(CHUNK, -2), value.split(CHUNK, -2), strict=True):
        weights = (q @ k.transpose(-2, -1)).tril()  # (B, H, rows, rows)
        sums.append(q @ state + weights @ v)
        state = state + k.transpose(-2, -1) @ v
    return torch.cat(sums, dim=-2)


### END SOLUTION
