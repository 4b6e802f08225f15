"""What learners get wrong in `softmax`: dtypes and devices."""

import numpy as np
import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step02_softmax import reference


@misconception(replaces="softmax", caught_by="test_dtypes")
def answers_in_float32(x: Tensor, dim: int = -1) -> Tensor:
    """The weights came back in float32, whatever was given.

    The next operation then meets two dtypes and stops, or the model quietly leaves the dtype it was built for.

    If you compute in another dtype, what has to happen to the result before you return it?
    """
    return reference.softmax(x.float(), dim)


@misconception(replaces="softmax", caught_by="test_dtypes")
def halves_answered_in_float32(x: Tensor, dim: int = -1) -> Tensor:
    """Half precision was converted to float32, and the weights were not converted back.

    float32 is right for the sum. But a model in half precision then meets two dtypes in its next operation.

    You changed the dtype at the beginning: what has to happen at the end?
    """
    return reference.softmax(x.to(torch.promote_types(x.dtype, torch.float32)), dim)


@misconception(replaces="softmax", caught_by="test_dtypes")
def passes_through_float32(x: Tensor, dim: int = -1) -> Tensor:
    """The weights were computed in float32 and converted back afterwards.

    This helps half precision, but for float64 it throws half of the digits away.

    Which of the four dtypes lose accuracy in float32, and which gain?
    """
    return reference.softmax(x.float(), dim).to(x.dtype)


@misconception(replaces="softmax", caught_by="test_dtypes")
def number_added_to_the_sum(x: Tensor, dim: int = -1) -> Tensor:
    """A small number was added to the sum, to be safe from a division by 0.

    It makes every weight a little too small, and in float64 this shows.

    When the largest exponential is 1, how small can the sum of the slice be?
    """
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    return exponentials / (exponentials.sum(dim=dim, keepdim=True) + 1e-6)


@misconception(replaces="softmax", caught_by="test_dtypes")
def smaller_number_added_to_the_sum(x: Tensor, dim: int = -1) -> Tensor:
    """A very small number such as 1e-9 was added to the sum, to be safe from a division by 0.

    In float32 nobody sees it. In float64, where fifteen digits are right, every weight is a little too small.

    Which exponential of a slice is 1 once the maximum is subtracted, and how small can the sum be then?
    """
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    return exponentials / (exponentials.sum(dim=dim, keepdim=True) + 1e-9)


@misconception(replaces="softmax", caught_by="test_half_precision")
def summed_in_half_precision(x: Tensor, dim: int = -1) -> Tensor:
    """In half precision the exponentials were added one after the other.

    A bfloat16 has 8 significant bits: from 256 on, adding 1 changes nothing, so the sum of a long slice is too small.

    `sum` adds halves in float32 inside. How can you let it do the adding?
    """
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    total = torch.zeros_like(exponentials.select(dim, 0))
    for part in exponentials.unbind(dim):
        total = total + part
    return exponentials / total.unsqueeze(dim)


@misconception(replaces="softmax", caught_by="test_half_precision")
def minus_infinity_made_a_billion(x: Tensor, dim: int = -1) -> Tensor:
    """Minus infinity was replaced by a number that float16 cannot hold.

    The largest float16 is 65504. Filling a float16 tensor with a number beyond it stops with an error.

    What does exp give for minus infinity by itself, when nothing replaces it?
    """
    return reference.softmax(x.masked_fill(x == -torch.inf, -1e9), dim)


@misconception(replaces="softmax", caught_by="test_device")
def sum_kept_on_the_cpu(x: Tensor, dim: int = -1) -> Tensor:
    """The sums were collected in a new tensor on the CPU.

    Inputs on another device then meet a tensor on the CPU, and the division stops or answers on the wrong device.

    How does a new tensor learn on which device it has to be?
    """
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    shape = list(x.shape)
    shape[dim] = 1
    total = torch.zeros(shape, dtype=x.dtype)
    total += exponentials.sum(dim=dim, keepdim=True)
    return exponentials / total


@misconception(replaces="softmax", caught_by="test_device")
def branches_on_a_value(x: Tensor, dim: int = -1) -> Tensor:
    """Python looked at a number inside the tensor to decide what to do.

    A tensor on the meta device has no numbers, and on a GPU each such look makes the program wait.

    Is the shift ever wrong, so that you have to decide whether to make it?
    """
    if float(x.abs().max()) > 80:
        return reference.softmax(x, dim)
    return x.exp() / x.exp().sum(dim=dim, keepdim=True)


@misconception(replaces="softmax", caught_by="test_dtypes")
def small_number_added_to_the_sum(x: Tensor, dim: int = -1) -> Tensor:
    """A small number such as 1e-8 was added to the sum, to be safe from a division by 0.

    In float32 nobody sees it. In float64, where fifteen digits are right, every weight is a little too small.

    Which exponential of a slice is 1 once the maximum is subtracted, and how small can the sum be then?
    """
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    return exponentials / (exponentials.sum(dim=dim, keepdim=True) + 1e-8)


@another_form(number_added_to_the_sum)
def step_of_float32_added_to_the_sum(x: Tensor, dim: int = -1) -> Tensor:
    exponentials = (x - x.max(dim=dim, keepdim=True).values).exp()
    return exponentials / (exponentials.sum(dim=dim, keepdim=True) + torch.finfo(torch.float32).eps)


@another_form(number_added_to_the_sum)
def larger_number_added_to_the_sum(x: Tensor, dim: int = -1) -> Tensor:
    exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
    return exponentials / (exponentials.sum(dim=dim, keepdim=True) + 1e-5)


@misconception(replaces="softmax", caught_by="test_by_hand")
def answers_in_float64(x: Tensor, dim: int = -1) -> Tensor:
    """The weights came back in float64, whatever was given.

    The next operation then meets two dtypes and stops, or a float32 model quietly takes twice its memory.

    If you compute in another dtype, what has to happen to the result before you return it?
    """
    return reference.softmax(x.double(), dim)


@misconception(replaces="softmax", caught_by="test_gradients")
def by_way_of_numpy(x: Tensor, dim: int = -1) -> Tensor:
    """The numbers were copied to NumPy, and the result was copied back.

    NumPy knows nothing of gradients, of other devices, or of bfloat16.

    Which functions of torch do the same as those of NumPy that you called?
    """
    array = x.detach().cpu().numpy()
    exponentials = np.exp(array - array.max(axis=dim, keepdims=True))
    return torch.from_numpy(exponentials / exponentials.sum(axis=dim, keepdims=True))
