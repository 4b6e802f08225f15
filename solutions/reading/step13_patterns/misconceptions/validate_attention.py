"""What learners get wrong in `validate_attention`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step13_patterns import reference


def faults(weights: Tensor, tolerance: float = 1e-5, **others: Tensor) -> dict[str, Tensor]:
    """The reference's answer, but for the `others`."""
    return {**reference.validate_attention(weights, tolerance), **others}


def row_sums(weights: Tensor) -> Tensor:
    """The sums of rows in float32 at least."""
    return weights.sum(dim=-1, dtype=torch.promote_types(weights.dtype, torch.float32))


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def nan_sum_passes(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """A sum that is NaN was not reported.

    Every comparison with NaN is False: `abs(nan - 1) > tolerance` as well.

    Can you ask whether the sum is within the tolerance, and then turn the answer round?
    """
    return faults(weights, tolerance, sum=(row_sums(weights) - 1).abs() > tolerance)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def columns_validated(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """The columns were looked at, not the rows.

    It is the weights of one query that sum to 1, and a query is a row: its weights lie along the last dimension.

    Over which dimension does your sum run, and which one is left?
    """
    return reference.validate_attention(weights.transpose(-2, -1), tolerance)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def one_verdict_for_all(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Each fault was reported once for the whole tensor.

    Then nobody knows which query of which head is broken.

    Over which single dimension should `any` run?
    """
    return {name: found.any() for name, found in reference.validate_attention(weights, tolerance).items()}


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def true_where_it_is_right(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """True was given where the row is right.

    Each entry is named for a fault, and says True where the row has it.

    What should a row without a fault say four times?
    """
    return {name: ~found for name, found in reference.validate_attention(weights, tolerance).items()}


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def conditions_that_hold(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Each entry said whether a condition holds: all finite, none negative, none above 1, the sum within the tolerance.

    Each entry is named for a fault, and says True where the row has it.

    What should a row without a fault say four times?
    """
    return {
        "not_finite": weights.isfinite().all(dim=-1),
        "negative": (weights >= 0).all(dim=-1),
        "above_one": (weights <= 1 + tolerance).all(dim=-1),
        "sum": (row_sums(weights) - 1).abs() <= tolerance,
    }


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def sum_inverted(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """`"sum"` was True where the sum is right.

    Like the other three it names a fault: True where the sum is NOT within the tolerance of 1.

    What should a proper row say?
    """
    return faults(weights, tolerance, sum=(row_sums(weights) - 1).abs() <= tolerance)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def raises_at_a_fault(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """A fault raised an error.

    The function reports, so that a plot can mark the rows; what follows from a fault is up to the caller.

    Can you return what you found out instead?
    """
    found = reference.validate_attention(weights, tolerance)
    if any(bool(fault.any()) for fault in found.values()):
        raise ValueError("these are no attention weights")
    return found


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def raises_where_not_finite(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Weights that are not finite raised an error.

    NaN and infinities are faults like the others: the function says where they are, and goes on.

    Can you return what you found out instead?
    """
    if weights.device.type != "meta" and not weights.isfinite().all():
        raise ValueError("the weights are not finite")
    return reference.validate_attention(weights, tolerance)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def faults_printed(weights: Tensor, tolerance: float = 1e-5) -> None:
    """The faults were printed, and nothing was returned.

    A print can be read once by a person; the dict can be counted, plotted and tested.

    What does the function hand back to its caller?
    """
    reference.validate_attention(
        weights, tolerance
    )  # without the print, which would show up in the grader's own output


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def every_weight_judged(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Each single weight got a verdict, not each row.

    A row has the fault when at least one of its entries has it.

    What turns `(..., T_q, T_k)` answers into `(..., T_q)`?
    """
    alone = {"not_finite": ~weights.isfinite(), "negative": weights < 0, "above_one": weights > 1 + tolerance}
    return faults(weights, tolerance, **alone)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def all_entries_at_fault(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """A row was reported only when all of its entries have the fault.

    One negative weight, or one NaN, is enough to spoil a row.

    Which of `any` and `all` asks for at least one?
    """
    negative, above = (weights < 0).all(dim=-1), (weights > 1 + tolerance).all(dim=-1)
    return faults(weights, tolerance, not_finite=~weights.isfinite().any(dim=-1), negative=negative, above_one=above)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def dimension_kept(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """The verdicts kept a last dimension of size 1.

    One boolean per query has the shape `(..., T_q)`.

    Is `keepdim=True` needed where nothing is divided?
    """
    return {name: found.unsqueeze(-1) for name, found in reference.validate_attention(weights, tolerance).items()}


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def verdicts_as_numbers(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """The verdicts were given as the number of faulty entries, or as 0 and 1.

    A verdict is boolean: only so can it pick rows and be inverted.

    What does `any` give that `sum` does not?
    """
    return {name: found.long() for name, found in reference.validate_attention(weights, tolerance).items()}


@misconception(replaces="validate_attention", caught_by="test_validate_each_fault")
def infinity_not_looked_for(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Only NaN counted as not finite.

    An infinity is no weight either, and a sum with it is none.

    Which function of torch asks for both at once?
    """
    return faults(weights, tolerance, not_finite=weights.isnan().any(dim=-1))


@misconception(replaces="validate_attention", caught_by="test_validate_each_fault")
def only_infinity_looked_for(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Only infinities counted as not finite, not NaN.

    NaN is what a softmax gives for a row in which everything is hidden: the fault that is met most.

    Which function of torch asks for both at once?
    """
    return faults(weights, tolerance, not_finite=weights.isinf().any(dim=-1))


@misconception(replaces="validate_attention", caught_by="test_validate_each_fault")
def infinities_not_judged_by_sign(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Entries that are not finite were left out before the other faults were looked for.

    Each fault is judged by itself: minus infinity is below 0, and infinity is above 1.

    What do `weights < 0` and `weights > 1` say of an infinity when you simply ask?
    """
    cleaned = weights.where(weights.isfinite(), 0.0)
    negative, above = (cleaned < 0).any(dim=-1), (cleaned > 1 + tolerance).any(dim=-1)
    return faults(weights, tolerance, negative=negative, above_one=above)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def nan_taken_for_zero(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """The sum was taken as if NaN were 0.

    A row with NaN has no sum. When the rest happens to sum to 1, the fault disappears.

    Does the sum have to be protected from NaN at all?
    """
    sums = row_sums(weights.where(weights.isfinite(), 0.0))
    return faults(weights, tolerance, sum=~((sums - 1).abs() <= tolerance))


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def sum_too_large_not_seen(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Only one side of 1 was looked at: a sum that is too small, or one that is too large, passed.

    Within the tolerance of 1 means neither further below nor further above.

    Where does your comparison take the absolute value?
    """
    return faults(weights, tolerance, sum=~(row_sums(weights) - 1 <= tolerance))


@misconception(replaces="validate_attention", caught_by="test_validate_tolerance")
def half_precision_sums(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """The sums were rounded to the weights' own dtype.

    In bfloat16 the numbers next to 1 are 0.996 and 1.008: sums between them look like 1.

    How do you tell `sum` to add up, and answer, in float32?
    """
    return faults(weights, tolerance, sum=~((weights.sum(dim=-1) - 1).abs() <= tolerance))


@misconception(replaces="validate_attention", caught_by="test_validate_tolerance")
def tolerance_not_used(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """A tolerance of its own was used, whatever the argument said.

    Weights in half precision need another one than those in float32; that is why it is an argument.

    Where does your code use `tolerance`?
    """
    return reference.validate_attention(weights, 1e-5)


@misconception(replaces="validate_attention", caught_by="test_validate_tolerance")
def above_one_without_tolerance(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Every weight above exactly 1 was reported.

    A softmax may round to a little more than 1; only what is above 1 + tolerance is a fault.

    What should a weight of 1.000004 get with a tolerance of 0.00001?
    """
    return faults(weights, tolerance, above_one=(weights > 1).any(dim=-1))


@misconception(replaces="validate_attention", caught_by="test_validate_tolerance")
def negative_with_tolerance(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Weights a little below 0 were let through.

    An exponential is never negative and rounds to nothing below 0, so there is no room to give.

    Where in the list of faults does the tolerance stand, and where does it not?
    """
    return faults(weights, tolerance, negative=(weights < -tolerance).any(dim=-1))


@misconception(replaces="validate_attention", caught_by="test_validate_each_fault")
def weights_cleaned_in_place(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """What is not finite was replaced in the caller's own tensor.

    Whoever has the weights checked and then plots them sees numbers that were never there.

    Which of your calls end in `_`, or write into `weights[...]`?
    """
    found = reference.validate_attention(weights, tolerance)
    if weights.device.type != "meta":
        weights[~weights.isfinite()] = 0.0
    return found


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def verdicts_of_python(weights: Tensor, tolerance: float = 1e-5) -> dict[str, bool]:
    """Each fault was reported by one Python bool.

    Then nobody knows which query of which head is broken.

    Over which single dimension should `any` run, and does its result have to become a `bool`?
    """
    return {name: bool(found.any()) for name, found in reference.validate_attention(weights, tolerance).items()}


@misconception(replaces="validate_attention", caught_by="test_validate_each_fault")
def nan_hides_the_others(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """In a row with NaN no other fault was found: the smallest and the largest entry were compared, and both are NaN.

    Each fault is judged by itself: a row may hold NaN and a negative weight.

    What if every entry is compared first, and `any` asked afterwards?
    """
    negative, above = weights.amin(dim=-1) < 0, weights.amax(dim=-1) > 1 + tolerance
    return faults(weights, tolerance, negative=negative, above_one=above)


@misconception(replaces="validate_attention", caught_by="test_validate_tolerance")
def relative_tolerance_too(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """The sum was allowed more than `tolerance`: `isclose` adds a relative tolerance of its own, 1e-5.

    Around 1 a relative tolerance of 1e-5 is as large as the absolute one, so twice as much is let through.

    Which argument of `isclose` turns it off?
    """
    sums = row_sums(weights)
    return faults(weights, tolerance, sum=~torch.isclose(sums, torch.ones_like(sums), atol=tolerance))


@another_form(columns_validated)
def columns_summed(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    sums = weights.sum(dim=-2, dtype=torch.promote_types(weights.dtype, torch.float32))
    return faults(weights, tolerance, sum=~((sums - 1).abs() <= tolerance))


@another_form(columns_validated)
def entries_of_columns(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    return faults(
        weights, tolerance, not_finite=~weights.isfinite().all(dim=-2), negative=(weights < 0).any(dim=-2),
        above_one=(weights > 1 + tolerance).any(dim=-2),
    )  # fmt: skip


@another_form(infinities_not_judged_by_sign)
def infinity_not_negative(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    return faults(weights, tolerance, negative=((weights < 0) & weights.isfinite()).any(dim=-1))


@another_form(infinities_not_judged_by_sign)
def infinity_not_above_one(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    return faults(weights, tolerance, above_one=((weights > 1 + tolerance) & weights.isfinite()).any(dim=-1))


@another_form(tolerance_not_used)
def sum_within_a_fixed_tolerance(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    return faults(weights, tolerance, sum=reference.validate_attention(weights)["sum"])


@another_form(tolerance_not_used)
def above_a_fixed_tolerance(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    return faults(weights, tolerance, above_one=reference.validate_attention(weights)["above_one"])


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def zero_taken_for_negative(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """A weight of 0 was reported as negative.

    0 is not below 0: a key that is not attended to is no fault.

    Which comparison do you make, `<` or `<=`?
    """
    return faults(weights, tolerance, negative=(weights <= 0).any(dim=-1))


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def one_taken_for_too_much(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """A weight of exactly 1 was reported as above 1.

    A query may give all of its weight to one key.

    With what is a weight compared, and with which sign?
    """
    return faults(weights, tolerance, above_one=(weights >= 1).any(dim=-1))


@misconception(replaces="validate_attention", caught_by="test_validate_tolerance")
def sum_of_exactly_one(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """A sum was reported unless it is exactly 1.

    Sums of rounded numbers are off by a few units of the last digit; `tolerance` says how much is allowed.

    Where does your code use `tolerance`?
    """
    return faults(weights, tolerance, sum=row_sums(weights) != 1)
