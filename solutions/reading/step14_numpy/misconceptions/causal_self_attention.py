"""What learners get wrong in `causal_self_attention`, each with the check that catches it."""

import math

import numpy as np

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step14_numpy import reference
from solutions.reading.step14_numpy.misconceptions.arrays import Array, projected
from solutions.reading.step14_numpy.reference import scaled_scores, softmax


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

    A token sees itself and all before it. Without itself the first token sees nothing: its row is NaN, or uniform where
    hidden scores are large negative numbers.

    On which diagonal does your triangle begin: what does `k` move?
    """
    with np.errstate(all="ignore"):
        return causal(X, W_Q, W_K, W_V, np.tri(len(X), k=-1, dtype=bool))


@another_form(own_token_hidden)
def own_token_hidden_by_a_large_number(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    # Where everything is hidden alike, the first row is uniform.
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(np.where(np.tri(len(X), k=-1, dtype=bool), scaled_scores(Q, K), np.array(-1e9, dtype=X.dtype)))
    return weights @ V, weights


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
    """Hidden scores were set to 0, or multiplied by a mask of ones and zeros.

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


@another_form(past_masked)
def own_token_masked_with_the_past(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    # The last token then sees nothing, and its row is NaN.
    with np.errstate(all="ignore"):
        return causal(X, W_Q, W_K, W_V, ~np.tri(len(X), dtype=bool))


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def infinity_times_zero(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """A mask of ones and zeros was multiplied by minus infinity, and the product was added to the scores.

    0 times infinity is NaN, so that the visible scores became NaN.

    What can choose between a score and -inf without a product?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    with np.errstate(all="ignore"):
        scores = scaled_scores(Q, K) + np.triu(np.ones((len(X), len(X)), dtype=X.dtype), k=1) * -np.inf
        weights = softmax(scores)
    return weights @ V, weights


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def weights_before_the_mask(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The output is masked, and the weights returned are those without the mask.

    The second of the pair is what the values were weighted with: a later token has weight 0 there.

    Which of your two arrays of weights met the values?
    """
    return reference.causal_self_attention(X, W_Q, W_K, W_V)[0], reference.self_attention(X, W_Q, W_K, W_V)[1]


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def output_without_the_mask(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The weights returned are masked, and the output was made without the mask.

    It has parts of later tokens then, whatever the weights say.

    With which array of weights do the values have to be multiplied?
    """
    return reference.self_attention(X, W_Q, W_K, W_V)[0], reference.causal_self_attention(X, W_Q, W_K, W_V)[1]


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def causal_softmax_over_the_queries(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The softmax of the masked scores ran down the columns, over the queries.

    It is the rows that sum to 1: each query shares out a weight of 1 among the keys that it sees.

    Along which axis do the keys lie?
    """
    Q, K, V = projected(X, W_Q, W_K, W_V)
    weights = softmax(np.where(np.tri(len(X), dtype=bool), scaled_scores(Q, K), -np.inf), axis=0)
    return weights @ V, weights


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def causal_divided_by_the_width_itself(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The scores of the causal form were divided by d_k: twice by its root, or by no root.

    They are divided by √d_k, once.

    Where do you divide, and by what?
    """
    return reference.causal_self_attention(X, W_Q / math.sqrt(W_K.shape[-1]), W_K, W_V)


@misconception(replaces="causal_self_attention", caught_by="test_causal_by_hand")
def causal_scaled_by_the_models_width(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array]:
    """The scores of the causal form were divided by the root of d_model.

    They are sums over the width of queries and keys: √d_k.

    Over how many products is one score a sum?
    """
    return reference.causal_self_attention(X, W_Q * math.sqrt(W_K.shape[-1] / len(W_K)), W_K, W_V)
