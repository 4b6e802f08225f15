"""What learners get wrong in `train_step`, each with the check that catches it."""

from typing import Any

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step28_training.misconceptions.training_step import Asked, Result, norm_of, step_by

# --- a step of training ---------------------------------------------------------------------------------------------


@misconception(replaces="train_step", caught_by="test_micro_batches")
@step_by
def micro_batches_summed(asked: Asked) -> Result:
    """The losses of the micro-batches were added and not averaged.

    n micro-batches then count n times as much as the one large batch, and are clipped the more.

    Of what is the loss of the large batch the mean?
    """
    return asked.step(shares=1.0)


@misconception(replaces="train_step", caught_by="test_micro_batches")
@step_by
def loss_averaged_gradients_summed(asked: Asked) -> Result:
    """The loss that is returned was averaged, but backward was called on the undivided losses.

    The gradients add up to n times those of the large batch.

    On which number is backward called?
    """
    loss, norm = asked.step(shares=1.0)
    return loss / len(asked.batches), norm


@misconception(replaces="train_step", caught_by="test_micro_batches")
@step_by
def gradients_averaged_loss_summed(asked: Asked) -> Result:
    """The step is right, but the loss that is returned is the sum over the micro-batches.

    The mean loss before the step is asked for.

    What is the loss of the one large batch?
    """
    loss, norm = asked.step()
    return loss * len(asked.batches), norm


@misconception(replaces="train_step", caught_by="test_micro_batches")
@step_by
def loss_of_the_last_batch(asked: Asked) -> Result:
    """The loss of the last micro-batch was returned.

    The mean over all of them is asked for.

    Which loss does the variable hold after the loop?
    """
    with torch.no_grad():
        last = asked.model(*asked.batches[-1])[1].item()
    return last, asked.step()[1]


@misconception(replaces="train_step", caught_by="test_micro_batches")
@step_by
def zeroed_between_micro_batches(asked: Asked) -> Result:
    """The gradients were set to zero before each micro-batch.

    The step then knows the last of them only.

    What are gradients to add up over?
    """
    return asked.step(zero="each")


@misconception(replaces="train_step", caught_by="test_micro_batches")
@step_by
def a_step_for_each_micro_batch(asked: Asked) -> Result:
    """The optimizer made a step after each micro-batch.

    That is training on small batches. Their gradients are to add up to those of a large one.

    How many steps does the optimizer make in one call?
    """
    results = [asked.step(batches=[batch]) for batch in asked.batches]
    return sum(loss for loss, norm_of in results) / len(results), results[-1][1]


@misconception(replaces="train_step", caught_by="test_micro_batches")
@step_by
def first_micro_batch_only(asked: Asked) -> Result:
    """Only the first micro-batch was used.

    All of them together are the batch.

    How many of the batches go through the model?
    """
    return asked.step(batches=list(asked.batches)[:1])


@misconception(replaces="train_step", caught_by="test_earlier_gradients_do_not_count")
@step_by
def gradients_of_the_last_step_added(asked: Asked) -> Result:
    """The gradients were never set to zero: those of the step before counted again.

    backward adds to what is there.

    Who empties .grad, and when?
    """
    return asked.step(zero="never")


@misconception(replaces="train_step", caught_by="test_earlier_gradients_do_not_count")
@step_by
def zeroed_after_the_step(asked: Asked) -> Result:
    """The gradients were set to zero after the step and not before it.

    Those that somebody else has left there count in the first step.

    What may be in .grad when the function is called?
    """
    result = asked.step(zero="never")
    asked.optimizer.zero_grad()
    return result


@misconception(replaces="train_step", caught_by="test_train_step", misses_the_point=True)
@step_by
def zeroed_before_the_step(asked: Asked) -> Result:
    """The gradients were set to zero between the backward pass and the step.

    The optimizer finds nothing to go by, and the parameters stay as they are.

    In which order do zero_grad, backward and step stand?
    """
    return asked.step(zero="before the step")


@misconception(replaces="train_step", caught_by="test_train_step", misses_the_point=True)
@step_by
def no_step(asked: Asked) -> Result:
    """The optimizer made no step.

    Gradients by themselves move nothing.

    Which call changes the parameters?
    """

    class Still:
        def __init__(self) -> None:
            self.param_groups, self.zero_grad = asked.optimizer.param_groups, asked.optimizer.zero_grad

        def step(self) -> None:
            """Nothing moves."""

    return asked.step(optimizer=Still(), scaler=None)


