"""What learners get wrong in `dropout`, each with the check that catches it."""

from typing import Any

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step05_dropout import reference

# Its stream goes on from call to call, and `torch.manual_seed` does not reach it.
PRIVATE_GENERATOR = torch.Generator().manual_seed(1234)


def kept_or_refused(x: Tensor, p: float) -> Tensor:
    """Which elements are kept. Refuses a p that is no probability."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p is a probability between 0 and 1, but it is {p}")
    return torch.rand(x.shape, device=x.device) >= p


def scale_of(p: float) -> float:
    return 1.0 / (1.0 - p) if p < 1.0 else 0.0


# --- the scale --------------------------------------------------------------------------------------------------------


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand", misses_the_point=True)
def not_scaled(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The dropped elements were set to 0, and the kept ones stayed as they were.

    The sum is smaller in training than in use, so the next layer meets numbers of a size it has not learned from.

    If only 8 of 10 elements are left, by how much must each of them grow to keep the sum the same on average?
    """
    return x * kept_or_refused(x, p) if training else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand", misses_the_point=True)
def scaled_by_one_over_p(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The kept elements were divided by p.

    p is the probability of being dropped. With p = 0.5 dividing by it happens to be right, and for any other p it is
    not.

    With p = 0.2, which share of the elements is left, and what must they be divided by?
    """
    return x * kept_or_refused(x, p) / p if training else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand")
def scaled_by_share_kept(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The kept elements were multiplied by 1 - p instead of divided by it.

    They became smaller, though they have to make up for those that are gone.

    Must the kept elements grow or shrink, so that the sum stays the same on average?
    """
    return x * kept_or_refused(x, p) * (1 - p) if training else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand")
def scaled_by_observed_share(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The kept elements were divided by the share that happened to be kept in this call.

    The scale of one element then depends on the draws of all others. It has to depend on p alone.

    Which share is kept on average, whatever the draw?
    """
    kept = kept_or_refused(x, p)
    return x * kept / kept.to(x.dtype).mean().clamp(min=1e-6) if training else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand")
def dropped_ones_scaled(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The elements to be dropped were multiplied by 1 / (1 - p), and the others stayed. Nothing became 0.

    Dropping means that the element is 0 in this call. The scale is for those that remain.

    What should the result hold at a place where the mask says "drop"?
    """
    return torch.where(kept_or_refused(x, p), x, x * scale_of(p)) if training else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand")
def noise_instead_of_a_mask(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each element was multiplied by a random number between 0 and 1.

    Dropout makes a decision for each element: it is dropped whole or kept whole.

    How does a random number between 0 and 1 become a yes with probability 1 - p?
    """
    kept_or_refused(x, p)
    return x * torch.rand(x.shape, device=x.device).to(x.dtype) * scale_of(p) if training and p > 0 else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand", misses_the_point=True)
def kept_elements_returned(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Only the kept elements were returned, in a list of their own.

    The result has to have the shape of x: a dropped element stays in its place, as a 0.

    Which operation writes 0 into some places and leaves the shape alone?
    """
    return x[kept_or_refused(x, p)] * scale_of(p) if training else x


# --- the rate ---------------------------------------------------------------------------------------------------------


@misconception(replaces="dropout", caught_by="test_rate")
def keeps_with_probability_p(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each element was kept with probability p.

    p is the probability of being dropped. With p = 0.5 the two are the same, and for any other p they are not.

    A uniform number is below p with probability p: does that case mean "drop" or "keep"?
    """
    return x * ~kept_or_refused(x, p) * scale_of(p) if training else x


@misconception(replaces="dropout", caught_by="test_rate")
def normal_numbers_compared(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Normally distributed numbers were compared with p.

    A normal number is below 0.3 with probability 0.62. Only a uniform number is below p with probability p.

    Which torch function draws numbers that are uniform between 0 and 1?
    """
    kept_or_refused(x, p)
    if not training or p == 0:
        return x
    return x * (torch.randn(x.shape, device=x.device) >= (p if p < 1 else torch.inf)) * scale_of(p)


@misconception(replaces="dropout", caught_by="test_rate")
def probability_rounded_to_tenths(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A whole number from 0 to 9 was drawn for each element and compared with 10 p, rounded down.

    With p = 0.37 that drops three elements in ten. The probability has to be p itself.

    Which kind of random number can be compared with any p?
    """
    kept_or_refused(x, p)
    return x * (torch.randint(0, 10, x.shape, device=x.device) >= int(p * 10)) * scale_of(p) if training else x


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
    return x * kept_or_refused(x[..., :1], p) * scale_of(p) if training else x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def one_row_for_all(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """One row of random numbers was drawn and used for every row.

    The same columns were dropped everywhere. Each element has to be drawn by itself.

    Which shape must the random numbers have?
    """
    row = x.reshape(-1, x.shape[-1])[0]
    return x * kept_or_refused(row, p) * scale_of(p) if training else x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def one_mask_for_the_batch(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """One mask was drawn and used for every batch entry.

    Each batch entry then loses the same elements, so the batch shows the model less variety than it could.

    Which dimension is missing in the shape of your random numbers?
    """
    return x * kept_or_refused(x[0], p) * scale_of(p) if training else x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def pairs_drawn_together(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Elements in the same row were dropped in pairs.

    Neighbours in a row were always dropped together. Each element has to be drawn by itself.

    Does each element have a random number of its own?
    """
    kept = kept_or_refused(x[..., ::2], p).repeat_interleave(2, dim=-1)[..., : x.shape[-1]]
    return x * kept * scale_of(p) if training else x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def exact_number_dropped(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Exactly the share p of the elements was dropped: the places were shuffled, and the first ones taken.

    When one place is taken the others become less likely, so the elements are not independent.

    Can you decide about one element without counting the others?
    """
    kept_or_refused(x, p)
    places = torch.randperm(x.numel(), device=x.device).reshape(x.shape)
    return x * (places >= round(p * x.numel())) * scale_of(p) if training else x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def smallest_dropped(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The smallest elements were dropped, up to a share of p.

    That is a choice by value. Dropout is blind: it drops large and small elements equally often, and others each time.

    Should your mask look at the values of x at all?
    """
    kept_or_refused(x, p)
    order = x.detach().abs().flatten().argsort().argsort().reshape(x.shape)
    return x * (order >= round(p * x.numel())) * scale_of(p) if training else x


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
    kept_or_refused(x, p)
    kept = torch.rand(x.shape, generator=PRIVATE_GENERATOR).to(x.device) >= p
    return x * kept * scale_of(p) if training else x


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
    dropped = x * kept_or_refused(x, p)
    return dropped + (dropped * scale_of(p) - dropped).detach()


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
    return x * (kept_or_refused(x, p).float() * scale_of(p)) if training else x


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
    kept_or_refused(x, p)
    return x * (torch.rand(x.shape) >= p) * scale_of(p) if training else x


@misconception(replaces="dropout", caught_by="test_input_unmodified")
def zeroed_in_place(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The dropped elements were set to 0 in the tensor that was given.

    The caller's tensor has lost these numbers, though it was only lent to the function.

    Which operation makes a new tensor instead of changing x?
    """
    if not training:
        return x
    kept = kept_or_refused(x, p)
    x[~kept] = 0.0
    return x * scale_of(p)


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
    return x * kept * scale_of(p)


@misconception(replaces="dropout", caught_by="test_rate")
def coin_tossed(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A coin was tossed for each element: half of them were dropped, whatever p was.

    `torch.randint(0, 2, ...)` gives 0 and 1 equally often. The probability has to be p itself.

    Which kind of random number can be compared with any p?
    """
    kept_or_refused(x, p)
    return x * torch.randint(0, 2, x.shape, device=x.device) * scale_of(p) if training else x


@misconception(replaces="dropout", caught_by="test_elements_are_independent")
def rows_and_columns_only(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The rows and the columns of x were asked for, so that x has to be a matrix.

    A batch of sequences has three dimensions, and the weights of several heads have four.

    How do you draw random numbers in the shape of x, whatever that is?
    """
    if not training:
        return x
    kept_or_refused(x, p)
    rows, columns = x.shape
    return x * (torch.rand(rows, columns, device=x.device) >= p) * scale_of(p)


@misconception(replaces="dropout", caught_by="test_none_and_all")
def small_number_added_to_the_share(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A small number such as 1e-8 was added to 1 - p, to be safe from a division by 0.

    The scale is then a little too small for every p, which shows in float64: with p = 0 x does not come back as it was.

    For which p alone is there nothing to divide by?
    """
    return x * kept_or_refused(x, p) / (1 - p + 1e-8) if training else x


@misconception(replaces="dropout", caught_by="test_none_and_all")
def infinity_not_picked(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """With p = 1 each element was divided by 0, and `torch.where` picked a 0 beside it.

    The values are right. But the gradient runs through the division that was not picked too: infinity times 0 is not a
    number.

    In which case does the scale have no meaning, and what is the result in that case?
    """
    return torch.where(kept_or_refused(x, p), x / (1 - p), 0.0) if training else x


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
    return kept_or_refused(x, p).float() * x / (1 - p)


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
    return (flat * scale_of(p)).masked_fill(~kept_or_refused(flat, p), 0.0).view(x.shape)


@another_form(same_mask_every_call)
def generator_seeded_in_every_call(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    kept_or_refused(x, p)
    generator = torch.Generator(device=x.device).manual_seed(42)  # an error on meta, where there is no generator
    kept = torch.rand(x.shape, generator=generator, device=x.device) >= p
    return x * kept * scale_of(p) if training else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand")
def normal_noise_instead_of_a_mask(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each element was multiplied by a random number around 1, drawn from a normal distribution.

    There is a dropout of this kind, with noise in place of a mask. The one of this step drops each element whole or
    keeps it whole.

    Which two values can x times the mask have at one place, and with which probability each?
    """
    if not training or not 0 < p < 1:
        return reference.dropout(x, p, training)
    return x * (1 + torch.randn(x.shape, device=x.device).to(x.dtype) * (p / (1 - p)) ** 0.5)


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand")
def scaled_by_root_of_share(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The kept elements were divided by the root of 1 - p.

    That would keep the sum of the squares on average. It is the sum that has to stay the same.

    If only 8 of 10 elements are left, by how much must each of them grow to keep the sum the same on average?
    """
    return x * kept_or_refused(x, p) * scale_of(p) ** 0.5 if training else x


@misconception(replaces="dropout", caught_by="test_kept_or_dropped_by_hand")
def scaled_by_one_plus_p(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The kept elements were multiplied by 1 + p.

    For a small p that is near 1 / (1 - p), and for p = 0.5 it is 1.5 in place of 2.

    With p = 0.5 half of the elements are left. By how much must each of them grow?
    """
    return x * kept_or_refused(x, p) * (1 + p) if training else x
