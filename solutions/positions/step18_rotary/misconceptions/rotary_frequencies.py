"""What learners get wrong in `rotary_frequencies`, each with the check that catches it."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.positions.step18_rotary import reference
from solutions.positions.step18_rotary.misconceptions.pieces import Names, angles, cos_and_sin, everywhere, rotated

Device = torch.device | str | None


FREQUENCIES = ("rotary_frequencies", "apply_rotary", "RotarySelfAttention")


def with_frequencies(frequencies: Callable[..., Tensor]) -> Names:
    """All names of a file whose pairs have these frequencies."""

    def apply_rotary(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base, frequencies), x)
        return rotated(x, cos, sin)

    return {"rotary_frequencies": frequencies, **everywhere(apply_rotary)}


@misconception(replaces=FREQUENCIES, caught_by="test_frequencies")
def exponent_halved() -> Names:
    """The exponent of pair i was -i / d: half of what it should be.

    The frequencies then run only half as far down, and the slowest turns are missing.

    The exponent is -2i / d. Does your range count pairs, or even columns?
    """

    def frequencies(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return reference.rotary_frequencies(head_dim, base, device).sqrt()

    return with_frequencies(frequencies)


@misconception(replaces=FREQUENCIES, caught_by="test_frequencies")
def exponent_doubled() -> Names:
    """The exponent of pair i was -4i / d: twice what it should be.

    A range 0, 2, 4, … counts 2i already. Doubled once more, the turns become slow far too soon.

    Which of the two already has the factor 2: the range, or the formula that uses it?
    """

    def frequencies(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return reference.rotary_frequencies(head_dim, base, device).square()

    return with_frequencies(frequencies)


@misconception(replaces=FREQUENCIES, caught_by="test_frequencies")
def growing_frequencies() -> Names:
    """The exponent had no minus sign: the later pairs turned faster.

    The first pair turns by one radian from position to position, and every further one more slowly.

    What is the sign of the exponent, or is there a division?
    """

    def frequencies(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return base ** (torch.arange(0, head_dim, 2, device=device).float() / head_dim)

    return with_frequencies(frequencies)


@misconception(replaces=FREQUENCIES, caught_by="test_frequencies")
def base_not_used() -> Names:
    """The base was always 10000, whatever the argument said.

    The default is only what holds where the caller says nothing. Llama 3 calls with 500000.

    Where in your function does the name `base` appear?
    """

    def frequencies(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return reference.rotary_frequencies(head_dim, device=device)

    return with_frequencies(frequencies)


@misconception(replaces=FREQUENCIES, caught_by="test_frequencies")
def last_frequency_is_one_over_base() -> Names:
    """The exponent was divided by d - 2, so that the last pair had exactly 1 / base.

    In the formula 2i is divided by d, and the last exponent stays above -1.

    By what is 2i divided in the exponent?
    """

    def frequencies(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
        if head_dim % 2:
            raise ValueError(head_dim)
        return base ** (-torch.arange(0, head_dim, 2, dtype=torch.float32, device=device) / max(head_dim - 2, 1))

    return with_frequencies(frequencies)


@misconception(replaces=FREQUENCIES, caught_by="test_frequencies")
def decimal_logarithm() -> Names:
    """The frequency was made by `exp`, and the logarithm of the base was a decimal one.

    exp(-x · ln base) is base^-x. With log10 in place of the natural logarithm it is another, smaller base.

    Which logarithm is undone by `exp`, and which function of `math` takes it?
    """

    def frequencies(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return reference.rotary_frequencies(head_dim, math.exp(math.log10(base)), device)

    return with_frequencies(frequencies)


@misconception(replaces="rotary_frequencies", caught_by="test_frequencies")
def frequency_of_each_column(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """There was a frequency for each column, and not for each pair.

    The two columns of a pair turn together: d columns have d / 2 frequencies.

    How many pairs are there in 4 columns?
    """
    return reference.rotary_frequencies(head_dim, base, device).repeat_interleave(2)


@another_form(frequency_of_each_column)
def exponent_of_each_column(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
    if head_dim % 2:
        raise ValueError(head_dim)
    return base ** (-torch.arange(head_dim, dtype=torch.float32, device=device) / head_dim)


@misconception(replaces=FREQUENCIES, caught_by="test_frequencies")
def pairs_counted_from_one() -> Names:
    """The pairs were counted from 1, so that the first one had the exponent of the second.

    Some papers count so and write 2(i - 1) in the exponent. The first pair has the frequency 1.

    Where does your range start, and which frequency follows for the first pair?
    """

    def frequencies(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
        if head_dim % 2:
            raise ValueError(head_dim)
        return base ** (-torch.arange(2, head_dim + 2, 2, dtype=torch.float32, device=device) / head_dim)

    return with_frequencies(frequencies)


@misconception(replaces="rotary_frequencies", caught_by="test_frequencies")
def odd_width_accepted(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """An odd `head_dim` was accepted.

    Its last column has no partner to be turned with. That is a mistake of the caller, who should be told.

    What does `head_dim % 2` tell you, and where can the function act on it?
    """
    return base ** (-torch.arange(0, head_dim, 2, dtype=torch.float32, device=device) / head_dim)


@misconception(replaces="rotary_frequencies", caught_by="test_frequencies")
def frequencies_in_double(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """The frequencies were float64.

    The contract asks for float32.

    Which dtype does what you return have?
    """
    return reference.rotary_frequencies(head_dim, base, device).double()


@another_form(frequencies_in_double)
def frequencies_made_in_double(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
    if head_dim % 2:
        raise ValueError(head_dim)
    return base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64, device=device) / head_dim)


@misconception(replaces="rotary_frequencies", caught_by="test_frequencies")
def frequencies_on_the_cpu(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """The frequencies were made on the CPU, whatever `device` said.

    On a GPU they cannot be multiplied by positions that lie there.

    Which of your calls that make new tensors take a `device`?
    """
    return reference.rotary_frequencies(head_dim, base)
