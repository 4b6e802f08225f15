"""The arrays of step 14."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


def projected(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array, Array]:
    """Queries, keys and values."""
    return X @ W_Q, X @ W_K, X @ W_V
