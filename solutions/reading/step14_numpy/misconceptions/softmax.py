"""What learners get wrong in `softmax`, each with the check that catches it."""

import numpy as np
import torch

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step14_numpy.misconceptions.arrays import Array
from solutions.reading.step14_numpy.reference import softmax


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def axis_ignored(x: Array, axis: int = -1) -> Array:
    """The softmax always ran along the last axis.

    `axis` says along which numbers the weights sum to 1.

    Where do `max` and `sum` get to know the axis?
    """
    return softmax(x)


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def first_axis_by_default(x: Array, axis: int = 0) -> Array:
    """The softmax ran along the first axis unless told otherwise.

    The default is the last axis, -1: a row of scores belongs to one query.

    Along which axis should the weights of a matrix sum to 1?
    """
    return softmax(x, axis)


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def exponentials_not_divided(x: Array, axis: int = -1) -> Array:
    """The exponentials were returned without being divided by their sum.

    Weights sum to 1.

    What is left to be done with the sum of each slice?
    """
    return np.exp(x - x.max(axis=axis, keepdims=True))


@misconception(replaces="softmax", caught_by="test_softmax_extremes")
def no_maximum_subtracted(x: Array, axis: int = -1) -> Array:
    """The exponentials were taken of the numbers as they are.

    exp(10000) overflows to infinity, and infinity divided by infinity is NaN.

    Which number can you subtract from a whole slice without changing its weights?
    """
    with np.errstate(all="ignore"):
        exponentials = np.exp(x)
        return exponentials / exponentials.sum(axis=axis, keepdims=True)


@misconception(replaces="softmax", caught_by="test_softmax_extremes")
def maximum_of_the_whole_array(x: Array, axis: int = -1) -> Array:
    """The maximum of the whole array was subtracted from every slice.

    A slice that lies far below it becomes all zeros, and 0 / 0 is NaN.

    Of which numbers should the maximum be taken, and what does `keepdims` do for it?
    """
    with np.errstate(all="ignore"):
        exponentials = np.exp(x - x.max())
        return exponentials / exponentials.sum(axis=axis, keepdims=True)


@misconception(replaces="softmax", caught_by="test_softmax_extremes")
def minimum_subtracted(x: Array, axis: int = -1) -> Array:
    """The minimum, or the mean, was subtracted, which leaves large numbers large.

    After the subtraction no number may be above 0, so that no exponential is above 1.

    Which number of a slice makes all the others at most 0?
    """
    with np.errstate(all="ignore"):
        exponentials = np.exp(x - x.min(axis=axis, keepdims=True))
        return exponentials / exponentials.sum(axis=axis, keepdims=True)


@misconception(replaces="softmax", caught_by="test_softmax_extremes")
def logsumexp_without_the_maximum(x: Array, axis: int = -1) -> Array:
    """The weights were computed as exp(x - logsumexp(x)) from the large numbers themselves.

    A logarithm near 10000 is rounded by 1e-3 in float32, and so are the weights: a slice no longer sums to 1.

    What if the maximum is subtracted first?
    """
    return np.exp(x - np.logaddexp.reduce(x, axis=axis, keepdims=True))


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def sum_without_its_axis(x: Array, axis: int = -1) -> Array:
    """The sum was taken without `keepdims`, so that it was lined up with the wrong axis.

    `(2, 2) / (2,)` divides column j by number j. With other sizes it raises an error; here it is silently wrong.

    What does `keepdims=True` do to the shape of the sums?
    """
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis)


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def maximum_without_its_axis(x: Array, axis: int = -1) -> Array:
    """The maximum was taken without `keepdims`, so that it was lined up with the wrong axis.

    `(2, 2) - (2,)` subtracts number j from column j, so the numbers of one slice are no longer moved alike.

    What does `keepdims=True` do to the shape of the maxima?
    """
    exponentials = np.exp(x - x.max(axis=axis))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def divided_by_everything(x: Array, axis: int = -1) -> Array:
    """Everything was divided by the sum of the whole array.

    Each slice sums to 1 by itself.

    Over which axis should the sum run?
    """
    exponentials = np.exp(x - x.max())
    return exponentials / exponentials.sum()


