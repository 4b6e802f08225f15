"""What learners get wrong in `self_attention`, each with the check that catches it."""

import math

import numpy as np

from grader.checks.catalogue import misconception
from solutions.reading.step14_numpy import reference
from solutions.reading.step14_numpy.misconceptions.arrays import Array, projected
from solutions.reading.step14_numpy.reference import scaled_scores, softmax


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


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def weights_scaled(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The weights were divided by √d_k, behind the softmax.

    It is the scores that are too large. Weights that are divided no longer sum to 1.

    What is divided by √d_k: what goes into the softmax, or what comes out?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(Q @ K.T) / math.sqrt(K.shape[-1])
    return weights @ V, weights


@misconception(replaces="self_attention", caught_by="test_self_attention_by_hand")
def sigmoid_of_the_scores(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The weights are the sigmoids of the scores, and no softmax was taken.

    A sigmoid looks at one score alone: the weights of a row do not sum to 1.

    Which function shares out a weight of 1 among all keys?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = 1 / (1 + np.exp(-scaled_scores(Q, K)))
    return weights @ V, weights
