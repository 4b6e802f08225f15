"""What learners get wrong in step 10, each with the check that catches it."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception, together
from solutions.core.step10_flash import reference


def _mask(scores: Tensor, rows: slice, columns: slice) -> Tensor:
    """Scores with the future at -inf."""
    return scores.masked_fill(reference.future(rows, columns, scores.device), -torch.inf)


def _blocks(length: int, block_size: int) -> list[slice]:
    """A slice for each block, the last one cut at the length."""
    return [slice(first, min(first + block_size, length)) for first in range(0, length, block_size)]


def _grow(maximum: Tensor, scores: Tensor) -> Tensor:
    """The maximum of each row, over all the blocks so far."""
    return torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))


def _rescale(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """What context and denominator are multiplied by when the maximum grows."""
    factor = torch.exp(old - new)
    return factor, factor


def _flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: bool,
    block_size: int,
    *,
    start: float = -torch.inf,
    grow: Callable[[Tensor, Tensor], Tensor] = _grow,
    rescale: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = _rescale,
    hide: Callable[[Tensor, slice, slice], Tensor] = _mask,
    key_blocks: Callable[[int, int], list[slice]] = _blocks,
    skip_future: bool = True,
    scale: float | None = None,
    wide: torch.dtype | None = None,
    check_lengths: bool = True,
    divide: bool = True,
) -> Tensor:
    """Attention by blocks; every misconception below takes one of these decisions in its own way."""
    if check_lengths and is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")
    wide = wide or torch.promote_types(query.dtype, torch.float32)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    contexts = []
    for rows in _blocks(query.shape[-2], block_size):
        query_block = query[..., rows, :].to(wide) * scale
        maximum = query_block.new_full((*query_block.shape[:-1], 1), start)
        denominator = torch.zeros_like(maximum)
        context = query_block.new_zeros((*query_block.shape[:-1], value.shape[-1]))
        for columns in key_blocks(key.shape[-2], block_size):
            if is_causal and skip_future and columns.start >= rows.stop:
                break
            scores = query_block @ key[..., columns, :].to(wide).transpose(-2, -1)
            if is_causal:
                scores = hide(scores, rows, columns)
            new_maximum = grow(maximum, scores)
            for_context, for_denominator = rescale(maximum, new_maximum)
            weights = torch.exp(scores - new_maximum)
            denominator = denominator * for_denominator + weights.sum(dim=-1, keepdim=True)
            context = context * for_context + weights @ value[..., columns, :].to(wide)
            maximum = new_maximum
        contexts.append(context / denominator if divide else context)
    return torch.cat(contexts, dim=-2).to(query.dtype)


@misconception(replaces="flash_attention", caught_by="test_two_blocks_by_hand")
def context_not_rescaled(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """When a later block raised the maximum, the denominator was rescaled, but the context added up so far was not.

    The context then adds numbers in two different units: the old values count too much against the new ones.

    Which of the running numbers were made with exp(scores - old maximum), and what must happen to each of them?
    """
    return _flash(
        query, key, value, is_causal, block_size, rescale=lambda old, new: (torch.ones_like(new), torch.exp(old - new))
    )


@misconception(replaces="flash_attention", caught_by="test_two_blocks_by_hand")
def denominator_not_rescaled(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """When a later block raised the maximum, the context was rescaled, but the denominator added up so far was not.

    The denominator is then too large, and the weights that it stands for no longer sum to 1.

    The denominator is a sum of exp(scores - maximum) too. What happens to it when the maximum changes?
    """
    return _flash(
        query,
        key,
        value,
        is_causal,
        block_size,
        rescale=lambda old, new: (torch.exp(old - new), torch.where(old == -torch.inf, 0.0, 1.0).to(new.dtype)),
    )


@misconception(replaces="flash_attention", caught_by="test_two_blocks_by_hand")
def each_block_its_own_maximum(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """Each block subtracted its own maximum, and the blocks were then added up as they were.

    A block with small scores counts as much as one with large scores, because each one's largest score became 0.

    How can two blocks be added that were made with two different maxima? What factor lies between their units?
    """
    ones = torch.ones_like
    return _flash(
        query,
        key,
        value,
        is_causal,
        block_size,
        grow=lambda maximum, scores: scores.amax(dim=-1, keepdim=True),
        rescale=lambda old, new: (ones(new), ones(new)),
    )


@misconception(replaces="flash_attention", caught_by="test_two_blocks_by_hand")
def last_block_dropped(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """Only the full blocks of keys were read: the keys left over at the end were never looked at.

    With 7 keys and blocks of 3 the loop ended after 6 keys, and the seventh got no weight.

    How many blocks are there when the number of keys is no multiple of block_size, and where does the last one end?
    """

    def full_blocks(length: int, size: int) -> list[slice]:
        return [block for block in _blocks(length, size) if block.stop - block.start == size] or _blocks(length, size)

    return _flash(query, key, value, is_causal, block_size, key_blocks=full_blocks)


@misconception(replaces="flash_attention", caught_by="test_two_blocks_by_hand")
def divided_in_every_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The context was divided by the denominator after every block.

    The next block rescales and adds to it as if it had not been divided, so the first blocks count too little.

    When is the denominator complete, and how many times does a softmax divide by it?
    """
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")
    contexts = []
    for rows in _blocks(query.shape[-2], block_size):
        query_block = query[..., rows, :] * query.shape[-1] ** -0.5
        maximum = query_block.new_full((*query_block.shape[:-1], 1), -torch.inf)
        denominator, context = torch.zeros_like(maximum), torch.zeros_like(value[..., :1, :])
        for columns in _blocks(rows.stop if is_causal else key.shape[-2], block_size):
            scores = query_block @ key[..., columns, :].transpose(-2, -1)
            scores = _mask(scores, rows, columns) if is_causal else scores
            new_maximum = _grow(maximum, scores)
            rescale, weights = torch.exp(maximum - new_maximum), torch.exp(scores - new_maximum)
            denominator = denominator * rescale + weights.sum(dim=-1, keepdim=True)
            context = (context * rescale + weights @ value[..., columns, :]) / denominator
            maximum = new_maximum
        contexts.append(context)
    return torch.cat(contexts, dim=-2)