@misconception(replaces="softmax", caught_by="test_float32_stays_float32")
def softmax_in_float64(x: Array, axis: int = -1) -> Array:
    """A float32 array gave float64 weights.

    A conversion, or a NumPy scalar of float64, makes everything that it meets float64.

    Which of your operations changes the dtype? Print `.dtype` line by line.
    """
    return softmax(x.astype(np.float64), axis)


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def softmax_in_float32(x: Array, axis: int = -1) -> Array:
    """A float64 array gave float32 weights.

    The result has the argument's dtype, and nothing is computed in less.

    Which of your operations names a dtype?
    """
    return softmax(x.astype(np.float32), axis)


@misconception(replaces="softmax", caught_by="test_softmax_of_any_shape")
def digits_lost_in_float32(x: Array, axis: int = -1) -> Array:
    """A float64 array was computed in float32 and converted back, or something was added to the sum.

    The dtype is right, but half of the digits are gone.

    Which of your operations is not exact to fifteen digits?
    """
    return softmax(x.astype(np.float32), axis).astype(x.dtype)


@misconception(replaces="softmax", caught_by="test_softmax_of_any_shape")
def callers_array_overwritten(x: Array, axis: int = -1) -> Array:
    """The maximum was subtracted in the caller's own array.

    `x -= ...` and `np.exp(x, out=x)` write over the array that was passed in.

    Which of your operations makes a new array, and which one writes into an old one?
    """
    x -= x.max(axis=axis, keepdims=True)
    exponentials = np.exp(x)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


KEPT: dict[tuple[tuple[int, ...], np.dtype], Array] = {}


@misconception(replaces="softmax", caught_by="test_any_regime")
def result_in_kept_memory(x: Array, axis: int = -1) -> Array:
    """The weights were written into an array that is kept from call to call.

    The next call of the same shape overwrites the weights that this one gave.

    Whose is the array that your function returns?
    """
    weights = KEPT.setdefault((x.shape, x.dtype), np.empty(x.shape, x.dtype))
    weights[...] = softmax(x, axis)
    return weights


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def torchs_softmax(x: Array, axis: int = -1) -> Array:
    """torch did the work.

    This step is written in NumPy alone.

    Which two functions of NumPy does a softmax need?
    """
    return torch.softmax(torch.from_numpy(np.ascontiguousarray(x)), axis).numpy()


@misconception(replaces="softmax", caught_by="test_softmax_of_any_shape")
def last_two_axes_only(x: Array, axis: int = -1) -> Array:
    """The sum got its axis back in a fixed place, by `[:, None]` or `[..., None]`: that is right for one axis only.

    An array has any number of axes, and the softmax may run along any of them.

    What keeps an axis in its place, wherever it is?
    """
    if x.ndim == 2 and axis in (0, -2):
        return softmax(x, 0)
    exponentials = np.exp(x - x.max(axis=axis)[:, None])
    return exponentials / exponentials.sum(axis=axis)[:, None]


@another_form(divided_by_everything)
def divided_by_the_sum_of_everything(x: Array, axis: int = -1) -> Array:
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum()


@misconception(replaces="softmax", caught_by="test_softmax_by_hand")
def guard_beside_the_sum(x: Array, axis: int = -1) -> Array:
    """A small number was added to the sum, against a division by 0.

    The largest exponential is 1, so that the sum is never 0, and a number of 1e-6 makes every weight too small.

    How small can the sum of the exponentials get once the maximum is subtracted?
    """
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return exponentials / (exponentials.sum(axis=axis, keepdims=True) + 1e-6)


@another_form(guard_beside_the_sum)
def smaller_guard_beside_the_sum(x: Array, axis: int = -1) -> Array:
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return exponentials / (exponentials.sum(axis=axis, keepdims=True) + 1e-8)


@another_form(guard_beside_the_sum)
def guard_of_one_billionth(x: Array, axis: int = -1) -> Array:
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return exponentials / (exponentials.sum(axis=axis, keepdims=True) + 1e-9)


@misconception(replaces="softmax", caught_by="test_softmax_extremes")
def numbers_clipped(x: Array, axis: int = -1) -> Array:
    """Large numbers were clipped before the exponentials were taken.

    Nothing overflows then, but all numbers beyond the limit become alike, and their weights too.

    What can be subtracted from a whole slice, so that the differences stay as they are?
    """
    exponentials = np.exp(np.clip(x, -500, 500))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


@another_form(last_two_axes_only)
def sums_as_the_last_axis(x: Array, axis: int = -1) -> Array:
    exponentials = np.exp(x - x.max(axis=axis)[..., None])
    return exponentials / exponentials.sum(axis=axis)[..., None]