@misconception(replaces="train_step", caught_by="test_train_step")
@step_by
def rate_of_the_first_group(asked: Asked) -> Result:
    """The learning rate was set in the first group of parameters only.

    The others go on with the one that they were made with.

    How many groups has the optimizer?
    """

    def set_rate(optimizer: Any, lr: float) -> None:
        optimizer.param_groups[0]["lr"] = lr

    return asked.step(set_rate=set_rate)


@misconception(replaces="train_step", caught_by="test_train_step")
@step_by
def rate_not_set(asked: Asked) -> Result:
    """The learning rate was not set: `lr` was not used, or written where the optimizer does not look.

    It looks into each of its param_groups.

    Where does AdamW read its learning rate?
    """
    return asked.step(set_rate=lambda optimizer, lr: None)


@misconception(replaces="train_step", caught_by="test_train_step")
@step_by
def norms_added(asked: Asked) -> Result:
    """The norms of the parameters' gradients were added up.

    All gradients together are one long vector: its norm is the root of the sum of the squares.

    How long is a vector of the parts 3 and 4?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = sum((p.grad.norm() for p in parameters if p.grad is not None), torch.zeros(()))
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_train_step")
@step_by
def norm_squared(asked: Asked) -> Result:
    """The square of the norm was taken for the norm: the sum of the squares, without a root.

    All gradients together are one long vector: its norm is the root of the sum of the squares.

    How long is a vector of the parts 3 and 4?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        squared = norm_of(parameters) ** 2
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_((max_norm / (squared + 1e-6)).clamp(max=1.0))
        return squared

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_train_step")
@step_by
def largest_norm_of_all(asked: Asked) -> Result:
    """The largest of the parameters' norms was taken for the norm of all gradients.

    All gradients together are one long vector: its norm is the root of the sum of the squares.

    How long is a vector of the parts 3 and 4?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = torch.stack([p.grad.norm() for p in parameters if p.grad is not None]).max()
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_train_step")
@step_by
def tensors_returned(asked: Asked) -> Result:
    """Loss and norm were returned as tensors.

    A tensor with a graph keeps all of the forward pass in memory as long as somebody keeps the loss.

    What makes a Python float of a tensor?
    """
    loss, norm = asked.step()
    return torch.tensor(loss), torch.tensor(norm)


@another_form(tensors_returned)
@step_by
def norm_returned_as_a_tensor(asked: Asked) -> Result:
    loss, norm = asked.step()
    return loss, torch.tensor(norm, dtype=next(asked.model.parameters()).dtype)


@another_form(tensors_returned)
@step_by
def loss_returned_as_a_tensor(asked: Asked) -> Result:
    loss, norm = asked.step()
    return torch.tensor(loss, dtype=next(asked.model.parameters()).dtype), norm


@misconception(replaces="train_step", caught_by="test_micro_batches")
@step_by
def loss_divided_twice(asked: Asked) -> Result:
    """The loss that was returned had been divided by the number of micro-batches twice.

    Each share of the loss is divided before its backward pass; their sum is the mean already.

    What do the shares add up to?
    """
    loss, norm = asked.step()
    return loss / len(asked.batches), norm


@misconception(replaces="train_step", caught_by="test_train_step")
@step_by
def loss_after_the_step(asked: Asked) -> Result:
    """The loss that was returned is the one after the step.

    It takes another forward pass, and is not the loss whose gradients were used.

    Which forward pass do the gradients belong to?
    """
    norm = asked.step()[1]
    with torch.no_grad():
        return sum(asked.model(*batch)[1].item() for batch in asked.batches) / len(asked.batches), norm


@misconception(replaces="train_step", caught_by="test_train_step")
@step_by
def left_in_eval_mode(asked: Asked) -> Result:
    """The model was put in eval mode, and trained so or left so.

    Dropout is then off for all the training that follows.

    Which mode does the model have after the call?
    """
    result = asked.step()
    asked.model.eval()
    return result


@misconception(replaces="train_step", caught_by="test_bfloat16")
@step_by
def autocast_never_on(asked: Asked) -> Result:
    """precision was not looked at: all was computed in float32.

    Half of the memory of what is kept, and most of the time of a modern accelerator, is given away.

    What switches the lower precision on, and around which lines?
    """
    return asked.step(autocast="never")


@misconception(replaces="train_step", caught_by="test_bfloat16")
@step_by
def autocast_around_the_backward_pass(asked: Asked) -> Result:
    """Autocast stood around the backward pass and not around the forward pass.

    The backward pass follows the dtypes of the forward pass by itself.

    Which lines choose the dtype of a matrix product?
    """
    return asked.step(autocast="backward")


@misconception(replaces="train_step", caught_by="test_bfloat16")
@step_by
def model_in_bfloat16(asked: Asked) -> Result:
    """The parameters themselves were converted to bfloat16.

    With 8 bits a weight near 1 changes in steps of 1/128: what a small learning rate adds is rounded away.

    What is computed in lower precision, and what is kept in float32?
    """
    if asked.precision != "float32":
        asked.model.to(getattr(torch, asked.precision))
    return asked.step(precision="float32")


@misconception(replaces="train_step", caught_by="test_bfloat16")
@step_by
def always_in_bfloat16(asked: Asked) -> Result:
    """The forward pass ran under autocast with precision="float32", too.

    Float32 is what somebody asks for who does not want the lower precision.

    When is autocast to be off?
    """
    lower = "bfloat16" if next(asked.model.parameters()).dtype == torch.float32 else asked.precision
    return asked.step(precision=lower)


@misconception(replaces="train_step", caught_by="test_scaler")
@step_by
def clipped_before_unscaling(asked: Asked) -> Result:
    """The gradients were clipped while they were still scaled.

    They are then a thousand times too large, are clipped always, and end a thousand times too small.

    What do the gradients have to be divided by before their norm means anything?
    """
    return asked.step(unscale="after")


@misconception(replaces="train_step", caught_by="test_scaler")
@step_by
def loss_not_scaled(asked: Asked) -> Result:
    """The scaler was not used.

    In float16 gradients below 6e-8 are 0, and many are: that is what the loss is scaled for.

    Who multiplies the loss before backward?
    """
    return asked.step(scaler=None)


@misconception(replaces="train_step", caught_by="test_scaler")
@step_by
def overflow_into_the_weights(asked: Asked) -> Result:
    """The optimizer's own step was called, past the scaler's: infinite gradients went into the weights.

    From then on every number of the model is NaN.

    Who looks whether the gradients are finite before they are used?
    """
    return asked.step(guarded=False)


@misconception(replaces="train_step", caught_by="test_scaler")
@step_by
def two_steps_with_a_scaler(asked: Asked) -> Result:
    """With a scaler the optimizer's own step was called as well: two steps, and one of them in spite of an overflow.

    scaler.step calls the optimizer's step, if the gradients are finite.

    How many calls of step does one training step make?
    """
    result = asked.step()
    if asked.scaler is not None:
        asked.optimizer.step()
    return result


@misconception(replaces="train_step", caught_by="test_scaler")
@step_by
def scale_never_updated(asked: Asked) -> Result:
    """scaler.update() was not called: the scale stays as it is after an overflow.

    Every step after it overflows as well, and the model never learns again.

    What has to change after a step that overflowed?
    """
    return asked.step(update=False)


# --- other forms of the same ----------------------------------------------------------------------------------------


@another_form(clipped_before_unscaling)
@step_by
def never_unscaled(asked: Asked) -> Result:
    return asked.step(unscale="never")


@another_form(zeroed_before_the_step)
@step_by
def zeroed_before_clipping(asked: Asked) -> Result:
    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        asked.optimizer.zero_grad(set_to_none=False)
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm)

    return asked.step(clip=clip)


@another_form(a_step_for_each_micro_batch)
@step_by
def a_step_for_each_part(asked: Asked) -> Result:
    results = [asked.step(batches=[batch], shares=1 / len(asked.batches)) for batch in asked.batches]
    return sum(loss for loss, norm_of in results), results[-1][1]


@another_form(zeroed_before_the_step)
@step_by
def zeroed_first_and_before_the_step(asked: Asked) -> Result:
    asked.optimizer.zero_grad()
    return asked.step(zero="before the step")


@another_form(loss_of_the_last_batch)
@step_by
def share_of_the_last_batch(asked: Asked) -> Result:
    with torch.no_grad():
        inputs, targets = asked.batches[-1]
        last = asked.model(inputs, targets)[1].item()
    return last / len(asked.batches), asked.step()[1]


@another_form(first_micro_batch_only)
@step_by
def share_of_the_first_micro_batch(asked: Asked) -> Result:
    return asked.step(batches=asked.batches[:1], shares=1 / len(asked.batches))


class _Unscaled:
    """A scaler that leaves the loss as it is."""

    def __init__(self, scaler: Any) -> None:
        self.unscale_, self.step, self.update = scaler.unscale_, scaler.step, scaler.update

    def scale(self, loss: Tensor) -> Tensor:
        return loss


@another_form(loss_not_scaled)
@step_by
def unscaled_all_the_same(asked: Asked) -> Result:
    return asked.step(scaler=None if asked.scaler is None else _Unscaled(asked.scaler))
