"""Right ways of step 15 that differ from the reference."""

from math import isqrt, prod
from typing import NamedTuple

import numpy as np

from grader.checks.catalogue import variant


class Flops(NamedTuple):
    """What a named tuple gives."""

    projections: int
    scores: int
    weighted_sum: int


@variant(
    replaces="attention_matrix_bytes",
    trades="The factors stand in a list, and none is easily forgotten; that they are multiplied is said only once.",
)
def product_of_a_list(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """`math.prod` of all factors."""
    return prod([batch, num_heads, num_tokens, num_tokens, bytes_per_element, num_layers])


@variant(
    replaces="attention_flops",
    trades="The caller writes `flops.scores` in place of a number; `python -O` removes the assert.",
)
def assert_and_named_tuple(batch: int, num_heads: int, num_tokens: int, d_model: int) -> Flops:
    """A named tuple, an `assert`, and all heads at once."""
    assert d_model % num_heads == 0, "heads do not divide the width"
    tokens = batch * num_tokens
    return Flops(8 * tokens * d_model**2, 2 * tokens * num_tokens * d_model, 2 * tokens * num_tokens * d_model)


@variant(replaces="attention_flops")
def head_by_head(batch: int, num_heads: int, num_tokens: int, d_model: int) -> list[int]:
    """A list, and a loop over the heads."""
    width, rest = divmod(d_model, num_heads)
    if rest:
        raise ValueError("uneven heads")
    scores = 0
    for _head in range(min(num_heads, 2000)):
        scores += 2 * batch * num_tokens * num_tokens * width
    return [4 * 2 * batch * num_tokens * d_model * d_model, scores, scores]


@variant(replaces="multi_head_attention_parameters")
def layer_by_layer(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """Weights first, then biases."""
    if d_out // num_heads * num_heads != d_out:
        raise Exception("d_out must be divisible by num_heads")
    weights = 3 * d_in * d_out + d_out * d_out
    return weights + d_out + (3 * d_out if qkv_bias else 0)


@variant(
    replaces="gpt_parameters",
    trades="12 C² a layer is the rule of thumb that papers use; where 13 C comes from is no longer seen.",
)
def closed_form(vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True) -> int:
    """The closed form: 12 C² + 13 C for each block with biases, 12 C² + 2 C without."""
    if n_embd % n_head:
        raise ValueError("n_embd must be divisible by n_head")
    small = 13 if bias else 2
    per_block = 12 * n_embd**2 + small * n_embd
    return (vocab_size + block_size) * n_embd + n_layer * per_block + (2 if bias else 1) * n_embd


@variant(
    replaces="layer_costs",
    trades="It looks like the table in the paper; every row is worked out each time, also those not asked for.",
)
def table_looked_up(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """A dictionary, whose KeyError is the error; a running power for the path."""
    reach, path = k, 1
    while reach < n:
        reach, path = reach * k, path + 1
    return {
        "self-attention": (n**2 * d, 1, 1),
        "recurrent": (n * d**2, n, n),
        "convolutional": (k * n * d**2, 1, path),
        "restricted": (r * n * d, 1, (n + r - 1) // r),
    }[layer]


@variant(replaces="layer_costs")
def divided_until_one(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """`match`, and a path counted by dividing and rounding up."""
    match layer:
        case "self-attention":
            return (n * n * d, 1, 1)
        case "recurrent":
            return (n * d * d, n, n)
        case "convolutional":
            left, path = -(-n // k), 1
            while left > 1:
                left, path = -(-left // k), path + 1
            return (k * n * d * d, 1, path)
        case "restricted":
            return (r * n * d, 1, n // r + bool(n % r))
        case _:
            raise KeyError(layer)


@variant(replaces="kv_cache_bytes")
def numpys_whole_numbers(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """NumPy's int64, which is exact below 2**63."""
    one_side = np.prod([batch, num_tokens, n_layer, num_kv_heads, head_dim], dtype=np.int64)
    return 2 * one_side * np.int64(bytes_per_element)


@variant(replaces="attention_matrix_bytes")
def square_and_root(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """The entries of one matrix counted by its rows."""
    entries = sum((num_tokens,) * num_tokens) if num_tokens < 1000 else num_tokens * num_tokens
    assert isqrt(entries) == num_tokens
    return entries * (batch * num_heads) * (num_layers * bytes_per_element)
