"""What learners get wrong in `learning_rate`, each with the check that catches it."""

import math
from collections.abc import Callable
from typing import Any

import torch

from grader.checks.catalogue import another_form, misconception


def _rate(
    step: float,
    max_lr: float,
    warmup_steps: int,
    total_steps: int,
    min_lr: float,
    *,
    ahead: int = 1,
    fall: Callable[[float], float] = lambda progress: (1 + math.cos(math.pi * progress)) / 2,
    origin: int | None = None,
    end: bool = True,
) -> float:
    """The learning rate; every misconception takes one decision in its own way."""
    if step < warmup_steps:
        return max_lr * (step + ahead) / warmup_steps
    if end and step >= total_steps:
        return min_lr
    begin = warmup_steps if origin is None else origin
    return min_lr + (max_lr - min_lr) * fall((step - begin) / max(total_steps - begin, 1))


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def warm_up_from_zero(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The warm-up began at 0: step / warmup_steps in place of (step + 1) / warmup_steps.

    The first step then does nothing at all.

    What is the learning rate of step 0?
    """
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, ahead=0)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def warm_up_one_longer(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The warm-up was divided by warmup_steps + 1.

    Its last step, warmup_steps - 1, should have max_lr already.

    What is the learning rate of step warmup_steps - 1?
    """
    if step < warmup_steps:
        return max_lr * (step + 1) / (warmup_steps + 1)
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def no_warm_up(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """There was no warm-up: the first steps had max_lr.

    Adam's averages know next to nothing then, and its steps are of full size all the same.

    What is the learning rate of step 0?
    """
    return max_lr if step < warmup_steps else _rate(step, max_lr, warmup_steps, total_steps, min_lr)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def warm_up_from_min(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The warm-up rose from min_lr and not from 0.

    min_lr is where the cosine ends. The warm-up is max_lr * (step + 1) / warmup_steps.

    Does the formula of the warm-up hold min_lr?
    """
    if step < warmup_steps:
        return min_lr + (max_lr - min_lr) * (step + 1) / warmup_steps
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def cosine_from_step_zero(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The cosine was counted from step 0 and not from the end of the warm-up.

    The learning rate then jumps down where the warm-up ends.

    What is p at step warmup_steps?
    """
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, origin=0)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def cosine_over_all_steps(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The cosine began after the warm-up, but was divided by total_steps.

    It does not reach its end then, and the learning rate jumps down to min_lr at total_steps.

    How many steps are there between the end of the warm-up and total_steps?
    """
    if step < warmup_steps or step >= total_steps:
        return _rate(step, max_lr, warmup_steps, total_steps, min_lr)
    progress = (step - warmup_steps) / total_steps
    return min_lr + (max_lr - min_lr) * (1 + math.cos(math.pi * progress)) / 2


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def linear_fall(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The learning rate fell along a line.

    Half a cosine stays high for a while, and comes down gently at the end.

    What is (1 + cos(pi * p)) / 2 at p = 1/4, and what is 1 - p?
    """
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, fall=lambda progress: 1 - progress)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def quarter_of_a_cosine(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """A quarter of a cosine was taken: cos(pi * p / 2).

    It ends steeply. Half a cosine, from 1 to -1, is shifted and halved so that it goes from 1 to 0.

    What does the cosine have to be at p = 1?
    """
    fall = lambda progress: math.cos(math.pi * progress / 2)  # noqa: E731  # one decision, on one line
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, fall=fall)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def whole_cosine(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """A whole cosine was taken, cos(2 * pi * p): the learning rate came back up to max_lr at the end.

    Half a cosine goes from 1 to -1, and that is as far as it should go.

    What does the cosine have to be at p = 1?
    """
    fall = lambda progress: (1 + math.cos(2 * math.pi * progress)) / 2  # noqa: E731  # one decision, on one line
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, fall=fall)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def min_ignored(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """min_lr was not looked at: the cosine fell to 0.

    The curve runs between max_lr and min_lr, and stays at min_lr.

    What is the learning rate at p = 1?
    """
    return _rate(step, max_lr, warmup_steps, total_steps, 0.0)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def min_added(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """min_lr was added to a cosine that falls from max_lr: it began at max_lr + min_lr.

    The cosine spans the distance between the two, max_lr - min_lr.

    What is the learning rate at p = 0?
    """
    if step < warmup_steps or step >= total_steps:
        return _rate(step, max_lr, warmup_steps, total_steps, min_lr)
    return min_lr + _rate(step, max_lr, warmup_steps, total_steps, 0.0)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def largest_of_both(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The cosine fell to 0, and was kept from going below min_lr.

    The curve then has a bend, and is lower than it should be before it.

    Between which two numbers does the cosine run?
    """
    if step < warmup_steps:
        return _rate(step, max_lr, warmup_steps, total_steps, min_lr)
    return max(min_lr, _rate(step, max_lr, warmup_steps, total_steps, 0.0))


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def rises_after_the_end(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """After total_steps the cosine went on, and the learning rate rose again.

    From total_steps on it is min_lr.

    What is p after total_steps?
    """
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, end=False)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def zero_after_the_end(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """From total_steps on the learning rate was 0.

    It should stay at min_lr.

    What is the learning rate of a step after the last one planned?
    """
    return 0.0 if step >= total_steps else _rate(step, max_lr, warmup_steps, total_steps, min_lr)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def degrees(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The cosine was taken of p, or of 180 * p, and not of pi * p.

    math.cos counts in radians: half a turn is pi.

    What does math.cos give at the end of the schedule?
    """
    fall = lambda progress: (1 + math.cos(progress)) / 2  # noqa: E731  # one decision, on one line
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, fall=fall)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def cosine_turned_over(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The cosine rose: the learning rate was min_lr after the warm-up, and climbed to max_lr.

    cos is 1 at 0 and -1 at pi, so 1 + cos falls and 1 - cos rises.

    What is the learning rate at p = 0?
    """
    fall = lambda progress: (1 - math.cos(math.pi * progress)) / 2  # noqa: E731  # one decision, on one line
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, fall=fall)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def warm_up_one_step_on(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The warm-up went on for one step more, and beyond max_lr.

    It is for steps below warmup_steps: the last of them, warmup_steps - 1, has max_lr already.

    What does the code give at step = warmup_steps?
    """
    if step == warmup_steps > 0:
        return max_lr * (step + 1) / warmup_steps
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def warm_up_of_no_steps(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The warm-up was worked out before it was known whether there is one: with warmup_steps = 0 that divides by 0.

    warmup_steps may be 0: then the cosine begins at once.

    In which branch does the division stand?
    """
    warm_up = (step + 1) / warmup_steps
    return max_lr * warm_up if step < warmup_steps else _rate(step, max_lr, warmup_steps, total_steps, min_lr)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def cosine_not_halved(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """1 + cos was not halved: the learning rate began at twice the distance above min_lr.

    1 + cos falls from 2 to 0.

    What is the learning rate at p = 0?
    """
    fall = lambda progress: 1 + math.cos(math.pi * progress)  # noqa: E731  # one decision, on one line
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, fall=fall)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def whole_division(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """p was divided with //, which rounds down: it stayed 0, and the learning rate at max_lr, up to the end.

    / divides, // throws the rest away.

    What is 3 // 4?
    """
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, fall=lambda progress: 1.0 if progress < 1 else 0.0)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def rate_as_a_tensor(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> Any:
    """The learning rate was returned as a tensor.

    A Python float is asked for: it is one number a step, and no gradient goes through it.

    What makes a Python float of a tensor, and does math.cos need one at all?
    """
    return torch.tensor(_rate(step, max_lr, warmup_steps, total_steps, min_lr))


@another_form(warm_up_of_no_steps)
def one_step_of_no_warm_up(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """Of step 0 alone."""
    if step < max(warmup_steps, 1):
        return max_lr * (step + 1) / warmup_steps
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr)
