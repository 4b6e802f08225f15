"""What learners get wrong in `batch_self_attention`, each with the check that catches it."""

import math

import numpy as np

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step14_numpy import reference
from solutions.reading.step14_numpy.misconceptions.arrays import Array, projected
from solutions.reading.step14_numpy.reference import scaled_scores, softmax


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


@another_form(one_leading_axis)
def shape_unpacked_into_three(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    _batch, _tokens, _width = X.shape
    return reference.batch_self_attention(X, W_Q, W_K, W_V)


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


@another_form(one_leading_axis)
def axes_one_and_two_swapped(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    Q, K, V = projected(X, W_Q, W_K, W_V)
    return softmax(Q @ np.swapaxes(K, 1, 2) / math.sqrt(K.shape[-1])) @ V


@another_form(one_leading_axis)
def einsum_of_three_axes(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    Q, K, V = projected(X, W_Q, W_K, W_V)
    scores = np.einsum("bik,bjk->bij", Q, K) / math.sqrt(K.shape[-1])
    return np.einsum("bij,bjv->biv", softmax(scores), V)


@another_form(looped_over_the_first_axis)
def looped_with_every_axis_turned(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    def one(sequence: Array) -> Array:
        Q, K, V = projected(sequence, W_Q, W_K, W_V)
        return softmax(Q @ K.T / math.sqrt(K.shape[-1])) @ V

    return np.stack([one(sequence) for sequence in X])


@another_form(softmax_over_the_batch)
def softmax_over_the_third_axis(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    Q, K, V = projected(X, W_Q, W_K, W_V)
    return softmax(scaled_scores(Q, K), axis=2) @ V


@another_form(batch_scaled_by_the_length)
def batch_scaled_by_the_second_axis(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    Q, K, V = projected(X, W_Q, W_K, W_V)
    return softmax(Q @ np.swapaxes(K, -2, -1) / math.sqrt(K.shape[1])) @ V


@another_form(batch_in_float64)
def batch_scaled_by_a_float64(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    Q, K, V = projected(X, W_Q, W_K, W_V)
    return softmax(Q @ np.swapaxes(K, -2, -1) / np.sqrt(K.shape[-1])) @ V


@misconception(replaces="batch_self_attention", caught_by="test_batch")
def batch_softmax_over_the_queries(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """The softmax ran over the queries, the last axis but one.

    Each query gives away a weight of 1: it is the rows that sum to 1.

    Along which axis of (..., T, T) do the keys lie?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    return softmax(scaled_scores(Q, K), axis=-2) @ V


@misconception(replaces="batch_self_attention", caught_by="test_batch")
def batch_weights_turned_round(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """The weights were transposed before they met the values.

    Row i of the output is the mean of all values with the weights of row i.

    Which axis of the weights do the keys lie along, and which axis of the values?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    return np.swapaxes(softmax(scaled_scores(Q, K)), -2, -1) @ V


@misconception(replaces="batch_self_attention", caught_by="test_batch")
def batch_output_as_wide_as_the_input(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """The output was made in the shape of X.

    It is d_v wide, as W_V says, and X is d_model wide.

    Which sizes of the output come from X, and which one from W_V?
    """
    output = np.zeros_like(X)
    for index in np.ndindex(*X.shape[:-2]):
        output[index] = reference.self_attention(X[index], W_Q, W_K, W_V)[0]
    return output


@misconception(replaces="batch_self_attention", caught_by="test_batch")
def batch_scaled_by_the_models_width(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """The scores of the batch were divided by the root of d_model.

    A score is a sum of d_k products: d_k is the width of queries and keys.

    Of which array do you take the width?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    return softmax(Q @ np.swapaxes(K, -2, -1) / math.sqrt(X.shape[-1])) @ V
