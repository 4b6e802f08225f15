"""What learners get wrong in `attention_entropy`, each with the check that catches it."""

import math

from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step13_patterns import reference


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def nan_at_weight_zero(weights: Tensor) -> Tensor:
    """A weight of 0 gave NaN.

    ln 0 is minus infinity, and 0 times infinity is NaN. The limit of w ln w at 0 is 0.

    How can the logarithm be kept away from 0, or the NaN from the sum?
    """
    return -(weights * weights.log()).sum(dim=-1)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_in_bits(weights: Tensor) -> Tensor:
    """The entropy was computed with the logarithm to base 2, in bits.

    Asked for are nats: the natural logarithm.

    What should four equal weights give: 2, or ln 4?
    """
    return reference.attention_entropy(weights) / math.log(2)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_in_tens(weights: Tensor) -> Tensor:
    """The entropy was computed with the logarithm to base 10.

    Asked for are nats: the natural logarithm.

    Which function of torch is the natural logarithm?
    """
    return reference.attention_entropy(weights) / math.log(10)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_averaged(weights: Tensor) -> Tensor:
    """The entropies of the queries were averaged.

    Each query has one of its own: the last token may look everywhere while the first sees only itself.

    Which dimensions should the result have?
    """
    return reference.attention_entropy(weights).mean(dim=-1)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def one_entropy_for_all(weights: Tensor) -> Tensor:
    """One entropy was returned for the whole tensor, the mean or the sum of all.

    Each query has one of its own, in each head and sequence.

    Over which single dimension does the sum run, and what stays?
    """
    return reference.attention_entropy(weights).mean()


@misconception(replaces="attention_entropy", caught_by="test_dtypes_gradients_and_devices")
def entropy_detached(weights: Tensor) -> Tensor:
    """The weights were detached, or the entropy was computed under `no_grad`.

    An entropy is also used as a loss that keeps attention sharp or wide, and then it needs a gradient.

    Which of your calls cuts the result off from the weights?
    """
    return reference.attention_entropy(weights.detach())


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_relative(weights: Tensor) -> Tensor:
    """The entropy was divided by ln T_k, its largest value.

    That is the relative entropy of a plot from 0 to 1; asked for is the entropy itself.

    What should four equal weights give: 1, or ln 4?
    """
    return reference.attention_entropy(weights) / math.log(max(weights.shape[-1], 2))


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_negative(weights: Tensor) -> Tensor:
    """The minus sign was left out.

    Logarithms of numbers below 1 are negative; the entropy is not.

    What sign does w ln w have?
    """
    return -reference.attention_entropy(weights)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_mean_over_keys(weights: Tensor) -> Tensor:
    """The mean over the keys was taken, not the sum.

    The entropy is a sum, weighted by the weights themselves; dividing by the number of keys weights it twice.

    What do four equal weights give?
    """
    return reference.attention_entropy(weights) / weights.shape[-1]


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_down_the_columns(weights: Tensor) -> Tensor:
    """The sum ran over the queries.

    The weights of one query stand in a row, along the last dimension.

    Over which dimension do the weights sum to 1?
    """
    return reference.attention_entropy(weights.transpose(-2, -1))


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def large_guard(weights: Tensor) -> Tensor:
    """What was added to keep the logarithm away from 0 is so large that it changes the result.

    With 1e-3 or 1e-6 beside each of many weights the entropy is off by more than 1e-5.

    How small can the guard be, or can you do without one?
    """
    return -(weights * (weights + 1e-3).log()).sum(dim=-1)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def small_weights_raised(weights: Tensor) -> Tensor:
    """Small weights were raised to 1e-3 within the logarithm.

    The logarithm of a weight of 1e-5 is -11.5 and not -6.9: the entropy is off by more than 1e-5.

    Which weights need help, and which smallest number helps them?
    """
    return -(weights * weights.clamp(min=1e-3).log()).sum(dim=-1)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def medium_guard(weights: Tensor) -> Tensor:
    """What was added to keep the logarithm away from 0, 1e-6 or so, changes the result when there are many keys.

    Each of 70 keys adds about 1e-6 of error, together more than the 1e-5 that are allowed in float64.

    How small can the guard be, or can you do without one?
    """
    return -(weights * (weights + 1e-6).log()).sum(dim=-1)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def softmax_once_more(weights: Tensor) -> Tensor:
    """The softmax was applied to the weights, which are the outcome of one already.

    Twice softened, all weights are nearly alike, and the entropy is close to ln T_k everywhere.

    Are scores given here, or weights?
    """
    return reference.attention_entropy(weights.softmax(dim=-1))


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def perplexity(weights: Tensor) -> Tensor:
    """The exponential of the entropy was returned, the perplexity.

    It counts how many keys share the weight; asked for is the entropy itself.

    What should a single weight of 1 give: 0 or 1?
    """
    return reference.attention_entropy(weights).exp()


@another_form(one_entropy_for_all)
def entropies_summed(weights: Tensor) -> Tensor:
    return reference.attention_entropy(weights).sum()


@another_form(large_guard)
def guard_of_one_hundred_thousandth(weights: Tensor) -> Tensor:
    return -(weights * (weights + 1e-5).log()).sum(dim=-1)


@another_form(large_guard)
def guard_of_one_ten_thousandth(weights: Tensor) -> Tensor:
    return -(weights * (weights + 1e-4).log()).sum(dim=-1)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def logarithms_not_weighted(weights: Tensor) -> Tensor:
    """The logarithms were summed without being weighted.

    Each logarithm counts by its own weight, so that a weight of 0 counts nothing: here it gives infinity.

    What stands in front of ln w in the formula?
    """
    return -weights.log().sum(dim=-1)


@another_form(logarithms_not_weighted)
def logarithms_above_zero_not_weighted(weights: Tensor) -> Tensor:
    return -weights.clamp(min=1e-12).log().sum(dim=-1)
