"""Right ways of step 14 that differ from the reference."""

import math

import numpy as np
from numpy.typing import NDArray

from grader.checks.catalogue import variant

Array = NDArray[np.floating]


def weights_of(scores: Array) -> Array:
    """A softmax over the last axis."""
    shifted = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


# --- softmax ----------------------------------------------------------------------------------------------------------


@variant(replaces="softmax")
def last_axis_by_moving(x: Array, axis: int = -1) -> Array:
    """The axis moved to the end and back: a result that is not contiguous."""
    moved = np.moveaxis(x, axis, -1)
    shifted = np.exp(moved - moved.max(-1)[..., None])
    return np.moveaxis(shifted / shifted.sum(-1)[..., None], -1, axis)


@variant(
    replaces="softmax",
    trades="One array in place of three, which counts where memory does; it must copy, or the caller's array is lost.",
)
def in_place_on_a_copy(x: Array, axis: int = -1) -> Array:
    """In place, on a copy of the argument."""
    result = x.copy()
    result -= np.amax(result, axis=axis, keepdims=True)
    np.exp(result, out=result)
    result /= np.add.reduce(result, axis=axis, keepdims=True)
    return result


@variant(replaces="softmax")
def by_the_logarithm(x: Array, axis: int = -1) -> Array:
    """exp(x - logsumexp), with the maximum subtracted first."""
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return np.exp(shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)))


@variant(
    replaces="softmax",
    trades="The last digits are right in float32, too; twice the memory while it runs, and twice the time.",
)
def computed_in_float64(x: Array, axis: int = -1) -> Array:
    """Everything in float64, rounded to the argument's dtype at the end."""
    wide = x.astype(np.float64)
    shifted = np.exp(wide - np.expand_dims(wide.max(axis), axis))
    return (shifted / shifted.sum(axis, keepdims=True)).astype(x.dtype)


@variant(replaces="softmax")
def slice_by_slice(x: Array, axis: int = -1) -> Array:
    """One slice after another."""

    def of_one(row: Array) -> Array:
        exponentials = np.exp(row - row.max())
        return exponentials / exponentials.sum()

    return np.apply_along_axis(of_one, axis, x)


# --- one sequence -----------------------------------------------------------------------------------------------------


