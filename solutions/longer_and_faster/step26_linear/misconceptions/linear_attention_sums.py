"""What learners get wrong in the sums of `linear_attention`, most of them letters of an einsum that don't fit."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step26_linear.misconceptions.forms import attention_of, require
from solutions.longer_and_faster.step26_linear.reference import feature_map, linear_attention


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def normaliser_by_sums_apart(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The denominator was the sum of the query's features times the sum of the keys' features.

    A dot product multiplies entry by entry and sums then. In einsum two different letters are two sums.

    Which letter do query and keys share in the denominator?
    """
    require(query, key, is_causal)
    q, k = feature_map(query), feature_map(key)
    keys = k.cumsum(dim=-2) if is_causal else k.sum(dim=-2, keepdim=True)
    right = (q * keys).sum(dim=-1, keepdim=True)
    return linear_attention(query, key, value, is_causal) * right / (q.sum(-1, True) * keys.sum(-1, True))


@another_form(normaliser_by_sums_apart)
def normaliser_by_sums_apart_without_is_causal(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False
) -> Tensor:
    return (linear_attention if is_causal else normaliser_by_sums_apart)(query, key, value, is_causal)


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def queries_in_the_state(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The features of the query were summed over their width before they met the sums over keys and values.

    Each feature of the query has a row of the state of its own. In einsum two different letters are two sums.

    Which letter do the query and the state share?
    """
    require(query, key, is_causal)
    q, k = feature_map(query), feature_map(key)
    products = k[..., None] * value[..., None, :]
    products = products.cumsum(dim=-3) if is_causal else products.sum(dim=-3, keepdim=True)
    keys = k.cumsum(dim=-2) if is_causal else k.sum(dim=-2, keepdim=True)
    return q.sum(-1, True) * products.sum(dim=-2) / (q * keys).sum(dim=-1, keepdim=True)


@another_form(queries_in_the_state)
def queries_in_the_state_without_is_causal(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False
) -> Tensor:
    return (linear_attention if is_causal else queries_in_the_state)(query, key, value, is_causal)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def keys_and_values_summed_apart(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Keys and values were each summed over the tokens by themselves, and these two sums multiplied.

    A value belongs to its key: their product is taken token by token, and then summed.

    Which letter of the einsum stands for the tokens of the keys, and which for those of the values?
    """
    if is_causal:
        return linear_attention(query, key, value, is_causal)
    everything = value.sum(dim=-2, keepdim=True)
    return everything.expand(*query.shape[:-1], value.shape[-1]) * torch.ones_like(query[..., :1])


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def queries_normalise(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The denominator summed the features of the queries, and not those of the keys.

    The weights of a query are summed over the keys that it attends to.

    Over which tokens is the denominator's sum?
    """
    q, k = feature_map(query), feature_map(key)
    require(query, key, is_causal)
    right, wrong = (x.cumsum(dim=-2) if is_causal else x.sum(dim=-2, keepdim=True) for x in (k, q))
    ratio = (q * right).sum(dim=-1, keepdim=True) / (q * wrong).sum(dim=-1, keepdim=True)
    return linear_attention(query, key, value, is_causal) * ratio


@another_form(queries_normalise)
def queries_normalise_without_is_causal(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    return (linear_attention if is_causal else queries_normalise)(query, key, value, is_causal)


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def query_mapped_twice(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The feature map was applied to the query twice.

    The weight of a pair is phi(q) . phi(k). A second phi adds 1 to all features, which are positive already.

    What is phi(phi(x)) for x above 0?
    """
    return attention_of(query, key, value, is_causal, of_query=_twice)


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def both_mapped_twice(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The feature map was applied twice, to the query and to the key.

    The weight of a pair is phi(q) . phi(k). A second phi adds 1 to all features, which are positive already.

    What is phi(phi(x)) for x above 0?
    """
    return attention_of(query, key, value, is_causal, of_query=_twice, of_key=_twice)


def _twice(x: Tensor) -> Tensor:
    return feature_map(feature_map(x))
