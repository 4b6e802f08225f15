"""What learners get wrong in `softmax`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step02_softmax import reference


@misconception(replaces="softmax", caught_by="test_by_hand")
def exp_without_dividing(x: Tensor, dim: int = -1) -> Tensor:
    """The exponentials were returned as they are.

    They are positive and in the right order, but they do not sum to 1, so they are no weights yet.

    By what do you divide a list of positive numbers so that they sum to 1?
    """
    return (x - x.amax(dim=dim, keepdim=True)).exp()


@misconception(replaces="softmax", caught_by="test_by_hand")
def divided_by_sum_of_x(x: Tensor, dim: int = -1) -> Tensor:
    """The exponentials were divided by the sum of x.

    That sum may be anything, even 0 or negative. The weights sum to 1 only when they are divided by their own sum.

    Of which numbers do you need the sum: of those before exp or of those after it?
    """
    return (x - x.amax(dim=dim, keepdim=True)).exp() / x.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_by_hand")
def divided_without_exp(x: Tensor, dim: int = -1) -> Tensor:
    """The numbers were divided by their sum, without exp.

    Scores may be negative, and then some weights are negative too or the sum is 0.

    Which function makes every number positive and keeps the order?
    """
    return x / x.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_by_hand")
def base_two(x: Tensor, dim: int = -1) -> Tensor:
    """The powers were taken of 2 and not of e.

    The weights sum to 1, but a lead in score counts for too little: the base sets how much it counts.

    Which base does `exp` have, and what would the exponent need so that a power of 2 gives the same?
    """
    powers = torch.exp2(x - x.amax(dim=dim, keepdim=True))
    return powers / powers.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_by_hand")
def log_of_the_weights(x: Tensor, dim: int = -1) -> Tensor:
    """The logarithms of the weights were returned.

    They are useful in a loss, but attention needs the weights: positive numbers that sum to 1.

    Which function undoes the logarithm?
    """
    shifted = x - x.amax(dim=dim, keepdim=True)
    return shifted - shifted.exp().sum(dim=dim, keepdim=True).log()


@misconception(replaces="softmax", caught_by="test_by_hand")
def signs_swapped(x: Tensor, dim: int = -1) -> Tensor:
    """The smallest number got the largest weight.

    The sign of x was turned before exp, and that is a softmin.

    Is x subtracted from the maximum somewhere, where the maximum should be subtracted from x?
    """
    exponentials = (x.amin(dim=dim, keepdim=True) - x).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_by_hand")
def maximum_minus_x(x: Tensor, dim: int = -1) -> Tensor:
    """x was subtracted from the maximum, and not the maximum from x.

    Then the smallest number gets the largest weight, and the exponents are positive: far apart, they overflow.

    Which sign does the difference of the largest entry and a smaller one have, and which is safe in exp?
    """
    exponentials = (x.amax(dim=dim, keepdim=True) - x).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_by_hand")
def maximum_with_its_place(x: Tensor, dim: int = -1) -> Tensor:
    """What `max` gives for a dimension was subtracted as it came, and that is a pair.

    With a `dim`, torch's `max` returns the largest values and the places where they stand. Only the values can be
    subtracted.

    How do you take the values out of that pair, or which function returns nothing else?
    """
    exponentials = (x - x.max(dim=dim, keepdim=True)).exp()  # type: ignore[operator]  # the mistake
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_by_hand")
def divided_by_maximum(x: Tensor, dim: int = -1) -> Tensor:
    """The numbers were divided by their maximum before exp.

    Only a shift leaves the weights alone. A division changes the distances between the scores, and so the weights.

    What can you do to all numbers of a slice so that their distances stay the same?
    """
    exponentials = (x / x.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_by_hand")
def divided_by_euclidean_length(x: Tensor, dim: int = -1) -> Tensor:
    """The exponentials were divided by their length, the root of the sum of their squares.

    Then the squares of the weights sum to 1, and the weights themselves do not.

    Which sum has to be 1: that of the weights or that of their squares?
    """
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.square().sum(dim=dim, keepdim=True).sqrt()


@misconception(replaces="softmax", caught_by="test_every_dimension")
def first_dimension_only(x: Tensor, dim: int = -1) -> Tensor:
    """The sum always ran along the first dimension.

    The argument `dim` was not used, so every other dimension gives the wrong slices.

    Where in your lines does `dim` have to appear, and how often?
    """
    return reference.softmax(x, 0)


@misconception(replaces="softmax", caught_by="test_every_dimension")
def last_dimension_only(x: Tensor, dim: int = -1) -> Tensor:
    """The sum always ran along the last dimension.

    The argument `dim` was not used. The default hides it, but the caller may name any dimension.

    Where in your lines does `dim` have to appear, and how often?
    """
    return reference.softmax(x, -1)


@misconception(replaces="softmax", caught_by="test_every_dimension")
def minus_sign_of_dim_lost(x: Tensor, dim: int = -1) -> Tensor:
    """A negative `dim` was taken as if it had no minus sign.

    A negative dimension counts from the end, so -1 is the last one and not the one with number 1.

    What do torch's own `sum` and `amax` do with a negative `dim`, when you simply pass it on?
    """
    return reference.softmax(x, abs(dim) % x.dim())


@misconception(replaces="softmax", caught_by="test_every_dimension")
def divided_by_sum_of_everything(x: Tensor, dim: int = -1) -> Tensor:
    """The exponentials were divided by the sum over the whole tensor.

    Then all weights together sum to 1. Each slice has to sum to 1 by itself.

    Which argument tells `sum` to stay inside the slices?
    """
    exponentials = (x - x.amax()).exp()
    return exponentials / exponentials.sum()


@misconception(replaces="softmax", caught_by="test_every_dimension")
def sum_lost_its_dimension(x: Tensor, dim: int = -1) -> Tensor:
    """The sum lost the dimension it ran along, so it was lined up with another one.

    Broadcasting lines shapes up from the right. Without the lost dimension a slice is divided by the sum of another.

    Which argument of `sum` keeps the dimension, with length 1?
    """
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim)


@misconception(replaces="softmax", caught_by="test_every_dimension")
def maximum_and_sum_lost_their_dimension(x: Tensor, dim: int = -1) -> Tensor:
    """The maximum and the sum lost the dimension they ran along, so both were lined up with another one.

    Broadcasting lines shapes up from the right. Without the lost dimension a slice meets the numbers of another.

    Which argument of `amax` and `sum` keeps the dimension, with length 1?
    """
    exponentials = (x - x.amax(dim=dim)).exp()
    return exponentials / exponentials.sum(dim=dim)


@misconception(replaces="softmax", caught_by="test_large_entries", misses_the_point=True)
def no_maximum(x: Tensor, dim: int = -1) -> Tensor:
    """The exponentials were taken of x as it came.

    In float32, exp overflows to infinity above 88, and infinity divided by infinity is not a number.

    What may you subtract from a whole slice without changing any weight?
    """
    exponentials = x.exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_slices_sum_to_one")
def maximum_added(x: Tensor, dim: int = -1) -> Tensor:
    """The maximum was added to x, and not subtracted from it.

    Any shift leaves the weights alone, but this one doubles the largest entry, so that exp overflows even sooner.

    What must become of the largest entry so that its exponential is 1?
    """
    exponentials = (x + x.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_slices_sum_to_one")
def place_of_the_maximum(x: Tensor, dim: int = -1) -> Tensor:
    """The place of the maximum was subtracted, and not the maximum itself.

    `argmax`, and the second value that `max` returns, say where the largest entry stands. Subtracting this number makes
    no large entry small.

    Which of the two tells you how large the largest entry is?
    """
    exponentials = (x - x.argmax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_large_entries", misses_the_point=True)
def logsumexp_without_maximum(x: Tensor, dim: int = -1) -> Tensor:
    """The log of the sum was subtracted from numbers that were still large.

    It is right on paper. But near 10000 float32 has steps of 0.001, the log of the sum is rounded to such a step, and
    the weights no longer sum to 1.

    How can you make the numbers small before `logsumexp` sees them?
    """
    return (x - x.logsumexp(dim=dim, keepdim=True)).exp()


@misconception(replaces="softmax", caught_by="test_large_entries")
def mean_subtracted(x: Tensor, dim: int = -1) -> Tensor:
    """The mean of the slice was subtracted and not its maximum.

    The weights stay right, but an entry far above the mean still overflows in exp.

    Which entry of the slice must become 0 so that none is positive?
    """
    exponentials = (x - x.mean(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_large_entries")
def large_entries_clamped(x: Tensor, dim: int = -1) -> Tensor:
    """Entries beyond a bound were cut off before exp.

    Nothing overflows, but all entries beyond the bound get the same weight, although they differ.

    How can you make large entries small and keep their distances?
    """
    exponentials = x.clamp(-80, 80).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_large_entries")
def largest_size_subtracted(x: Tensor, dim: int = -1) -> Tensor:
    """The largest absolute value was subtracted.

    In a slice of negative numbers every exponential then becomes 0, and 0 divided by 0 is not a number.

    Which number, taken away from the slice -3, -2, -1, makes its largest entry 0?
    """
    exponentials = (x - x.abs().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_large_entries")
def smallest_subtracted(x: Tensor, dim: int = -1) -> Tensor:
    """The smallest entry of the slice was subtracted.

    The weights stay right, but every other entry is above 0 then, and a large one overflows in exp.

    On which side of 0 is exp safe: does the slice have to end at 0, or to begin there?
    """
    exponentials = (x - x.amin(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_large_entries")
def naive_way_beside_the_safe_one(x: Tensor, dim: int = -1) -> Tensor:
    """Large slices were picked by `torch.where` from a safe way, and the others from one without the maximum.

    The weights are right. `torch.where` computes both, though, and the gradient runs through both: infinity in the one
    that was not picked, times 0, is not a number.

    Is the safe way wrong anywhere, so that a second one is needed beside it?
    """
    largest = x.amax(dim=dim, keepdim=True)
    safe, naive = (x - largest).exp(), x.exp()
    return torch.where(
        largest.abs() > 50, safe / safe.sum(dim=dim, keepdim=True), naive / naive.sum(dim=dim, keepdim=True)
    )


@misconception(replaces="softmax", caught_by="test_slices_far_apart", misses_the_point=True)
def maximum_of_everything(x: Tensor, dim: int = -1) -> Tensor:
    """The maximum of the whole tensor was subtracted from every slice.

    A slice that lies far below it becomes all zeros after exp, and zeros cannot be shared out as weights that sum to 1.

    How do you ask for one maximum for each slice?
    """
    exponentials = (x - x.amax()).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@another_form(maximum_of_everything)
def maximum_of_everything_and_the_log_of_the_sum(x: Tensor, dim: int = -1) -> Tensor:
    shifted = x - x.amax()
    return (shifted - shifted.exp().sum(dim=dim, keepdim=True).log()).exp()


@another_form(maximum_of_everything)
def single_maximum_and_the_log_of_the_sum(x: Tensor, dim: int = -1) -> Tensor:
    shifted = x - x.max()  # where its gradient is NaN, it is so at the largest entry alone
    return (shifted - shifted.exp().sum(dim=dim, keepdim=True).log()).exp()


@misconception(replaces="softmax", caught_by="test_slices_far_apart")
def maximum_of_the_wrong_dimension(x: Tensor, dim: int = -1) -> Tensor:
    """The maximum was taken along another dimension than the sum.

    Within one slice different numbers were then subtracted, and that changes the weights.

    Along which dimension do all entries have to be shifted by the same number?
    """
    largest = x.amax(dim=0 if dim in (-1, x.dim() - 1) else -1, keepdim=True)
    exponentials = (x - largest).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_minus_infinity")
def minus_infinity_made_small(x: Tensor, dim: int = -1) -> Tensor:
    """Minus infinity was replaced by a negative number that is not negative enough.

    Its weight comes out small but not 0, so a hidden token still counts a little.

    What does exp give for minus infinity by itself, when nothing replaces it?
    """
    return reference.softmax(x.masked_fill(x == -torch.inf, -20.0), dim)


@misconception(replaces="softmax", caught_by="test_minus_infinity")
def zero_counted_as_hidden(x: Tensor, dim: int = -1) -> Tensor:
    """Entries of 0 were treated as hidden and got no weight.

    A score of 0 is an ordinary score: its exponential is 1. Only minus infinity means that an entry is hidden.

    What is e to the power of 0?
    """
    return reference.softmax(x.masked_fill(x == 0, -torch.inf), dim)


@misconception(replaces="softmax", caught_by="test_every_dimension")
def maximum_along_the_last_dimension(x: Tensor, dim: int = -1) -> Tensor:
    """The maximum was always taken along the last dimension, and the sum along `dim`.

    Within one slice different numbers were then subtracted, and that changes the weights.

    Where in your lines does `dim` have to appear, and how often?
    """
    exponentials = (x - x.amax(dim=-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_every_dimension")
def sum_along_the_last_dimension(x: Tensor, dim: int = -1) -> Tensor:
    """The maximum was taken along `dim`, and the sum always along the last dimension.

    The weights of a slice along `dim` then do not sum to 1: each is divided by the sum of another slice.

    Where in your lines does `dim` have to appear, and how often?
    """
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="softmax", caught_by="test_every_dimension")
def dimension_put_back_at_the_end(x: Tensor, dim: int = -1) -> Tensor:
    """The maximum and the sum lost the dimension they ran along, and got one back at the end, by `unsqueeze(-1)`.

    It stood at the end only where `dim` is the last dimension. For any other, a slice meets the numbers of another.

    Which argument of `amax` and `sum` keeps the dimension, with length 1?
    """
    exponentials = (x - x.amax(dim=dim).unsqueeze(-1)).exp()
    return exponentials / exponentials.sum(dim=dim).unsqueeze(-1)


@misconception(replaces="softmax", caught_by="test_by_hand")
def only_the_sum_shifted(x: Tensor, dim: int = -1) -> Tensor:
    """The maximum was subtracted in the sum, and not in what is divided by it.

    A shift leaves the weights alone only when it is the same above and below the fraction line, where it cancels.

    In how many places do you take an exponential, and what is subtracted in each?
    """
    return x.exp() / (x - x.amax(dim=dim, keepdim=True)).exp().sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_by_hand")
def sum_not_shifted(x: Tensor, dim: int = -1) -> Tensor:
    """The maximum was subtracted in what is divided, and not in the sum.

    A shift leaves the weights alone only when it is the same above and below the fraction line, where it cancels.

    In how many places do you take an exponential, and what is subtracted in each?
    """
    return (x - x.amax(dim=dim, keepdim=True)).exp() / x.exp().sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_large_entries")
def logsumexp_with_the_maximum_added_again(x: Tensor, dim: int = -1) -> Tensor:
    """The maximum was added to the log of the sum again, and this was subtracted from numbers that were still large.

    It is right on paper. But near 10000 float32 has steps of 0.001, the log of the sum is rounded to such a step, and
    the weights no longer sum to 1.

    Which two numbers in your last line are large and cancel each other, and could be left out together?
    """
    largest = x.amax(dim=dim, keepdim=True)
    return (x - (largest + (x - largest).exp().sum(dim=dim, keepdim=True).log())).exp()


@misconception(replaces="softmax", caught_by="test_large_entries", misses_the_point=True)
def not_a_number_made_zero(x: Tensor, dim: int = -1) -> Tensor:
    """The exponentials were taken of x as it came, and what was not a number afterwards was set to 0.

    The weights of a slice with large entries then sum to 0. After an overflow the scores are lost, and nothing brings
    them back.

    What may you subtract from a whole slice without changing any weight?
    """
    exponentials = x.exp()
    return (exponentials / exponentials.sum(dim=dim, keepdim=True)).nan_to_num()


@misconception(replaces="softmax", caught_by="test_every_dimension")
def maximum_lost_its_dimension(x: Tensor, dim: int = -1) -> Tensor:
    """The maximum lost the dimension that it ran along, so that it no longer lined up with the slices.

    From a matrix of shape (3, 3) each row then subtracts the maxima of all rows, one per column.

    Which argument of `amax` and `max` keeps the dimension, with length 1?
    """
    exponentials = (x - x.amax(dim=dim)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@another_form(divided_by_sum_of_everything)
def each_maximum_and_the_sum_of_everything(x: Tensor, dim: int = -1) -> Tensor:
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum()


@misconception(replaces="softmax", caught_by="test_large_entries", misses_the_point=True)
def log_of_the_sum_without_maximum(x: Tensor, dim: int = -1) -> Tensor:
    """The log of the sum of exponentials was subtracted, and these exponentials were taken of x as it came.

    It is right on paper. But in float32 exp overflows to infinity above 88, its log is infinity too, and all weights
    become 0. Far below 0 the sum is 0, and the weights become infinite.

    What may you subtract from a whole slice without changing any weight?
    """
    return (x - x.exp().sum(dim=dim, keepdim=True).log()).exp()


@misconception(replaces="softmax", caught_by="test_by_hand")
def sigmoids_divided_by_their_sum(x: Tensor, dim: int = -1) -> Tensor:
    """A sigmoid was taken of each entry, and not its exponential.

    The weights sum to 1, but a sigmoid is never above 1: of two high scores the higher one gets hardly more weight.

    If a score is larger by 1, by which factor should its weight be larger, wherever the score lies?
    """
    sigmoids = x.sigmoid()
    return sigmoids / sigmoids.sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_minus_infinity")
def minus_infinity_set_to_zero(x: Tensor, dim: int = -1) -> Tensor:
    """Entries of minus infinity were set to 0 before exp.

    A score of 0 is an ordinary score with the exponential 1, so these entries get weight like all others.

    What does exp give for minus infinity by itself, when nothing replaces it?
    """
    return reference.softmax(x.masked_fill(x == -torch.inf, 0.0), dim)


@misconception(replaces="softmax", caught_by="test_by_hand")
def divided_by_mean(x: Tensor, dim: int = -1) -> Tensor:
    """The exponentials were divided by their mean, and not by their sum.

    The mean of the weights is then 1, and their sum is as large as the number of entries.

    Which number has to be 1 for every slice: the mean of its weights or their sum?
    """
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.mean(dim=dim, keepdim=True)


@another_form(large_entries_clamped)
def minus_infinity_clamped(x: Tensor, dim: int = -1) -> Tensor:
    return reference.softmax(x.clamp(-1e4, 1e4), dim)


@another_form(minus_infinity_made_small)
def minus_infinity_made_minus_a_hundred(x: Tensor, dim: int = -1) -> Tensor:
    return reference.softmax(x.nan_to_num(neginf=-100.0), dim)
