"""Linear attention in chunks, and other forms of a misconception."""

from collections.abc import Callable

from torch import Tensor

from solutions.longer_and_faster.step26_linear.reference import feature_map

Map = Callable[[Tensor], Tensor]


def unchanged(x: Tensor) -> Tensor:
    return x


def require(query: Tensor, key: Tensor, is_causal: bool) -> None:
    """What the contract refuses."""
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")


def attention_of(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: bool,
    *,
    of_query: Map = feature_map,
    of_key: Map = feature_map,
    diagonal: int = 0,
    weigh: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Linear attention by its weights; every misconception below takes one decision in its own way.

    `weigh` makes the weights of the sums: it is given those of all keys, and those that the causal rule leaves.
    """
    require(query, key, is_causal)
    weights = of_query(query) @ of_key(key).transpose(-2, -1)
    seen = weights.tril(diagonal) if is_causal else weights
    return (weigh(weights, seen) if weigh else seen / seen.sum(dim=-1, keepdim=True)) @ value
