"""What learners get wrong in `memory_efficient_attention`, each with the check that catches it."""

import math

import numpy as np

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step14_numpy import reference
from solutions.reading.step14_numpy.misconceptions.arrays import Array
from solutions.reading.step14_numpy.reference import scaled_scores, softmax


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


@another_form(chunk_size_ignored)
def always_the_default_size(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    return reference.memory_efficient_attention(Q, K, V, 32)


@another_form(chunks_kept_until_the_end)
def scores_of_all_chunks_joined(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    scores = np.concatenate([Q[rows] @ K.T for rows in chunks(len(Q), chunk_size)])
    return softmax(scores / math.sqrt(K.shape[-1])) @ V


@another_form(scaled_by_the_chunk)
def scaled_by_the_chunks_length(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    return reference.memory_efficient_attention(Q * math.sqrt(Q.shape[-1] / chunk_size), K, V, chunk_size)


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_stays_small")
def every_product_kept(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """Each chunk made a product of every query, key and column, and summed over the columns afterwards.

    That array is d_k times as large as the scores of the chunk. A matrix product sums while it multiplies.

    Which shape has `Q[:, None] * K`, and which one `Q @ K.T`?
    """
    output = np.zeros((len(Q), V.shape[-1]), dtype=V.dtype)
    for rows in chunks(len(Q), chunk_size):
        scores = (Q[rows, None] * K).sum(axis=-1) / math.sqrt(K.shape[-1])
        output[rows] = softmax(scores) @ V
    return output


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def chunks_by_reshape(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """The chunks were cut with `reshape`, which fails where the length is no multiple of chunk_size.

    With 7 queries and chunks of 3 there are three chunks, the last of one row.

    What does a slice give that ends beyond the array?
    """
    cut = Q.reshape(-1, chunk_size, Q.shape[-1])
    return np.concatenate([chunk_attention(rows, K, V) for rows in cut])


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def chunks_stacked(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """The outputs of the chunks were stacked along a new axis, not joined along the queries.

    The result has one row per query, (T_q, d_v), and no axis for the chunks; a shorter last chunk cannot be stacked.

    What do `np.stack` and `np.concatenate` do with two arrays of shape (3, 2)?
    """
    return np.array([chunk_attention(Q[rows], K, V) for rows in chunks(len(Q), chunk_size)])


@another_form(chunks_stacked)
def chunks_put_on_a_stack(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    return np.stack([chunk_attention(Q[rows], K, V) for rows in chunks(len(Q), chunk_size)])


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def chunks_softmax_over_the_queries(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """The softmax of a chunk ran down the columns, over the queries.

    It is the rows that sum to 1, each over all keys.

    Along which axis of a chunk's scores do the keys lie?
    """
    output = np.zeros((len(Q), V.shape[-1]), dtype=V.dtype)
    for rows in chunks(len(Q), chunk_size):
        output[rows] = softmax(scaled_scores(Q[rows], K), axis=0) @ V
    return output


@misconception(replaces="memory_efficient_attention", caught_by="test_memory_efficient")
def as_many_rows_as_keys(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
    """The queries were counted with the number of keys.

    There may be more queries than keys, or fewer. The output has one row per query.

    From which array do you read how many chunks there are?
    """
    output = np.zeros((len(K), V.shape[-1]), dtype=V.dtype)
    for rows in chunks(len(K), chunk_size):
        output[rows] = chunk_attention(Q[rows], K, V)
    return output
