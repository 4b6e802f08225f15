"""Scaled dot-product scores

Attention starts with one question for every pair of tokens: how well does what this query looks for match what that key
offers? The dot product answers it. Dividing by the root of the width keeps the answers at the same size for any width.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right.

Off limits: `scaled_dot_product_attention` and `nn.MultiheadAttention`, in every form.
"""

import math

from torch import Tensor


def dot_product_scores(query: Tensor, key: Tensor) -> Tensor:
    """Dot every query with every key.

    Shapes: T_q queries and T_k keys, each of width d; `...` is any number of leading batch dimensions, none included.
    `query` is `(..., T_q, d)`, `key` is `(..., T_k, d)`, the result `(..., T_q, T_k)`. Row i holds the scores
    of query i.
    """
    ### BEGIN SOLUTION
    return query @ key.transpose(-2, -1)  # (..., T_q, T_k)
    ### END SOLUTION


def scaled_scores(query: Tensor, key: Tensor) -> Tensor:
    """Dot every query with every key, and divide by the square root of the width d.

    Shapes: `query` is `(..., T_q, d)`, `key` is `(..., T_k, d)`, the result `(..., T_q, T_k)`.
    """
    ### BEGIN SOLUTION
    # A dot product adds d products. When each has variance 1 the sum has variance d, so its spread is the root of d.
    d = query.shape[-1]
    return dot_product_scores(query, key) / math.sqrt(d)  # (..., T_q, T_k)
    ### END SOLUTION
