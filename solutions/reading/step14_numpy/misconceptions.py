"""What learners get wrong in step 14, each with the check that catches it."""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from grader.checks.catalogue import misconception
from solutions.reading.step14_numpy import reference
from solutions.reading.step14_numpy.reference import scaled_scores, softmax

Array = NDArray[np.floating]


def projected(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array, Array]:
    """Queries, keys and values."""
    return X @ W_Q, X @ W_K, X @ W_V


# --- softmax ----------------------------------------------------------------------------------------------------------


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def axis_ignored(x: Array, axis: int = -1) -> Array:
    """The softmax always ran along the last axis.

    `axis` says along which numbers the weights sum to 1.

    Where do `max` and `sum` get to know the axis?
    """
    return softmax(x)


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def first_axis_by_default(x: Array, axis: int = 0) -> Array:
    """The softmax ran along the first axis unless told otherwise.

    The default is the last axis, -1: a row of scores belongs to one query.

    Along which axis should the weights of a matrix sum to 1?
    """
    return softmax(x, axis)


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def exponentials_not_divided(x: Array, axis: int = -1) -> Array:
    """The exponentials were returned without being divided by their sum.

    Weights sum to 1.

    What is left to be done with the sum of each slice?
    """
    return np.exp(x - x.max(axis=axis, keepdims=True))


@misconception(replaces="softmax", caught_by="test_softmax_extremes")
def no_maximum_subtracted(x: Array, axis: int = -1) -> Array:
    """The exponentials were taken of the numbers as they are.

    exp(10000) overflows to infinity, and infinity divided by infinity is NaN.

    Which number can you subtract from a whole slice without changing its weights?
    """
    with np.errstate(all="ignore"):
        exponentials = np.exp(x)
        return exponentials / exponentials.sum(axis=axis, keepdims=True)


@misconception(replaces="softmax", caught_by="test_softmax_extremes")
def maximum_of_the_whole_array(x: Array, axis: int = -1) -> Array:
    """The maximum of the whole array was subtracted from every slice.

    A slice that lies far below it becomes all zeros, and 0 / 0 is NaN.

    Of which numbers should the maximum be taken, and what does `keepdims` do for it?
    """
    with np.errstate(all="ignore"):
        exponentials = np.exp(x - x.max())
        return exponentials / exponentials.sum(axis=axis, keepdims=True)


@misconception(replaces="softmax", caught_by="test_softmax_extremes")
def minimum_subtracted(x: Array, axis: int = -1) -> Array:
    """The minimum, or the mean, was subtracted, which leaves large numbers large.

    After the subtraction no number may be above 0, so that no exponential is above 1.

    Which number of a slice makes all the others at most 0?
    """
    with np.errstate(all="ignore"):
        exponentials = np.exp(x - x.min(axis=axis, keepdims=True))
        return exponentials / exponentials.sum(axis=axis, keepdims=True)


@misconception(replaces="softmax", caught_by="test_softmax_extremes")
def logsumexp_without_the_maximum(x: Array, axis: int = -1) -> Array:
    """The weights were computed as exp(x - logsumexp(x)) from the large numbers themselves.

    A logarithm near 10000 is rounded by 1e-3 in float32, and so are the weights: a slice no longer sums to 1.

    What if the maximum is subtracted first?
    """
    return np.exp(x - np.logaddexp.reduce(x, axis=axis, keepdims=True))


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def sum_without_its_axis(x: Array, axis: int = -1) -> Array:
    """The sum was taken without `keepdims`, so that it was lined up with the wrong axis.

    `(2, 2) / (2,)` divides column j by number j. With other sizes it raises an error; here it is silently wrong.

    What does `keepdims=True` do to the shape of the sums?
    """
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis)


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def maximum_without_its_axis(x: Array, axis: int = -1) -> Array:
    """The maximum was taken without `keepdims`, so that it was lined up with the wrong axis.

    `(2, 2) - (2,)` subtracts number j from column j, so the numbers of one slice are no longer moved alike.

    What does `keepdims=True` do to the shape of the maxima?
    """
    exponentials = np.exp(x - x.max(axis=axis))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def divided_by_everything(x: Array, axis: int = -1) -> Array:
    """Everything was divided by the sum of the whole array.

    Each slice sums to 1 by itself.

    Over which axis should the sum run?
    """
    exponentials = np.exp(x - x.max())
    return exponentials / exponentials.sum()


