"""What learners get wrong in `train_step`: clipping."""

import math

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step28_training.misconceptions.training_step import Asked, Result, norm_of, step_by

# --- a step of training ---------------------------------------------------------------------------------------------


@misconception(replaces="train_step", caught_by="test_clipping")
@step_by
def not_clipped(asked: Asked) -> Result:
    """The gradients were not clipped.

    One bad batch can then throw the model far off.

    What is max_norm compared with?
    """
    return asked.step(max_norm=math.inf)


@misconception(replaces="train_step", caught_by="test_clipping")
@step_by
def clipped_one_by_one(asked: Asked) -> Result:
    """Each parameter's gradient was clipped by itself.

    That turns the direction of the step. The norm of all gradients together is to be at most max_norm.

    Over how many parameters is the norm taken?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = norm_of(parameters)
        for parameter in parameters:
            torch.nn.utils.clip_grad_norm_([parameter], max_norm)
        return norm

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_clipping")
@step_by
def clipped_by_value(asked: Asked) -> Result:
    """Every number of the gradients was clipped to max_norm.

    That turns the direction of the step. All of them are to be scaled by one factor.

    What does clip_grad_value_ do, and what clip_grad_norm_?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = norm_of(parameters)
        torch.nn.utils.clip_grad_value_(parameters, max_norm)
        return norm

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_clipping")
@step_by
def small_gradients_enlarged(asked: Asked) -> Result:
    """Gradients of a norm below max_norm were scaled up to it.

    Near the end of training gradients are small for a reason.

    When is a gradient to be scaled, and when left alone?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = norm_of(parameters)
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(max_norm / norm)
        return norm

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_clipping")
@step_by
def clipped_group_by_group(asked: Asked) -> Result:
    """The parameters of each group were clipped by themselves.

    That turns the direction of the step. The norm of all gradients together is to be at most max_norm.

    Over how many parameters is the norm taken?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = norm_of(parameters)
        for group in asked.optimizer.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], max_norm)
        return norm

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_clipping")
@step_by
def norm_after_clipping(asked: Asked) -> Result:
    """The norm that was returned is the one after clipping.

    That is max_norm most of the time, and tells nothing. The one before it shows when training goes wrong.

    What does clip_grad_norm_ return?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        return norm_of(parameters)

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_clipping")
@step_by
def max_norm_always_one(asked: Asked) -> Result:
    """The gradients were always clipped to 1, whatever max_norm says.

    max_norm is for the caller to choose.

    Where is max_norm used?
    """
    return asked.step(max_norm=1.0)


@misconception(replaces="train_step", caught_by="test_train_step")
@step_by
def norm_of_the_first_group(asked: Asked) -> Result:
    """Only the first group of the optimizer was clipped, and only its norm returned.

    The norm is that of all gradients together.

    How many groups has the optimizer?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        return torch.nn.utils.clip_grad_norm_(asked.optimizer.param_groups[0]["params"], max_norm)

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_train_step")
@step_by
def norm_of_another_kind(asked: Asked) -> Result:
    """Another norm than the Euclidean one was taken: the largest number, or the sum of the sizes.

    clip_grad_norm_ takes norm_type=2 when it is told nothing.

    How long is a vector of the parts 3 and 4?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type=math.inf)

    return asked.step(clip=clip)


# --- other forms of the same ----------------------------------------------------------------------------------------


@another_form(norm_after_clipping)
@step_by
def smaller_norm_returned(asked: Asked) -> Result:
    loss, norm = asked.step()
    return loss, min(norm, asked.max_norm)


@another_form(small_gradients_enlarged)
@step_by
def enlarged_with_a_guard(asked: Asked) -> Result:
    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = norm_of(parameters)
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(max_norm / (norm + 1e-6))
        return norm

    return asked.step(clip=clip)


@another_form(norm_of_another_kind)
@step_by
def norm_of_the_sizes(asked: Asked) -> Result:
    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type=1.0)

    return asked.step(clip=clip)
