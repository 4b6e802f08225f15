"""What learners get wrong in step 4, each with the check that catches it."""

from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.catalogue import misconception, together
from solutions.core.step04_causal_mask import reference

# --- the mask ---------------------------------------------------------------------------------------------------------


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand", misses_the_point=True)
def future_instead_of_past(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was True on and above the diagonal: the past was hidden, and the future was seen.

    Row i is the query and column j the key. Above the diagonal j is larger than i, so every token sees its future.

    Which triangle holds the pairs in which the key does not come later than the query?
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).triu()


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand", misses_the_point=True)
def hidden_marked_true(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was True where a position is to be hidden.

    Here True means "may attend". Some tutorials mark what they hide instead, and the two read each other inside out.

    What should stand at row 0, column 0: may the first token attend to itself?
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).triu(1)


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def own_token_hidden(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The diagonal was left out, so no token may attend to itself.

    A token may see itself and everything before it. Without the diagonal the first token sees nothing at all.

    From which diagonal on does your triangle start?
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).tril(-1)


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def one_token_ahead(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was also True one place right of the diagonal.

    Each token then sees the token after it, which is the one that the model has to predict.

    What does the second argument of `tril` move, and where does it have to stand?
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).tril(1)


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def nothing_hidden(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was True everywhere.

    Then every token may attend to every other, its future included, and nothing is masked.

    What is still to be done to the square of ones, so that one of its triangles becomes False?
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device)


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def float_mask(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was made of the floats 1.0 and 0.0.

    A mask says yes or no. As a float it cannot be inverted with `~`, and it cannot pick elements.

    Which dtype has only two values, and how do you ask `torch.ones` for it?
    """
    return torch.ones(num_tokens, num_tokens, device=device).tril()


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def whole_number_mask(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was made of the whole numbers 1 and 0.

    `~` turns the whole number 1 into -2 and 0 into -1, so inverting such a mask gives nonsense without an error.

    Which dtype has only the values True and False?
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.int64, device=device).tril()


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def additive_mask(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was made to be added to the scores: 0 where attention is allowed, and minus infinity elsewhere.

    That is another convention. Here a mask is boolean, and what is done to the scores is the business of the softmax.

    Can you leave the minus infinity to `masked_softmax` and return only the answer yes or no?
    """
    return torch.full((num_tokens, num_tokens), -torch.inf, device=device).triu(1)


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def batch_and_head_dimensions_added(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask got two more dimensions of size 1 in front.

    They do no harm with four-dimensional scores, but with fewer dimensions they make the result grow.

    Which dimensions does broadcasting add by itself?
    """
    return reference.causal_mask(num_tokens, device).view(1, 1, num_tokens, num_tokens)


@misconception(replaces="causal_mask", caught_by="test_mask_of_any_length")
def cut_from_sixteen_tokens(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was cut out of a larger one of a fixed size.

    A text that is longer than this size gets a mask that is too small.

    Which argument tells you how large the mask has to be?
    """
    return reference.causal_mask(16, device)[:num_tokens, :num_tokens]


@misconception(replaces="causal_mask", caught_by="test_mask_on_its_device")
def mask_stays_on_cpu(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was made on the CPU, whatever device was asked for.

    Scores on a GPU cannot be combined with a mask that lies in the memory of the CPU.

    What does `torch.ones` do with an argument `device`?
    """
    return reference.causal_mask(num_tokens)


# --- the softmax under a mask -----------------------------------------------------------------------------------------


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


# --- renormalised weights ---------------------------------------------------------------------------------------------


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def only_zeroed(weights: Tensor, mask: Tensor) -> Tensor:
    """The hidden weights were set to 0, and the rows were not divided by what is left.

    A row that has lost some weight sums to less than 1, so its context comes out too small.

    By which number do you have to divide a row that sums to 0.2, so that it sums to 1?
    """
    return weights * mask


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def mask_not_used(weights: Tensor, mask: Tensor) -> Tensor:
    """The mask was not used, so that the weights came back as they were.

    The rows of a softmax sum to 1 already: divided by their sum they stay the same, and the hidden positions keep their
    weight.

    What has to happen to the hidden weights before you add up what is left?
    """
    return weights / weights.sum(dim=-1, keepdim=True)


@misconception(replaces="renormalise", caught_by="test_dtypes")
def smaller_epsilon_in_the_sum(weights: Tensor, mask: Tensor) -> Tensor:
    """A small number such as 1e-9 was added to the sum of the row, to be safe from a division by 0.

    Every row has a visible weight, so its sum is not 0. The number only makes the weights a little too small, the more
    so the less weight is left.

    What does the contract say about the rows of the mask?
    """
    visible = weights * mask
    return visible / (visible.sum(dim=-1, keepdim=True) + 1e-9)


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def divided_but_not_zeroed(weights: Tensor, mask: Tensor) -> Tensor:
    """The rows were divided by the sum of their visible weights, but the hidden weights are still there.

    The visible part of each row sums to 1, and the hidden part comes on top of it.

    Which tensor should be divided: the weights as they came, or the weights with zeros in them?
    """
    return weights / (weights * mask).sum(dim=-1, keepdim=True)


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def softmax_taken_again(weights: Tensor, mask: Tensor) -> Tensor:
    """A second softmax was taken over the masked weights.

    A softmax takes exponentials once more and evens the weights out. A weight of 0 even becomes larger than 0.

    Which simpler operation makes a row sum to 1 and keeps its proportions?
    """
    return (weights * mask).softmax(dim=-1)


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def softmax_of_visible_weights(weights: Tensor, mask: Tensor) -> Tensor:
    """The weights were taken for scores and went through a masked softmax.

    They have been through a softmax already. A second one changes their proportions.

    The hidden weights are 0 then. What is the only thing that a row still lacks?
    """
    return reference.masked_softmax(weights, mask)


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def sum_without_keepdim(weights: Tensor, mask: Tensor) -> Tensor:
    """The sums of the rows were spread over the columns.

    A sum without `keepdim=True` loses its dimension. Broadcasting then lines the sums up with the columns, and column j
    is divided by the sum of row j.

    Which shape must the sums have, so that each one meets its own row?
    """
    visible = weights * mask
    return visible / visible.sum(dim=-1)


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def columns_divided(weights: Tensor, mask: Tensor) -> Tensor:
    """Each column was divided by its sum, and not each row.

    A row holds the weights that one query gives to the keys. It is the row that has to sum to 1.

    Along which dimension do the keys stand?
    """
    visible = weights * mask
    return visible / visible.sum(dim=-2, keepdim=True)


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def divided_by_sum_of_all(weights: Tensor, mask: Tensor) -> Tensor:
    """The weights were divided by the sum of the whole tensor.

    All rows together sum to 1 then. Each row is a query of its own, and each has to sum to 1 by itself.

    Which argument keeps a sum within each row?
    """
    visible = weights * mask
    return visible / visible.sum()


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def divided_by_number_of_visible(weights: Tensor, mask: Tensor) -> Tensor:
    """The rows were divided by the number of their visible positions.

    That would be right if all weights were 1. The weights that are left have a sum of their own.

    What do you have to add up: the True entries of the mask, or the weights that stand there?
    """
    return weights * mask / mask.sum(dim=-1, keepdim=True)


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def hidden_weight_shared_out(weights: Tensor, mask: Tensor) -> Tensor:
    """The weight of the hidden positions was shared out equally among the visible ones.

    The rows sum to 1, but their proportions have changed. A position that had twice the weight of another must keep it.

    Should each visible weight grow by the same amount, or by the same factor?
    """
    hidden = (weights * ~mask).sum(dim=-1, keepdim=True)
    return (weights + hidden / mask.sum(dim=-1, keepdim=True)) * mask


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def wrong_side_kept(weights: Tensor, mask: Tensor) -> Tensor:
    """The visible weights were set to 0, and the hidden ones were kept.

    True means "may attend", so the weights under True are the ones that stay.

    What does your code do at a position where the mask is True?
    """
    hidden = weights * ~mask
    return hidden / hidden.sum(dim=-1, keepdim=True)


@misconception(replaces="renormalise", caught_by="test_renormalise_agrees_with_masking")
def epsilon_in_the_sum(weights: Tensor, mask: Tensor) -> Tensor:
    """A small number was added to the sum before the division.

    When little of a row is visible its sum is small too, and then the added number is not small beside it. Here every
    row has a visible position, so the sum is never 0.

    What would the row sum to if you left the small number out?
    """
    visible = weights * mask
    return visible / (visible.sum(dim=-1, keepdim=True) + 1e-8)


@misconception(replaces="renormalise", caught_by="test_renormalise_agrees_with_masking")
def divided_by_what_is_not_hidden(weights: Tensor, mask: Tensor) -> Tensor:
    """The rows were divided by 1 minus the sum of the hidden weights.

    On paper that is the sum of the visible ones. In floats, 1 minus a number near 1 keeps only a few correct digits.

    Which numbers could you add up directly?
    """
    return weights * mask / (1.0 - (weights * ~mask).sum(dim=-1, keepdim=True))


@misconception(replaces="renormalise", caught_by="test_renormalise_agrees_with_masking")
def weights_zeroed_in_place(weights: Tensor, mask: Tensor) -> Tensor:
    """The hidden weights were set to 0 in the tensor that was given.

    The caller's weights have changed, although they were only lent to the function.

    Which operator makes a new tensor where `*=` and `masked_fill_` change the old one?
    """
    weights *= mask
    return weights / weights.sum(dim=-1, keepdim=True)


@misconception(replaces="renormalise", caught_by="test_gradients")
def sum_detached(weights: Tensor, mask: Tensor) -> Tensor:
    """The sum of each row was taken as a constant in the backward pass.

    The sum depends on the weights. When one visible weight grows, the division makes all the others smaller.

    Which line hides the sum from autograd?
    """
    visible = weights * mask
    return visible / visible.sum(dim=-1, keepdim=True).detach()


@misconception(replaces="renormalise", caught_by="test_dtypes")
def sum_in_float32(weights: Tensor, mask: Tensor) -> Tensor:
    """The weights were converted to float32 before they were divided.

    Weights in bfloat16 come back in another dtype, and weights in float64 lose half of their digits.

    Does the division need another dtype than the one it is given?
    """
    visible = weights.float() * mask
    return visible / visible.sum(dim=-1, keepdim=True)


@misconception(replaces="masked_softmax", caught_by="test_large_scores")
def logsumexp_without_maximum(scores: Tensor, mask: Tensor) -> Tensor:
    """The log of the sum was subtracted from scores that were still large.

    It is right on paper. But near 10000 float32 has steps of 0.001, the log of the sum is rounded to such a step, and
    the rows no longer sum to 1.

    How can you make the visible scores small before `logsumexp` sees them?
    """
    hidden = scores.masked_fill(~mask, -torch.inf)
    return (hidden - hidden.logsumexp(dim=-1, keepdim=True)).exp()


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def batch_dimension_added(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask got one more dimension, of size 1, in front.

    It does no harm with scores of three dimensions or more, but with two it makes the result grow.

    Which dimensions does broadcasting add by itself?
    """
    return reference.causal_mask(num_tokens, device).unsqueeze(0)


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


@misconception(replaces="renormalise", caught_by="test_renormalise_agrees_with_masking")
def divided_by_sums_of_second_dimension(weights: Tensor, mask: Tensor) -> Tensor:
    """The sum ran over dimension 1.

    Without a batch these are the keys. With a batch it is another dimension, and the rows do not sum to 1.

    Which index names the last dimension, however many there are?
    """
    visible = weights * mask
    return visible / visible.sum(dim=1, keepdim=True)


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def divided_by_euclidean_length(weights: Tensor, mask: Tensor) -> Tensor:
    """The rows were divided by their length, the root of the sum of their squares.

    Then the squares of the weights sum to 1, and the weights themselves do not. `F.normalize` does so unless told
    otherwise.

    Which sum has to be 1: that of the weights or that of their squares?
    """
    return torch.nn.functional.normalize(weights * mask, dim=-1)


@misconception(replaces="renormalise", caught_by="test_dtypes")
def mask_in_float32(weights: Tensor, mask: Tensor) -> Tensor:
    """The mask was turned into float32, and multiplied with weights of another dtype.

    Of two dtypes torch keeps the wider one, so that weights in bfloat16 come back in float32.

    Does a boolean mask have to become a number before it can be multiplied, and of which dtype?
    """
    visible = weights * mask.float()
    return visible / visible.sum(dim=-1, keepdim=True)


# --- two at once ------------------------------------------------------------------------------------------------------

TRIANGLES = {
    future_instead_of_past: lambda ones: ones.triu(),
    hidden_marked_true: lambda ones: ones.triu(1),
    own_token_hidden: lambda ones: ones.tril(-1),
    one_token_ahead: lambda ones: ones.tril(1),
}
FORMS = {
    float_mask: lambda mask: mask.float(),
    whole_number_mask: lambda mask: mask.long(),
    batch_and_head_dimensions_added: lambda mask: mask[None, None],
}
Weigh = Callable[[Tensor, Tensor], Tensor]  # from scores and mask to weights
HIDING: dict[Callable[..., object], Callable[[Tensor, Tensor, Callable[[Tensor], Tensor]], Tensor]] = {
    mask_inverted: lambda scores, mask, share: share(scores.masked_fill(mask, -torch.inf)),
    mask_ignored: lambda scores, mask, share: share(scores),
    scores_multiplied_by_mask: lambda scores, mask, share: share(scores * mask),
    masked_after_softmax: lambda scores, mask, share: share(scores) * mask,
}
SHARING: dict[Callable[..., object], Callable[[Tensor], Tensor]] = {
    softmax_over_queries: lambda scores: scores.softmax(dim=-2),
    exponentials_not_divided: lambda scores: (scores - scores.amax(dim=-1, keepdim=True)).exp(),
}
LEFT = {
    wrong_side_kept: lambda weights, mask: weights * ~mask,
    divided_but_not_zeroed: lambda weights, mask: weights,
}
DIVISORS = {
    columns_divided: lambda visible: visible.sum(dim=-2, keepdim=True),
    sum_without_keepdim: lambda visible: visible.sum(dim=-1),
    divided_by_sum_of_all: lambda visible: visible.sum(),
}


def _causal_mask(triangle: Callable[[Tensor], Tensor], form: Callable[[Tensor], Tensor]) -> object:
    def causal_mask(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
        return form(triangle(torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device)))

    return causal_mask


PAIRS = [
    *together(TRIANGLES, FORMS, _causal_mask),
    *together(HIDING, SHARING, lambda hide, share: lambda scores, mask: hide(scores, mask, share)),
    *together(
        {wrong_side_kept: None},
        DIVISORS,
        lambda _, divisor: lambda weights, mask: weights * ~mask / divisor(weights * ~mask),
    ),
    *together(
        {divided_but_not_zeroed: None},
        DIVISORS,
        lambda _, divisor: lambda weights, mask: weights / divisor(weights * mask),
    ),
]
