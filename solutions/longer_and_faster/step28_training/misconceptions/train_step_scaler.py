"""What learners get wrong in `train_step`: what it returns, and the scaler."""

import math

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step28_training.misconceptions.train_step import scale_never_updated
from solutions.longer_and_faster.step28_training.misconceptions.training_step import Asked, Result, step_by

# --- a step of training ---------------------------------------------------------------------------------------------


@misconception(replaces="train_step", caught_by="test_train_step")
@step_by
def norm_before_loss(asked: Asked) -> Result:
    """The norm was returned first and the loss second.

    The pair is (loss, norm).

    Which of the two does the caller find in front?
    """
    loss, norm = asked.step()
    return norm, loss


@misconception(replaces="train_step", caught_by="test_scaler")
@step_by
def scaled_loss_returned(asked: Asked) -> Result:
    """With a scaler the loss that was returned is the scaled one.

    The scale is for the gradients alone. The loss is looked at by people, and the scale changes on the way.

    Which variable is added up, and was it multiplied before?
    """
    scale = 1.0 if asked.scaler is None else asked.scaler.get_scale()
    loss, norm = asked.step()
    return loss * scale, norm


@misconception(replaces="train_step", caught_by="test_scaler")
@step_by
def unscaled_for_each_micro_batch(asked: Asked) -> Result:
    """The gradients were unscaled after each micro-batch: the scaler refuses to do so twice.

    Gradients that are unscaled, and those that are still scaled, would be added.

    How often is unscale_ to be called in one step?
    """
    if asked.scaler is not None:
        for _batch in asked.batches[1:]:
            asked.model(*asked.batches[0])[1].backward()
            asked.scaler.scale(asked.model(*asked.batches[0])[1])
            asked.scaler.unscale_(asked.optimizer)
    return asked.step()


# --- other forms of the same ----------------------------------------------------------------------------------------


@another_form(scale_never_updated)
@step_by
def scale_not_updated_after_an_overflow(asked: Asked) -> Result:
    """The function returns before the scaler is told."""
    loss, norm = asked.step(update=False)
    if asked.scaler is not None and math.isfinite(norm):
        asked.scaler.update()
    return loss, norm
