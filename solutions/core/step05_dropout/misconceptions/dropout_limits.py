"""What learners get wrong in `dropout`: training or not, and the limits of p."""

from typing import Any

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.core.step05_dropout import reference
from solutions.core.step05_dropout.misconceptions.dropout import kept_or_refused, scale_of


@misconception(replaces="dropout", caught_by="test_nothing_outside_training")
def still_on_outside_training(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Elements were dropped whether `training` was True or not.

    When the model is used its answers have to be whole, and the same each time.

    Which argument says that nothing is to be done?
    """
    return reference.dropout(x, p)


@misconception(replaces="dropout", caught_by="test_nothing_outside_training")
def scaled_outside_training(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Outside training the elements were multiplied by 1 - p.

    The first paper on dropout did so, and left the kept elements alone in training. Inverted dropout scales in
    training, so that nothing is left to do afterwards. Doing both makes the numbers too small.

    What does "x unchanged" leave for you to do?
    """
    return reference.dropout(x, p) if training else x * (1 - p)


@misconception(replaces="dropout", caught_by="test_nothing_outside_training")
def scaled_up_outside_training(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Outside training nothing was dropped, but the elements were multiplied by 1 / (1 - p) all the same.

    The scale makes up for what is missing. Where nothing is missing it makes every element too large.

    Which lines of your function are for training only?
    """
    return reference.dropout(x, p) if training else x * scale_of(p)


@misconception(replaces=("dropout", "Dropout"), caught_by="test_nothing_outside_training")
def probability_under_another_name() -> dict[str, Any]:
    """The argument `p` was given another name.

    Whoever writes `dropout(x, p=0.1)`, as the signature says, is stopped by an error.

    What is the second argument called in the signature of the file that you were given?
    """

    def dropout(x: Tensor, rate: float = 0.5, training: bool = True) -> Tensor:
        return reference.dropout(x, rate, training)

    class Dropout(reference.Dropout):
        def __init__(self, rate: float = 0.5) -> None:
            super().__init__(rate)

    dropout.__qualname__, Dropout.__init__.__qualname__ = "dropout", "Dropout.__init__"  # as Python's error calls them
    return {"dropout": dropout, "Dropout": Dropout}


@misconception(replaces="dropout", caught_by="test_nothing_outside_training", misses_the_point=True)
def training_turned_round(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Elements were dropped outside training, and not in training.

    The two cases have changed places: dropout belongs to training.

    Which of your two branches does `training=True` take?
    """
    return reference.dropout(x, p, not training)


@misconception(replaces="dropout", caught_by="test_nothing_outside_training")
def zeros_at_one_outside_training(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """With p = 1 the result was all zeros outside training too.

    Outside training nothing is dropped, whatever p is.

    Which of the two questions comes first: what p is, or whether this is training?
    """
    return torch.zeros_like(x) if p == 1 else reference.dropout(x, p, training)


@misconception(replaces="dropout", caught_by="test_nothing_outside_training")
def detached_outside_training(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Outside training a copy of x came back that is cut off from it.

    The numbers are right, but no gradient gets past this point any more, and a model in eval mode may still be asked
    for one.

    Is a copy needed at all, when nothing is changed?
    """
    return reference.dropout(x, p) if training else x.detach().clone()


@misconception(replaces="dropout", caught_by="test_none_and_all")
def not_a_number_at_one(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """With p = 1 the result was not a number (NaN).

    Everything is dropped, so each element is 0, and the share kept is 0 too. Zero divided by zero is NaN.

    What should the result be when p is 1, and does it need the division?
    """
    return x * kept_or_refused(x, p) / (1 - p) if training else x


@misconception(replaces="dropout", caught_by="test_none_and_all")
def division_by_zero_at_one(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """With p = 1 the scale was computed as 1 / (1 - p), and Python stopped at the division by zero.

    With p = 1 nothing is kept, so no scale is needed and the result is all zeros.

    In which case does the scale have no meaning, and what is the result in that case?
    """
    return x * kept_or_refused(x, p) * (1 / (1 - p)) if training else x


@misconception(replaces="dropout", caught_by="test_none_and_all")
def new_zeros_at_one(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """With p = 1 the result was a new tensor of zeros, which has torch's default dtype, float32.

    The result has to have the dtype of x for every p, or the next layer meets one that it does not expect.

    Which function makes zeros of the same kind as a tensor that is there?
    """
    return torch.zeros(x.shape, device=x.device) if training and p == 1 else reference.dropout(x, p, training)


@misconception(replaces="dropout", caught_by="test_input_unmodified")
def zeroed_in_place_at_one(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """With p = 1 the tensor that was given was filled with zeros.

    The caller's tensor has lost all of its numbers, though it was only lent to the function.

    Which operation makes zeros without writing over x?
    """
    return x.zero_() if training and p == 1 else reference.dropout(x, p, training)


@misconception(replaces="dropout", caught_by="test_none_and_all")
def one_refused(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """p = 1 was refused with an error.

    1 is a probability: everything is dropped, and the result is all zeros.

    Does your comparison include its ends?
    """
    if training and not 0 <= p < 1:
        raise ValueError(f"p must be at least 0 and below 1, not {p}")
    return reference.dropout(x, p, training)


@misconception(replaces="dropout", caught_by="test_wrong_probability_is_an_error")
def any_probability_taken(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A p that is no probability was taken without a word.

    No element can be dropped more often than always or less often than never. Whoever mixed up p will not notice.

    What should the function do with a p that is no probability?
    """
    kept = torch.rand(x.shape, device=x.device) >= p
    return (x * scale_of(p)).masked_fill(~kept, 0.0) if training else x


@misconception(replaces="dropout", caught_by="test_wrong_probability_is_an_error")
def only_large_probability_refused(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Only a p above 1 was refused, and a p below 0 was taken.

    A probability has two ends. With p = -0.5 every element shrinks to two thirds, and nothing is dropped.

    Which second comparison is missing?
    """
    kept = kept_or_refused(x, max(p, 0.0))
    return x * kept * scale_of(p) if training else x
