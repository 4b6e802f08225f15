"""What learners get wrong in `kv_cache_bytes`, each with the check that catches it."""

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step15_costs import reference


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def keys_alone(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Only the keys were counted.

    A later token needs the values of the earlier ones as well.

    Which two tensors does each layer keep?
    """
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim, bytes_per_element) // 2


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def queries_kept_too(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Queries were counted as well.

    A query is used once, by its own token, and is not looked at again.

    Which of query, key and value does a later token read?
    """
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim, bytes_per_element) // 2 * 3


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def cache_of_one_layer(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """One layer's cache was counted.

    Each layer has keys and values of its own.

    Where does your formula use n_layer?
    """
    return reference.kv_cache_bytes(batch, num_tokens, 1, num_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def cache_of_one_sequence(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """One sequence's cache was counted.

    Each sequence of the batch has keys and values of its own.

    Where does your formula use batch?
    """
    return reference.kv_cache_bytes(1, num_tokens, n_layer, num_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def cache_of_one_head(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """One head's cache was counted.

    head_dim is the width of one head, and there are num_kv_heads of them.

    Where does your formula use num_kv_heads?
    """
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, 1, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def cache_of_all_pairs(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """The cache grew with the square of the length.

    Keys and values are kept once for each token; it is the scores that come in pairs.

    How many keys does a text of 3 tokens have?
    """
    return num_tokens * reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def cache_elements_counted(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """The numbers of the cache were counted, not their bytes.

    In half precision a number takes 2 bytes, in float32 4: that is what bytes_per_element says.

    Where does your formula use bytes_per_element?
    """
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim, 1)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def always_two_bytes(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Two bytes were counted for every number, whatever bytes_per_element says.

    In half precision a number takes 2 bytes, in float32 4, and in int8 1.

    Where does your formula use bytes_per_element?
    """
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def cache_as_a_float(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> float:
    """The bytes of the cache were returned as a float, perhaps in megabytes.

    Asked for is the exact number of bytes, an integer.

    Which of your operations gives a float?
    """
    return float(reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim, bytes_per_element))


@another_form(cache_as_a_float)
def cache_in_gigabytes(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> float:
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim, bytes_per_element) / 1e9


@another_form(cache_as_a_float)
def cache_in_gibibytes(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> float:
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, head_dim, bytes_per_element) / 2**30


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def one_number_a_head(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Each key and each value was counted as one number.

    They are vectors: a head's key has head_dim numbers.

    Where does your formula use head_dim?
    """
    return reference.kv_cache_bytes(batch, num_tokens, n_layer, num_kv_heads, 1, bytes_per_element)
