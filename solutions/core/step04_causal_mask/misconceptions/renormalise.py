"""What learners get wrong in `renormalise`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step04_causal_mask import reference


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


@another_form(only_zeroed)
def divided_before_zeroing(weights: Tensor, mask: Tensor) -> Tensor:
    return weights / weights.sum(dim=-1, keepdim=True) * mask


@another_form(columns_divided)
def columns_divided_with_a_guard(weights: Tensor, mask: Tensor) -> Tensor:
    visible = weights * mask
    return visible / visible.sum(dim=-2, keepdim=True).clamp_min(1e-12)


@another_form(epsilon_in_the_sum)
def larger_epsilon_in_the_sum(weights: Tensor, mask: Tensor) -> Tensor:
    visible = weights * mask
    return visible / (visible.sum(dim=-1, keepdim=True) + 1e-6)


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def divided_by_largest(weights: Tensor, mask: Tensor) -> Tensor:
    """The rows were divided by their largest weight, or by their mean.

    The largest weight, or the mean, is then 1. It is the sum of each row that has to be 1.

    By which number do you have to divide a row that sums to 0.2, so that it sums to 1?
    """
    visible = weights * mask
    return visible / visible.amax(dim=-1, keepdim=True)


@another_form(divided_by_largest)
def divided_by_mean(weights: Tensor, mask: Tensor) -> Tensor:
    visible = weights * mask
    return visible / visible.mean(dim=-1, keepdim=True)


@misconception(replaces="renormalise", caught_by="test_renormalise_by_hand")
def hidden_weights_set_to_minus_infinity(weights: Tensor, mask: Tensor) -> Tensor:
    """The hidden weights were set to minus infinity, and not to 0.

    Minus infinity hides a score, because its exponential is 0. No exponential follows here, and a sum with minus
    infinity in it divides nothing.

    Which number adds nothing to a sum?
    """
    hidden = weights.masked_fill(~mask, -torch.inf)
    return hidden / hidden.sum(dim=-1, keepdim=True)
