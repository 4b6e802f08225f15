"""Mistakes that learners make together in step 2."""

from collections.abc import Callable

from torch import Tensor

from grader.checks.catalogue import together
from solutions.core.step02_softmax.misconceptions.softmax import (
    divided_by_sum_of_everything,
    exp_without_dividing,
    first_dimension_only,
    last_dimension_only,
    maximum_of_everything,
    no_maximum,
    sum_lost_its_dimension,
)

SHIFTS = {
    no_maximum: lambda x: 0.0,
    maximum_of_everything: lambda x: x.amax(),
}
SUMS = {
    exp_without_dividing: lambda exponentials, dim: 1.0,
    first_dimension_only: lambda exponentials, dim: exponentials.sum(dim=0, keepdim=True),
    last_dimension_only: lambda exponentials, dim: exponentials.sum(dim=-1, keepdim=True),
    divided_by_sum_of_everything: lambda exponentials, dim: exponentials.sum(),
    sum_lost_its_dimension: lambda exponentials, dim: exponentials.sum(dim=dim),
}


def _softmax(shift: Callable[[Tensor], Tensor | float], total: Callable[[Tensor, int], Tensor | float]) -> object:
    def softmax(x: Tensor, dim: int = -1) -> Tensor:
        exponentials = (x - shift(x)).exp()
        return exponentials / total(exponentials, dim)

    return softmax


PAIRS = [
    pair
    for pair in together(SUMS, SHIFTS, lambda total, shift: _softmax(shift, total))
    # The sum of everything takes the maximum of everything along: the two together are the first alone.
    if (pair.first, pair.second) != (divided_by_sum_of_everything, maximum_of_everything)
]