@misconception(replaces="flash_attention", caught_by="test_two_blocks_by_hand")
def rescaled_the_wrong_way(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """When a later block raised the maximum, what was added up so far was multiplied by exp(new - old).

    That makes the old sums larger, and they have to become smaller: measured by a larger maximum, each of their
    exponentials is worth less.

    exp(score - old) is there and exp(score - new) is wanted. By what do you multiply the one to get the other?
    """

    def wrong_way(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        factor = torch.exp(new - torch.where(old == -torch.inf, new, old))  # 1 where there is nothing to rescale yet
        return factor, factor

    return _flash(query, key, value, is_causal, block_size, rescale=wrong_way)


@misconception(replaces="flash_attention", caught_by="test_two_blocks_by_hand")
def never_divided(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """The weighted values were added up, and the sum was never divided by the denominator.

    The exponentials are no weights yet: in each row they have to sum to 1.

    What does a softmax do after the exponentials, and where does your code do it?
    """
    return _flash(query, key, value, is_causal, block_size, divide=False)


@misconception(replaces="flash_attention", caught_by="test_two_blocks_by_hand")
def blocks_averaged(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """Each block of keys was given a softmax of its own, and the contexts of the blocks were averaged.

    All blocks then count alike, however large their scores are. In one softmax a block counts as much as its
    exponentials are of the whole denominator.

    How large is the share of a block whose scores are all far below those of another block?
    """
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")
    contexts = []
    for rows in _blocks(query.shape[-2], block_size):
        parts = []
        for columns in _blocks(rows.stop if is_causal else key.shape[-2], block_size):
            scores = query[..., rows, :] @ key[..., columns, :].transpose(-2, -1) * query.shape[-1] ** -0.5
            scores = _mask(scores, rows, columns) if is_causal else scores
            parts.append(torch.softmax(scores, dim=-1) @ value[..., columns, :])
        contexts.append(torch.stack(parts).mean(dim=0))
    return torch.cat(contexts, dim=-2)


@misconception(replaces="flash_attention", caught_by="test_large_scores", misses_the_point=True)
def no_maximum(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """The exponentials were added up without subtracting a maximum.

    For small scores that is the same softmax, but exp(1000) is infinite, and inf / inf is not a number.

    What can be subtracted from all the scores of a row without changing its softmax?
    """
    return _flash(
        query,
        key,
        value,
        is_causal,
        block_size,
        start=0.0,
        grow=lambda maximum, scores: maximum,
    )


@misconception(replaces="flash_attention", caught_by="test_large_scores")
def maximum_starts_at_zero(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The running maximum did not start low enough, but at 0, say.

    When all the scores of a row are far below it, it stays what it is, every exponential is 0, and 0 is divided by 0.

    Which number is below every score there can be?
    """
    return _flash(query, key, value, is_causal, block_size, start=0.0)


@misconception(replaces="flash_attention", caught_by="test_large_scores")
def first_block_maximum_kept(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The maximum of the first block of keys was subtracted in all the blocks.

    Where a later block holds a score that is larger by 100 or more, its exponential is infinite in float32.

    What must happen to the maximum when a later block holds a larger score, and to what was added up with the old one?
    """

    def first_only(maximum: Tensor, scores: Tensor) -> Tensor:
        return torch.where(maximum == -torch.inf, scores.amax(dim=-1, keepdim=True), maximum)

    return _flash(query, key, value, is_causal, block_size, grow=first_only)


@misconception(replaces="flash_attention", caught_by="test_large_scores")
def hidden_scores_in_the_maximum(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The maximum of a block was taken before the future was hidden.

    Where a hidden score is larger by 1000 than all visible ones, every exponential is 0, and 0 is divided by 0.

    Which scores of a row take part in its softmax, and when do you know which they are?
    """
    highest: list[Tensor] = []

    def hide(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        highest.append(scores.amax(dim=-1, keepdim=True))
        return _mask(scores, rows, columns)

    def grow(maximum: Tensor, scores: Tensor) -> Tensor:
        return torch.maximum(maximum, highest.pop()) if highest else _grow(maximum, scores)

    return _flash(query, key, value, is_causal, block_size, hide=hide, grow=grow)


@misconception(replaces="flash_attention", caught_by="test_large_scores")
def one_maximum_for_a_whole_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """One maximum was taken over all the queries of a block together.

    A query whose scores all lie far below those of its neighbours gets only zeros, and 0 is divided by 0.

    A softmax belongs to one query. Over which dimension is its maximum taken?
    """

    def largest(maximum: Tensor, scores: Tensor) -> Tensor:
        return torch.maximum(maximum, scores.amax(dim=(-2, -1), keepdim=True))

    return _flash(query, key, value, is_causal, block_size, grow=largest)


@misconception(replaces="flash_attention", caught_by="test_gradients")
def rescale_without_gradient(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The factor that rescales the earlier blocks was detached from the gradient, but the maximum was not.

    The maximum has no effect on the result only because it stands in every factor. Detached in one and not in the
    others, it sends a wrong gradient to query and key.

    Where else does the maximum stand? Which of those places may the gradient pass through, so that all agree?
    """

    def detached(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        factor = torch.exp(old - new).detach()
        return factor, factor

    return _flash(query, key, value, is_causal, block_size, rescale=detached)


@misconception(replaces="flash_attention", caught_by="test_gradients")
def query_without_gradient(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The query was detached from the gradient before the scores were made.

    The context is right, but the query never learns, because its gradient is missing or zero.

    Which of the three inputs must still have a gradient at the end?
    """
    return _flash(query.detach() + 0.0 * query, key, value, is_causal, block_size)


class _WeightsMadeAgain(torch.autograd.Function):
    """The forward pass keeps the logarithms of the denominators; the backward pass makes the weights from them."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, block_size: int) -> Tensor:
        wide = torch.promote_types(query.dtype, torch.float32)
        context = _flash(query, key, value, is_causal, block_size)
        logs = []
        for rows in _blocks(query.shape[-2], block_size):
            scores = query[..., rows, :].to(wide) @ key.to(wide).transpose(-2, -1) * query.shape[-1] ** -0.5
            scores = _mask(scores, rows, slice(0, key.shape[-2])) if is_causal else scores
            logs.append(scores.logsumexp(dim=-1, keepdim=True))
        ctx.save_for_backward(query, key, value, context, torch.cat(logs, dim=-2))
        ctx.is_causal = is_causal
        return context

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, context, logs = ctx.saved_tensors
        scale = query.shape[-1] ** -0.5
        scores = query @ key.transpose(-2, -1) * scale
        if ctx.is_causal:
            scores = _mask(scores, slice(0, query.shape[-2]), slice(0, key.shape[-2]))
        weights = torch.exp(scores - logs)  # in float32 where the inputs are halves: what is wrong with it
        d_value = weights.transpose(-2, -1) @ gradients[0]
        d_weights = gradients[0] @ value.transpose(-2, -1)
        d_scores = weights * (d_weights - (gradients[0] * context).sum(dim=-1, keepdim=True)) * scale
        return d_scores @ key, d_scores.transpose(-2, -1) @ query, d_value, None, None


@misconception(replaces="flash_attention", caught_by="test_gradients")
def backward_in_two_dtypes(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The backward pass, written by hand, multiplied float32 tensors by tensors in half precision.

    What the forward pass kept in float32 makes all that is computed from it float32 as well, and torch multiplies no
    two matrices of different dtypes. In float32 alone nobody notices.

    Which dtypes do the saved tensors have when the query is in bfloat16, and which should the gradients have?
    """
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")
    context: Tensor = _WeightsMadeAgain.apply(query, key, value, is_causal, block_size)
    return context


@misconception(replaces="flash_attention", caught_by="test_causal")
def future_seen_outside_diagonal_blocks(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The causal mask was applied only in the blocks on the diagonal; the blocks after them were read in full.

    Each query then sees all the keys that lie in later blocks.

    What does a query of the first block have to do with keys of the third?
    """

    def diagonal_only(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return _mask(scores, rows, columns) if rows.start == columns.start else scores

    return _flash(query, key, value, is_causal, block_size, hide=diagonal_only, skip_future=False)


@misconception(replaces="flash_attention", caught_by="test_causal")
def diagonal_blocks_not_masked(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The later blocks were skipped, but inside the block on the diagonal no mask was applied.

    There some keys lie before a query and some after it, so a query still sees up to block_size - 1 later tokens.

    Which blocks lie wholly in the past, which wholly in the future, and which are mixed?
    """
    return _flash(query, key, value, is_causal, block_size, hide=lambda scores, rows, columns: scores)


@misconception(replaces="flash_attention", caught_by="test_causal")
def positions_counted_within_the_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The mask compared positions counted from the start of each block, in every block.

    Blocks that lie wholly in the past then lose keys which their queries may attend to.

    What is the position of the first query of a block, counted from the start of the sequence?
    """

    def local(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        here = slice(0, rows.stop - rows.start), slice(0, columns.stop - columns.start)
        return _mask(scores, *here)

    return _flash(query, key, value, is_causal, block_size, hide=local)


@misconception(replaces="flash_attention", caught_by="test_causal")
def own_key_hidden(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """With is_causal each query was kept from the key at its own position, too.

    The first query then sees nothing at all, and a softmax over nothing is not a number.

    Query i attends to keys 0 to i. Is key i one of them?
    """

    def own_too(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return _mask(scores, slice(rows.start - 1, rows.stop - 1), columns)

    return _flash(query, key, value, is_causal, block_size, hide=own_too, skip_future=False)


@misconception(replaces="flash_attention", caught_by="test_causal")
def is_causal_ignored(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The argument is_causal was taken, but nothing depended on it.

    With is_causal=True every query still attended to every key.

    Where in the loop is it known which keys lie after which queries?
    """
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")
    return _flash(query, key, value, False, block_size)


@misconception(replaces="flash_attention", caught_by="test_causal")
def unequal_lengths_accepted(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """With is_causal=True another number of queries than of keys was accepted.

    Then nobody knows which key a query stands beside, and the answer is silently a guess.

    Which two lengths should be compared before the first block is read?
    """
    return _flash(query, key, value, is_causal, block_size, check_lengths=False)


@misconception(replaces="flash_attention", caught_by="test_any_lengths")
def not_scaled(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """The scores were not divided by the square root of d.

    The softmax is then sharper than the one of attention, the more so the wider a head is.

    What stood between the dot products and the softmax in step 1?
    """
    return _flash(query, key, value, is_causal, block_size, scale=1.0)


@misconception(replaces="flash_attention", caught_by="test_any_lengths")
def scaled_by_width_of_value(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The scores were divided by the square root of the width of the values.

    The scores are sums over the width of queries and keys. The values may have another width.

    Over how many products does one dot product of a query and a key sum?
    """
    return _flash(query, key, value, is_causal, block_size, scale=value.shape[-1] ** -0.5)


@misconception(replaces="flash_attention", caught_by="test_any_lengths")
def keys_counted_by_queries(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The loop over the blocks of keys ended at the number of queries.

    When there are more keys than queries, the last keys are never looked at.

    Which tensor's length says how many blocks of keys there are?
    """
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")
    seen = slice(0, min(query.shape[-2], key.shape[-2]))
    return _flash(query, key[..., seen, :], value[..., seen, :], is_causal, block_size)


@misconception(replaces="flash_attention", caught_by="test_any_lengths")
def added_up_in_float32(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """Everything was computed in float32, whatever dtype came in.

    For float64 inputs that throws away half of the digits.

    Which dtype should the running sums have when the inputs are float64?
    """
    return _flash(query, key, value, is_causal, block_size, wide=torch.float32)


@misconception(replaces="flash_attention", caught_by="test_memory", misses_the_point=True)
def whole_rows_for_a_block_of_queries(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """Only the queries were cut into blocks: each block met all keys, and a softmax took its whole rows.

    A block of whole rows still grows with the number of keys. The softmax has to be built up while keys arrive in
    blocks, too.

    With one block of queries and a million keys, how large are your scores?
    """
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")
    wide = torch.promote_types(query.dtype, torch.float32)
    contexts = []
    for rows in _blocks(query.shape[-2], block_size):
        scores = query[..., rows, :].to(wide) @ key.to(wide).transpose(-2, -1) * query.shape[-1] ** -0.5
        if is_causal:
            scores = _mask(scores, rows, slice(0, key.shape[-2]))
        contexts.append(torch.softmax(scores, dim=-1) @ value.to(wide))
    return torch.cat(contexts, dim=-2).to(query.dtype)


@misconception(replaces="flash_attention", caught_by="test_memory", misses_the_point=True)
def whole_matrix_made(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """A tensor of the shape of all the scores was made: blocks were cut out of it, or it masked them.

    The result is right, but the T_q x T_k matrix that flash attention does without has been made after all.

    Which part of query and of key does one block of scores need?
    """
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = query.to(wide) @ key.to(wide).transpose(-2, -1) * query.shape[-1] ** -0.5
    if is_causal:
        scores = _mask(scores, slice(0, query.shape[-2]), slice(0, key.shape[-2]))
    return (torch.softmax(scores, dim=-1) @ value.to(wide)).to(query.dtype)


@misconception(replaces="flash_attention", caught_by="test_memory")
def whole_mask_made(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """With is_causal a tensor for all pairs of positions was made, a mask for instance; without it there was none.

    A mask of T x T booleans grows with the square of the length just as the scores do.

    Which positions does one block need, and how can its mask be made from those alone?
    """
    whole = None
    if is_causal and query.shape[-2] == key.shape[-2]:
        whole = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).triu(1)

    def cut(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return scores if whole is None else scores.masked_fill(whole[rows, columns], -torch.inf)

    return _flash(query, key, value, is_causal, block_size, hide=cut)


@misconception(replaces="flash_attention", caught_by="test_memory")
def block_size_ignored(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The blocks had a size of their own, whatever block_size said.

    Someone who asks for smaller blocks, because memory is short, gets the large ones.

    Where does the number of rows and columns of a block come from?
    """
    return _flash(query, key, value, is_causal, 64)


@misconception(replaces="flash_attention", caught_by="test_halves_meta_and_inputs")
def halves_come_back_in_float32(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The sums were kept in float32, and the context was returned in float32 as well.

    Adding up in float32 is good for half precision, but the next layer expects the dtype that came in.

    Which dtype did the query have?
    """
    context = _flash(query, key, value, is_causal, block_size)
    return context.to(torch.promote_types(context.dtype, torch.float32))


@misconception(replaces="flash_attention", caught_by="test_halves_meta_and_inputs")
def mask_made_on_the_cpu(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The positions for the causal mask were made on the CPU, wherever the query was.

    On any other device the scores and the mask cannot meet.

    What does torch.arange need to be told, so that its result lies where the query lies?
    """

    def on_the_cpu(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return scores.masked_fill(reference.future(rows, columns, torch.device("cpu")), -torch.inf)

    return _flash(query, key, value, is_causal, block_size, hide=on_the_cpu)


@misconception(replaces="flash_attention", caught_by="test_halves_meta_and_inputs")
def query_scaled_in_place(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The query was scaled in place, so the caller's tensor changed.

    Whoever uses the same query again gets another answer the second time.

    What is the difference between query *= scale and query = query * scale?
    """
    return _flash(query.mul_(query.shape[-1] ** -0.5), key, value, is_causal, block_size, scale=1.0)


@misconception(replaces="flash_attention", caught_by="test_halves_meta_and_inputs")
def fill_too_large_for_half(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """Hidden scores were filled with -1e9 while the scores were in float16.

    The largest number of float16 is 65504, so torch refuses to store -1e9 in it.

    Which number is below every score in every dtype?
    """

    def fill(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return scores.masked_fill(reference.future(rows, columns, scores.device), -1e9)

    return _flash(query, key, value, is_causal, block_size, hide=fill, wide=query.dtype)


@misconception(replaces="sdpa", caught_by="test_sdpa_is_causal")
def sdpa_not_causal(query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True) -> Tensor:
    """The built-in was called without saying that the attention is causal.

    Each token then attends to the later ones as well.

    Which argument of the built-in hides the future?
    """
    return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout_p if training else 0.0)


@misconception(replaces="sdpa", caught_by="test_sdpa_is_causal")
def sdpa_mask_the_other_way_round(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """The mask that the built-in was given was True where a key is to be hidden.

    For masked_fill and nn.MultiheadAttention True means hidden. For the built-in it means the opposite: may be seen.

    What does True mean in the attn_mask of F.scaled_dot_product_attention?
    """
    future = reference.future(slice(0, query.shape[-2]), slice(0, key.shape[-2]), query.device)
    rate = dropout_p if training else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=future, dropout_p=rate)


@misconception(replaces="sdpa", caught_by="test_sdpa_is_causal")
def sdpa_zeros_and_ones_added(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """The mask that the built-in was given was of zeros and ones, and not boolean.

    A mask of numbers is added to the scores: the past got 1 more than the future, and nothing was hidden.

    Which dtype does torch.ones have, and what does the built-in do with a mask of that dtype?
    """
    past = torch.ones(query.shape[-2], key.shape[-2], dtype=query.dtype, device=query.device).tril()
    rate = dropout_p if training else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=past, dropout_p=rate)


@misconception(replaces="sdpa", caught_by="test_sdpa_is_causal")
def sdpa_scaled_twice(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """The query was divided by the square root of d before the built-in was called.

    The built-in divides the scores itself, so they were divided twice.

    What does the S in SDPA stand for?
    """
    return reference.sdpa(query * query.shape[-1] ** -0.5, key, value, dropout_p, training)


@misconception(replaces="sdpa", caught_by="test_sdpa_is_causal")
def sdpa_written_by_hand(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """The attention was computed step by step, and the built-in was never called.

    The numbers are right, but sdpa is where the built-in with its fast kernels comes in.

    Which function of torch.nn.functional does all of this in one call?
    """
    future = reference.future(slice(0, query.shape[-2]), slice(0, key.shape[-2]), query.device)
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    weights = torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)
    return F.dropout(weights, dropout_p, training) @ value


@misconception(replaces="sdpa", caught_by="test_sdpa_dropout")
def sdpa_drops_in_eval(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """dropout_p was handed to the built-in as it came, also when training was False.

    The built-in drops whenever its dropout_p is above 0. It has no way to know that the training is over.

    What should the built-in be told when training is False?
    """
    return reference.sdpa(query, key, value, dropout_p, True)


@misconception(replaces="sdpa", caught_by="test_sdpa_dropout")
def sdpa_drops_only_in_eval(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """The two cases of training changed places: the built-in was given dropout_p when training was False, and else 0.

    Dropout is there to make training harder. In use the answer should be the same every time.

    Read your condition aloud with training = True. Which rate does it choose?
    """
    return reference.sdpa(query, key, value, dropout_p, not training)


@misconception(replaces="sdpa", caught_by="test_sdpa_dropout")
def sdpa_never_drops(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """dropout_p was never handed on to the built-in.

    Its own default is 0, so no weight is ever dropped, not in training either.

    Which arguments of sdpa does the built-in need to hear about?
    """
    return reference.sdpa(query, key, value, 0.0, training)


@misconception(replaces="sdpa", caught_by="test_sdpa_dropout")
def sdpa_trains_only_when_told(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = False
) -> Tensor:
    """The default of training was False.

    The step asks for True: whoever names a rate and nothing else wants it to act.

    Where in the line of `def` does the default stand?
    """
    return reference.sdpa(query, key, value, dropout_p, training)


@misconception(replaces="sdpa", caught_by="test_halves_meta_and_inputs")
def sdpa_in_float32(query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True) -> Tensor:
    """Query, key and value were converted to float32 for the built-in, and the result back.

    A float64 input loses half of its digits on the way.

    Which conversion could you leave out?
    """
    return reference.sdpa(query.float(), key.float(), value.float(), dropout_p, training).to(query.dtype)


@misconception(replaces="sdpa", caught_by="test_sdpa_dropout")
def sdpa_drops_the_context(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """Dropout was applied to the context that the built-in returned.

    Dropout on the weights hides a token from a query. Dropout on the context hides single numbers of the sum instead.

    Between which two products does the dropout of attention stand, and who computes them here?
    """
    return F.dropout(reference.sdpa(query, key, value), dropout_p, training)


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def elements_instead_of_bytes(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> int:
    """The elements of the matrix were counted, not their bytes.

    An element in float32 takes four bytes.

    Which of the four arguments was not used?
    """
    return batch * num_heads * num_tokens**2


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def one_number_a_token(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> int:
    """One number was counted for every token, not for every pair of tokens.

    Every query has a score for every key, so the matrix grows with the square of the length.

    What is the shape of the scores of one head?
    """
    return batch * num_heads * num_tokens * bytes_per_element


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def one_head_counted(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> int:
    """The heads were not counted: only one matrix for every sequence.

    Every head has scores of its own.

    How many matrices of T x T does a batch of two sequences with three heads have?
    """
    return batch * num_tokens**2 * bytes_per_element


@misconception(replaces="flash_attention", caught_by="test_memory")
def large_default_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 1024
) -> Tensor:
    """The default of block_size was not 64, but larger.

    Whoever does not name a size then gets the whole matrix, unless the sequence is very long.

    Where in the line of `def` does the default stand?
    """
    return _flash(query, key, value, is_causal, block_size)


@misconception(replaces="flash_attention", caught_by="test_memory")
def half_the_length_as_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The sequence was cut in two halves, whatever block_size said.

    A block is then a quarter of the matrix of scores, and it grows with the square of the length as the matrix does.

    When the sequence gets twice as long, what happens to the size of a block?
    """
    return _flash(query, key, value, is_causal, max(block_size, query.shape[-2] // 2))


@misconception(replaces="flash_attention", caught_by="test_large_scores")
def a_thousand_filled_in(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The future scores were filled with -1000, which is not low enough.

    Where the visible scores of a row are near -1000 as well, the future gets as much weight as they do.

    Which number stays far below every score that can come up?
    """

    def fill(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return scores.masked_fill(reference.future(rows, columns, scores.device), -1000.0)

    return _flash(query, key, value, is_causal, block_size, hide=fill)


# --- the same mistakes in other words ---------------------------------------------------------------------------------


@misconception(replaces="flash_attention", caught_by="test_two_blocks_by_hand", misses_the_point=True)
def nothing_rescaled(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """When a later block raised the maximum, nothing that was added up so far was rescaled.

    Context and denominator then add exponentials in two different units: those made with the old maximum count too
    much against the new ones.

    exp(score - old) is there and exp(score - new) is wanted. By what do you multiply the one to get the other?
    """
    ones = torch.ones_like
    return _flash(query, key, value, is_causal, block_size, rescale=lambda old, new: (ones(new), ones(new)))


@misconception(replaces="flash_attention", caught_by="test_large_scores")
def maximum_of_the_latest_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The maximum of the latest block took the place of the running one, also where it was smaller.

    On paper any number may be subtracted. But what was added up so far is then multiplied by exp(old - new), and that
    overflows when a block with small scores follows one with large scores.

    May the running maximum ever become smaller? Which function of torch takes the larger of two tensors?
    """
    return _flash(
        query, key, value, is_causal, block_size, grow=lambda maximum, scores: scores.amax(dim=-1, keepdim=True)
    )


@misconception(replaces="flash_attention", caught_by="test_two_blocks_by_hand", misses_the_point=True)
def new_maximum_never_kept(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The new maximum was computed in each block and never kept, so that the old one stayed at minus infinity.

    What was added up so far is then multiplied by exp(-inf), which is 0: only the last block of keys counts.

    Which line makes the new maximum the old one before the next block comes?
    """
    zeros = torch.zeros_like
    return _flash(
        query, key, value, is_causal, block_size, grow=lambda maximum, scores: scores.amax(dim=-1, keepdim=True),
        rescale=lambda old, new: (zeros(new), zeros(new)),
    )  # fmt: skip


@another_form(rescaled_the_wrong_way)
def rescaled_the_wrong_way_from_minus_infinity(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    return _flash(
        query, key, value, is_causal, block_size, rescale=lambda old, new: (torch.exp(new - old), torch.exp(new - old))
    )


# --- two at once ------------------------------------------------------------------------------------------------------

BLOCKS = {
    context_not_rescaled: {"rescale": lambda old, new: (torch.ones_like(new), torch.exp(old - new))},
    denominator_not_rescaled: {
        "rescale": lambda old, new: (torch.exp(old - new), torch.where(old == -torch.inf, 0.0, 1.0).to(new.dtype))
    },
    each_block_its_own_maximum: {
        "grow": lambda maximum, scores: scores.amax(dim=-1, keepdim=True),
        "rescale": lambda old, new: (torch.ones_like(new), torch.ones_like(new)),
    },
    no_maximum: {"start": 0.0, "grow": lambda maximum, scores: maximum},
}
CAUSES: dict[Callable[..., object], dict[str, Any]] = {
    is_causal_ignored: {"hide": lambda scores, rows, columns: scores, "skip_future": False},
    diagonal_blocks_not_masked: {"hide": lambda scores, rows, columns: scores},
    future_seen_outside_diagonal_blocks: {
        "hide": lambda scores, rows, columns: _mask(scores, rows, columns) if rows.start == columns.start else scores,
        "skip_future": False,
    },
}
UNSCALED: dict[Callable[..., object], dict[str, Any]] = {not_scaled: {"scale": 1.0}}


def _both(first: dict[str, Any], second: dict[str, Any]) -> object:
    def flash_attention(
        query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
    ) -> Tensor:
        return _flash(query, key, value, is_causal, block_size, **first, **second)

    return flash_attention


def _naive(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """The whole matrix, for any lengths."""
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    if is_causal:
        scores = _mask(scores, slice(0, query.shape[-2]), slice(0, key.shape[-2]))
    return torch.softmax(scores, dim=-1) @ value


PAIRS = [
    *together(UNSCALED, BLOCKS, _both),
    *together(UNSCALED, CAUSES, _both),
    *together(BLOCKS, CAUSES, _both),
    *together({whole_matrix_made: None}, {unequal_lengths_accepted: None}, lambda _matrix, _lengths: _naive),
]
