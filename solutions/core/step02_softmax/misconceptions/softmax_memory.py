"""What learners get wrong in `softmax`: gradients and memory."""

from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step02_softmax import reference


@misconception(replaces="softmax", caught_by="test_gradients")
def sum_detached(x: Tensor, dim: int = -1) -> Tensor:
    """The sum was cut off from the gradient.

    Raising one score lowers the weights of all others through the sum. Without its gradient they seem independent.

    The shift by the maximum may be detached, since it changes nothing. Is this true of the sum as well?
    """
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True).detach()


@misconception(replaces="softmax", caught_by="test_gradients")
def weights_detached(x: Tensor, dim: int = -1) -> Tensor:
    """The weights came back without a way to the gradient.

    The numbers are right, but nothing that lies before the softmax can be trained any more.

    Was something computed under `no_grad`, detached, or rebuilt from numbers?
    """
    return reference.softmax(x.detach(), dim)


@misconception(replaces="softmax", caught_by="test_gradients")
def quotient_in_place(x: Tensor, dim: int = -1) -> Tensor:
    """The exponentials were divided in place.

    The gradient of exp needs its own result. After the division in place that result is gone, and backward stops.

    Which operator makes a new tensor where `/=` and `div_` overwrite the old one?
    """
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    exponentials /= exponentials.sum(dim=dim, keepdim=True)
    return exponentials


@misconception(replaces="softmax", caught_by="test_input_unmodified")
def shifted_in_place(x: Tensor, dim: int = -1) -> Tensor:
    """The maximum was subtracted in place, so the tensor of the caller changed.

    Whoever uses the same scores afterwards gets other numbers.

    Which operator makes a new tensor where `-=` and `sub_` change the old one?
    """
    x -= x.detach().amax(dim=dim, keepdim=True)
    exponentials = x.exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


@another_form(shifted_in_place)
def all_done_in_place(x: Tensor, dim: int = -1) -> Tensor:
    x -= x.amax(dim=dim, keepdim=True)
    exponentials = x.exp()
    exponentials /= exponentials.sum(dim=dim, keepdim=True)
    return exponentials


@another_form(shifted_in_place, caught_by="test_input_unmodified")
def everything_written_into_the_input(x: Tensor, dim: int = -1) -> Tensor:
    x -= x.amax(dim=dim, keepdim=True)
    x.exp_()
    x /= x.sum(dim=dim, keepdim=True)
    return x
