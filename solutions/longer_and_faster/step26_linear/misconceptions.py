"""What learners get wrong in step 26, each with the check that catches it."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step26_linear.reference import CHUNK, feature_map, linear_attention
from solutions.longer_and_faster.step26_linear.reference import linear_attention_step as right_step

Map = Callable[[Tensor], Tensor]
State = tuple[Tensor, Tensor] | None


def _unchanged(x: Tensor) -> Tensor:
    return x


def _require(query: Tensor, key: Tensor, is_causal: bool) -> None:
    """What the contract refuses."""
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")


def _attended(
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
    _require(query, key, is_causal)
    weights = of_query(query) @ of_key(key).transpose(-2, -1)
    seen = weights.tril(diagonal) if is_causal else weights
    return (weigh(weights, seen) if weigh else seen / seen.sum(dim=-1, keepdim=True)) @ value


# --- the feature map ------------------------------------------------------------------------------------------------


@misconception(replaces="feature_map", caught_by="test_feature_map")
def relu(x: Tensor) -> Tensor:
    """The feature map was relu.

    It gives 0 for every number below 0, and no gradient there. A query with no entry above 0 then has no weight at all.

    What is elu(x) + 1 at x = -1, and what is relu?
    """
    return F.relu(x)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def relu_plus_one(x: Tensor) -> Tensor:
    """The feature map was relu(x) + 1.

    Below 0 it is 1 everywhere, and has no gradient there.

    How does elu differ from relu below 0?
    """
    return F.relu(x) + 1


@misconception(replaces="feature_map", caught_by="test_feature_map")
def exponential(x: Tensor) -> Tensor:
    """The feature map was exp(x) above 0, too.

    It overflows from 89 on in float32, and one large key then outweighs all others.

    What should the map be above 0?
    """
    return x.exp()


@misconception(replaces="feature_map", caught_by="test_feature_map")
def elu_without_one(x: Tensor) -> Tensor:
    """The feature map was elu(x), without the 1.

    Below 0 it is negative, so that weights can be negative and a sum of them 0.

    What is the smallest value of elu, and what has to be added for it to be positive?
    """
    return F.elu(x)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def elu_of_x_plus_one(x: Tensor) -> Tensor:
    """The 1 was added before elu and not after it.

    elu(x + 1) is negative below -1.

    To what is the 1 to be added: to what goes into elu, or to what comes out?
    """
    return F.elu(x + 1)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def softmax_of_features(x: Tensor) -> Tensor:
    """The feature map was a softmax over the features.

    Each feature then depends on all others of its token, and the map is no longer taken element by element.

    Which entries of x may one entry of the result depend on?
    """
    return torch.softmax(x, dim=-1) if x.dim() else torch.ones_like(x)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def softplus(x: Tensor) -> Tensor:
    """The feature map was softplus, log(1 + exp(x)).

    It is positive as well, but it is another function: 0.69 at 0, where elu(x) + 1 is 1.

    What is elu(0) + 1?
    """
    return F.softplus(x)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def sigmoid(x: Tensor) -> Tensor:
    """The feature map was a sigmoid.

    It is positive, but never above 1: large entries all look alike.

    What is elu(2) + 1?
    """
    return torch.sigmoid(x)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def selu(x: Tensor) -> Tensor:
    """The feature map was selu(x) + 1.

    selu is elu times 1.05, with another slope below 0.

    Which activation has slope 1 above 0 and ends at -1 below?
    """
    return F.selu(x) + 1


@misconception(replaces="feature_map", caught_by="test_feature_map")
def gelu_plus_one(x: Tensor) -> Tensor:
    """The feature map was gelu(x) + 1.

    gelu comes back to 0 far below 0: the map is then 1 there, and not near 0.

    Towards which number does elu go far below 0?
    """
    return F.gelu(x) + 1


@misconception(replaces="feature_map", caught_by="test_feature_map")
def branches_exchanged(x: Tensor) -> Tensor:
    """x + 1 was taken below 0, and exp(x) above it.

    The result is then negative below -1, and overflows above 89.

    Which of the two branches is positive for every x below 0?
    """
    return torch.where(x > 0, x.clamp(max=80).exp(), x + 1)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def nan_gradient(x: Tensor) -> Tensor:
    """The two branches were put together by torch.where, with exp taken of every entry.

    The result is right. But exp(95) is infinite in float32, and in the backward pass the branch that was not taken
    gives 0 times infinity: NaN.

    What may exp be given, so that it is never asked for a large number?
    """
    return torch.where(x > 0, x + 1, torch.exp(x))


@misconception(replaces="feature_map", caught_by="test_feature_map")
def both_branches_added(x: Tensor) -> Tensor:
    """Both branches were computed for every number, and each multiplied by 1 or 0 and added.

    exp overflows for large numbers, and infinity times 0 is NaN.

    What is exp(95) in float32, and what is 0 times that?
    """
    above = (x > 0).to(x.dtype)
    return above * (x + 1) + (1 - above) * x.exp()


@misconception(replaces="feature_map", caught_by="test_feature_map")
def elu_in_place(x: Tensor) -> Tensor:
    """elu was computed in place: the caller's tensor holds other numbers afterwards.

    With inplace=True, and in methods whose name ends in `_`, torch writes into the tensor it is given.

    Which tensor do the features get written into?
    """
    return F.elu(x, inplace=True) + 1


@misconception(replaces="feature_map", caught_by="test_feature_map")
def features_detached(x: Tensor) -> Tensor:
    """The features were detached, or computed under no_grad: no gradient reaches x.

    Queries and keys come from layers that are to be trained.

    Where does the path from the result back to x break?
    """
    return F.elu(x.detach()) + 1


# --- linear attention: weights --------------------------------------------------------------------------------------


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def no_normaliser(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The weighted sum of the values was not divided by the sum of the weights.

    A context is a mean: without the division it grows with the number of keys.

    If all values are 1, what should every context be?
    """
    return _attended(query, key, value, is_causal, weigh=lambda weights, seen: seen)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def divided_by_the_number_of_keys(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The weighted sum was divided by the number of keys.

    Weights are of any size: it is their sum that makes a mean of a weighted sum.

    If all values are 1, what should every context be?
    """
    return _attended(query, key, value, is_causal, weigh=lambda weights, seen: seen / key.shape[-2])


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def divided_by_the_keys_seen(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The weighted sum was divided by the number of keys that the query sees.

    Weights are of any size: it is their sum that makes a mean of a weighted sum.

    If all values are 1, what should every context be?
    """

    def weigh(weights: Tensor, seen: Tensor) -> Tensor:
        ones = torch.ones_like(weights)
        return seen / (ones.tril() if is_causal else ones).sum(dim=-1, keepdim=True)

    return _attended(query, key, value, is_causal, weigh=weigh)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def keys_alone_normalise(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The denominator was the sum of the keys' features, without the query.

    The weights are products with the query's features, and so is their sum.

    By what is the sum of the keys' features multiplied before it is divided by?
    """

    def weigh(weights: Tensor, seen: Tensor) -> Tensor:
        sums = feature_map(key).sum(dim=-1)[..., None, :]  # (B, H, 1, T_k)
        return seen / ((torch.ones_like(weights).tril() if is_causal else 1.0) * sums).sum(dim=-1, keepdim=True)

    return _attended(query, key, value, is_causal, weigh=weigh)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand", misses_the_point=True)
def softmax_attention(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Ordinary attention was computed, with a softmax.

    There the exponential is taken of each product of query and key, so that the sums can't be taken in another order.

    What are the weights here made of?
    """
    _require(query, key, is_causal)
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

    return _attended(query, key, value, is_causal, weigh=weigh)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def features_of_the_query_only(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The feature map was applied to the query and not to the key.

    Keys can be negative, and with them weights and their sum.

    Of which two tensors is the weight of a pair made?
    """
    return _attended(query, key, value, is_causal, of_key=_unchanged)


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def features_of_the_key_only(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The feature map was applied to the key and not to the query.

    Queries can be negative, and with them weights and their sum.

    Of which two tensors is the weight of a pair made?
    """
    return _attended(query, key, value, is_causal, of_query=_unchanged)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def no_features(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The weights were the plain products of queries and keys, without the feature map.

    These can be negative, and their sum can be 0.

    What makes sure that every weight is positive?
    """
    return _attended(query, key, value, is_causal, of_query=_unchanged, of_key=_unchanged)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def features_of_values_too(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The feature map was applied to the values, too.

    Values are what is averaged: a value below 0 has to stay below 0.

    What of the three is compared, and what is carried along?
    """
    return _attended(query, key, feature_map(value), is_causal)


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def scaled_before_the_features(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The query was divided by the root of d before the feature map.

    The root of d keeps a softmax from saturating. Without a softmax nothing saturates, and the features change.

    Does this step scale at all?
    """
    root = query.shape[-1] ** 0.5
    return _attended(query, key, value, is_causal, of_query=lambda x: feature_map(x / root))


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def both_scaled_before_the_features(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Query and key were divided by a root of d before the feature map.

    The root of d keeps a softmax from saturating. Without a softmax nothing saturates, and the features change.

    Does this step scale at all?
    """
    root = query.shape[-1] ** 0.25

    def features(x: Tensor) -> Tensor:
        return feature_map(x / root)

    return _attended(query, key, value, is_causal, of_query=features, of_key=features)


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
    return _attended(query, key, value, is_causal, weigh=lambda weights, seen: seen / seen.sum(dim=-2, keepdim=True))


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def key_and_query_exchanged(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Queries and keys were exchanged.

    A row of weights belongs to a query; turned round, it belongs to a key, and is as long as there are queries.

    Which of the two has as many rows as the result?
    """
    _require(query, key, is_causal)
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
    return _attended(
        query, key, value, is_causal, weigh=lambda weights, seen: seen / (seen.sum(dim=-1, keepdim=True) + 1e-3)
    )


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def denominator_clamped(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The denominator was kept at 1 or above.

    A sum of weights may well be below 1, and the context is then too small.

    Which numbers can the sum of the weights be?
    """
    return _attended(
        query, key, value, is_causal, weigh=lambda weights, seen: seen / seen.sum(dim=-1, keepdim=True).clamp(min=1.0)
    )


# --- linear attention: the causal sums ------------------------------------------------------------------------------


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def causal_sum_one_short(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The causal sums ended one token too early: a query did not see its own key.

    Query i sums over j <= i. The first query would have nothing to sum over.

    Is the token's own key added to the state before the query is multiplied by it, or after?
    """
    _require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    weights = (feature_map(query) @ feature_map(key).transpose(-2, -1)).tril(-1)
    return weights / (weights.sum(dim=-1, keepdim=True) + 1e-6) @ value


@another_form(causal_sum_one_short)
def causal_sum_one_short_without_a_guard(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The first query divides 0 by 0."""
    return _attended(query, key, value, is_causal, diagonal=-1)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def causal_sum_one_too_far(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The causal sums went one token too far: a query saw the key after its own.

    The next token is what a model has to predict.

    What is the largest j that query i may sum over?
    """
    return _attended(query, key, value, is_causal, diagonal=1)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def normalised_over_all_keys(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """With is_causal the denominator still summed over all keys.

    The weights of the past then don't sum to 1, and the future shows in the denominator.

    Which of the two sums has to be causal?
    """
    return _attended(query, key, value, is_causal, weigh=lambda weights, seen: seen / weights.sum(dim=-1, keepdim=True))


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def only_the_normaliser_is_causal(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """With is_causal only the denominator was causal, and the values of all keys were summed.

    Each context then holds values of later tokens.

    Which of the two sums has to be causal?
    """
    return _attended(query, key, value, is_causal, weigh=lambda weights, seen: weights / seen.sum(dim=-1, keepdim=True))


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def causal_ignored(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """is_causal was not looked at: every query summed over all keys.

    A model that is to predict the next token must not see it.

    Where does the code ask whether it is causal?
    """
    _require(query, key, is_causal)
    return linear_attention(query, key, value)


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def always_causal(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The sums were causal without is_causal, too.

    Without it every query sums over all keys.

    Where does the code ask whether it is causal?
    """
    _require(query, key, is_causal)
    weights = (feature_map(query) @ feature_map(key).transpose(-2, -1)).tril()
    return weights / weights.sum(dim=-1, keepdim=True) @ value


@another_form(always_causal)
def always_causal_where_lengths_agree(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    return linear_attention(query, key, value, is_causal or query.shape[-2] == key.shape[-2])


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def summed_from_the_end(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """With is_causal each query summed over itself and the tokens after it.

    The past of query i are the keys j <= i: the sums have to run from the start of the text.

    In which direction does a cumulative sum run?
    """
    _require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    weights = (feature_map(query) @ feature_map(key).transpose(-2, -1)).triu()
    return weights / weights.sum(dim=-1, keepdim=True) @ value


@misconception(replaces="linear_attention", caught_by="test_causal")
def sums_decay(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The state was made smaller at each token before the new one was added.

    There are models that forget in this way. Here each key of the past counts in full, however far away it is.

    By what is the state multiplied before the next token is added to it?
    """
    _require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    positions = torch.arange(query.shape[-2], device=query.device)
    decay = 0.9 ** (positions[:, None] - positions).tril()
    weights = (feature_map(query) @ feature_map(key).transpose(-2, -1)).tril() * decay.to(query.dtype)
    return weights / weights.sum(dim=-1, keepdim=True) @ value


def _chunked(
    query: Tensor, key: Tensor, value: Tensor, own: Callable[[Tensor], Tensor], past: float, size: int = CHUNK,
    kept: float = 1.0,
) -> Tensor:  # fmt: skip
    """Causal attention by chunks: the weights inside one by `own`, the state of the earlier ones counted `past`, and
    what was in the state before the last of them counted `kept`."""
    query, key, value = (
        feature_map(query),
        feature_map(key),
        torch.cat((value, torch.ones_like(value[..., :1])), dim=-1),
    )
    state = torch.zeros_like(key[..., :1, :].transpose(-2, -1) * value[..., :1, :])
    sums = []
    for q, k, v in zip(query.split(size, -2), key.split(size, -2), value.split(size, -2), strict=True):
        sums.append(past * (q @ state) + own(q @ k.transpose(-2, -1)) @ v)
        state = kept * state + k.transpose(-2, -1) @ v
    total = torch.cat(sums, dim=-2)
    return total[..., :-1] / total[..., -1:]


@misconception(replaces="linear_attention", caught_by="test_causal")
def chunks_cut_off(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Each chunk began with an empty state: its tokens did not see those of earlier chunks.

    The state at the end of a chunk is what the next one has to begin with.

    What is carried from one chunk to the next?
    """
    _require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    return _chunked(query, key, value, torch.tril, 0.0)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def own_chunk_seen_whole(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Inside a chunk every query saw every key, later ones too.

    The state of the earlier chunks needs no mask. The chunk's own weights do.

    Which keys of its own chunk may a query see?
    """
    _require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    return _chunked(query, key, value, _unchanged, 1.0)


@misconception(replaces="linear_attention", caught_by="test_causal")
def last_chunk_dropped(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The last chunk, which was not full, was left out: its contexts stayed 0.

    The number of chunks was rounded down, so that the tokens after the last full one had no turn.

    How many chunks does a text of 37 tokens have, in chunks of 8?
    """
    context = linear_attention(query, key, value, is_causal)
    full = context.shape[-2] // 8 * 8 or context.shape[-2]
    return (
        torch.cat((context[..., :full, :], torch.zeros_like(context[..., full:, :])), dim=-2) if is_causal else context
    )


@misconception(replaces="linear_attention", caught_by="test_causal")
def last_chunk_missing(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The last chunk, which was not full, was left out: the result has fewer rows than there are queries.

    The number of chunks was rounded down, so that the tokens after the last full one had no turn.

    How many chunks does a text of 37 tokens have, in chunks of 8?
    """
    context = linear_attention(query, key, value, is_causal)
    return context[..., : context.shape[-2] // 8 * 8 or context.shape[-2], :] if is_causal else context


@misconception(replaces="linear_attention", caught_by="test_causal")
def state_of_the_last_chunk(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The state of a chunk took the place of what was there: each chunk saw itself and the one before it.

    All earlier chunks count: the sums of one chunk are added to the state.

    Is the state replaced after a chunk, or does it grow?
    """
    _require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    return _chunked(query, key, value, torch.tril, 1.0, kept=0.0)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def own_chunk_counted_twice(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The chunk was added to the state before its queries were multiplied by it: its own keys counted twice, later ones
    once.

    The state has to hold the earlier chunks alone while the chunk's own weights are masked and added.

    In which order do you use the state and add to it?
    """
    _require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    return _chunked(query, key, value, lambda weights: weights + weights.tril(), 1.0)


SHORT = {"short_text_dropped": last_chunk_dropped, "short_text_missing": last_chunk_missing}


def _in_chunks_of(size: int) -> list[Callable[..., Tensor]]:
    """The mistakes whose numbers depend on how long a chunk is."""

    def chunks_cut_off(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
        _require(query, key, is_causal)
        if not is_causal:
            return linear_attention(query, key, value)
        return _chunked(query, key, value, torch.tril, 0.0, size)

    def state_of_the_last_chunk(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
        _require(query, key, is_causal)
        if not is_causal:
            return linear_attention(query, key, value)
        return _chunked(query, key, value, torch.tril, 1.0, size, kept=0.0)

    def last_chunk_dropped(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
        context = last_chunk_missing(query, key, value, is_causal)
        return F.pad(context, (0, 0, 0, query.shape[-2] - context.shape[-2]))

    def last_chunk_missing(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
        context = linear_attention(query, key, value, is_causal)
        full = context.shape[-2] // size * size or context.shape[-2]
        return context[..., :full, :] if is_causal else context

    def short_text_dropped(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
        context = linear_attention(query, key, value, is_causal)
        full = context.shape[-2] // size * size if is_causal else context.shape[-2]
        return torch.cat((context[..., :full, :], torch.zeros_like(context[..., full:, :])), dim=-2)

    def short_text_missing(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
        context = linear_attention(query, key, value, is_causal)
        if not is_causal:
            return context
        return torch.cat([part for part in context.split(size, dim=-2) if part.shape[-2] == size], dim=-2)

    def own_chunk_counted_twice(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
        _require(query, key, is_causal)
        if not is_causal:
            return linear_attention(query, key, value)
        return _chunked(query, key, value, lambda weights: weights + weights.tril(), 1.0, size)

    return [
        chunks_cut_off, state_of_the_last_chunk, last_chunk_dropped, last_chunk_missing, own_chunk_counted_twice,
        short_text_dropped, short_text_missing,
    ]  # fmt: skip


for _size in (16, CHUNK, 64):
    for _made in _in_chunks_of(_size):
        _named = f"{_made.__name__}_of_{_size}"
        _wrong = SHORT.get(_made.__name__) or globals()[_made.__name__]
        _caught_by = "test_context_by_hand" if _made.__name__.startswith(("own", "short")) else "test_causal"
        # Those of 32 are above.
        if _named not in ("chunks_cut_off_of_32", "state_of_the_last_chunk_of_32", "own_chunk_counted_twice_of_32"):
            globals()[_named] = another_form(_wrong, caught_by=_caught_by)(_made)
del _made  # else the catalogue would find it by this name, too


@misconception(replaces="linear_attention", caught_by="test_causal")
def unequal_lengths_accepted(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """is_causal was accepted with unequal numbers of queries and keys.

    Query i and key i are then no longer the same token, and j <= i means nothing.

    Is the number of queries compared with that of the keys?
    """
    if not is_causal or query.shape[-2] == key.shape[-2]:
        return linear_attention(query, key, value, is_causal)
    weights = (feature_map(query) @ feature_map(key).transpose(-2, -1)).tril()
    return weights / weights.sum(dim=-1, keepdim=True) @ value


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def unequal_lengths_refused(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Unequal numbers of queries and keys were refused without is_causal, too.

    Without it any query may look at any number of keys, as in cross attention.

    When do the two lengths have to agree?
    """
    _require(query, key, True)
    return linear_attention(query, key, value, is_causal)


# --- linear attention: memory and the rest --------------------------------------------------------------------------


@misconception(replaces="linear_attention", caught_by="test_memory", misses_the_point=True)
def matrix_of_all_pairs(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The weights of all pairs of queries and keys were computed.

    The context is right, but nothing was saved: the matrix grows with the product of both lengths.

    In (Q Kᵀ) V, which product can be taken first, and how large is it then?
    """
    return _attended(query, key, value, is_causal)


@misconception(replaces="linear_attention", caught_by="test_causal_memory")
def causal_matrix_of_all_pairs(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """With is_causal the weights of all pairs were computed, and the later ones set to 0.

    The context is right, but the matrix that was to be avoided is there again.

    What does query i need to know of all keys before it, and can it be kept up as i grows?
    """
    return _attended(query, key, value, is_causal) if is_causal else linear_attention(query, key, value)


@misconception(replaces="linear_attention", caught_by="test_causal_memory")
def products_of_all_three(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """With is_causal a mask of all pairs was made, and einsum was given it beside queries and keys.

    A mask is a tensor too, as large as the matrix, and einsum makes the weights of all pairs on its way.

    What does query i need to know of all keys before it, and can it be kept up as i grows?
    """
    if not is_causal:
        return linear_attention(query, key, value)
    _require(query, key, is_causal)
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
    _require(query, key, is_causal)
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
    _require(query, key, is_causal)
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


# --- one token at a time --------------------------------------------------------------------------------------------


def _sums(key: Tensor, value: Tensor, state: State) -> tuple[Tensor, Tensor]:
    """The two sums with the token's own key and value added."""
    key = feature_map(key)
    products = key[..., :, None] * value[..., None, :]
    return (products, key) if state is None else (state[0] + products, state[1] + key)


def _context(query: Tensor, products: Tensor, keys: Tensor) -> Tensor:
    query = feature_map(query)
    return torch.einsum("bhd,bhdv->bhv", query, products) / (query * keys).sum(-1, keepdim=True)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_written_in_place(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The token was added to the state in place: the tensors of the caller changed.

    Whoever kept the state, to try two different next tokens, finds another one there.

    Which line makes a new tensor, and which writes into the old one?
    """
    if state is None:
        return right_step(query, key, value, state)
    products, keys = _sums(key, value, None)
    state[0].add_(products)
    state[1].add_(keys)
    return _context(query, *state), state


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_without_the_token(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The state that was returned is the one that came in: the token was not added to it.

    The next token then knows nothing of this one.

    Which sums does the next token have to start from?
    """
    output, new = right_step(query, key, value, state)
    return output, (torch.zeros_like(new[0]), torch.zeros_like(new[1])) if state is None else state


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def own_token_not_seen(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The output was made from the state before the token was added to it.

    A query attends to its own key too: the sums are over j <= i.

    What comes first: adding the token, or multiplying by the query?
    """
    new = _sums(key, value, state)
    if state is None:
        return torch.zeros_like(value), new
    return _context(query, *state), new


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_of_the_token_alone(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The state that came in was not used: the sums hold this token alone.

    A weighted mean over one key is that key's value.

    To what are the products of this token added?
    """
    return right_step(query, key, value)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_forgets(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The output was made with the state that came in, but the new state holds this token alone.

    From the third token on the first one is forgotten.

    Is the state that is returned the one that the output was made from?
    """
    return right_step(query, key, value, state)[0], _sums(key, value, None)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_grows(query: Tensor, key: Tensor, value: Tensor, state: State = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The state was a list of all keys and values so far.

    That is what ordinary attention needs. Here two sums of fixed size hold all there is to know of the past.

    How large should the state be after a thousand tokens?
    """
    keys, values = feature_map(key)[..., None, :], value[..., None, :]
    if state is not None:
        past = (
            state
            if state[0].dim() == 4 and state[0].shape[-1] == key.shape[-1]
            else (keys[..., :0, :], values[..., :0, :])
        )
        keys, values = torch.cat((past[0], keys), dim=-2), torch.cat((past[1], values), dim=-2)
    weights = feature_map(query)[..., None, :] @ keys.transpose(-2, -1)
    return (weights / weights.sum(-1, keepdim=True) @ values).squeeze(-2), (keys, values)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_transposed(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The first sum of the state was kept as (B, H, d_v, d).

    It is of phi(key) valueᵀ: the features of the key are its rows. Others' code reads the state in this layout.

    Which of the two vectors stands upright in an outer product k vᵀ?
    """
    turned = None if state is None else (state[0].transpose(-2, -1), state[1])
    output, (products, keys) = right_step(query, key, value, turned)
    return output, (products.transpose(-2, -1), keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_the_other_way_round(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The two sums of the state were exchanged: the one of the keys came first.

    The state is the pair of the sum of phi(key) valueᵀ and the sum of phi(key), in this order.

    Which of the two has four dimensions?
    """
    turned = None if state is None else (state[1], state[0])
    output, (products, keys) = right_step(query, key, value, turned)
    return output, (keys, products)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_of_one_tensor(query: Tensor, key: Tensor, value: Tensor, state: State = None) -> tuple[Tensor, Tensor]:
    """The state was the sum of phi(key) valueᵀ alone, without that of the keys.

    The denominator needs a sum of its own.

    What is the context divided by, and where does that number come from at the second token?
    """
    output, new = right_step(query, key, value, state)
    return output, new[0]


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_with_an_axis_too_many(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The sum of the keys kept an axis of length 1: (B, H, 1, d) or (B, H, d, 1).

    The state is passed on between one code and another, so that its shapes are part of the contract.

    Which shape should the sum of phi(key) have?
    """
    given = None if state is None else (state[0], state[1].reshape(key.shape))
    output, (products, keys) = right_step(query, key, value, given)
    return output, (products, keys[..., None, :])


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def step_without_normaliser(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The output was not divided by the sum of the weights.

    A context is a mean: without the division it grows with the number of tokens.

    If all values are 1, what should every output be?
    """
    products, keys = _sums(key, value, state)
    return torch.einsum("bhd,bhdv->bhv", feature_map(query), products), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def step_without_features(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The feature map was not applied in the step.

    The state holds sums of phi(key), and what is added to it must be of the same kind.

    What is phi of a key, and is it what gets added to the state?
    """
    products = key[..., :, None] * value[..., None, :]
    keys = key
    if state is not None:
        products, keys = state[0] + products, state[1] + keys
    return torch.einsum("bhd,bhdv->bhv", query, products) / (query * keys).sum(-1, keepdim=True), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def key_without_features(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The feature map was applied to the query and not to the key.

    Keys can be negative, and with them weights and their sum.

    Of which two tensors is the weight of a pair made?
    """
    products, keys = key[..., :, None] * value[..., None, :], key
    if state is not None:
        products, keys = state[0] + products, state[1] + keys
    return _context(query, products, keys), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def query_without_features(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The feature map was applied to the key and not to the query.

    Queries can be negative, and with them weights and their sum.

    Of which two tensors is the weight of a pair made?
    """
    products, keys = _sums(key, value, state)
    return torch.einsum("bhd,bhdv->bhv", query, products) / (query * keys).sum(-1, keepdim=True), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_fades(query: Tensor, key: Tensor, value: Tensor, state: State = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The state was made smaller before the token was added, or averaged with it.

    There are models that forget in this way. Here each token of the past counts in full.

    By what is the state multiplied before the next token is added to it?
    """
    return right_step(query, key, value, None if state is None else (0.9 * state[0], 0.9 * state[1]))


@misconception(replaces="linear_attention_step", caught_by="test_step_state")
def step_detaches_the_state(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The state that came in was detached: no gradient flows through it.

    A loss at a later token could then not reach the keys and values of earlier ones.

    Is the state data, or part of the computation?
    """
    return right_step(query, key, value, None if state is None else (state[0].detach(), state[1].detach()))


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def output_alone(query: Tensor, key: Tensor, value: Tensor, state: State = None) -> Tensor:
    """The output was returned without the state.

    The caller has to hand the state to the next step.

    How many things does the function return?
    """
    return right_step(query, key, value, state)[0]


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def first_state_is_float32(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Without a state the sums were made in float32, whatever the dtype of the input.

    torch.zeros makes float32 unless it is told otherwise: float64 inputs lose half of their digits.

    What does torch.zeros have to be told, or which function makes a tensor like another one?
    """
    if state is not None:
        return right_step(query, key, value, state)
    output, (products, keys) = right_step(query.float(), key.float(), value.float())
    return output, (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def keys_of_the_token_alone(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The products were added to the state, the keys were not: the denominator held this token alone.

    Both sums are over all tokens so far, else the output is no mean of the values.

    Which two tensors does the state hold, and are both added to?
    """
    products, keys = _sums(key, value, state)[0], feature_map(key)
    return _context(query, products, keys), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def products_of_the_token_alone(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The keys were added to the state, the products were not: the numerator held this token alone.

    Both sums are over all tokens so far, else the output is no mean of the values.

    Which two tensors does the state hold, and are both added to?
    """
    products, _keys = _sums(key, value, None)
    keys = _sums(key, value, state)[1]
    return _context(query, products, keys), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def keys_summed_without_features(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The sum of the keys was of the keys themselves, without the feature map.

    The denominator is the sum of the weights that the numerator uses: both are made of phi(key).

    Of what is the second tensor of the state the sum?
    """
    products = _sums(key, value, state)[0]
    keys = key if state is None else state[1] + key
    return _context(query, products, keys), (products, keys)


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
):  # fmt: skip
    for _causal, _named in ((True, "with_is_causal"), (False, "without_is_causal")):
        _caught_by = _wrong.__catalogue_mark__.caught_by  # type: ignore[attr-defined]
        _caught_by = "test_causal" if _causal and _caught_by == "test_any_lengths" else _caught_by
        _named = f"{_wrong.__name__}_{_named}"
        globals()[_named] = another_form(_wrong, caught_by=_caught_by)(_in_one_form(_wrong, _causal))
matrix_without_is_causal = another_form(matrix_of_all_pairs)(_in_one_form(matrix_of_all_pairs, False))


def _token_by_token(step: Callable[..., Any]) -> Callable[[], dict[str, Callable[..., Any]]]:
    """`step`, and causal attention that takes it for each token."""

    def attended(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
        _require(query, key, is_causal)
        if not is_causal:
            return linear_attention(query, key, value)
        state, contexts = None, []
        for token in range(query.shape[-2]):
            context, state = step(query[..., token, :], key[..., token, :], value[..., token, :], state)
            contexts.append(context)
        return torch.stack(contexts, dim=-2)

    return lambda: {"linear_attention": attended, "linear_attention_step": step}


for _wrong in (
    own_token_not_seen, state_of_the_token_alone, state_forgets, state_without_the_token, step_without_normaliser,
    step_without_features, query_without_features, key_without_features, state_fades,
):  # fmt: skip
    _named = f"{_wrong.__name__}_in_a_loop"
    _both = ("linear_attention", "linear_attention_step")
    _made = another_form(_wrong, replaces=_both)(_token_by_token(_wrong))
    globals()[_named] = _made
del _wrong, _made


@another_form(state_written_in_place)
def keys_written_in_place(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    if state is None:
        return right_step(query, key, value, state)
    products, keys = state[0] + _sums(key, value, None)[0], state[1].add_(feature_map(key))
    return _context(query, products, keys), (products, keys)


@another_form(state_grows)
def state_of_all_keys(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    keys, values = key[..., None, :], value[..., None, :]
    if state is not None:
        keys, values = torch.cat((state[0], keys), dim=-2), torch.cat((state[1], values), dim=-2)
    return linear_attention(query[..., None, :], keys, values)[..., 0, :], (keys, values)