@variant(
    replaces="self_attention",
    trades="It scales T × d numbers in place of T × T; the last digit may differ.",
)
def queries_scaled_first(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The queries are divided by the root, and products are written by `einsum`."""
    query = np.einsum("tm,mk->tk", X, W_Q) / float(np.sqrt(W_Q.shape[1]))
    weights = weights_of(np.einsum("qd,kd->qk", query, X.dot(W_K)))
    return np.einsum("qk,kd->qd", weights, X.dot(W_V)), weights


@variant(replaces="self_attention")
def power_for_the_root(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> list[Array]:
    """`d_k ** -0.5`, `np.dot`, and a list for the pair."""
    Q, K, V = np.dot(X, W_Q), np.dot(X, W_K), np.dot(X, W_V)
    weights = weights_of(np.dot(Q, K.T) * Q.shape[1] ** -0.5)
    return [np.dot(weights, V), weights]


@variant(replaces="self_attention")
def root_in_the_arguments_dtype(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """NumPy's root, converted to the dtype of X."""
    d_k = W_K.shape[-1]
    weights = weights_of((X @ W_Q) @ (X @ W_K).T / np.sqrt(d_k).astype(X.dtype))
    return weights @ X @ W_V, weights


@variant(
    replaces="causal_self_attention",
    trades="The scores are changed where they lie; the indices of the hidden ones take memory of their own.",
)
def minus_infinity_filled(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """Minus infinity written into the scores above the diagonal."""
    scores = X @ W_Q @ (X @ W_K).T / math.sqrt(W_Q.shape[-1])
    scores[np.triu_indices(len(X), k=1)] = -np.inf
    weights = weights_of(scores)
    return weights @ (X @ W_V), weights


@variant(
    replaces="causal_self_attention",
    trades="No minus infinity, so nothing can turn to NaN; scores near a billion would break it.",
)
def additive_mask(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The tutorials' -1e9, added above the diagonal in the dtype of X."""
    tokens = X.shape[0]
    mask = np.triu(np.ones((tokens, tokens), dtype=X.dtype), k=1) * X.dtype.type(-1e9)
    weights = weights_of((X @ W_Q) @ (X @ W_K).T / math.sqrt(W_K.shape[1]) + mask)
    return weights @ (X @ W_V), weights


@variant(replaces="causal_self_attention")
def causal_query_by_query(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """Each query attends to the keys up to its own."""
    query, key, value = X @ W_Q, X @ W_K, X @ W_V
    weights = np.zeros((len(X), len(X)), dtype=X.dtype)
    for row in range(len(X)):
        weights[row, : row + 1] = weights_of(key[: row + 1] @ query[row] / math.sqrt(len(query[row])))
    return weights @ value, weights


# --- many sequences ---------------------------------------------------------------------------------------------------


@variant(
    replaces="batch_self_attention",
    trades="Every axis has a name, so nothing is transposed; without `optimize` NumPy's einsum may not use BLAS.",
)
def batch_by_einsum(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """`einsum` with an ellipsis."""
    query, key, value = (np.einsum("...tm,mk->...tk", X, W) for W in (W_Q, W_K, W_V))
    weights = weights_of(np.einsum("...qd,...kd->...qk", query, key) / math.sqrt(key.shape[-1]))
    return np.einsum("...qk,...kd->...qd", weights, value)


@variant(
    replaces="batch_self_attention",
    trades="The scores of only one sequence are in memory at a time; a loop in Python for every sequence.",
)
def batch_one_by_one(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """All leading axes flattened into one, and a loop over it."""
    rows = []
    for sequence in X.reshape(-1, *X.shape[-2:]):
        weights = weights_of(sequence @ W_Q @ (sequence @ W_K).T / W_K.shape[-1] ** 0.5)
        rows.append(weights @ (sequence @ W_V))
    return np.stack(rows).reshape(*X.shape[:-1], W_V.shape[-1])


@variant(replaces="batch_self_attention")
def batch_by_recursion(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """A call of itself for each entry of the first axis, and `matrix_transpose`."""
    if X.ndim > 2:
        return np.array([batch_by_recursion(entry, W_Q, W_K, W_V) for entry in X])
    weights = weights_of(np.matmul(X @ W_Q, np.transpose(X @ W_K)) / math.sqrt(W_Q.shape[1]))
    return np.matmul(weights, X @ W_V)


# --- little memory ----------------------------------------------------------------------------------------------------


@variant(
    replaces="memory_efficient_attention",
    trades="It works while the keys are still coming, as in step 10; exponentials are rescaled at every chunk.",
)
def chunks_of_keys(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """Chunks of keys with an online softmax."""
    maximum = np.full((len(Q), 1), -np.inf, dtype=Q.dtype)
    total = np.zeros((len(Q), 1), dtype=Q.dtype)
    output = np.zeros((len(Q), V.shape[1]), dtype=Q.dtype)
    for first in range(0, len(K), chunk_size):
        scores = Q @ K[first : first + chunk_size].T / math.sqrt(Q.shape[1])
        larger = np.maximum(maximum, scores.max(axis=1, keepdims=True))
        exponentials, rescale = np.exp(scores - larger), np.exp(maximum - larger)
        total = total * rescale + exponentials.sum(axis=1, keepdims=True)
        output = output * rescale + exponentials @ V[first : first + chunk_size]
        maximum = larger
    return output / total


@variant(
    replaces="memory_efficient_attention",
    trades="The least memory of all, one row of scores; T_q products of a matrix with a vector are slow.",
)
def query_by_query(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """One query after another, whatever the chunk's size."""
    root = math.sqrt(K.shape[-1])
    return np.array([weights_of(K @ query / root) @ V for query in Q])


@variant(replaces="memory_efficient_attention")
def chunks_concatenated(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """The outputs of chunks of queries, concatenated."""
    chunks = [Q[first : first + chunk_size] for first in range(0, Q.shape[0], chunk_size)]
    return np.concatenate([weights_of(chunk @ K.T * K.shape[1] ** -0.5) @ V for chunk in chunks], axis=0)


@variant(replaces="memory_efficient_attention")
def blocks_of_both(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """Blocks of queries and keys, the sums kept in float64."""
    blocks = []
    for start in range(0, len(Q), chunk_size):
        query = Q[start : start + chunk_size].astype(np.float64) / math.sqrt(Q.shape[1])
        top, total, mixed = np.full(len(query), -np.inf), np.zeros(len(query)), np.zeros((len(query), V.shape[1]))
        for first in range(0, len(K), chunk_size):
            scores = query @ K[first : first + chunk_size].T
            larger = np.maximum(top, scores.max(axis=1))
            exponentials = np.exp(scores - larger[:, np.newaxis])
            total = total * np.exp(top - larger) + exponentials.sum(axis=1)
            mixed = mixed * np.exp(top - larger)[:, None] + exponentials @ V[first : first + chunk_size]
            top = larger
        blocks.append((mixed / total[:, None]).astype(Q.dtype))
    return np.vstack(blocks)