@misconception(replaces="softmax", caught_by="test_float32_stays_float32")
def softmax_in_float64(x: Array, axis: int = -1) -> Array:
    """A float32 array gave float64 weights.

    A conversion, or a NumPy scalar of float64, makes everything that it meets float64.

    Which of your operations changes the dtype? Print `.dtype` line by line.
    """
    return softmax(x.astype(np.float64), axis)


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def softmax_in_float32(x: Array, axis: int = -1) -> Array:
    """A float64 array gave float32 weights.

    The result has the argument's dtype, and nothing is computed in less.

    Which of your operations names a dtype?
    """
    return softmax(x.astype(np.float32), axis)


@misconception(replaces="softmax", caught_by="test_softmax_of_any_shape")
def digits_lost_in_float32(x: Array, axis: int = -1) -> Array:
    """A float64 array was computed in float32 and converted back, or something was added to the sum.

    The dtype is right, but half of the digits are gone.

    Which of your operations is not exact to fifteen digits?
    """
    return softmax(x.astype(np.float32), axis).astype(x.dtype)


@misconception(replaces="softmax", caught_by="test_softmax_of_any_shape")
def callers_array_overwritten(x: Array, axis: int = -1) -> Array:
    """The maximum was subtracted in the caller's own array.

    `x -= ...` and `np.exp(x, out=x)` write over the array that was passed in.

    Which of your operations makes a new array, and which one writes into an old one?
    """
    x -= x.max(axis=axis, keepdims=True)
    exponentials = np.exp(x)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


KEPT: dict[tuple[tuple[int, ...], np.dtype], Array] = {}


@misconception(replaces="softmax", caught_by="test_any_regime")
def result_in_kept_memory(x: Array, axis: int = -1) -> Array:
    """The weights were written into an array that is kept from call to call.

    The next call of the same shape overwrites the weights that this one gave.

    Whose is the array that your function returns?
    """
    weights = KEPT.setdefault((x.shape, x.dtype), np.empty(x.shape, x.dtype))
    weights[...] = softmax(x, axis)
    return weights


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def torchs_softmax(x: Array, axis: int = -1) -> Array:
    """torch did the work.

    This step is written in NumPy alone.

    Which two functions of NumPy does a softmax need?
    """
    return torch.softmax(torch.from_numpy(np.ascontiguousarray(x)), axis).numpy()


@misconception(replaces="softmax", caught_by="test_softmax_of_any_shape")
def last_two_axes_only(x: Array, axis: int = -1) -> Array:
    """The sum was given its axis back with `[:, None]`, which is right for the last axis of a matrix only.

    An array has any number of axes, and the softmax may run along any of them.

    What keeps an axis in its place, wherever it is?
    """
    if x.ndim == 2 and axis in (0, -2):
        return softmax(x, 0)
    exponentials = np.exp(x - x.max(axis=axis)[:, None])
    return exponentials / exponentials.sum(axis=axis)[:, None]


