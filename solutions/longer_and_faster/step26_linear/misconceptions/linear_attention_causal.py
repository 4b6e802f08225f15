"""What learners get wrong in `linear_attention`: the causal sums."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step26_linear.misconceptions.forms import attention_of, require, unchanged
from solutions.longer_and_faster.step26_linear.reference import CHUNK, feature_map, linear_attention


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def causal_sum_one_short(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The causal sums ended one token too early: a query did not see its own key.

    Query i sums over j <= i. The first query would have nothing to sum over.

    Is the token's own key added to the state before the query is multiplied by it, or after?
    """
    require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    weights = (feature_map(query) @ feature_map(key).transpose(-2, -1)).tril(-1)
    return weights / (weights.sum(dim=-1, keepdim=True) + 1e-6) @ value


@another_form(causal_sum_one_short)
def causal_sum_one_short_without_a_guard(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The first query divides 0 by 0."""
    return attention_of(query, key, value, is_causal, diagonal=-1)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def only_the_values_one_short(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The causal sum of the values ended one token too early, the one in the denominator did not.

    The weight of a token's own key was counted, and its value left out.

    Does the token join both sums before the query is multiplied by them?
    """
    return attention_of(
        query, key, value, is_causal,
        weigh=lambda weights, seen: (seen.tril(-1) if is_causal else seen) / seen.sum(dim=-1, keepdim=True),
    )  # fmt: skip


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def running_sums_rolled(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The causal sums were moved by one token with roll: the first query got the sum over all tokens.

    What roll pushes out at the end comes in again at the front. And no query's own key is in its sum.

    Which sum does the first query get after roll?
    """
    return _rolled(query, key, value, is_causal, both=True)


@another_form(running_sums_rolled)
def products_rolled(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Those of the products alone."""
    return _rolled(query, key, value, is_causal, both=False)


def _rolled(query: Tensor, key: Tensor, value: Tensor, is_causal: bool, both: bool) -> Tensor:
    require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    query, key = feature_map(query), feature_map(key)
    products, keys = (key[..., None] * value[..., None, :]).cumsum(dim=2).roll(1, 2), key.cumsum(dim=2)
    total = (query * (keys.roll(1, 2) if both else keys)).sum(dim=-1, keepdim=True)
    return torch.einsum("bhtd,bhtdv->bhtv", query, products) / total


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def causal_sum_one_too_far(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The causal sums went one token too far: a query saw the key after its own.

    The next token is what a model has to predict.

    What is the largest j that query i may sum over?
    """
    return attention_of(query, key, value, is_causal, diagonal=1)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def normalised_over_all_keys(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """With is_causal the denominator still summed over all keys.

    The weights of the past then don't sum to 1, and the future shows in the denominator.

    Which of the two sums has to be causal?
    """
    return attention_of(
        query, key, value, is_causal, weigh=lambda weights, seen: seen / weights.sum(dim=-1, keepdim=True)
    )


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def only_the_normaliser_is_causal(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """With is_causal only the denominator was causal, and the values of all keys were summed.

    Each context then holds values of later tokens.

    Which of the two sums has to be causal?
    """
    return attention_of(
        query, key, value, is_causal, weigh=lambda weights, seen: weights / seen.sum(dim=-1, keepdim=True)
    )


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def causal_ignored(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """is_causal was not looked at: every query summed over all keys.

    A model that is to predict the next token must not see it.

    Where does the code ask whether it is causal?
    """
    require(query, key, is_causal)
    return linear_attention(query, key, value)


@misconception(replaces="linear_attention", caught_by="test_any_lengths")
def always_causal(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The sums were causal without is_causal, too.

    Without it every query sums over all keys.

    Where does the code ask whether it is causal?
    """
    require(query, key, is_causal)
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
    require(query, key, is_causal)
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
    require(query, key, is_causal)
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
    require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    return _chunked(query, key, value, torch.tril, 0.0)


@misconception(replaces="linear_attention", caught_by="test_context_by_hand")
def own_chunk_seen_whole(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Inside a chunk every query saw every key, later ones too.

    The state of the earlier chunks needs no mask. The chunk's own weights do.

    Which keys of its own chunk may a query see?
    """
    require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    return _chunked(query, key, value, unchanged, 1.0)


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
    require(query, key, is_causal)
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
    require(query, key, is_causal)
    if not is_causal:
        return linear_attention(query, key, value)
    return _chunked(query, key, value, lambda weights: weights + weights.tril(), 1.0)


SHORT = {"short_text_dropped": last_chunk_dropped, "short_text_missing": last_chunk_missing}


def _in_chunks_of(size: int) -> list[Callable[..., Tensor]]:
    """The mistakes whose numbers depend on how long a chunk is."""

    def chunks_cut_off(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
        require(query, key, is_causal)
        if not is_causal:
            return linear_attention(query, key, value)
        return _chunked(query, key, value, torch.tril, 0.0, size)

    def state_of_the_last_chunk(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
        require(query, key, is_causal)
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
        require(query, key, is_causal)
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
    require(query, key, True)
    return linear_attention(query, key, value, is_causal)


del _wrong  # else the catalogue would find what it holds by this name, too
