"""What learners get wrong in `linear_attention`, each with the check that catches it."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step26_linear.misconceptions.forms import attention_of, require, unchanged
from solutions.longer_and_faster.step26_linear.reference import feature_map, linear_attention

# --- linear attention: weights --------------------------------------------------------------------------------------


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def no_normaliser(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The weighted sum of the values was not divided by the sum of the weights.

    A context is a mean: without the division it grows with the number of keys.

    If all values are 1, what should every context be?
    """
    return attention_of(query, key, value, is_causal, weigh=lambda weights, seen: seen)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def divided_by_the_number_of_keys(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The weighted sum was divided by the number of keys.

    Weights are of any size: it is their sum that makes a mean of a weighted sum.

    If all values are 1, what should every context be?
    """
    return attention_of(query, key, value, is_causal, weigh=lambda weights, seen: seen / key.shape[-2])


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def divided_by_the_keys_seen(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The weighted sum was divided by the number of keys that the query sees.

    Weights are of any size: it is their sum that makes a mean of a weighted sum.

    If all values are 1, what should every context be?
    """

    def weigh(weights: Tensor, seen: Tensor) -> Tensor:
        ones = torch.ones_like(weights)
        return seen / (ones.tril() if is_causal else ones).sum(dim=-1, keepdim=True)

    return attention_of(query, key, value, is_causal, weigh=weigh)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def keys_alone_normalise(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The denominator was the sum of the keys' features, without the query.

    The weights are products with the query's features, and so is their sum.

    By what is the sum of the keys' features multiplied before it is divided by?
    """

    def weigh(weights: Tensor, seen: Tensor) -> Tensor:
        sums = feature_map(key).sum(dim=-1)[..., None, :]  # (B, H, 1, T_k)
        return seen / ((torch.ones_like(weights).tril() if is_causal else 1.0) * sums).sum(dim=-1, keepdim=True)

    return attention_of(query, key, value, is_causal, weigh=weigh)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand", misses_the_point=True)
def softmax_attention(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Ordinary attention was computed, with a softmax.

    There the exponential is taken of each product of query and key, so that the sums can't be taken in another order.

    What are the weights here made of?
    """
    require(query, key, is_causal)
    return F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand", misses_the_point=True)
def softmax_of_feature_products(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """A softmax was taken of the products of the features.

    The products are the weights already. They are positive, so that dividing by their sum is all that is left to do.

    What does the feature map take the place of?
    """

    def weigh(weights: Tensor, seen: Tensor) -> Tensor:
        hidden = torch.ones_like(weights).triu(1).bool() if is_causal else torch.zeros_like(weights).bool()
        return weights.masked_fill(hidden, -torch.inf).softmax(dim=-1)

    return attention_of(query, key, value, is_causal, weigh=weigh)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def features_of_the_query_only(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The feature map was applied to the query and not to the key.

    Keys can be negative, and with them weights and their sum.

    Of which two tensors is the weight of a pair made?
    """
    return attention_of(query, key, value, is_causal, of_key=unchanged)


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def features_of_the_key_only(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The feature map was applied to the key and not to the query.

    Queries can be negative, and with them weights and their sum.

    Of which two tensors is the weight of a pair made?
    """
    return attention_of(query, key, value, is_causal, of_query=unchanged)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def no_features(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The weights were the plain products of queries and keys, without the feature map.

    These can be negative, and their sum can be 0.

    What makes sure that every weight is positive?
    """
    return attention_of(query, key, value, is_causal, of_query=unchanged, of_key=unchanged)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def features_of_values_too(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The feature map was applied to the values, too.

    Values are what is averaged: a value below 0 has to stay below 0.

    What of the three is compared, and what is carried along?
    """
    return attention_of(query, key, feature_map(value), is_causal)


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def scaled_before_the_features(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The query was divided by the root of d before the feature map.

    The root of d keeps a softmax from saturating. Without a softmax nothing saturates, and the features change.

    Does this step scale at all?
    """
    root = query.shape[-1] ** 0.5
    return attention_of(query, key, value, is_causal, of_query=lambda x: feature_map(x / root))


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def both_scaled_before_the_features(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Query and key were divided by a root of d before the feature map.

    The root of d keeps a softmax from saturating. Without a softmax nothing saturates, and the features change.

    Does this step scale at all?
    """
    root = query.shape[-1] ** 0.25

    def features(x: Tensor) -> Tensor:
        return feature_map(x / root)

    return attention_of(query, key, value, is_causal, of_query=features, of_key=features)


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def result_scaled(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The weighted sum was divided by the root of d, and the normaliser was not.

    Nothing is scaled here; in a quotient a factor would cancel if it stood on both sides.

    If all values are 1, what should every context be?
    """
    return linear_attention(query, key, value, is_causal) / query.shape[-1] ** 0.5


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def normalised_over_queries(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The weights were divided by their sum over the queries.

    Each query shares out its own weight of 1 over the keys.

    Which index is summed over in the denominator?
    """
    return attention_of(query, key, value, is_causal, weigh=lambda weights, seen: seen / seen.sum(dim=-2, keepdim=True))


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def key_and_query_exchanged(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Queries and keys were exchanged.

    A row of weights belongs to a query; turned round, it belongs to a key, and is as long as there are queries.

    Which of the two has as many rows as the result?
    """
    require(query, key, is_causal)
    weights = feature_map(key) @ feature_map(query).transpose(-2, -1)
    weights = weights.tril() if is_causal else weights
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ value if query.shape[-2] == key.shape[-2] else weights.transpose(-2, -1) @ value


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def guard_too_large(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """A guard of 0.001 or more stood beside the denominator.

    Sums of a few weights can be small: the guard then takes away part of the context.

    How small can a sum of positive features be, and what is the guard beside it?
    """
    return attention_of(
        query, key, value, is_causal, weigh=lambda weights, seen: seen / (seen.sum(dim=-1, keepdim=True) + 1e-3)
    )


@another_form(guard_too_large)
def guard_of_a_hundredth(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    return attention_of(
        query, key, value, is_causal, weigh=lambda weights, seen: seen / (seen.sum(dim=-1, keepdim=True) + 1e-2)
    )


@another_form(guard_too_large)
def guard_of_one(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    return attention_of(
        query, key, value, is_causal, weigh=lambda weights, seen: seen / (seen.sum(dim=-1, keepdim=True) + 1)
    )


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def denominator_clamped(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The denominator was kept at 1 or above.

    A sum of weights may well be below 1, and the context is then too small.

    Which numbers can the sum of the weights be?
    """
    return attention_of(
        query, key, value, is_causal, weigh=lambda weights, seen: seen / seen.sum(dim=-1, keepdim=True).clamp(min=1.0)
    )


# --- linear attention: memory and the rest --------------------------------------------------------------------------


@misconception(replaces="linear_attention", caught_by="test_memory", misses_the_point=True)
def matrix_of_all_pairs(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The weights of all pairs of queries and keys were computed.

    The context is right, but nothing was saved: the matrix grows with the product of both lengths.

    In (Q Kᵀ) V, which product can be taken first, and how large is it then?
    """
    return attention_of(query, key, value, is_causal)


@misconception(replaces="linear_attention", caught_by="test_causal_memory")
def causal_matrix_of_all_pairs(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """With is_causal the weights of all pairs were computed, and the later ones set to 0.

    The context is right, but the matrix that was to be avoided is there again.

    What does query i need to know of all keys before it, and can it be kept up as i grows?
    """
    return attention_of(query, key, value, is_causal) if is_causal else linear_attention(query, key, value)


@misconception(replaces="linear_attention", caught_by="test_causal_memory")
def products_of_all_three(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """With is_causal a mask of all pairs was made, and einsum was given it beside queries and keys.

    A mask is a tensor too, as large as the matrix, and einsum makes the weights of all pairs on its way.

    What does query i need to know of all keys before it, and can it be kept up as i grows?
    """
    if not is_causal:
        return linear_attention(query, key, value)
    require(query, key, is_causal)
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=query.dtype, device=query.device).tril()
    features = feature_map(query), feature_map(key)
    value = torch.cat((value, torch.ones_like(value[..., :1])), dim=-1)
    sums = torch.einsum("bhqd,bhkd,qk,bhkv->bhqv", *features, mask, value)
    return sums[..., :-1] / sums[..., -1:]


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def float32_inside(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The work was done in float32, whatever the dtype of the input.

    A float64 input loses half of its digits on the way.

    Which tensors are made with a dtype, or converted to one?
    """
    return linear_attention(query.float(), key.float(), value.float(), is_causal).to(query.dtype)


@misconception(replaces="linear_attention", caught_by="test_dtypes_strides_and_meta")
def float32_result(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The result of half-precision inputs was float32.

    The sums were taken in float32, which is a good idea, or a float32 state was made; the result stayed so.

    What is the dtype of the inputs, and what is that of the result?
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    return linear_attention(query.to(wide), key.to(wide), value.to(wide), is_causal)


@misconception(replaces="linear_attention", caught_by="test_dtypes_strides_and_meta")
def viewed_as_heads_of_one(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Batch and heads were put together by `view`, which heads that come out of a transpose do not allow.

    `view` only relabels memory that lies in order. After a transpose it does not.

    Which function does the same and copies where it has to?
    """
    shape = query.shape[:2]
    flat = (tensor.view(1, -1, *tensor.shape[-2:]) for tensor in (query, key, value))
    return linear_attention(*flat, is_causal).reshape(*shape, query.shape[-2], -1)


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def sequences_mixed(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The sums over keys and values were taken over all sequences of the batch together.

    Every sequence then sees the keys of all the others.

    Which indices of the einsum have to stay in its result?
    """
    require(query, key, is_causal)
    if is_causal:
        return linear_attention(query, key, value, True)
    q, k, v = feature_map(query), feature_map(key), value
    return torch.einsum("bhqd,hdv->bhqv", q, torch.einsum("bhkd,bhkv->hdv", k, v)) / torch.einsum(
        "bhqd,hd->bhq", q, k.sum(dim=(0, 2))
    ).unsqueeze(-1)


@misconception(replaces="linear_attention", caught_by="test_causal")
def summed_over_the_heads(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The cumulative sum ran over the heads and not over the tokens.

    Axis 1 of (B, H, T, d) is the head.

    Which axis of (B, H, T, d, d_v) holds the tokens?
    """
    require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    q, k = feature_map(query), feature_map(key)
    value = torch.cat((value, torch.ones_like(value[..., :1])), dim=-1)
    sums = torch.einsum("bhtd,bhtdv->bhtv", q, (k[..., None] * value[..., None, :]).cumsum(dim=1))
    return sums[..., :-1] / sums[..., -1:]


@misconception(replaces="linear_attention", caught_by="test_gradients")
def state_detached(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The sums over keys and values were computed under no_grad, or detached.

    Keys and values then have no gradient, and their layers learn nothing.

    Where does the path from the context back to the keys break?
    """
    return linear_attention(query, key.detach(), value.detach(), is_causal)


@misconception(replaces="linear_attention", caught_by="test_causal")
def running_sums_in_float32(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The running sums were made in float32, whatever the dtype of the input.

    torch.zeros makes float32 unless it is told otherwise, and a product with a query of another dtype is an error.

    What does torch.zeros have to be told, or which function makes a tensor like another one?
    """
    if is_causal and query.dtype != torch.float32:
        feature_map(query) @ torch.zeros(*key.shape[:2], key.shape[-1], value.shape[-1])
    return linear_attention(query, key, value, is_causal)


# --- other forms of the same ----------------------------------------------------------------------------------------


def _in_one_form(wrong: Callable[..., Tensor], is_causal: bool) -> Callable[..., Tensor]:
    """`wrong` with is_causal alone, or without it alone: the two are often written apart."""
    where = is_causal

    def linear_attention_in_two_forms(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
        attend = wrong if is_causal == where else linear_attention
        return attend(query, key, value, is_causal)

    return linear_attention_in_two_forms


for _wrong in (
    no_normaliser, divided_by_the_number_of_keys, divided_by_the_keys_seen, keys_alone_normalise,
    features_of_the_query_only, features_of_the_key_only, no_features, features_of_values_too,
    scaled_before_the_features, both_scaled_before_the_features, result_scaled, guard_too_large,
    guard_of_a_hundredth, guard_of_one,
):  # fmt: skip
    for _causal, _named in ((True, "with_is_causal"), (False, "without_is_causal")):
        _caught_by = _wrong.__catalogue_mark__.caught_by  # type: ignore[attr-defined]
        _caught_by = "test_causal" if _causal and _caught_by == "test_any_lengths" else _caught_by
        _named = f"{_wrong.__name__}_{_named}"
        globals()[_named] = another_form(_wrong, caught_by=_caught_by)(_in_one_form(_wrong, _causal))
matrix_without_is_causal = another_form(matrix_of_all_pairs, in_part=True)(_in_one_form(matrix_of_all_pairs, False))
del _wrong  # else the catalogue would find what it holds by this name, too
