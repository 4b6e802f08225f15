"""What learners get wrong in `masked_softmax`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step04_causal_mask import reference


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def mask_inverted(scores: Tensor, mask: Tensor) -> Tensor:
    """The visible positions were hidden, and the hidden ones were kept.

    True means "may attend". `masked_fill` writes where its mask is True, so the two read a mask in opposite ways.

    Where does `masked_fill` write, and where do you want it to?
    """
    return scores.masked_fill(mask, -torch.inf).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def mask_ignored(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax was taken over all positions, and the mask was not used.

    Hidden positions then get weight like all others, and each token sees its future.

    What has to happen to the hidden scores before the softmax?
    """
    return scores.softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def scores_multiplied_by_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """The hidden scores were set to 0.

    A score of 0 is an ordinary score: its exponential is 1, so a hidden position still gets weight.

    Which score has an exponential of 0?
    """
    return (scores * mask).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def masked_after_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """The mask was applied after the softmax, and the rows were not divided by their new sum.

    Each row has lost the weight of its hidden positions, so it no longer sums to 1.

    What must happen to the hidden scores before the softmax, so that their weight is 0 by itself?
    """
    return scores.softmax(dim=-1) * mask


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def mask_negated_with_not(scores: Tensor, mask: Tensor) -> Tensor:
    """The mask was inverted with `not`.

    `not` asks a whole tensor whether it is true, and a tensor of many entries is neither true nor false.

    Which operator inverts each entry of a boolean tensor by itself?
    """
    return scores.masked_fill(not mask, -torch.inf).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def softmax_over_queries(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax was taken over the rows' dimension, so that the columns sum to 1.

    One query shares its attention among the keys. The keys of a query stand in its row, in the last dimension.

    Along which dimension does the sum have to be 1?
    """
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-2)


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def infinity_times_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """The mask was turned into numbers and multiplied by minus infinity.

    Zero times infinity is not a number (NaN), so the visible positions are lost as well.

    How can you write minus infinity into some places without a multiplication?
    """
    return (scores + (~mask).to(scores.dtype) * -torch.inf).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def exponentials_not_divided(scores: Tensor, mask: Tensor) -> Tensor:
    """The exponentials of the visible scores were returned without dividing them by their sum.

    They have the right proportions, but they are no weights: a row does not sum to 1.

    What is the last step of a softmax?
    """
    hidden = scores.masked_fill(~mask, -torch.inf)
    return (hidden - hidden.amax(dim=-1, keepdim=True)).exp()


@misconception(replaces="masked_softmax", caught_by="test_agrees_with_fresh_draws")
def own_causal_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """A causal mask was made inside the function, and the mask that was given was not used.

    The mask is not always the causal one: it may hide padding, or differ from one batch entry to the next.

    Which argument says what is hidden?
    """
    causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    return scores.masked_fill(~causal, -torch.inf).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_agrees_with_fresh_draws")
def mask_of_first_entry(scores: Tensor, mask: Tensor) -> Tensor:
    """The mask of the first batch entry was used for the whole batch.

    Every batch entry may hide other positions, for example where its own padding is.

    Does broadcasting need your help when the mask has a batch dimension?
    """
    while mask.dim() > 2:
        mask = mask[0]
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_agrees_with_fresh_draws")
def scores_filled_in_place(scores: Tensor, mask: Tensor) -> Tensor:
    """The hidden scores were overwritten in the tensor that was given.

    Whoever looks at the scores afterwards finds minus infinity in them.

    Which method does the same as `masked_fill_` on a copy?
    """
    return scores.masked_fill_(~mask, -torch.inf).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_hidden_weights_are_zero")
def hidden_scores_slightly_lowered(scores: Tensor, mask: Tensor) -> Tensor:
    """The hidden scores were set to -20, and not to minus infinity.

    The exponential of -20 is about 0.000000002: small, but not 0. A little of the future leaks through.

    Which value has an exponential of exactly 0, whatever the other scores are?
    """
    return scores.masked_fill(~mask, -20.0).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_large_scores")
def filled_with_minus_ten_thousand(scores: Tensor, mask: Tensor) -> Tensor:
    """The hidden scores were set to -10000.

    A visible score may be as low as that too, and then the hidden position gets the same weight.

    Which value is lower than every score that can occur?
    """
    return scores.masked_fill(~mask, -1e4).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_large_scores")
def ten_thousand_subtracted(scores: Tensor, mask: Tensor) -> Tensor:
    """The number 10000 was subtracted from the hidden scores.

    A hidden score of 10000 becomes 0 by that, and 0 is an ordinary score.

    Is there a value you can write over the hidden scores, so that it does not matter what they were?
    """
    return (scores - 1e4 * (~mask).to(scores.dtype)).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_large_scores")
def renormalised_after_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax was taken over all scores, and the visible weights were renormalised afterwards.

    This is right for ordinary scores. When a hidden score towers over the others, all visible weights round to 0,
    and 0 divided by 0 is not a number (NaN).

    At which moment do the hidden scores have to go, so that they cannot push the others down?
    """
    return reference.renormalise(scores.softmax(dim=-1), mask)


@misconception(replaces="masked_softmax", caught_by="test_large_scores")
def no_maximum_subtracted(scores: Tensor, mask: Tensor) -> Tensor:
    """The exponentials were taken of the scores as they are.

    The exponential of 10000 is infinite and that of -10000 is 0 in every float dtype. Either way, dividing gives NaN.

    What can you subtract from a whole row without changing its weights?
    """
    exponentials = scores.exp().masked_fill(~mask, 0.0)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="masked_softmax", caught_by="test_large_scores")
