"""What learners get wrong in `gelu`, each with the check that catches it."""

import math

import torch
from torch import Tensor

from grader.checks.catalogue import misconception


@misconception(replaces="gelu", caught_by="test_gelu")
def tanh_by_exponentials(x: Tensor) -> Tensor:
    """The tanh was computed as (exp(2y) - 1) / (exp(2y) + 1), as its formula says.

    For large x exp(2y) overflows, and infinity divided by infinity is not a number. GPT-2 meets such x.

    Which function of torch computes the same without overflow?
    """
    doubled = torch.exp(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * (1.0 + (doubled - 1.0) / (doubled + 1.0))


@misconception(replaces="gelu", caught_by="test_gelu")
def exact_gelu(x: Tensor) -> Tensor:
    """The exact GELU was computed, with the error function erf.

    GPT-2 was trained with the tanh form. The two differ by up to 0.0005, which adds up over twelve layers.

    Which function stands in GPT-2's formula in the place of erf?
    """
    return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))


@misconception(replaces="gelu", caught_by="test_gelu")
def gelu_by_sigmoid(x: Tensor) -> Tensor:
    """The short form with a sigmoid, x * sigmoid(1.702 * x), was computed.

    It is a coarser way to come near the same curve, off by up to 0.02.

    Which terms stand inside the tanh of GPT-2's form?
    """
    return x * torch.sigmoid(1.702 * x)


@misconception(replaces="gelu", caught_by="test_gelu")
def relu_instead(x: Tensor) -> Tensor:
    """A ReLU was computed: the negative numbers were cut off.

    GELU lets a little of the small negative numbers through, and is smooth at 0.

    What is gelu(-1), worked out by hand?
    """
    return torch.relu(x)


@misconception(replaces="gelu", caught_by="test_gelu")
def root_forgotten_in_gelu(x: Tensor) -> Tensor:
    """The factor in front of the bracket was 2 / pi, without its square root.

    2 / pi is 0.637, and its root is 0.798: the curve comes out too flat.

    What is the factor before x + 0.044715 * x ** 3?
    """
    return 0.5 * x * (1.0 + torch.tanh(2.0 / math.pi * (x + 0.044715 * x**3)))


@misconception(replaces="gelu", caught_by="test_gelu")
def cube_forgotten_in_gelu(x: Tensor) -> Tensor:
    """The term with the third power of x was left out.

    Near 0 it makes no difference, around 2 it does.

    What is added to x inside the bracket?
    """
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * x))


@misconception(replaces="gelu", caught_by="test_gelu")
def half_forgotten_in_gelu(x: Tensor) -> Tensor:
    """The factor 0.5 in front was left out.

    1 + tanh goes from 0 to 2, so that large numbers come out doubled and not as they are.

    What should gelu(30) be?
    """
    return x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


@misconception(replaces="gelu", caught_by="test_gelu")
def ten_times_the_cube(x: Tensor) -> Tensor:
    """The third power of x was multiplied by 0.44715.

    The number is 0.044715, a tenth of that.

    How many zeros stand in it before the first 4?
    """
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.44715 * x**3)))


@misconception(replaces="gelu", caught_by="test_gelu")
def constants_of_gelu_exchanged(x: Tensor) -> Tensor:
    """The two constants changed places: 0.044715 stood before the bracket, and sqrt(2 / pi) before the cube.

    The bracket is then far too small for ordinary numbers, and tanh hardly moves away from 0.

    Which of the two numbers belongs to x ** 3, and which to the whole bracket?
    """
    return 0.5 * x * (1.0 + torch.tanh(0.044715 * (x + math.sqrt(2.0 / math.pi) * x**3)))


@misconception(replaces="gelu", caught_by="test_gelu")
def factor_of_gelu_turned_over(x: Tensor) -> Tensor:
    """The factor in front of the bracket was sqrt(pi / 2): the fraction stood upside down.

    sqrt(pi / 2) is 1.25, and sqrt(2 / pi) is 0.80: the curve comes out too steep.

    Which of 2 and pi stands above the fraction line?
    """
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(math.pi / 2.0) * (x + 0.044715 * x**3)))


@misconception(replaces="gelu", caught_by="test_gelu")
def square_in_gelu(x: Tensor) -> Tensor:
    """The second power of x stood in the bracket, where the third belongs.

    A square is never negative, so the curve loses its symmetry: the bracket should only change its sign with x.

    To which power is x raised beside 0.044715?
    """
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**2)))


@misconception(replaces="gelu", caught_by="test_gelu")
def factor_of_gelu_before_x_only(x: Tensor) -> Tensor:
    """The factor sqrt(2 / pi) was multiplied with x alone, and not with the whole bracket.

    The term with the cube is a part of the bracket, and the factor stands before it.

    Where does the bracket begin, and where does it end?
    """
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * x + 0.044715 * x**3))


@misconception(replaces="gelu", caught_by="test_gelu")
def root_of_two_alone(x: Tensor) -> Tensor:
    """The factor in front of the bracket was √2 / π: the root was taken of 2 alone.

    √2 / π is 0.450, and √(2 / π) is 0.798: the curve comes out too flat.

    How far does the root reach in the formula?
    """
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0) / math.pi * (x + 0.044715 * x**3)))


@misconception(replaces="gelu", caught_by="test_gelu")
def silu_instead(x: Tensor) -> Tensor:
    """x * sigmoid(x) was computed, which is the SiLU, also called Swish.

    It has nearly the same form, but lets more of the negative numbers through: at -1 it is -0.27, and GELU is -0.16.

    Which terms stand inside the tanh of GPT-2's form?
    """
    return x * torch.sigmoid(x)
