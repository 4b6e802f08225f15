"""What learners get wrong in step 5, each with the check that catches it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from grader.checks.catalogue import misconception, together
from solutions.core.step05_dropout import reference

# Its stream goes on from call to call, and `torch.manual_seed` does not reach it.
PRIVATE_GENERATOR = torch.Generator().manual_seed(1234)


def _kept(x: Tensor, p: float) -> Tensor:
    """Which elements are kept. Refuses a p that is no probability."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p is a probability between 0 and 1, but it is {p}")
    return torch.rand(x.shape, device=x.device) >= p


def _scale(p: float) -> float:
    return 1.0 / (1.0 - p) if p < 1.0 else 0.0


# --- the scale --------------------------------------------------------------------------------------------------------


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand", misses_the_point=True)
def not_scaled(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The dropped elements were set to 0, and the kept ones stayed as they were.

    The sum is smaller in training than in use, so the next layer meets numbers of a size it has not learned from.

    If only 8 of 10 elements are left, by how much must each of them grow to keep the sum the same on average?
    """
    return x * _kept(x, p) if training else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand", misses_the_point=True)
def scaled_by_one_over_p(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The kept elements were divided by p.

    p is the probability of being dropped. With p = 0.5 dividing by it happens to be right, and for any other p it is
    not.

    With p = 0.2, which share of the elements is left, and what must they be divided by?
    """
    return x * _kept(x, p) / p if training else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand")
def scaled_by_share_kept(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The kept elements were multiplied by 1 - p instead of divided by it.

    They became smaller, though they have to make up for those that are gone.

    Must the kept elements grow or shrink, so that the sum stays the same on average?
    """
    return x * _kept(x, p) * (1 - p) if training else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand")
def scaled_by_observed_share(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The kept elements were divided by the share that happened to be kept in this call.

    The scale of one element then depends on the draws of all others. It has to depend on p alone.

    Which share is kept on average, whatever the draw?
    """
    kept = _kept(x, p)
    return x * kept / kept.to(x.dtype).mean().clamp(min=1e-6) if training else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand")
def dropped_ones_scaled(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The elements to be dropped were multiplied by 1 / (1 - p), and the others stayed. Nothing became 0.

    Dropping means that the element is 0 in this call. The scale is for those that remain.

    What should the result hold at a place where the mask says "drop"?
    """
    return torch.where(_kept(x, p), x, x * _scale(p)) if training else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand")
def noise_instead_of_a_mask(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each element was multiplied by a random number between 0 and 1.

    Dropout makes a decision for each element: it is dropped whole or kept whole.

    How does a random number between 0 and 1 become a yes with probability 1 - p?
    """
    _kept(x, p)
    return x * torch.rand(x.shape, device=x.device).to(x.dtype) * _scale(p) if training and p > 0 else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand", misses_the_point=True)
def kept_elements_returned(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Only the kept elements were returned, in a list of their own.

    The result has to have the shape of x: a dropped element stays in its place, as a 0.

    Which operation writes 0 into some places and leaves the shape alone?
    """
    return x[_kept(x, p)] * _scale(p) if training else x


# --- the rate ---------------------------------------------------------------------------------------------------------


@misconception(replaces="dropout", caught_by="test_rate")
def keeps_with_probability_p(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each element was kept with probability p.

    p is the probability of being dropped. With p = 0.5 the two are the same, and for any other p they are not.

    A uniform number is below p with probability p: does that case mean "drop" or "keep"?
    """
    return x * ~_kept(x, p) * _scale(p) if training else x


@misconception(replaces="dropout", caught_by="test_rate")
def normal_numbers_compared(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Normally distributed numbers were compared with p.

    A normal number is below 0.3 with probability 0.62. Only a uniform number is below p with probability p.

    Which torch function draws numbers that are uniform between 0 and 1?
    """
    _kept(x, p)
    if not training or p == 0:
        return x
    return x * (torch.randn(x.shape, device=x.device) >= (p if p < 1 else torch.inf)) * _scale(p)


@misconception(replaces="dropout", caught_by="test_rate")
def probability_rounded_to_tenths(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A whole number from 0 to 9 was drawn for each element and compared with 10 p, rounded down.

    With p = 0.37 that drops three elements in ten. The probability has to be p itself.

    Which kind of random number can be compared with any p?
    """
    _kept(x, p)
    return x * (torch.randint(0, 10, x.shape, device=x.device) >= int(p * 10)) * _scale(p) if training else x


@misconception(replaces="dropout", caught_by="test_rate")
def default_of_one_tenth(x: Tensor, p: float = 0.1, training: bool = True) -> Tensor:
    """The default of p was 0.1.

    The step asks for 0.5, which is also torch's own default.

    Where in the first line of the function does the default stand?
    """
    return reference.dropout(x, p, training)


# --- independence -----------------------------------------------------------------------------------------------------


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def one_draw_for_a_row(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """One number was drawn for each row, so whole rows were dropped.

    Each element has to be drawn by itself. A token whose whole row is 0 has lost everything at once.

    How many random numbers do you need for a tensor of shape (8, 16, 32)?
    """
    return x * _kept(x[..., :1], p) * _scale(p) if training else x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def one_row_for_all(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """One row of random numbers was drawn and used for every row.

    The same columns were dropped everywhere. Each element has to be drawn by itself.

    Which shape must the random numbers have?
    """
    row = x.reshape(-1, x.shape[-1])[0]
    return x * _kept(row, p) * _scale(p) if training else x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def one_mask_for_the_batch(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """One mask was drawn and used for every batch entry.

    Each batch entry then loses the same elements, so the batch shows the model less variety than it could.

    Which dimension is missing in the shape of your random numbers?
    """
    return x * _kept(x[0], p) * _scale(p) if training else x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def pairs_drawn_together(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Elements in the same row were dropped in pairs.

    Neighbours in a row were always dropped together. Each element has to be drawn by itself.

    Does each element have a random number of its own?
    """
    kept = _kept(x[..., ::2], p).repeat_interleave(2, dim=-1)[..., : x.shape[-1]]
    return x * kept * _scale(p) if training else x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def exact_number_dropped(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Exactly the share p of the elements was dropped: the places were shuffled, and the first ones taken.

    When one place is taken the others become less likely, so the elements are not independent.

    Can you decide about one element without counting the others?
    """
    _kept(x, p)
    places = torch.randperm(x.numel(), device=x.device).reshape(x.shape)
    return x * (places >= round(p * x.numel())) * _scale(p) if training else x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def smallest_dropped(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The smallest elements were dropped, up to a share of p.

    That is a choice by value. Dropout is blind: it drops large and small elements equally often, and others each time.

    Should your mask look at the values of x at all?
    """
    _kept(x, p)
    order = x.detach().abs().flatten().argsort().argsort().reshape(x.shape)
    return x * (order >= round(p * x.numel())) * _scale(p) if training else x


# After each call torch's stream stands where it stood, so nothing but `own_draws` tells that numbers were drawn.
@misconception(replaces="dropout", caught_by="test_seed_repeats", own_draws=True)
def same_mask_every_call(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The random numbers were seeded inside the function, so every call dropped the same elements.

    An element that is dropped in every call is never trained. And where the seed is that of the whole program, whoever
    calls the function finds their own random numbers reset.

    Who should call `torch.manual_seed`: the function, or the one who wants to repeat a run?
    """
    torch.manual_seed(123)
    return reference.dropout(x, p, training)


@misconception(replaces="dropout", caught_by="test_seed_repeats", own_draws=True)
def numbers_of_its_own(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The random numbers came from a generator that `torch.manual_seed` does not reach.

    Whoever wants to repeat a run sets torch's seed, and gets other elements dropped all the same.

    Where do torch's own random functions take their numbers from when you give them no generator?
    """
    _kept(x, p)
    kept = torch.rand(x.shape, generator=PRIVATE_GENERATOR).to(x.device) >= p
    return x * kept * _scale(p) if training else x


# --- training or not, and the limits of p -----------------------------------------------------------------------------


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
    return reference.dropout(x, p) if training else x * _scale(p)


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
    return x * _kept(x, p) / (1 - p) if training else x


@misconception(replaces="dropout", caught_by="test_none_and_all")
def division_by_zero_at_one(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """With p = 1 the scale was computed as 1 / (1 - p), and Python stopped at the division by zero.

    With p = 1 nothing is kept, so no scale is needed and the result is all zeros.

    In which case does the scale have no meaning, and what is the result in that case?
    """
    return x * _kept(x, p) * (1 / (1 - p)) if training else x


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
    return (x * _scale(p)).masked_fill(~kept, 0.0) if training else x


@misconception(replaces="dropout", caught_by="test_wrong_probability_is_an_error")
def only_large_probability_refused(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Only a p above 1 was refused, and a p below 0 was taken.

    A probability has two ends. With p = -0.5 every element shrinks to two thirds, and nothing is dropped.

    Which second comparison is missing?
    """
    kept = _kept(x, max(p, 0.0))
    return x * kept * _scale(p) if training else x


# --- gradient, dtype, device, input -----------------------------------------------------------------------------------


@misconception(replaces="dropout", caught_by="test_gradients")
def straight_through(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The gradient went past the mask, as if nothing had been dropped or scaled.

    A dropped element had no part in the result, so its gradient is 0. A kept one was scaled, and so is its gradient.

    Which line changes the numbers while autograd does not look?
    """
    if not training or p in (0, 1):
        return reference.dropout(x, p, training)
    return x + (reference.dropout(x, p) - x).detach()


@misconception(replaces="dropout", caught_by="test_gradients")
def scale_without_gradient(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The gradient of the kept elements was not scaled.

    The values are multiplied by 1 / (1 - p), and the gradient has to be multiplied by the same number.

    Is the multiplication by the scale a step that autograd can see?
    """
    if not training:
        return x
    dropped = x * _kept(x, p)
    return dropped + (dropped * _scale(p) - dropped).detach()


@misconception(replaces="dropout", caught_by="test_gradients")
def cut_off_from_gradient(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The result was cut off from the gradient.

    The numbers are right, but nothing before the dropout can learn any more.

    Was something detached, copied out of torch, or computed under `no_grad`?
    """
    return reference.dropout(x.detach(), p, training) if training and p > 0 else x


class _DrawnTwice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        ctx.p = p
        return reference.dropout(x, p)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return reference.dropout(gradient, ctx.p), None


@misconception(replaces="dropout", caught_by="test_gradients")
def new_mask_in_backward(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The backward pass drew a mask of its own.

    An element that was dropped then gets a gradient, and one that was kept may get none.

    What does the backward pass have to remember from the forward pass?
    """
    return _DrawnTwice.apply(x, p) if training else x


@misconception(replaces="dropout", caught_by="test_dtype_and_device_kept")
def result_in_float32(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A mask of float32 numbers was multiplied in, whatever the dtype of x.

    Of two dtypes torch keeps the wider one: a bfloat16 becomes float32, and a float64 gets a scale that is only as
    exact as a float32. The result has to have the dtype of x and its accuracy.

    Which dtype should the mask have when it is multiplied with x?
    """
    return x * (_kept(x, p).float() * _scale(p)) if training else x


@misconception(replaces="dropout", caught_by="test_dtype_and_device_kept")
def passes_through_float32(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """x was converted to float32, and the result back to the dtype of x.

    A float64 input loses half of its digits on the way.

    Which conversion could you leave out?
    """
    return reference.dropout(x.float(), p).to(x.dtype) if training else x


@misconception(replaces="dropout", caught_by="test_dtype_and_device_kept")
def mask_made_on_cpu(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The random numbers were drawn on the CPU, wherever x was.

    A mask on the CPU cannot be combined with a tensor on a GPU.

    How does `torch.rand` learn on which device to draw?
    """
    _kept(x, p)
    return x * (torch.rand(x.shape) >= p) * _scale(p) if training else x


@misconception(replaces="dropout", caught_by="test_input_unmodified")
def zeroed_in_place(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The dropped elements were set to 0 in the tensor that was given.

    The caller's tensor has lost these numbers, though it was only lent to the function.

    Which operation makes a new tensor instead of changing x?
    """
    if not training:
        return x
    kept = _kept(x, p)
    x[~kept] = 0.0
    return x * _scale(p)


# --- the module -------------------------------------------------------------------------------------------------------


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class mode_not_looked_at(reference.Dropout):
    """The module dropped elements in eval mode too.

    `eval()` only changes a flag of the module. The function does not know of it unless it is told.

    In which attribute do `train()` and `eval()` keep the mode?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, self.p)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class mode_remembered_from_start(reference.Dropout):
    """The module looked at its mode when it was made, and never again.

    A new module is in training mode. `eval()` comes later, and the copy of the flag does not change with it.

    When should `self.training` be read: when the module is made, or when it is called?
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
        self.mode = self.training

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, self.p, self.mode)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class mode_turned_round(reference.Dropout):
    """The module dropped in eval mode, and did nothing in training.

    The flag `self.training` is True in training, which is when elements have to be dropped.

    What is the value of `self.training` after `eval()`, and what should happen then?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, self.p, not self.training)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_never_drops(reference.Dropout):
    """The module dropped nothing in any mode.

    A model that is trained with it learns as if there were no dropout.

    Which value does your `forward` hand on as `training`, and what is it after `train()`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, self.p, False)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class own_probability_forgotten(reference.Dropout):
    """The module called the function without its own p, so the function's default was used.

    Whatever p the module was made with, half of the elements were dropped.

    How does the p of `__init__` reach `forward`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, training=self.training)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class mask_kept_from_first_call(reference.Dropout):
    """The module drew one mask and used it again in the next calls.

    The same elements were dropped each time, so the rest of the model never has to do without the others.

    Where is the mask drawn, and how often is that line run?
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
        self.kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        if self.kept is None:
            self.kept = _kept(x, self.p)
        return x * self.kept * _scale(self.p)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_scales_in_eval(reference.Dropout):
    """In eval mode the module multiplied its input by 1 - p.

    Inverted dropout has scaled in training already, so that eval mode leaves everything as it is.

    What should come out of the module after `eval()`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, self.p) if self.training else x * (1 - self.p)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_default_of_one_tenth(reference.Dropout):
    """The default of the module's p was 0.1.

    The step asks for 0.5, as in the function.

    Where in `__init__` does the default stand?
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_draws_once_a_row(reference.Dropout):
    """The module drew one number for each row of x, and dropped or kept the row as a whole.

    What the row says is then lost altogether. Each element has to be drawn by itself, in the module as in the function.

    What is the shape of the random numbers in `forward`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x * _kept(x[..., :1], self.p) * _scale(self.p) if self.training else x


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_draws_once_for_the_batch(reference.Dropout):
    """The module drew one mask and used it for every batch entry.

    Each batch entry then loses the same elements. Each element has to be drawn by itself, in the module as in the
    function.

    Which dimension is missing in the shape of the random numbers in `forward`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x * _kept(x[:1] if x.dim() > 2 else x, self.p) * _scale(self.p) if self.training else x


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_not_a_number_at_one(reference.Dropout):
    """With p = 1 the module divided zeros by zero.

    Zero divided by zero is not a number. With p = 1 every element has to be 0.

    What is left to be scaled when everything is dropped?
    """

    def forward(self, x: Tensor) -> Tensor:
        kept = _kept(x, self.p)
        return x * kept / torch.tensor(1.0 - self.p, dtype=x.dtype, device=x.device) if self.training else x


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_without_gradient(reference.Dropout):
    """The module worked on a copy of x that is cut off from it.

    The numbers are right, but no gradient gets through the module, so nothing in front of it can learn.

    Which call in `forward` leaves the graph?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x.detach(), self.p, self.training)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_returns_float32(reference.Dropout):
    """The module multiplied x by a mask of float32, and the result came out in float32.

    torch takes the wider of two dtypes, so a bfloat16 comes back as something else.

    In which dtype should the mask be, or how can a boolean one be used without multiplying?
    """

    def forward(self, x: Tensor) -> Tensor:
        kept = _kept(x, self.p).float()
        return x * kept * _scale(self.p) if self.training else x


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_mask_made_on_cpu(reference.Dropout):
    """The module made its random numbers on the CPU, wherever x is.

    A mask on the CPU cannot be combined with a tensor on a GPU.

    From what can the random numbers take the device?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.rand(x.shape) >= self.p) * _scale(self.p) if self.training else x


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_for_two_dimensions(reference.Dropout):
    """The module asked for the rows and the columns of x, so that x has to be a matrix.

    A batch of sequences has three dimensions, and the weights of several heads have four.

    How do you draw random numbers in the shape of x, whatever that is?
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        rows, columns = x.shape
        return x * (torch.rand(rows, columns, device=x.device) >= self.p) * _scale(self.p)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_drops_in_place(reference.Dropout):
    """The module multiplied the tensor that it was given in place.

    Whoever needs that tensor once more, as a residual connection does, then meets the dropped one.

    Which operators of your `forward` make a new tensor, and which change x?
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x *= _kept(x, self.p)
            x *= _scale(self.p)
        return x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def one_half_mirrors_the_other(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Random numbers were drawn for the first half of the elements, and the second half got 1 minus those.

    The rate is right, but what is dropped in one half says what is kept in the other. Each element has to be drawn by
    itself.

    Does each element have a random number of its own?
    """
    if not training:
        return reference.dropout(x, p, False)
    drawn = torch.rand((x.numel() + 1) // 2, device=x.device)
    kept = torch.cat([drawn, 1 - drawn])[: x.numel()].view(x.shape) >= p
    return x * kept * _scale(p)


@misconception(replaces="dropout", caught_by="test_rate")
def coin_tossed(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A coin was tossed for each element: half of them were dropped, whatever p was.

    `torch.randint(0, 2, ...)` gives 0 and 1 equally often. The probability has to be p itself.

    Which kind of random number can be compared with any p?
    """
    _kept(x, p)
    return x * torch.randint(0, 2, x.shape, device=x.device) * _scale(p) if training else x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def rows_and_columns_only(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The rows and the columns of x were asked for, so that x has to be a matrix.

    A batch of sequences has three dimensions, and the weights of several heads have four.

    How do you draw random numbers in the shape of x, whatever that is?
    """
    if not training:
        return x
    _kept(x, p)
    rows, columns = x.shape
    return x * (torch.rand(rows, columns, device=x.device) >= p) * _scale(p)


@misconception(replaces="dropout", caught_by="test_none_and_all")
def small_number_added_to_the_share(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A small number such as 1e-8 was added to 1 - p, to be safe from a division by 0.

    The scale is then a little too small for every p, which shows in float64: with p = 0 x does not come back as it was.

    For which p alone is there nothing to divide by?
    """
    return x * _kept(x, p) / (1 - p + 1e-8) if training else x


@misconception(replaces="dropout", caught_by="test_none_and_all")
def infinity_not_picked(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """With p = 1 each element was divided by 0, and `torch.where` picked a 0 beside it.

    The values are right. But the gradient runs through the division that was not picked too: infinity times 0 is not a
    number.

    In which case does the scale have no meaning, and what is the result in that case?
    """
    return torch.where(_kept(x, p), x / (1 - p), 0.0) if training else x


@misconception(replaces="dropout", caught_by="test_gradients")
def cut_off_whatever_p_is(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The result was cut off from the gradient, with p = 0 as well.

    The numbers are right, but nothing before the dropout can learn any more.

    Was something detached, copied out of torch, or computed under `no_grad`?
    """
    return reference.dropout(x.detach(), p) if training else x


@misconception(replaces="dropout", caught_by="test_dtype_and_device_kept")
def mask_in_float32(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The mask was turned into float32, whatever the dtype of x, and multiplied in.

    Of two dtypes torch keeps the wider one, so that a bfloat16 comes back in float32.

    Which dtype should the mask have when it is multiplied with x?
    """
    if not training or p == 1:
        return reference.dropout(x, p, training)
    return _kept(x, p).float() * x / (1 - p)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class share_kept_handed_on(reference.Dropout):
    """The module handed 1 - p on, so that elements were kept with probability p.

    p is the probability of being dropped, in the module as in the function. With p = 0.5 the two are the same.

    What does the function do with the number that your `forward` gives it?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, 1 - self.p, self.training)


@misconception(replaces="Dropout", caught_by="test_module_obeys_its_mode")
class module_does_not_scale(reference.Dropout):
    """The module set elements to 0, and left the kept ones as they were.

    The sum is smaller in training than in use, so the next layer meets numbers of a size it has not learned from.

    If only 8 of 10 elements are left, by how much must each of them grow to keep the sum the same on average?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x * _kept(x, self.p) if self.training else x


# --- views, lengths and modes -----------------------------------------------------------------------------------------


@misconception(replaces="dropout", caught_by="test_any_regime")
def dropped_in_a_flat_view(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The elements were laid out in one row with `view(-1)`.

    `view` never copies, so it raises where the numbers do not lie in memory in one piece, as in a transposed tensor.

    Does the shape of x matter to dropout at all, and which function copies where a view is not possible?
    """
    if not training:
        return x
    flat = x.view(-1)
    return (flat * _scale(p)).masked_fill(~_kept(flat, p), 0.0).view(x.shape)


@misconception(replaces="Dropout", caught_by="test_any_regime")
class own_train_without_a_mode(reference.Dropout):
    """`train` and `eval` were overridden, and `train` ignores its argument: it always turns dropout on.

    A module that is part of another is never told `eval()`: the parent calls `train(False)` of its parts.

    What does `nn.Module.eval` do, and what has nn.Module kept in `self.training` already?
    """

    dropping = True

    def train(self, mode: bool = True) -> "own_train_without_a_mode":
        self.dropping = True
        return self

    def eval(self) -> "own_train_without_a_mode":
        self.dropping = False
        return self

    def forward(self, x: Tensor) -> Tensor:
        return reference.dropout(x, self.p, self.dropping)


@misconception(replaces="Dropout", caught_by="test_any_regime")
class probability_as_a_parameter(reference.Dropout):
    """The probability was made an `nn.Parameter`.

    Every optimiser would be handed it as something to learn, and a state dict of other dropout modules lacks it.

    Is p learned from data, or chosen once? Which kind of attribute is enough for a plain number?
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
        self.rate = nn.Parameter(torch.tensor(float(p)), requires_grad=False)


# --- two at once ------------------------------------------------------------------------------------------------------

SCALES = {
    not_scaled: lambda p: 1.0,
    scaled_by_one_over_p: lambda p: 1 / p if p else torch.inf,
    scaled_by_share_kept: lambda p: 1 - p,
}
CHOICES: dict[Callable[..., object], Callable[[Tensor, float], Tensor]] = {
    keeps_with_probability_p: lambda x, p: ~_kept(x, p),
    one_draw_for_a_row: lambda x, p: _kept(x[..., :1], p),
    one_row_for_all: lambda x, p: _kept(x.reshape(-1, x.shape[-1])[0], p),
    one_mask_for_the_batch: lambda x, p: _kept(x[0], p),
    any_probability_taken: lambda x, p: torch.rand(x.shape, device=x.device) >= p,
}
MODES = {
    still_on_outside_training: lambda training: True,
    training_turned_round: lambda training: not training,
}


def _dropout(
    scale: Callable[[float], float],
    choice: Callable[[Tensor, float], Tensor] = _kept,
    mode: Callable[[bool], bool] = bool,
) -> object:
    def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
        return x * choice(x, p) * scale(p) if mode(training) else x

    return dropout


PAIRS = [
    *together(SCALES, CHOICES, _dropout),
    # Dropout as it was first: small in training, so that use has to be made as small.
    *together(
        {not_scaled: None},
        {scaled_outside_training: None},
        lambda *_: lambda x, p=0.5, training=True: x * _kept(x, p) if training else x * (1 - p),
    ),
    *together(SCALES, MODES, lambda scale, mode: _dropout(scale, mode=mode)),
    *together(
        {wrong: choice for wrong, choice in CHOICES.items() if wrong is not any_probability_taken},
        MODES,
        lambda choice, mode: _dropout(_scale, choice, mode),
    ),
]