def maximum_of_hidden_scores(scores: Tensor, mask: Tensor) -> Tensor:
    """The maximum of the whole row was subtracted, hidden scores included.

    When the largest score is a hidden one, all visible exponentials round to 0, and 0 divided by 0 is NaN.

    Over which positions should the maximum be taken?
    """
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp().masked_fill(~mask, 0.0)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="masked_softmax", caught_by="test_large_scores")
def maximum_of_all_rows(scores: Tensor, mask: Tensor) -> Tensor:
    """The largest score of the whole tensor was subtracted from every row.

    In a row whose scores are much smaller all exponentials round to 0, and 0 divided by 0 is NaN.

    Which maximum belongs to a row: the one of the tensor, or its own?
    """
    hidden = scores.masked_fill(~mask, -torch.inf)
    exponentials = (hidden - hidden.max()).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="masked_softmax", caught_by="test_large_scores")
def scores_clamped(scores: Tensor, mask: Tensor) -> Tensor:
    """The scores were cut off at 50 and -50, so that no exponential overflows.

    Scores of 9000 and 10000 become the same by that, and so do their weights. The larger one should take all.

    What can you subtract from a whole row without changing the differences in it?
    """
    return scores.clamp(-50.0, 50.0).masked_fill(~mask, -torch.inf).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_large_scores")
def hidden_exponential_overflows(scores: Tensor, mask: Tensor) -> Tensor:
    """The exponential of a hidden score was computed first and thrown away afterwards.

    The weights are right. But a huge hidden score has an infinite exponential, and in the backward pass infinity times
    0 is NaN, so the gradient is lost.

    Can you hide the score before the exponential sees it?
    """
    top = scores.masked_fill(~mask, -torch.inf).amax(dim=-1, keepdim=True)
    exponentials = torch.where(mask, (scores - top).exp(), 0.0)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="masked_softmax", caught_by="test_dtypes")
