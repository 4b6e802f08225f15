"""What learners get wrong in `flash_attention`, each with the check that catches it."""

from typing import Any

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step10_flash import reference
from solutions.core.step10_flash.misconceptions.blocks import blocks, flash, mask, maximum_so_far


@misconception(replaces="flash_attention", caught_by="test_two_blocks_by_hand")
def context_not_rescaled(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """When a later block raised the maximum, the denominator was rescaled, but the context added up so far was not.

    The context then adds numbers in two different units: the old values count too much against the new ones.

    Which of the running numbers were made with exp(scores - old maximum), and what must happen to each of them?
    """
    return flash(
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
    return flash(
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
    return flash(
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
        return [block for block in blocks(length, size) if block.stop - block.start == size] or blocks(length, size)

    return flash(query, key, value, is_causal, block_size, key_blocks=full_blocks)


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
    for rows in blocks(query.shape[-2], block_size):
        query_block = query[..., rows, :] * query.shape[-1] ** -0.5
        maximum = query_block.new_full((*query_block.shape[:-1], 1), -torch.inf)
        denominator, context = torch.zeros_like(maximum), torch.zeros_like(value[..., :1, :])
        for columns in blocks(rows.stop if is_causal else key.shape[-2], block_size):
            scores = query_block @ key[..., columns, :].transpose(-2, -1)
            scores = mask(scores, rows, columns) if is_causal else scores
            new_maximum = maximum_so_far(maximum, scores)
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

    return flash(query, key, value, is_causal, block_size, rescale=wrong_way)


@misconception(replaces="flash_attention", caught_by="test_two_blocks_by_hand")
def never_divided(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """The weighted values were added up, and the sum was never divided by the denominator.

    The exponentials are no weights yet: in each row they have to sum to 1.

    What does a softmax do after the exponentials, and where does your code do it?
    """
    return flash(query, key, value, is_causal, block_size, divide=False)


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
    for rows in blocks(query.shape[-2], block_size):
        parts = []
        for columns in blocks(rows.stop if is_causal else key.shape[-2], block_size):
            scores = query[..., rows, :] @ key[..., columns, :].transpose(-2, -1) * query.shape[-1] ** -0.5
            scores = mask(scores, rows, columns) if is_causal else scores
            parts.append(torch.softmax(scores, dim=-1) @ value[..., columns, :])
        contexts.append(torch.stack(parts).mean(dim=0))
    return torch.cat(contexts, dim=-2)


@misconception(replaces="flash_attention", caught_by="test_large_scores", misses_the_point=True)
def no_maximum(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """The exponentials were added up without subtracting a maximum.

    For small scores that is the same softmax, but exp(1000) is infinite, and inf / inf is not a number.

    What can be subtracted from all the scores of a row without changing its softmax?
    """
    return flash(
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
    return flash(query, key, value, is_causal, block_size, start=0.0)


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

    return flash(query, key, value, is_causal, block_size, grow=first_only)


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
        return mask(scores, rows, columns)

    def grow(maximum: Tensor, scores: Tensor) -> Tensor:
        return torch.maximum(maximum, highest.pop()) if highest else maximum_so_far(maximum, scores)

    return flash(query, key, value, is_causal, block_size, hide=hide, grow=grow)


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

    return flash(query, key, value, is_causal, block_size, grow=largest)


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

    return flash(query, key, value, is_causal, block_size, rescale=detached)


@misconception(replaces="flash_attention", caught_by="test_gradients")
def query_without_gradient(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The query was detached from the gradient before the scores were made.

    The context is right, but the query never learns, because its gradient is missing or zero.

    Which of the three inputs must still have a gradient at the end?
    """
    return flash(query.detach() + 0.0 * query, key, value, is_causal, block_size)


class _WeightsMadeAgain(torch.autograd.Function):
    """The forward pass keeps the logarithms of the denominators; the backward pass makes the weights from them."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, block_size: int) -> Tensor:
        wide = torch.promote_types(query.dtype, torch.float32)
        context = flash(query, key, value, is_causal, block_size)
        logs = []
        for rows in blocks(query.shape[-2], block_size):
            scores = query[..., rows, :].to(wide) @ key.to(wide).transpose(-2, -1) * query.shape[-1] ** -0.5
            scores = mask(scores, rows, slice(0, key.shape[-2])) if is_causal else scores
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
            scores = mask(scores, slice(0, query.shape[-2]), slice(0, key.shape[-2]))
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


@misconception(replaces="flash_attention", caught_by="test_any_lengths")
def not_scaled(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """The scores were not divided by the square root of d.

    The softmax is then sharper than the one of attention, the more so the wider a head is.

    What stood between the dot products and the softmax in step 1?
    """
    return flash(query, key, value, is_causal, block_size, scale=1.0)


@misconception(replaces="flash_attention", caught_by="test_any_lengths")
def scaled_by_width_of_value(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The scores were divided by the square root of the width of the values.

    The scores are sums over the width of queries and keys. The values may have another width.

    Over how many products does one dot product of a query and a key sum?
    """
    return flash(query, key, value, is_causal, block_size, scale=value.shape[-1] ** -0.5)


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
    return flash(query, key[..., seen, :], value[..., seen, :], is_causal, block_size)


@misconception(replaces="flash_attention", caught_by="test_any_lengths")
def added_up_in_float32(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """Everything was computed in float32, whatever dtype came in.

    For float64 inputs that throws away half of the digits.

    Which dtype should the running sums have when the inputs are float64?
    """
    return flash(query, key, value, is_causal, block_size, wide=torch.float32)


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

    return flash(query, key, value, is_causal, block_size, hide=fill)


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
    return flash(query, key, value, is_causal, block_size, rescale=lambda old, new: (ones(new), ones(new)))


@misconception(replaces="flash_attention", caught_by="test_large_scores")
def maximum_of_the_latest_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The maximum of the latest block took the place of the running one, also where it was smaller.

    On paper any number may be subtracted. But what was added up so far is then multiplied by exp(old - new), and that
    overflows when a block with small scores follows one with large scores.

    May the running maximum ever become smaller? Which function of torch takes the larger of two tensors?
    """
    return flash(
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
    return flash(
        query, key, value, is_causal, block_size, grow=lambda maximum, scores: scores.amax(dim=-1, keepdim=True),
        rescale=lambda old, new: (zeros(new), zeros(new)),
    )  # fmt: skip


@another_form(rescaled_the_wrong_way)
def rescaled_the_wrong_way_from_minus_infinity(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    return flash(
        query, key, value, is_causal, block_size, rescale=lambda old, new: (torch.exp(new - old), torch.exp(new - old))
    )
