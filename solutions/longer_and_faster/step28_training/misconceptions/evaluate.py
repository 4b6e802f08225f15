"""What learners get wrong in `evaluate`, each with the check that catches it."""

import math
from typing import Any

import torch

from grader.checks.catalogue import misconception
from solutions.longer_and_faster.step28_training import reference
from solutions.longer_and_faster.step28_training.misconceptions.training_step import Batches


def _evaluated(model: Any, batches: Batches, *, by_token: bool = True) -> float:
    losses = [(model(inputs, targets)[1].item(), targets.numel() if by_token else 1) for inputs, targets in batches]
    return sum(loss * count for loss, count in losses) / sum(count for _loss, count in losses)  # type: ignore[no-any-return]


@misconception(replaces="evaluate", caught_by="test_evaluate")
def mean_over_batches(model: Any, batches: Batches) -> float:
    """The losses of the batches were averaged, whatever their size.

    The last batch is often smaller: its tokens then count more than those of the others.

    How many tokens does each of the losses stand for?
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        loss = _evaluated(model, batches, by_token=False)
    model.train(was_training)
    return loss


@misconception(replaces="evaluate", caught_by="test_evaluate")
def weighted_by_rows(model: Any, batches: Batches) -> float:
    """The losses were weighted by the rows of each batch and not by its tokens.

    Rows of different batches may be of different lengths.

    How many tokens does each of the losses stand for?
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        losses = [(model(inputs, targets)[1].item(), len(targets)) for inputs, targets in batches]
    model.train(was_training)
    return sum(loss * rows for loss, rows in losses) / sum(rows for _loss, rows in losses)  # type: ignore[no-any-return]


@misconception(replaces="evaluate", caught_by="test_evaluate")
def losses_summed(model: Any, batches: Batches) -> float:
    """The losses of all tokens were added up, and not divided by their number.

    A mean can be compared from one evaluation to the next, whatever the amount of text.

    By what is the sum divided?
    """
    tokens = sum(targets.numel() for _inputs, targets in batches)
    return reference.evaluate(model, batches) * tokens


@misconception(replaces="evaluate", caught_by="test_evaluate")
def last_batch_only(model: Any, batches: Batches) -> float:
    """The loss of the last batch was returned.

    All batches together are to be evaluated.

    Which loss does the variable hold after the loop?
    """
    return reference.evaluate(model, batches[-1:])


@misconception(replaces="evaluate", caught_by="test_evaluate")
def evaluated_with_dropout(model: Any, batches: Batches) -> float:
    """The model was evaluated in the mode it came in: in training mode with dropout on.

    The loss is then that of a model with some of its numbers missing, and another one each time.

    What does eval() change?
    """
    with torch.no_grad():
        return _evaluated(model, batches)


@misconception(replaces="evaluate", caught_by="test_evaluate")
def evaluated_with_a_graph(model: Any, batches: Batches) -> float:
    """The graph was built, as if a backward pass were to come.

    Evaluation then takes the memory of training. eval() does not change that.

    What keeps torch from keeping what a backward pass needs?
    """
    was_training = model.training
    model.eval()
    loss = _evaluated(model, batches)
    model.train(was_training)
    return loss


@misconception(replaces="evaluate", caught_by="test_evaluate")
def left_in_eval(model: Any, batches: Batches) -> float:
    """The model was left in eval mode.

    Training goes on without dropout after the first evaluation, and nobody notices.

    Which mode had the model before?
    """
    loss = reference.evaluate(model, batches)
    model.eval()
    return loss


@misconception(replaces="evaluate", caught_by="test_evaluate")
def put_in_training_mode(model: Any, batches: Batches) -> float:
    """The model was put in training mode afterwards, also when it came in eval mode.

    Whoever gave it in eval mode gets it back with dropout on.

    Which mode had the model before?
    """
    loss = reference.evaluate(model, batches)
    model.train()
    return loss


@misconception(replaces="evaluate", caught_by="test_evaluate")
def perplexity(model: Any, batches: Batches) -> float:
    """The exponential of the loss was returned: the perplexity.

    The mean loss is asked for.

    What is the loss of a model that knows nothing, with a vocabulary of 7?
    """
    return math.exp(reference.evaluate(model, batches))


@misconception(replaces="evaluate", caught_by="test_evaluate")
def first_batch_only(model: Any, batches: Batches) -> float:
    """The loss of the first batch was returned.

    All batches together are to be evaluated.

    In which line of the loop does the function return?
    """
    return reference.evaluate(model, batches[:1])


@misconception(replaces="evaluate", caught_by="test_evaluate")
def weighted_by_columns(model: Any, batches: Batches) -> float:
    """The losses were weighted by the length of each batch's rows and not by its tokens.

    Batches may have different numbers of rows.

    How many tokens does each of the losses stand for?
    """
    losses = [(reference.evaluate(model, [batch]), batch[1].shape[1]) for batch in batches]
    return sum(loss * length for loss, length in losses) / sum(length for _loss, length in losses)


@misconception(replaces="evaluate", caught_by="test_evaluate")
def loss_as_a_tensor(model: Any, batches: Batches) -> Any:
    """The loss was returned as a tensor.

    A Python float is asked for: one number, on no device.

    What makes a Python float of a tensor?
    """
    return torch.tensor(reference.evaluate(model, batches))


@misconception(replaces="evaluate", caught_by="test_evaluate")
def gradients_left_off(model: Any, batches: Batches) -> float:
    """Gradients were switched off for the evaluation, and stayed off.

    The next backward pass then finds nothing to go through, and the model learns no more.

    What switches gradients off for the lines inside it only?
    """
    loss = reference.evaluate(model, batches)
    model.requires_grad_(False)
    return loss