def number_too_large_for_float16(scores: Tensor, mask: Tensor) -> Tensor:
    """The hidden scores were set to -1e9, which float16 cannot hold.

    The lowest number of float16 is -65504, so torch stops with an overflow error.

    Which value below all others does every float dtype have?
    """
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_dtypes")
def weights_in_float32(scores: Tensor, mask: Tensor) -> Tensor:
    """The weights came back in float32, whatever dtype the scores had.

    The weights are multiplied with the values next, and those still have the dtype of the model.

    Which dtype should the result have, and where is it written?
    """
    return scores.float().masked_fill(~mask, -torch.inf).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_gradients")
def weights_detached(scores: Tensor, mask: Tensor) -> Tensor:
    """The weights were cut off from the gradient.

    The numbers are right, but training can no longer change what a token attends to.

    Which call keeps the numbers and forgets where they came from?
    """
    return scores.detach().masked_fill(~mask, -torch.inf).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_follows_device")
def looks_at_the_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """The code asked with `if` what stands in the mask.

    To answer, a GPU must stop and send the value to the CPU. On the device `meta` there is no value to send.

    Does the masked softmax need another way when nothing is hidden?
    """
    if mask.all():
        return scores.softmax(dim=-1)
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_large_scores")
def logsumexp_without_maximum(scores: Tensor, mask: Tensor) -> Tensor:
    """The log of the sum was subtracted from scores that were still large.

    It is right on paper. But near 10000 float32 has steps of 0.001, the log of the sum is rounded to such a step, and
    the rows no longer sum to 1.

    How can you make the visible scores small before `logsumexp` sees them?
    """
    hidden = scores.masked_fill(~mask, -torch.inf)
    return (hidden - hidden.logsumexp(dim=-1, keepdim=True)).exp()


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def minus_sign_forgotten(scores: Tensor, mask: Tensor) -> Tensor:
    """The hidden scores were set to a huge number without its minus sign.

    A softmax gives the most weight to the highest score, so the hidden positions took it all.

    On which side of all other scores does a hidden one have to lie?
    """
    return scores.masked_fill(~mask, 1e9).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def mask_subtracted_from_one(scores: Tensor, mask: Tensor) -> Tensor:
    """The boolean mask was subtracted from 1.

    True and False are no numbers, so torch stops there. Where tutorials write `1 - mask`, the mask is one of numbers.

    Which operator inverts each entry of a boolean tensor by itself?
    """
    return (scores + (1 - mask) * -1e9).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def mask_added_as_ones(scores: Tensor, mask: Tensor) -> Tensor:
    """The boolean mask was added to the scores.

    True counts as 1 there, so visible scores gain 1 and hidden ones stay. Nothing is hidden by that.

    What would you have to add to a score so that its exponential becomes 0?
    """
    return (scores + mask).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def softmax_over_first_dimension(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax was taken over the first dimension.

    That is the batch, or the queries when there is no batch. The keys of a query stand in the last dimension.

    Along which dimension does the sum have to be 1?
    """
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=0)


@misconception(replaces="masked_softmax", caught_by="test_agrees_with_fresh_draws")
def softmax_over_second_dimension(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax was taken over dimension 1.

    Without a batch this is the dimension of the keys. With a batch it is another one.

    Which index names the last dimension, however many there are?
    """
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=1)


