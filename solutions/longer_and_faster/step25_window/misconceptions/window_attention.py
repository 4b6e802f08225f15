"""What learners get wrong in `window_attention`, each with the check that catches it."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step25_window.misconceptions.blocks import (
    attended_in_blocks,
    require,
    softmax_of_the_seen,
)
from solutions.longer_and_faster.step25_window.misconceptions.keys_seen import named
from solutions.longer_and_faster.step25_window.reference import attend, may_attend, window_attention

# --- attention: numbers ---------------------------------------------------------------------------------------------


@misconception(replaces="window_attention", caught_by="test_any_length")
def not_scaled(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores were not scaled.

    The wider the heads, the larger their dot products: without a division by the root of d the softmax saturates.

    By what did `attention` divide the scores, in step 3?
    """
    return attended_in_blocks(query, key, value, window, is_causal, num_global, scale=1.0)


@misconception(replaces="window_attention", caught_by="test_any_length")
def scaled_by_the_window(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores were divided by the root of the window.

    A score is a dot product of d numbers, however many keys the window holds.

    How many products are summed up in one score?
    """
    return attended_in_blocks(query, key, value, window, is_causal, num_global, scale=max(window, 1) ** -0.5)


@misconception(replaces="window_attention", caught_by="test_any_length")
def scaled_by_d(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores were divided by d and not by its root.

    A sum of d products of ordinary size is of the size of the root of d, so d is too much.

    Is the scaling done twice, or is a root missing?
    """
    return attended_in_blocks(query, key, value, window, is_causal, num_global, scale=1 / query.shape[-1])


@misconception(replaces="window_attention", caught_by="test_large_scores_and_gradients")
def no_maximum_subtracted(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The exponentials were taken of the scores as they are, without their maximum subtracted.

    exp(1000) is infinite, and a row of infinities divided by its sum is NaN.

    What may be subtracted from all scores of a row without changing its softmax?
    """

    def weigh(scores: Tensor, mask: Tensor) -> Tensor:
        exponentials = scores.exp() * mask
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    return attended_in_blocks(query, key, value, window, is_causal, num_global, weigh=weigh)


@misconception(replaces="window_attention", caught_by="test_large_scores_and_gradients")
def one_maximum_for_all(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """One maximum was subtracted from the scores of all rows.

    A row whose own scores all lie far below it has nothing but zeros left, and 0 / 0 is NaN.

    Over which dimension is the maximum of a softmax taken?
    """

    def weigh(scores: Tensor, mask: Tensor) -> Tensor:
        exponentials = (scores - scores.amax()).exp() * mask
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    return attended_in_blocks(query, key, value, window, is_causal, num_global, weigh=weigh)


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def hidden_after_the_softmax(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The weights outside the window were set to 0 after the softmax, and not divided by what was left.

    The softmax had shared out some of the weight to hidden keys, so that the rows no longer sum to 1.

    What does each row of weights sum to?
    """
    return attended_in_blocks(
        query, key, value, window, is_causal, num_global, weigh=lambda scores, mask: scores.softmax(-1) * mask
    )


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def scores_times_the_mask(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores were multiplied by the mask, so that hidden keys had a score of 0.

    exp(0) is 1: a hidden key then weighs as much as any key with a score of 0.

    Which score has a weight of exactly 0?
    """
    return attended_in_blocks(
        query, key, value, window, is_causal, num_global, weigh=lambda scores, mask: (scores * mask).softmax(-1)
    )


@misconception(replaces="window_attention", caught_by="test_large_scores_and_gradients")
def hidden_by_a_small_number(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Hidden scores were set to a number like -100 that real scores can fall below.

    Where all visible scores of a row are near -1000, the hidden ones win.

    Which number lies below every score there can be?
    """
    return attended_in_blocks(
        query, key, value, window, is_causal, num_global,
        weigh=lambda scores, mask: scores.masked_fill(~mask, -100.0).softmax(-1),
    )  # fmt: skip


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def empty_places_attended(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The keys were padded with zeros at the ends, and the padding was attended to.

    A key of zeros has the score 0, and its weight is not 0: the first tokens lose weight to places that do not exist.

    What has to happen to the scores of places before the first token?
    """
    require(query, key, window)
    tokens, ahead = query.shape[-2], 0 if is_causal else window - 1
    keys, values = (F.pad(tensor, (0, 0, window - 1, ahead)) for tensor in (key, value))
    positions = torch.arange(tokens, device=query.device)
    contexts = []
    for rows in positions.split(window):
        places = torch.arange(1 - window, tokens + ahead, device=query.device)
        near = may_attend(rows, places, window, is_causal, 0)
        allowed = near | (places >= 0) & may_attend(rows, places, window, is_causal, num_global)
        scores = query[..., rows, :] * query.shape[-1] ** -0.5 @ keys.transpose(-2, -1)
        contexts.append(softmax_of_the_seen(scores, allowed) @ values)
    return torch.cat(contexts, dim=-2)


@misconception(replaces="window_attention", caught_by="test_large_scores_and_gradients")
def nan_in_the_padding(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Rows of padding, which see no key at all, went through the softmax and were cut off afterwards.

    A softmax over nothing but -inf is NaN. Cutting it off hides it in the result, but NaN times 0 is NaN: the
    gradients of all the real tokens are lost.

    What should a row of padding attend to, so that its numbers stay finite?
    """
    require(query, key, window)
    tokens = query.shape[-2]
    padded = F.pad(query, (0, 0, 0, window))
    positions = torch.arange(tokens, device=query.device)
    contexts = []
    for rows in torch.arange(tokens + window, device=query.device).split(window):
        scores = padded[..., rows, :] * query.shape[-1] ** -0.5 @ key.transpose(-2, -1)
        allowed = may_attend(rows, positions, window, is_causal, num_global) & (rows < tokens)[:, None]
        contexts.append(softmax_of_the_seen(scores, allowed) @ value)
    return torch.cat(contexts, dim=-2)[..., :tokens, :]


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def global_keys_twice(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Global keys were put beside the keys of the window, and those inside the window counted twice.

    The softmax takes the copy for another key, so that a global token near by gets twice its weight.

    Which of the global keys lie inside the window of the query already?
    """
    require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    contexts = []
    for rows in positions.split(window):
        first = positions[:num_global]
        seen = torch.cat((first, positions))
        near = may_attend(rows, positions, window, is_causal, 0) | (
            (rows < num_global)[:, None] & may_attend(rows, positions, window, is_causal, num_global)
        )
        allowed = torch.cat((may_attend(rows, first, window, is_causal, num_global), near), dim=-1)
        scores = query[..., rows, :] * query.shape[-1] ** -0.5 @ key[..., seen, :].transpose(-2, -1)
        contexts.append(softmax_of_the_seen(scores, allowed) @ value[..., seen, :])
    return torch.cat(contexts, dim=-2)


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def two_softmaxes(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The window and the global keys each had a softmax of their own, and the two contexts were averaged.

    Each softmax shares out a whole weight of 1, however small its scores are beside those of the other.

    Over which keys together do the weights of one query have to sum to 1?
    """
    require(query, key, window)
    tokens = query.shape[-2]
    positions = torch.arange(tokens, device=query.device)
    contexts = []
    for rows in positions.split(window):
        scores = query[..., rows, :] * query.shape[-1] ** -0.5 @ key.transpose(-2, -1)
        near = may_attend(rows, positions, window, is_causal, 0)
        both = may_attend(rows, positions, window, is_causal, num_global)
        rest = both & ~near
        apart = torch.softmax(scores.masked_fill(~rest, torch.finfo(scores.dtype).min), dim=-1) @ value
        local = softmax_of_the_seen(scores, near) @ value
        contexts.append(torch.where(rest.any(-1, keepdim=True), (local + apart) / 2, local))
    return torch.cat(contexts, dim=-2)


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def first_key_aligned(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """scaled_dot_product_attention was given a block of queries, more keys than that, and is_causal=True.

    It aligns its causal mask to the first key: query 0 of the block then sees key 0 alone, the one farthest back, and
    not its own.

    Which position has the first query of the block, and which the first key that it is given?
    """
    require(query, key, window)
    if not is_causal or num_global:
        return window_attention(query, key, value, window, is_causal, num_global)
    contexts = []
    for first in range(0, query.shape[-2], window):
        rows, seen = slice(first, first + window), slice(max(0, first - window + 1), first + window)
        contexts.append(
            F.scaled_dot_product_attention(query[..., rows, :], key[..., seen, :], value[..., seen, :], is_causal=True)
        )
    return torch.cat(contexts, dim=-2)


# --- other forms of the same ----------------------------------------------------------------------------------------


@another_form(global_keys_twice)
def global_keys_twice_for_others(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The global queries are right, as where they are worked out apart."""
    context = window_attention(query, key, value, window, is_causal, num_global)
    twice = global_keys_twice(query, key, value, window, is_causal, num_global)
    return torch.cat((context[..., :num_global, :], twice[..., num_global:, :]), dim=-2)


def _at_one_end(front: bool) -> Callable[..., Tensor]:
    """Zeros before the first token, or behind the last one, are attended to."""

    def attended(
        query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
    ) -> Tensor:
        require(query, key, window)
        tokens = query.shape[-2]
        ends = (0, 0, window - 1, 0) if front else (0, 0, 0, window - 1)
        keys, values = F.pad(key, ends), F.pad(value, ends)
        positions = torch.arange(tokens, device=query.device)
        places = torch.arange(-ends[2], tokens + ends[3], device=query.device)
        contexts = []
        for rows in positions.split(window):
            near = may_attend(rows, places, window, is_causal, 0)
            real = (places >= 0) & (places < tokens)
            allowed = near | real & may_attend(rows, places, window, is_causal, num_global)
            scores = query[..., rows, :] * query.shape[-1] ** -0.5 @ keys.transpose(-2, -1)
            contexts.append(softmax_of_the_seen(scores, allowed) @ values)
        return torch.cat(contexts, dim=-2)

    return attended


places_before_the_text_attended = another_form(empty_places_attended)(
    named(_at_one_end(front=True), "places_before_the_text_attended")
)


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def two_softmaxes_added(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The window and the global keys each had a softmax of their own, and the two contexts were added.

    The weights of a query then sum to 2, and each softmax shares out a whole weight of 1, however small its scores are.

    Over which keys together do the weights of one query have to sum to 1?
    """
    require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    near = may_attend(positions, positions, window, is_causal, 0)
    both = may_attend(positions, positions, window, is_causal, num_global)
    ordinary = (positions >= num_global)[:, None]
    scores = query * query.shape[-1] ** -0.5 @ key.transpose(-2, -1)
    first = both & (positions < num_global)
    apart = torch.where(
        first.any(-1, keepdim=True), softmax_of_the_seen(scores, first | ~first.any(-1, keepdim=True)), 0.0
    )
    local = softmax_of_the_seen(scores, (near & ~first) | ~ordinary & both)
    return (local + torch.where(ordinary, apart, 0.0)) @ value


@another_form(global_keys_twice)
def global_keys_of_the_block_twice(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Twice for all queries of a block whose keys begin among the global ones."""
    require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    rows = positions[:num_global]
    contexts = [attend(query, key, value, rows, positions, window, is_causal, num_global)] if num_global else []
    for rows in positions.split(window):
        stop = int(rows[-1]) + (1 if is_causal else window)
        near = positions[max(0, int(rows[0]) - window + 1) : stop]
        seen, own = torch.cat((positions[:num_global], near)), rows[rows >= num_global]
        contexts.append(attend(query, key, value, own, seen, window, is_causal, num_global))
    return torch.cat(contexts, dim=-2)


@misconception(replaces="window_attention", caught_by="test_any_length")
def scaled_by_the_values_width(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores were divided by the root of the values' width, d_v.

    A score is a sum of d products, of a query and a key: their width is what makes it large.

    Over which dimension does the product of query and key sum?
    """
    scale = value.shape[-1] ** -0.5
    return attended_in_blocks(query, key, value, window, is_causal, num_global, scale=scale)


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def looks_both_ways_by_default(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = False, num_global: int = 0
) -> Tensor:
    """Left to its default, the window looked both ways: is_causal was False where nothing was said.

    The default of is_causal is True here, as in window_mask.

    What stands behind `is_causal: bool =` in your code, and what in the stub?
    """
    return attended_in_blocks(query, key, value, window, is_causal, num_global)
