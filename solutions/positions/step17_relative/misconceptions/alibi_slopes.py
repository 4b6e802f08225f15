"""What learners get wrong in `alibi_slopes`, each with the check that catches it."""

from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.positions.step17_relative import reference
from solutions.positions.step17_relative.misconceptions.pieces import Device, Names, distances, with_bias

SLOPES = ("alibi_slopes", "alibi_bias", "alibi_attention")


def with_slopes(slopes: Callable[..., Tensor]) -> Names:
    """All names of a file whose bias has these slopes."""

    def alibi_bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        distance = distances(num_tokens, device)
        bias = slopes(num_heads, device=device)[:, None, None] * distance
        return bias.masked_fill(distance > 0, -torch.inf)

    return {"alibi_slopes": slopes, **with_bias(alibi_bias)}


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def formula_for_any_number() -> Names:
    """The formula of powers of two was used for any number of heads.

    Three heads have the slopes of two heads, and one more from the series of four.

    What does the contract say of a number of heads that is no power of two?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return torch.tensor([2 ** (-8 * h / num_heads) for h in range(1, num_heads + 1)], device=device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def further_slopes_in_order() -> Names:
    """The slopes beyond the power of two were the 2nd, 3rd, 4th, … of twice as many heads.

    Every other one of them is there already. The new ones lie in between: the 1st, 3rd, 5th, ….

    Which slopes do 4 heads have in common with 8?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        below = 1 << (num_heads.bit_length() - 1)
        first = [2 ** (-8 * h / below) for h in range(1, below + 1)]
        between = [2 ** (-4 * h / below) for h in range(2, 2 * below + 1)]
        return torch.tensor(first + between[: num_heads - below], device=device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def even_slopes_of_twice_as_many() -> Names:
    """The slopes beyond the power of two were the 2nd, 4th, 6th, … of twice as many heads.

    Those are there already: they are the slopes of the power of two. The new ones lie in between: the 1st, 3rd, 5th, ….

    Where does a slice with a step of 2 have to start, if the list counts from 0?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        below = 1 << (num_heads.bit_length() - 1)
        first = [2 ** (-8 * h / below) for h in range(1, below + 1)]
        return torch.tensor(first + first[: num_heads - below], device=device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def negative_slopes() -> Names:
    """The slopes were negative.

    A slope is 2^(-8h / H): the exponent has the minus sign. That of the bias, -slope · (i - j), comes later.

    Which sign has a power of two?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return -reference.alibi_slopes(num_heads, device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_of_any_number")
def first_slopes_of_twice_as_many() -> Names:
    """The slopes beyond the power of two were the first ones of twice as many heads, and none was left out.

    Every other one of them is there already. The new ones lie in between: the 1st, 3rd, 5th, ….

    Which slopes do 4 heads have in common with 8?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        below = 1 << (num_heads.bit_length() - 1)
        first = [2 ** (-8 * h / below) for h in range(1, below + 1)]
        between = [2 ** (-4 * h / below) for h in range(1, 2 * below + 1)]
        return torch.tensor(first + between[: num_heads - below], device=device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def cut_from_twice_as_many() -> Names:
    """The slopes of the power of two above were taken, and the last ones cut off.

    The small slopes are lost then, with which a head sees far. The contract begins with the power of two below.

    What are the three slopes of three heads?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        above = 1 << (num_heads - 1).bit_length()
        return torch.tensor([2 ** (-8 * h / above) for h in range(1, num_heads + 1)], device=device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def slopes_in_another_order() -> Names:
    """The slopes were sorted, or those in between stood before the others.

    The numbers are right, but each head has its own, and a checkpoint was trained with this order.

    Which slopes come first in the contract, and which ones last?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return reference.alibi_slopes(num_heads, device).sort(descending=True).values

    return with_slopes(slopes)


@another_form(slopes_in_another_order)
def slopes_in_between_first() -> Names:
    def slopes(num_heads: int, device: Device = None) -> Tensor:
        right, below = reference.alibi_slopes(num_heads, device), 1 << (num_heads.bit_length() - 1)
        return torch.cat([right[below:], right[:below]])

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def slopes_from_the_smallest() -> Names:
    """The slopes ran from the smallest to the largest.

    Head 1 has the steepest slope, and the last of a power of two has 2^-8.

    What is the slope of the first of four heads?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return reference.alibi_slopes(num_heads, device).flip(0)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def first_slope_is_one() -> Names:
    """The heads were counted from 0, so that the first slope was 1.

    h runs from 1 to H: the first slope is already 2^(-8 / H), and the last one 2^-8.

    Where does your range start?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        right = reference.alibi_slopes(num_heads, device)
        below = 1 << (num_heads.bit_length() - 1)
        return torch.cat([right[:below] * 2 ** (8 / below), right[below:] * 2 ** (4 / below)])

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def halves_whatever_the_heads() -> Names:
    """The slopes were 1/2, 1/4, 1/8, … for any number of heads.

    That holds for 8 heads only. For others the 8 powers of two are shared out among the heads.

    Where does H stand in the exponent?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return torch.tensor([2.0**-h for h in range(1, num_heads + 1)], device=device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def growing_slopes() -> Names:
    """The exponent of the slopes had no minus sign.

    Slopes between 2 and 256 hide everything but the nearest token. They lie between 2^-8 and 1.

    Is 2^(8h / H) above or below 1?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return 1 / reference.alibi_slopes(num_heads, device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def exponents_in_place_of_powers() -> Names:
    """The exponents themselves were the slopes, without the power of two.

    The slopes are to fall by the same factor from head to head.

    Where is the 2 that is raised to -8h / H?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return reference.alibi_slopes(num_heads, device).log2()

    return with_slopes(slopes)


@misconception(replaces="alibi_slopes", caught_by="test_slopes_of_any_number")
def slopes_on_the_cpu(num_heads: int, device: Device = None) -> Tensor:
    """The slopes were made on the CPU, whatever `device` said.

    On a GPU they cannot be multiplied by distances that lie there.

    Which of your calls that make new tensors take a `device`?
    """
    return reference.alibi_slopes(num_heads)


@misconception(replaces="alibi_slopes", caught_by="test_slopes_by_hand")
def slopes_in_double(num_heads: int, device: Device = None) -> Tensor:
    """The slopes were float64.

    The contract asks for float32; a float64 bias would widen the scores.

    Which dtype does what you return have?
    """
    return reference.alibi_slopes(num_heads, device).double()
