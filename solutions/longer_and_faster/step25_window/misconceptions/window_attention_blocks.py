"""What learners get wrong in `window_attention`: blocks, memory, arguments."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step25_window.misconceptions.blocks import (
    attended_in_blocks,
    require,
    softmax_of_the_seen,
)
from solutions.longer_and_faster.step25_window.reference import may_attend, window_attention

# --- attention: blocks, memory, arguments ---------------------------------------------------------------------------


@misconception(replaces="window_attention", caught_by="test_any_length")
def last_block_dropped(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The last block, which the window does not fill, was left out: its contexts stayed 0.

    The number of blocks was rounded down, so that the tokens after the last full one had no turn.

    How many blocks does a text of 7 tokens have, in blocks of 3?
    """
    context = attended_in_blocks(query, key, value, window, is_causal, num_global)
    tokens = query.shape[-2]
    full = tokens // window * window or tokens
    return torch.cat((context[..., :full, :], torch.zeros_like(context[..., full:, :])), dim=-2)


@misconception(replaces="window_attention", caught_by="test_any_length")
def last_block_missing(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The last block, which the window does not fill, was left out: the result has fewer rows than there are queries.

    The number of blocks was rounded down, so that the tokens after the last full one had no turn.

    How many blocks does a text of 7 tokens have, in blocks of 3?
    """
    tokens = query.shape[-2]
    return attended_in_blocks(query, key, value, window, is_causal, num_global)[
        ..., : tokens // window * window or tokens, :
    ]


@misconception(replaces="window_attention", caught_by="test_any_length")
def padding_kept(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The text was padded to a multiple of the window, and the rows of the padding were returned too.

    Whoever asked for T contexts gets more of them.

    How many queries came in, and how many contexts go out?
    """
    context = attended_in_blocks(query, key, value, window, is_causal, num_global)
    return F.pad(context, (0, 0, 0, -query.shape[-2] % window))


@misconception(replaces="window_attention", caught_by="test_any_length")
def multiples_only(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The tokens were laid out in blocks by a reshape that needs a multiple of the window.

    Texts have any length, so that the last block is seldom full.

    What can be put behind the last token, so that the blocks come out even, and how is it kept from being seen?
    """
    require(query, key, window)
    blocks = query.reshape(*query.shape[:-2], query.shape[-2] // window, window, query.shape[-1])
    return attended_in_blocks(blocks.flatten(-3, -2), key, value, window, is_causal, num_global)


@misconception(replaces="window_attention", caught_by="test_memory", misses_the_point=True)
def mask_of_all_pairs(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores came in blocks, but the mask that they were cut from was made for all pairs of tokens.

    A mask is a tensor too: T x T of them take as many places as the matrix that was to be avoided.

    Which part of the mask does one block need, and from which positions is it made?
    """
    require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    mask = may_attend(positions, positions, window, is_causal, num_global)
    return attended_in_blocks(
        query, key, value, window, is_causal, num_global, allowed=lambda queries, keys, *_rest: mask[queries]
    )


@misconception(replaces="window_attention", caught_by="test_memory", misses_the_point=True)
def whole_matrix(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores of all pairs of tokens were computed, and all but the window was masked away.

    The context is right, but nothing was saved: time and memory still grow with the square of the length.

    Which keys can a block of queries see at all? Can the others be left out before the product?
    """
    require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    mask = may_attend(positions, positions, window, is_causal, num_global)
    return softmax_of_the_seen(query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5, mask) @ value


@misconception(replaces="window_attention", caught_by="test_memory", misses_the_point=True)
def built_in_with_a_mask(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """scaled_dot_product_attention was given the whole mask, of all pairs of tokens.

    The context is right, but the mask alone is as large as the matrix, and the built-in computes all of the scores.

    The built-in may be used on blocks. Which queries and keys belong together?
    """
    require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    mask = may_attend(positions, positions, window, is_causal, num_global)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@misconception(replaces="window_attention", caught_by="test_memory")
def window_copied_for_each_token(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Every token got a copy of all the keys in its window: T x window x d numbers.

    Neighbours have nearly the same window, so that each key was copied `window` times.

    How many different keys do the queries of one block see together? Do they need a copy each?
    """
    require(query, key, window)
    if num_global:
        return window_attention(query, key, value, window, is_causal, num_global)
    tokens, ahead = query.shape[-2], 0 if is_causal else window - 1
    keys, values = (F.pad(tensor, (0, 0, window - 1, ahead)) for tensor in (key, value))
    span = window + ahead
    places = torch.arange(span, device=query.device) + torch.arange(tokens, device=query.device)[:, None]
    exists = (places >= window - 1) & (places < window - 1 + tokens)
    scores = torch.einsum("...td,...tsd->...ts", query * query.shape[-1] ** -0.5, keys[..., places, :])
    return torch.einsum("...ts,...tsd->...td", softmax_of_the_seen(scores, exists), values[..., places, :])


@misconception(replaces="window_attention", caught_by="test_memory_with_global_tokens")
def whole_matrix_for_global_tokens(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """With global tokens the scores of all pairs of tokens were computed.

    Global tokens add num_global rows and num_global columns. All other pairs outside the window stay unseen.

    How many scores do the global rows have, and how many the global columns?
    """
    if not num_global:
        return window_attention(query, key, value, window, is_causal, num_global)
    return whole_matrix(query, key, value, window, is_causal, num_global)


@misconception(replaces="window_attention", caught_by="test_wrong_arguments_are_refused")
def unequal_lengths_accepted(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Queries and keys of different lengths were accepted.

    Query i and key i are then no longer the same token, and the window means nothing.

    Is the length of the keys compared with that of the queries?
    """
    tokens = min(query.shape[-2], key.shape[-2])
    return window_attention(
        query[..., :tokens, :], key[..., :tokens, :], value[..., :tokens, :], window, is_causal, num_global
    )


@misconception(replaces="window_attention", caught_by="test_wrong_arguments_are_refused")
def empty_window_accepted(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """A window of 0 was accepted.

    No token would see anything then, not even itself, and a softmax over nothing is NaN.

    What does the code do with window = 0, and what should it say?
    """
    return window_attention(query, key, value, max(window, 1), is_causal, num_global)


@misconception(replaces="window_attention", caught_by="test_halves_meta_and_inputs")
def query_scaled_in_place(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The query was scaled in place: the caller's tensor holds other numbers afterwards.

    `*=` and `mul_` write into the tensor they are given, and that one is not yours.

    Which line makes a new tensor, and which writes into the old one?
    """
    require(query, key, window)
    query *= query.shape[-1] ** -0.5
    return attended_in_blocks(query, key, value, window, is_causal, num_global, scale=1.0)


@misconception(replaces="window_attention", caught_by="test_any_length")
def float32_inside(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The work was done in float32, whatever the dtype of the input.

    A float64 input loses half of its digits on the way.

    Which tensors are made with a dtype, or converted to one?
    """
    wide = (tensor.float() for tensor in (query, key, value))
    return window_attention(*wide, window, is_causal, num_global).to(query.dtype)


@misconception(replaces="window_attention", caught_by="test_halves_meta_and_inputs")
def filled_a_float32_result(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The contexts were written into a tensor that was made without the dtype of the input.

    torch.zeros makes float32 on the CPU unless it is told otherwise, so that a half comes back as float32.

    What does torch.zeros have to be told, or which function makes a tensor like another one?
    """
    context = window_attention(query, key, value, window, is_causal, num_global)
    return context if context.dtype == torch.float64 else context.float()


@misconception(replaces="window_attention", caught_by="test_any_length")
def key_and_value_exchanged(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Keys and values were exchanged: the scores were taken with the values, and the keys were averaged.

    Keys say where to look, values what is found there.

    Which of the two is multiplied by the query, and which by the weights?
    """
    if key.shape[-1] != value.shape[-1]:
        key = F.pad(key, (0, value.shape[-1] - key.shape[-1]))
        query = F.pad(query, (0, value.shape[-1] - query.shape[-1]))
    return attended_in_blocks(query, value, key, window, is_causal, num_global, scale=query.shape[-1] ** -0.5)


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def averaged_over_the_window(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The sum of the exponentials was divided by the window and not by itself.

    The weights of a row have to sum to 1, and at the start of the text fewer keys are there than the window holds.

    By what are the exponentials of a softmax divided?
    """

    def weigh(scores: Tensor, mask: Tensor) -> Tensor:
        scores = scores.masked_fill(~mask, -torch.inf)
        return (scores - scores.amax(dim=-1, keepdim=True)).exp() / window

    return attended_in_blocks(query, key, value, window, is_causal, num_global, weigh=weigh)


# --- other forms of the same ----------------------------------------------------------------------------------------


@another_form(last_block_missing)
def text_cut_to_whole_blocks(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    require(query, key, window)
    tokens = query.shape[-2]
    full = tokens // window * window or tokens
    parts = (tensor[..., :full, :] for tensor in (query, key, value))
    return window_attention(*parts, window, is_causal, min(num_global, full))


@another_form(last_block_dropped)
def last_block_behind_globals_dropped(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Blocks begin behind the global tokens."""
    context = window_attention(query, key, value, window, is_causal, num_global)
    full = num_global + (query.shape[-2] - num_global) // window * window
    return torch.cat((context[..., :full, :], torch.zeros_like(context[..., full:, :])), dim=-2)


@another_form(window_copied_for_each_token)
def window_unfolded_for_each_token(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Views of the keys, which the product copies where there are several heads."""
    require(query, key, window)
    tokens, ahead = query.shape[-2], 0 if is_causal else window - 1
    keys, values = (F.pad(x, (0, 0, window - 1, ahead)).unfold(-2, window + ahead, 1) for x in (key, value))
    positions = torch.arange(tokens, device=query.device)
    places = positions[:, None] + torch.arange(1 - window, ahead + 1, device=query.device)
    scores = torch.einsum("...td,...tds->...ts", query * query.shape[-1] ** -0.5, keys)
    scores = scores.masked_fill((places < num_global) | (places >= tokens), -torch.inf)
    allowed = may_attend(positions, positions[:num_global], window, is_causal, num_global)
    first = query * query.shape[-1] ** -0.5 @ key[..., :num_global, :].transpose(-2, -1)
    weights = torch.softmax(torch.cat((scores, first.masked_fill(~allowed, -torch.inf)), dim=-1), dim=-1)
    near, of_globals = weights.split((window + ahead, num_global), dim=-1)
    context = torch.einsum("...ts,...tds->...td", near, values) + of_globals @ value[..., :num_global, :]
    if not num_global:
        return context
    rows = window_attention(query, key, value, window, is_causal, num_global)[..., :num_global, :]
    return torch.cat((rows, context[..., num_global:, :]), dim=-2)


def _dropped(query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    """Zeros where the window does not fill a block, also in a text shorter than the window; global rows are right."""
    context = attended_in_blocks(query, key, value, window, is_causal, num_global)
    positions = torch.arange(query.shape[-2], device=query.device)
    written = (positions < query.shape[-2] // window * window) | (positions < num_global)
    return context.masked_fill(~written[:, None], 0.0)


@another_form(last_block_dropped)
def last_block_of_short_texts_dropped(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    require(query, key, window)
    return _dropped(query, key, value, window, is_causal, num_global)


@another_form(last_block_missing, caught_by="test_any_length")
def whole_blocks_put_together(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Behind the rows of the global tokens; of a text shorter than the window there is nothing to put together."""
    require(query, key, window)
    context = attended_in_blocks(query, key, value, window, is_causal, num_global)
    parts = [context[..., :num_global, :]] if num_global else []
    parts += [part for part in context[..., num_global:, :].split(window, dim=-2) if part.shape[-2] == window]
    return torch.cat(parts, dim=-2)


@another_form(window_copied_for_each_token)
def window_and_globals_copied_for_each_token(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The global keys stand in front of each token's window."""
    require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    ahead = 0 if is_causal else window - 1
    near = positions[:, None] + torch.arange(1 - window, ahead + 1, device=query.device)
    first = positions[:num_global].expand(len(positions), num_global)
    seen = torch.cat((first, near.clamp(0, len(positions) - 1)), dim=1)
    there = torch.cat((first <= (positions[:, None] if is_causal else len(positions)), near == seen[:, num_global:]), 1)
    there[:, num_global:] &= near >= num_global
    scores = torch.einsum("...td,...tsd->...ts", query * query.shape[-1] ** -0.5, key[..., seen, :])
    context = torch.einsum("...ts,...tsd->...td", softmax_of_the_seen(scores, there), value[..., seen, :])
    if not num_global:
        return context
    rows = window_attention(query, key, value, window, is_causal, num_global)[..., :num_global, :]
    return torch.cat((rows, context[..., num_global:, :]), dim=-2)