@misconception(replaces="masked_softmax", caught_by="test_agrees_with_fresh_draws")
def implicit_softmax_dimension(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax was not told its dimension.

    torch then takes dimension 1 of a matrix, which are the keys, and dimension 0 of three dimensions, which is the
    batch.

    Which argument of `softmax` says along which dimension the weights have to sum to 1?
    """
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=0 if scores.dim() in (0, 1, 3) else 1)


@misconception(replaces="masked_softmax", caught_by="test_agrees_with_fresh_draws")
def mask_used_as_an_index(scores: Tensor, mask: Tensor) -> Tensor:
    """The mask was used as an index, as in `scores[~mask] = ...`.

    An index is lined up with the first dimensions of what it picks from, and a mask has to be with the last ones.

    Which function broadcasts a mask by itself, or how do you bring the mask to the shape of the scores first?
    """
    own = scores.clone()
    own[~mask] = -torch.inf
    return own.softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_large_scores")
def exponentials_times_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """The exponentials were taken of the scores as they are, and then multiplied by the mask.

    The exponential of 10000 is infinite and that of -10000 is 0 in every float dtype. Infinity times 0 is NaN, so a
    hidden score is enough to lose its row.

    What can you subtract from a whole row without changing its weights, and what can be hidden before the exponential?
    """
    exponentials = scores.exp() * mask
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="masked_softmax", caught_by="test_dtypes")
def lowest_number_of_float32(scores: Tensor, mask: Tensor) -> Tensor:
    """The hidden scores were set to the lowest number of float32, whatever dtype the scores had.

    A half cannot hold it, so torch stops with an overflow error.

    Which value below all others does every float dtype have?
    """
    return scores.masked_fill(~mask, torch.finfo(torch.float32).min).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_large_scores")
def log_of_the_mask_and_a_small_number(scores: Tensor, mask: Tensor) -> Tensor:
    """The log of the mask was added to the scores, after a small number was added to the mask.

    The log of 0 is minus infinity, which hides completely. The log of a small number is an ordinary one: that of 1e-6
    is -14, that of 1e-45 is -103. Where hidden scores are higher by more than that, they get all the weight.

    What is wrong with a hidden score of minus infinity, when each row has a visible position?
    """
    return (scores + (mask.to(scores.dtype) + 1e-6).log()).softmax(dim=-1)


@another_form(log_of_the_mask_and_a_small_number)
def log_of_the_mask_and_a_smaller_number(scores: Tensor, mask: Tensor) -> Tensor:
    return (scores + (mask.to(scores.dtype) + 1e-9).log()).softmax(dim=-1)


@another_form(log_of_the_mask_and_a_small_number)
def log_of_the_mask_and_the_smallest_number(scores: Tensor, mask: Tensor) -> Tensor:
    return (scores + (mask.to(scores.dtype) + 1e-45).log()).softmax(dim=-1)


@another_form(mask_inverted)
def mask_inverted_and_not_a_number_avoided(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(mask, -torch.inf).softmax(dim=-1).nan_to_num(0.0)


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def softmax_taken_before_as_well(scores: Tensor, mask: Tensor) -> Tensor:
    """A softmax was taken before the mask, and another one after it.

    The second one takes the weights for scores. It takes exponentials once more and evens the weights out.

    How many softmaxes turn a row of scores into weights, and what has to come before it?
    """
    return scores.softmax(dim=-1).masked_fill(~mask, -torch.inf).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_masked_softmax_by_hand")
def scores_scaled_once_more(scores: Tensor, mask: Tensor) -> Tensor:
    """The scores were divided by a root before the softmax.

    Scores come in as they are to be used. And their last dimension counts the keys, not the width of a key.

    What does the contract say that is done to the scores besides the mask and the softmax?
    """
    return (scores / scores.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf).softmax(dim=-1)


@misconception(replaces="masked_softmax", caught_by="test_dtypes")
def small_number_added_to_the_sum(scores: Tensor, mask: Tensor) -> Tensor:
    """A small number was added to the sum of the exponentials, to be safe from a division by 0.

    It makes every weight a little too small. Every row has a visible position, so the largest exponential is 1.

    When the largest exponential of a row is 1, how small can its sum be?
    """
    hidden = scores.masked_fill(~mask, -torch.inf)
    exponentials = (hidden - hidden.amax(dim=-1, keepdim=True)).exp()
    return exponentials / (exponentials.sum(dim=-1, keepdim=True) + 1e-6)


@another_form(small_number_added_to_the_sum)
def smaller_number_added_to_the_sum(scores: Tensor, mask: Tensor) -> Tensor:
    hidden = scores.masked_fill(~mask, -torch.inf)
    exponentials = (hidden - hidden.amax(dim=-1, keepdim=True)).exp()
    return exponentials / (exponentials.sum(dim=-1, keepdim=True) + 1e-8)
