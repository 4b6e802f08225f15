"""What learners get wrong in `to_half_split`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.positions.step18_rotary import reference
from solutions.positions.step18_rotary.misconceptions.pieces import Names

LAYOUTS = ("to_half_split", "to_interleaved")


@misconception(replaces=LAYOUTS, caught_by="test_layouts")
def layouts_exchanged() -> Names:
    """The two conversions changed places.

    `to_half_split` takes neighbours apart, `to_interleaved` brings them together.

    Of 10, 11, 20, 21, which number should come second in the half-split layout?
    """
    return {"to_half_split": reference.to_interleaved, "to_interleaved": reference.to_half_split}


@misconception(replaces="to_half_split", caught_by="test_layouts")
def nothing_split(x: Tensor) -> Tensor:
    """The columns came back in the order they had.

    A reshape to pairs and back changes no order: two dimensions have to change places in between.

    What lies between your two reshapes?
    """
    return x.unflatten(-1, (-1, 2)).flatten(-2)


@misconception(replaces="to_half_split", caught_by="test_layouts")
def odd_columns_first(x: Tensor) -> Tensor:
    """The odd columns came first and the even ones after them.

    The half-split layout begins with the first column of each pair: 0, 2, 4, ….

    Where does your first slice start?
    """
    return torch.cat([x[..., 1::2], x[..., 0::2]], dim=-1)


@misconception(replaces="to_half_split", caught_by="test_layouts")
def tokens_split(x: Tensor) -> Tensor:
    """The rows were taken apart, and not the columns.

    The last dimension holds the columns. A slice without `...` works on the first one.

    Which dimension does `x[0::2]` slice?
    """
    return torch.cat([x[0::2], x[1::2]])


@misconception(replaces="to_half_split", caught_by="test_layouts")
def halves_under_each_other(x: Tensor) -> Tensor:
    """The halves were joined along the first dimension, not along the columns.

    `torch.cat` takes the first dimension where it is told none. The result has the shape of x.

    Along which dimension does your `cat` join the two halves?
    """
    return torch.cat([x[..., 0::2], x[..., 1::2]])


@misconception(replaces="to_half_split", caught_by="test_layouts")
def halves_on_a_new_axis(x: Tensor) -> Tensor:
    """The halves came back on a dimension of their own.

    `stack` and `unflatten` make a new dimension. The result has the shape of x: the halves lie one behind the other.

    How many dimensions does your result have more than x?
    """
    return torch.stack([x[..., 0::2], x[..., 1::2]], dim=-2)


@misconception(replaces="to_half_split", caught_by="test_layouts")
def split_with_a_sign(x: Tensor) -> Tensor:
    """One half came back with its sign changed.

    That is `rotate_half`, a step of the rotation. A conversion only moves columns.

    Which of your lines changes a number?
    """
    return torch.cat([-x[..., 1::2], x[..., 0::2]], dim=-1)
