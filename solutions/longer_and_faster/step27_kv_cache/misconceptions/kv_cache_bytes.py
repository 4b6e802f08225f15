"""What learners get wrong in `kv_cache_bytes`, each with the check that catches it."""

from grader.checks.catalogue import misconception


def _bytes_of(factor: int, *sizes: int) -> int:
    for size in sizes:
        factor *= size
    return factor


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def keys_alone(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Only the keys were counted.

    The values take as much again.

    What does update keep of each token?
    """
    return _bytes_of(1, n_layer, batch_size, num_tokens, n_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def one_layer(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Only one layer was counted.

    Every layer has a cache of its own.

    How many caches has a model?
    """
    return _bytes_of(2, batch_size, num_tokens, n_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def one_sequence(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Only one sequence of the batch was counted.

    Every sequence has keys and values of its own.

    Which shape have the tensors of the cache?
    """
    return _bytes_of(2, n_layer, num_tokens, n_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def elements_counted(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """The numbers were counted, and not the bytes that they take.

    A number takes bytes_per_element bytes: 2 in half precision.

    What is the last argument for?
    """
    return _bytes_of(2, n_layer, batch_size, num_tokens, n_kv_heads, head_dim)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def bits_counted(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Bits were counted, and not bytes.

    bytes_per_element is in bytes already.

    Is there a factor of 8 that nobody asked for?
    """
    return _bytes_of(16, n_layer, batch_size, num_tokens, n_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def four_bytes_by_default(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 4
) -> int:
    """Four bytes were taken for a number where nothing else is said.

    Models are served in half precision: the default here is 2.

    What does the signature say of bytes_per_element?
    """
    return _bytes_of(2, n_layer, batch_size, num_tokens, n_kv_heads, head_dim, bytes_per_element)