# --- self-attention ---------------------------------------------------------------------------------------------------


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def not_scaled(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The scores were not divided by √d_k.

    A sum of d_k products grows with d_k, and the softmax of large scores is nearly all or nothing.

    What stands between the product of queries and keys and the softmax?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(Q @ K.T)
    return weights @ V, weights


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def divided_by_the_width_itself(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The scores were divided by d_k, not by its root.

    Products of d_k random terms have a size of √d_k, and it is this size that is divided out.

    Where is the square root?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(Q @ K.T / K.shape[-1])
    return weights @ V, weights


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def multiplied_by_the_root(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The scores were multiplied by √d_k, not divided by it.

    Scaling is there to make large scores smaller.

    Which sign does the exponent of d_k have?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(Q @ K.T * math.sqrt(K.shape[-1]))
    return weights @ V, weights


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def scaled_by_the_models_width(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The scores were divided by the root of d_model.

    A score is a sum of d_k products: d_k is the width of queries and keys.

    Of which array do you take the width?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(Q @ K.T / math.sqrt(X.shape[-1]))
    return weights @ V, weights


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def scaled_by_the_values_width(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The scores were divided by the root of d_v.

    A score is a sum of d_k products: d_k is the width of queries and keys.

    Of which array do you take the width?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(Q @ K.T / math.sqrt(V.shape[-1]))
    return weights @ V, weights


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def scaled_by_the_length(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The scores were divided by the root of the number of tokens.

    `len` and `shape[0]` give the number of rows; the width is the last axis.

    What does `shape[-1]` give?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(Q @ K.T / math.sqrt(len(K)))
    return weights @ V, weights


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def weights_of_a_linear_layer(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The matrices were transposed before they were multiplied: X @ W.T.

    `nn.Linear` keeps its weight as (out, in) and does that. Here a matrix is (in, out), and X @ W is all.

    What are the shapes of X and W_Q?
    """
    return reference.self_attention(X, W_Q.T, W_K.T, W_V.T)


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def dot_with_the_transposed_matrix(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The matrices were transposed before they were multiplied: np.dot(X, W.T), or np.inner(X, W).

    `nn.Linear` keeps its weight as (out, in) and does that. Here a matrix is (in, out), and X @ W is all.

    What are the shapes of X and W_Q?
    """
    Q, K, V = np.dot(X, W_Q.T), np.dot(X, W_K.T), np.dot(X, W_V.T)
    weights = softmax(scaled_scores(Q, K))
    return weights @ V, weights


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def keys_ask_queries(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """Keys and queries changed places.

    A row of the scores belongs to a query. K @ Q.T is the transposed matrix, and its softmax is another one.

    Which of the two stands first in the product?
    """
    return reference.self_attention(X, W_K, W_Q, W_V)


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def softmax_over_the_queries(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The softmax ran down the columns, over the queries.

    Each query gives away a weight of 1: it is the rows that sum to 1.

    Along which axis do the keys lie?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(scaled_scores(Q, K), axis=0)
    return weights @ V, weights


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def scores_returned(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The scores were returned in place of the weights.

    The second of the pair is what the values were weighted with: it sums to 1 in each row.

    Which of your variables went through the softmax?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    scores = scaled_scores(Q, K)
    return softmax(scores) @ V, scores


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def values_weighted_by_scores(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The values were multiplied by the scores, not by the weights.

    The output is a mean of values, and the softmax makes the weights of that mean.

    With what should V be multiplied?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    scores = scaled_scores(Q, K)
    return scores @ V, softmax(scores)


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def attention_pair_exchanged(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The weights were returned first, and the output second.

    The pair is `(output, attention_weights)`.

    Which of the two is named first in the docstring?
    """
    output, weights = reference.self_attention(X, W_Q, W_K, W_V)
    return weights, output


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def output_alone(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """The output was returned without the weights.

    The pair is `(output, attention_weights)`.

    What else does `return` have to hand back?
    """
    return reference.self_attention(X, W_Q, W_K, W_V)[0]


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def weights_turned_round(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The weights were transposed before they met the values.

    Row i of the output is the mean of all values with the weights of row i.

    Which axis of the weights do the keys lie along, and which axis of the values?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(scaled_scores(Q, K))
    return weights.T @ V, weights


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def keys_weighted(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The values were not projected: the weights met X itself, or another projection of it.

    The values are X @ W_V.

    Where does your function use W_V?
    """
    weights = reference.self_attention(X, W_Q, W_K, W_V)[1]
    return weights @ X, weights


@misconception(replaces="self_attention", caught_by="test_float32_stays_float32")
def float64_scalar(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """A float32 sequence gave float64 results: `np.sqrt(d_k)`, or another scalar of NumPy's, was on the way.

    `np.sqrt` of an integer is a float64, and in NumPy 2 that makes every array it meets float64.

    What does `math.sqrt` give, and what does NumPy do with a Python float?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(Q @ K.T / np.sqrt(K.shape[-1]))
    return weights @ V, weights


# --- under a causal mask ----------------------------------------------------------------------------------------------


def causal(X: Array, W_Q: Array, W_K: Array, W_V: Array, visible: Array) -> tuple[Array, Array]:
    """Attention under a boolean mask."""
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(np.where(visible, scaled_scores(Q, K), -np.inf))
    return weights @ V, weights


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def nothing_masked(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """Every token saw every other.

    A later token must have weight exactly 0.

    Where does your function hide the upper right triangle?
    """
    return reference.self_attention(X, W_Q, W_K, W_V)


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def past_masked(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The past was hidden, and the future was seen.

    Above the diagonal the column, the key, comes after the row, the query.

    Which triangle is to be hidden?
    """
    return causal(X, W_Q, W_K, W_V, ~np.tri(len(X), k=-1, dtype=bool))


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def next_token_seen(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """Each token also saw the next one.

    That is the one that a model has to predict.

    On which diagonal does your triangle begin: what does `k` move?
    """
    return causal(X, W_Q, W_K, W_V, np.tri(len(X), k=1, dtype=bool))


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def own_token_hidden(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """Each token was hidden from itself.

    A token sees itself and all before it. Without itself the first token sees nothing, and its row is NaN.

    On which diagonal does your triangle begin: what does `k` move?
    """
    with np.errstate(all="ignore"):
        return causal(X, W_Q, W_K, W_V, np.tri(len(X), k=-1, dtype=bool))


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def masked_after_the_softmax(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The mask was applied to the weights, whose rows then sum to less than 1.

    What the softmax gave to later tokens is lost; nobody else gets it.

    What happens to a score that the softmax should pass over?
    """
    V = X @ W_V
    weights = softmax(scaled_scores(X @ W_Q, X @ W_K)) * np.tri(len(X), dtype=X.dtype)
    return weights @ V, weights


@misconception(replaces="causal_self_attention", caught_by="test_causal_with_large_scores")
def renormalised_after_the_softmax(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The mask was applied to the weights, and each row divided by what was left.

    Where a later token has a much larger score it takes all the weight, and what is left is 0 / 0.

    What if the scores are masked, before the softmax?
    """
    weights = softmax(scaled_scores(X @ W_Q, X @ W_K)) * np.tri(len(X), dtype=X.dtype)
    with np.errstate(all="ignore"):
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ (X @ W_V), weights


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def scores_multiplied_by_the_mask(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The scores were multiplied by a mask of ones and zeros.

    A score of 0 is an ordinary score: exp(0) is 1, so later tokens still get weight.

    Which score has an exponential of exactly 0?
    """
    weights = softmax(scaled_scores(X @ W_Q, X @ W_K) * np.tri(len(X), dtype=X.dtype))
    return weights @ (X @ W_V), weights


@misconception(replaces="causal_self_attention", caught_by="test_causal_with_large_scores")
def not_negative_enough(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The hidden scores were filled with a number that is not far enough below the others.

    Next to scores of -10000 a hidden score of -10000 gets its full share.

    Which number is below every score?
    """
    scores = np.where(np.tri(len(X), dtype=bool), scaled_scores(X @ W_Q, X @ W_K), -1e4)
    weights = softmax(scores)
    return weights @ (X @ W_V), weights


@misconception(replaces="causal_self_attention", caught_by="test_causal_with_large_scores")
def small_number_added(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """A number that is not far enough below 0 was added to the hidden scores.

    A score of 10000 and -10000 added give 0: as large as an ordinary score.

    Which number is below every score, whatever it is added to?
    """
    scores = scaled_scores(X @ W_Q, X @ W_K) - 1e4 * np.triu(np.ones((len(X), len(X)), dtype=X.dtype), k=1)
    weights = softmax(scores)
    return weights @ (X @ W_V), weights


@misconception(replaces="causal_self_attention", caught_by="test_float32_stays_float32")
def mask_in_float64(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """A float32 sequence gave float64 results: the mask was float64.

    `np.tri`, `np.triu(np.ones(...))` and `np.full` give float64 unless told otherwise, and so does what they meet.

    Which dtype can the mask have instead?
    """
    hidden = np.triu(np.full((len(X), len(X)), -1e30), k=1)
    weights = softmax(scaled_scores(X @ W_Q, X @ W_K) + hidden)
    return weights @ (X @ W_V), weights


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def causal_not_scaled(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The scores of the causal form were not divided by √d_k.

    The mask changes who is seen, and nothing else.

    What does `self_attention` do between the product and the softmax?
    """
    weights = softmax(np.where(np.tri(len(X), dtype=bool), X @ W_Q @ (X @ W_K).T, -np.inf))
    return weights @ (X @ W_V), weights


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def causal_scores_returned(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The masked scores were returned in place of the weights.

    The second of the pair is what the values were weighted with: it sums to 1 in each row.

    Which of your variables went through the softmax?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    scores = scaled_scores(Q, K)
    scores[np.triu_indices(len(X), k=1)] = -np.inf
    return softmax(scores) @ V, scores


@misconception(replaces="causal_self_attention", caught_by="test_causal")
def causal_scaled_by_the_values_width(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The scores of the causal form were divided by the root of the values' width d_v.

    They are sums over the width of queries and keys: √d_k.

    Over how many products is one score a sum?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    scores = Q @ K.T / math.sqrt(V.shape[-1])
    scores[np.triu_indices(len(X), k=1)] = -np.inf
    weights = softmax(scores)
    return weights @ V, weights


MASK = np.tri(1024, dtype=bool)


@misconception(replaces="causal_self_attention", caught_by="test_any_regime")
def mask_of_a_fixed_length(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """One causal mask was made for all calls, for 1,024 tokens.

    A longer sequence has no mask then.

    Which length does your mask have, and where can you read the right one?
    """
    return causal(X, W_Q, W_K, W_V, MASK[: len(X), : len(X)])


# --- a batch ----------------------------------------------------------------------------------------------------------


@misconception(replaces="batch_self_attention", caught_by="test_batch")
def every_axis_turned(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """The keys were transposed with `.T`, which turns round every axis of a batch.

    `.T` of (B, T, d) is (d, T, B). Only the last two axes should change places.

    What do `np.swapaxes` and `np.matrix_transpose` do?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    return softmax(Q @ K.T / math.sqrt(K.shape[-1])) @ V


@misconception(replaces="batch_self_attention", caught_by="test_batch")
def one_leading_axis(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """Exactly one leading axis was expected.

    There may be none, or two: sequences and documents, say.

    Do you name the axes from the front, 0, 1, 2, or from the back?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    return softmax(Q @ K.transpose(0, 2, 1) / math.sqrt(K.shape[-1])) @ V


@misconception(replaces="batch_self_attention", caught_by="test_batch")
def looped_over_the_first_axis(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """A loop over the first axis took each entry for a sequence.

    That is right with exactly one leading axis. Without any, an entry is a single token.

    Which axes of X are always there?
    """
    return np.stack([reference.self_attention(sequence, W_Q, W_K, W_V)[0] for sequence in X])


@misconception(replaces="batch_self_attention", caught_by="test_batch")
def sequences_mixed(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """The sequences of the batch were joined into one, and attended to each other.

    Each sequence attends by itself: what stands beside it in the batch is a coincidence.

    What shape do the scores have: one matrix, or one per sequence?
    """
    joined = X.reshape(-1, X.shape[-1])
    return reference.self_attention(joined, W_Q, W_K, W_V)[0].reshape(*X.shape[:-1], -1)


@misconception(replaces="batch_self_attention", caught_by="test_batch")
def softmax_over_the_batch(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """The softmax ran along axis 1, or another one counted from the front.

    In (B, T, T) axis 1 are the queries. The keys are the last axis, however many there are before it.

    Which axis has the same name in every shape?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    return softmax(scaled_scores(Q, K), axis=min(1, X.ndim - 1) if X.ndim != 2 else 1) @ V


@misconception(replaces="batch_self_attention", caught_by="test_batch")
def weights_returned_too(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The weights were returned as well.

    The batched form gives the output alone.

    What does the docstring say that it returns?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(scaled_scores(Q, K))
    return weights @ V, weights


@misconception(replaces="batch_self_attention", caught_by="test_batch")
def batch_scaled_by_the_length(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """The width for the scale was read from the wrong axis: `K.shape[1]` of a batch is the number of tokens.

    The width of keys is their last axis.

    Which index gives it in every shape?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    return softmax(Q @ np.swapaxes(K, -2, -1) / math.sqrt(K.shape[min(1, X.ndim - 2)])) @ V


@misconception(replaces="batch_self_attention", caught_by="test_batch")
def batch_not_scaled(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """The scores of the batch were not divided by √d_k.

    Each sequence gets what `self_attention` gives it.

    What stands between the product and the softmax there?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    return softmax(Q @ np.swapaxes(K, -2, -1)) @ V


@misconception(replaces="batch_self_attention", caught_by="test_float32_stays_float32")
def batch_in_float64(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """A float32 batch gave a float64 result: by `np.sqrt(d_k)`, or by an array of zeros that was filled.

    `np.zeros(shape)` is float64 unless it is told a dtype, and what is written into it takes it over.

    From where can a new array take its dtype?
    """
    return reference.batch_self_attention(X, W_Q, W_K, W_V).astype(np.float64)


# --- little memory ----------------------------------------------------------------------------------------------------


def chunks(length: int, chunk_size: int) -> list[slice]:
    """Slices that follow each other; the last may be shorter."""
    return [slice(first, min(first + chunk_size, length)) for first in range(0, length, chunk_size)]


def chunk_attention(Q: Array, K: Array, V: Array) -> Array:
    """Attention of some queries to some keys."""
    return softmax(scaled_scores(Q, K)) @ V


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def own_chunk_of_keys(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """Each chunk of queries saw only its own chunk of keys.

    Attention is exact here: every query attends to every key, also in other chunks.

    Which of Q, K and V do you cut into chunks, and what happens to the other keys?
    """
    output = np.zeros((len(Q), V.shape[-1]), dtype=V.dtype)
    for rows in chunks(min(len(Q), len(K)), chunk_size):
        output[rows] = chunk_attention(Q[rows], K[rows], V[rows])
    return output


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def last_chunk_dropped(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """Only full chunks of queries were computed; the rows left over stayed empty.

    With 7 queries and chunks of 3 there are three chunks, the last of one row.

    How many chunks are there when the length is no multiple of chunk_size?
    """
    output = np.zeros((len(Q), V.shape[-1]), dtype=V.dtype)
    for number in range(len(Q) // chunk_size):
        rows = slice(number * chunk_size, (number + 1) * chunk_size)
        output[rows] = chunk_attention(Q[rows], K, V)
    return output


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def last_keys_dropped(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """Only full chunks of keys were read; the keys left over got no weight.

    With 7 keys and chunks of 3 there are three chunks, the last of one key.

    How many chunks are there when the length is no multiple of chunk_size?
    """
    full = max(len(K) // chunk_size * chunk_size, 1)
    return reference.memory_efficient_attention(Q, K[:full], V[:full], chunk_size)


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_stays_small")
def whole_matrix_first(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """All scores were in memory at once: made before the first chunk, or kept of every chunk until the end.

    All of them are the whole matrix: at 1000 tokens it is several times what is allowed.

    Which rows of Q does one chunk of the scores need?
    """
    scores = scaled_scores(Q, K)
    return np.concatenate([softmax(scores[rows]) @ V for rows in chunks(len(Q), chunk_size)])


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_stays_small")
def no_chunks(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """There are no chunks: all scores were made at once.

    The result is right, but the memory grows with the square of the length.

    Where does your function use chunk_size?
    """
    return chunk_attention(Q, K, V)


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_stays_small")
def chunks_kept_until_the_end(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """The scores or weights of all chunks were in memory together: kept until the end, or made before the first chunk.

    All of them together are the whole matrix.

    What can be done with a chunk's weights at once, so that they can be forgotten?
    """
    kept = [softmax(scaled_scores(Q[rows], K)) for rows in chunks(len(Q), chunk_size)]
    return np.concatenate([weights @ V for weights in kept])


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_stays_small")
def number_of_chunks(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """chunk_size was taken for the number of chunks, as `np.array_split` takes it.

    With 1000 tokens and a chunk_size of 8 that makes chunks of 125 rows in place of 8.

    How many rows should a chunk have?
    """
    return np.concatenate([chunk_attention(rows, K, V) for rows in np.array_split(Q, chunk_size) if len(rows)])


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_stays_small")
def chunk_size_ignored(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """The chunks always had the same size, whatever chunk_size says.

    It is how the caller chooses between memory and speed.

    Where does your function use chunk_size?
    """
    return reference.memory_efficient_attention(Q, K, V, 64)


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def chunks_of_keys_averaged(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """Each chunk of keys had a softmax of its own, and the results were averaged.

    A chunk of keys that hardly matters then counts as much as one that matters most.

    With what would the results of two chunks have to be weighted?
    """
    parts = [chunk_attention(Q, K[columns], V[columns]) for columns in chunks(len(K), chunk_size)]
    return sum(parts[1:], parts[0]) / len(parts)


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def chunks_of_keys_summed(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """Each chunk of keys had a softmax of its own, and the results were added up.

    Then the weights of a query sum to the number of chunks.

    What must all the weights of one query sum to?
    """
    parts = [chunk_attention(Q, K[columns], V[columns]) for columns in chunks(len(K), chunk_size)]
    return sum(parts[1:], parts[0])


def online(Q: Array, K: Array, V: Array, chunk_size: int, with_output: bool, with_total: bool) -> Array:
    """An online softmax in which the output, or the total, is rescaled or not."""
    maximum = np.full((len(Q), 1), -np.inf, dtype=Q.dtype)
    total, output = np.zeros((len(Q), 1), dtype=Q.dtype), np.zeros((len(Q), V.shape[-1]), dtype=Q.dtype)
    for columns in chunks(len(K), chunk_size):
        scores = scaled_scores(Q, K[columns])
        larger = np.maximum(maximum, scores.max(axis=-1, keepdims=True))
        exponentials, rescale = np.exp(scores - larger), np.exp(maximum - larger)
        total = total * (rescale if with_total else 1) + exponentials.sum(axis=-1, keepdims=True)
        output = output * (rescale if with_output else 1) + exponentials @ V[columns]
        maximum = larger
    return output / total


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def output_not_rescaled(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """When a later chunk raised the maximum, the output added up so far was not rescaled.

    It is in units of exp(old maximum), and what is added next in units of exp(new maximum).

    By which factor do the two units differ?
    """
    return online(Q, K, V, chunk_size, with_output=False, with_total=True)


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def total_not_rescaled(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """When a later chunk raised the maximum, the denominator added up so far was not rescaled.

    It is in units of exp(old maximum), and what is added next in units of exp(new maximum).

    By which factor do the two units differ?
    """
    return online(Q, K, V, chunk_size, with_output=True, with_total=False)


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def nothing_rescaled(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """Each chunk of keys subtracted its own maximum, and the sums were added up as they were.

    The largest score of every chunk then counts as 1, however small it is.

    By which factor do the units of two chunks differ?
    """
    return online(Q, K, V, chunk_size, with_output=False, with_total=False)


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def chunks_not_scaled(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """The scores of the chunks were not divided by √d_k.

    Chunks change the order of the work, not its result.

    What stands between the product and the softmax in `self_attention`?
    """
    return reference.memory_efficient_attention(Q * math.sqrt(Q.shape[-1]), K, V, chunk_size)


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def queries_scaled_in_place(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """The queries were scaled where they lie, `Q /= …` or `Q *= …`: the caller's array was changed.

    A second call with the same array divides once more.

    Which operator makes a new array, `/` or `/=`?
    """
    Q /= math.sqrt(K.shape[-1])
    return np.concatenate([softmax(Q[rows] @ K.T) @ V for rows in chunks(len(Q), chunk_size)])


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def maximum_of_each_chunk(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """Each chunk of keys subtracted its own maximum, whatever the maximum of the chunks before was.

    The exponentials of two chunks are then in different units, and can't be added.

    Which maximum do all the sums have to be in?
    """
    total, output = np.zeros((len(Q), 1), dtype=Q.dtype), np.zeros((len(Q), V.shape[-1]), dtype=Q.dtype)
    for columns in chunks(len(K), chunk_size):
        scores = scaled_scores(Q, K[columns])
        exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
        total, output = total + exponentials.sum(axis=-1, keepdims=True), output + exponentials @ V[columns]
    return output / total


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def scaled_by_the_chunk(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """The scores were divided by the root of the values' width or of the chunk's length, not of d_k.

    A score is a sum of d_k products.

    Of which array do you take the width?
    """
    return reference.memory_efficient_attention(Q * math.sqrt(Q.shape[-1] / V.shape[-1]), K, V, chunk_size)


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def chunks_overflow(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """No maximum was subtracted: the exponentials of the chunks were added up as they are.

    That makes chunks of keys easy to add, but exp(1000) overflows.

    How can a running maximum be kept, and what must happen when it grows?
    """
    total, output = np.zeros((len(Q), 1), dtype=Q.dtype), np.zeros((len(Q), V.shape[-1]), dtype=Q.dtype)
    with np.errstate(all="ignore"):
        for columns in chunks(len(K), chunk_size):
            exponentials = np.exp(scaled_scores(Q, K[columns]))
            total = total + exponentials.sum(axis=-1, keepdims=True)
            output = output + exponentials @ V[columns]
        return output / total


@misconception(replaces="memory_efficient_attention", caught_by="test_float32_stays_float32")
def buffer_in_float64(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """A float32 call gave a float64 result: the output was collected in `np.zeros(shape)`.

    A new array is float64 unless it is told a dtype.

    From which of the arguments can it take its dtype?
    """
    output = np.zeros((len(Q), V.shape[-1]))
    for rows in chunks(len(Q), chunk_size):
        output[rows] = chunk_attention(Q[rows], K, V)
    return output


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def output_as_wide_as_the_queries(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """The output was made in the shape of the queries.

    It has one row per query, and the width of the values, which may be another one.

    Which two sizes does the output have?
    """
    output = np.zeros_like(Q)
    for rows in chunks(len(Q), chunk_size):
        output[rows] = chunk_attention(Q[rows], K, V)
    return output


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def chunks_with_keys_as_queries(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """Keys and queries changed places.

    There is one row of output per query.

    Which of Q and K is cut into chunks, and which stands first in the product?
    """
    return reference.memory_efficient_attention(K, Q, V[: len(Q)], chunk_size)
