"""Attention in NumPy alone

The same attention once more, without torch: no gradients, no devices, nothing but arrays. What torch did in silence has
to be seen to here: which axis, which dtype, and how much memory.

Arrays come in and arrays go out. X holds row vectors, one token per row, and is multiplied from the right: X @ W.
float32 stays float32 and float64 stays float64, and no result is computed in less than its own dtype.

Asked everywhere: views with any strides (transposed, sliced, reversed) and more than 1,024 tokens. Arguments stay
unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is right.

Off limits: torch, in every form.
"""

import math

import numpy as np


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Turn the numbers along one axis into weights that sum to 1.

    Shapes: any shape with at least one axis; the result has the same. `axis` is any axis, also a negative one. Entries
    of 10000 and -10000 give finite weights, and each slice sums to 1 within 1e-5 there too. An entry of minus infinity
    gets weight exactly 0; every slice has a finite entry.
    """
    ### BEGIN SOLUTION
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))  # exp(10000) is beyond any float
    return exponentials / exponentials.sum(axis=axis, keepdims=True)
    ### END SOLUTION


def self_attention(X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Attention of a sequence to itself, scaled by the root of d_k: `(output, attention_weights)`.

    Shapes: `X` is `(T, d_model)`, `W_Q` and `W_K` are `(d_model, d_k)`, `W_V` is `(d_model, d_v)`; the output is
    `(T, d_v)`, the weights are `(T, T)`, one row per query.
    """
    ### BEGIN SOLUTION
    weights = softmax(scaled_scores(X @ W_Q, X @ W_K))  # (T, T)
    return weights @ (X @ W_V), weights  # (T, d_v), (T, T)
    ### END SOLUTION


def causal_self_attention(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`self_attention` in which no token sees a later one: `(output, attention_weights)`, of the same shapes.

    A later token has weight exactly 0, and each row sums to 1, with scores up to 10000 and -10000 too.
    """
    ### BEGIN SOLUTION
    scores = scaled_scores(X @ W_Q, X @ W_K)  # (T, T)
    visible = np.tri(len(X), dtype=bool)  # (T, T), True on and below the diagonal
    weights = softmax(np.where(visible, scores, -np.inf))  # (T, T)
    return weights @ (X @ W_V), weights  # (T, d_v), (T, T)
    ### END SOLUTION


def batch_self_attention(X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray) -> np.ndarray:
    """The output of `self_attention` (without the weights) for each sequence of a batch by itself.

    Shapes: `X` is `(..., T, d_model)`, `...` being any number of leading axes, none included; the matrices are as in
    `self_attention`, and the result is `(..., T, d_v)`.
    """
    ### BEGIN SOLUTION
    weights = softmax(scaled_scores(X @ W_Q, X @ W_K))  # (..., T, T)
    return weights @ (X @ W_V)  # (..., T, d_v)
    ### END SOLUTION


def memory_efficient_attention(Q: np.ndarray, K: np.ndarray, V: np.ndarray, chunk_size: int = 32) -> np.ndarray:
    """Exact attention, scaled by the root of d_k and without a mask, that never holds the whole matrix of scores.

    Shapes: `Q` is `(T_q, d_k)`, `K` is `(T_k, d_k)`, `V` is `(T_k, d_v)`; the result is `(T_q, d_v)`. Any lengths: also
    shorter than `chunk_size`, also no multiple of it. Work through chunks of queries or of keys, as you like.

    The memory that NumPy takes during the call (the peak that `tracemalloc` sees) stays below
    8 * (8 * chunk_size * max(T_q, T_k) + 4 * (T_q + T_k) * (d_k + d_v)) bytes, at lengths many times `chunk_size`.
    """
    ### BEGIN SOLUTION
    output = np.empty((len(Q), V.shape[-1]), dtype=V.dtype)  # (T_q, d_v)
    for first in range(0, len(Q), chunk_size):
        rows = slice(first, first + chunk_size)  # a slice ends where the array does: the last chunk may be shorter
        output[rows] = softmax(scaled_scores(Q[rows], K)) @ V  # (rows, T_k) @ (T_k, d_v) -> (rows, d_v)
    return output
    ### END SOLUTION


### BEGIN SOLUTION
def scaled_scores(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Every query with every key, over the root of d_k: `(..., T_q, d_k)`, `(..., T_k, d_k)` -> `(..., T_q, T_k)`."""
    # math.sqrt gives a Python float, which leaves a float32 array what it is; np.sqrt gives a float64, which does not.
    return Q @ np.swapaxes(K, -2, -1) / math.sqrt(K.shape[-1])


### END SOLUTION
