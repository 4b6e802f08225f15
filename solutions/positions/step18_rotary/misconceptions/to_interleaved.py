"""What learners get wrong in `to_interleaved`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.positions.step18_rotary import reference


@misconception(replaces="to_interleaved", caught_by="test_layouts")
def nothing_interleaved(x: Tensor) -> Tensor:
    """The columns came back in the order they had.

    A reshape to halves and back changes no order: two dimensions have to change places in between.

    What lies between your two reshapes?
    """
    return x.unflatten(-1, (2, -1)).flatten(-2)


@misconception(replaces="to_interleaved", caught_by="test_layouts")
def split_once_more(x: Tensor) -> Tensor:
    """`to_interleaved` did the same as `to_half_split`.

    Done twice the permutation comes back to the beginning with 4 columns only. The inverse takes one number from each
    half in turn.

    Of the halves 10, 20, 30 and 11, 21, 31, which two numbers come first?
    """
    return reference.to_half_split(x)


@misconception(replaces="to_interleaved", caught_by="test_layouts")
def pairs_on_a_new_axis(x: Tensor) -> Tensor:
    """The pairs came back on a dimension of their own.

    `stack` makes a new dimension. The result has the shape of x: the pairs lie one behind the other.

    How many dimensions does your result have more than x?
    """
    return torch.stack(x.chunk(2, dim=-1), dim=-1)


@misconception(replaces="to_interleaved", caught_by="test_layouts")
def columns_written_into_x(x: Tensor) -> Tensor:
    """The columns were written into x itself.

    The caller's tensor has changed then, behind the caller's back.

    Into which tensor does `x[..., 0::2] = …` write?
    """
    first, second = (half.clone() for half in x.chunk(2, dim=-1))
    x[..., 0::2], x[..., 1::2] = first, second
    return x


@misconception(replaces="to_interleaved", caught_by="test_layouts")
def second_half_first(x: Tensor) -> Tensor:
    """In each pair the number of the second half came first.

    Column 2i comes from the first half, column 2i + 1 from the second.

    In which order do the two halves stand in your `stack`?
    """
    first, second = x.chunk(2, dim=-1)
    return torch.stack([second, first], dim=-1).flatten(-2)
