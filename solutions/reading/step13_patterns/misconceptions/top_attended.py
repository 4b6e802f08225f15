"""What learners get wrong in `top_attended`, each with the check that catches it."""

from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step13_patterns import reference


@misconception(replaces="top_attended", caught_by="test_top_of_equals")
def equals_left_to_topk(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The order of equal weights was left to `topk`, or to a sort that is not stable.

    Both may give equal entries in any order, and do so once a row is long. Here the earlier key comes first.

    Which argument of `sort` keeps equal entries in the order in which they stood?
    """
    values, indices = weights.topk(min(k, weights.shape[-1]), dim=-1)
    return values, indices


@misconception(replaces="top_attended", caught_by="test_top_of_equals")
def sort_not_stable(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Sorting left the order of equal weights open: the sort was not stable.

    On short rows it happens to look right; from 17 keys on torch may give equal entries in any order.

    Which argument of `sort` and `argsort` keeps equal entries in the order in which they stood?
    """
    values, indices = weights.sort(dim=-1, descending=True)
    return values[..., :k], indices[..., :k]


@misconception(replaces="top_attended", caught_by="test_top_of_equals")
def later_key_first(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Of equal weights the later key came first.

    A stable ascending sort that is turned round is stable no more: equal entries are turned round with the rest.

    Can the sort itself go downwards?
    """
    values, indices = weights.sort(dim=-1, stable=True)
    return values.flip(-1)[..., :k], indices.flip(-1)[..., :k]


@misconception(replaces="top_attended", caught_by="test_top_of_equals")
def more_than_there_are(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """A k larger than the number of keys raised an error.

    Then all keys are given: the result has `min(k, T_k)` columns.

    What does `topk` say when k is 9 and there are 5 keys?
    """
    if k > weights.shape[-1]:
        weights.topk(k, dim=-1)  # which raises
    return reference.top_attended(weights, k)


@misconception(replaces="top_attended", caught_by="test_top_of_equals")
def larger_k_refused(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """A k larger than the number of keys was refused on purpose.

    It is allowed: all keys are given then, and the result has `min(k, T_k)` columns.

    What should the caller get who asks for 9 of 5 keys?
    """
    if k > weights.shape[-1]:
        raise ValueError("k is larger than the number of keys")
    return reference.top_attended(weights, k)


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def smallest_first(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest weights were given with the smallest of them first.

    The strongest key stands first.

    In which direction does your sort go, and from which end do you take?
    """
    values, indices = reference.top_attended(weights, k)
    return values.flip(-1), indices.flip(-1)


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def smallest_weights(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k smallest weights were given.

    A sort goes upwards unless it is told otherwise.

    Which end of the sorted row holds the largest weight?
    """
    values, indices = weights.sort(dim=-1, stable=True)
    return values[..., :k], indices[..., :k]


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def keys_in_reading_order(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest weights were given in the order of their keys.

    The order says which key is the strongest: largest first.

    Did a second sort, by index, undo the first?
    """
    kept = reference.top_attended(weights, k)[1].sort(dim=-1).values
    return weights.gather(-1, kept), kept


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def pair_exchanged(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The indices were returned first, and the values second.

    The pair is `(values, indices)`, as `sort` and `topk` give it.

    Which of the two is named first in the docstring?
    """
    values, indices = reference.top_attended(weights, k)
    return indices, values


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def queries_of_each_key(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The largest weights were looked for down the columns.

    A column holds what all queries give to one key. The keys of one query stand in a row.

    Along which dimension do you sort?
    """
    values, indices = weights.sort(dim=-2, descending=True, stable=True)
    return values[..., :k, :], indices[..., :k, :]


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def whole_row_returned(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """All weights were sorted and returned, not only the first k.

    `k` says how many are wanted.

    What is left to be cut off after sorting?
    """
    return reference.top_attended(weights, weights.shape[-1])


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def narrow_indices(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The indices were converted: they are not int64.

    torch indexes with int64, and its own functions give it.

    Which conversion can you leave out?
    """
    values, indices = reference.top_attended(weights, k)
    return values, indices.int()


@another_form(more_than_there_are)
def topk_of_more_than_there_are(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, indices = weights.topk(k, dim=-1)
    return values, indices
