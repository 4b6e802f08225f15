"""What learners get wrong in `layer_costs`, each with the check that catches it."""

import math

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step15_costs import reference


@misconception(replaces="layer_costs", caught_by="test_path_of_convolutions")
def floating_logarithm(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The path of the convolution was computed with a floating logarithm and rounded up.

    `math.log(125, 5)` is 3.0000000000000004, which rounds up to 4, and 5**3 is 125.

    Can you count the layers instead: multiply by k until n is reached?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, max(1, math.ceil(math.log(n, k))) if layer == "convolutional" else path


@another_form(floating_logarithm)
def floating_logarithm_from_zero(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, math.ceil(math.log(n, k)) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def logarithm_rounded_down(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The path of the convolution was rounded down.

    With kernels of 3, two layers reach 9 tokens; for 10 a third one is needed.

    How many layers do 5 tokens need with kernels of 3?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    shorter = path - 1 if k**path > n and path > 1 else path
    return operations, sequential, shorter if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_path_of_convolutions")
def logarithm_rounded_to_the_nearest(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The logarithm was rounded to the nearest whole number.

    One token more than k**m needs a whole layer more, and its logarithm is only a little above m.

    How many layers do 10 tokens need with kernels of 3?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, max(1, round(math.log(n, k))) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def logarithm_to_base_two(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The logarithm to base 2, or the natural one, was taken for the path.

    Each layer reaches k times as far as the one before it, so the base is k.

    How far do two layers with kernels of 3 reach?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, max(1, math.ceil(math.log2(n))) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def natural_logarithm(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The natural logarithm was taken for the path.

    `math.log(n)` has base e. Each layer reaches k times as far as the one before it, so the base is k.

    How far do two layers with kernels of 3 reach?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, max(1, math.ceil(math.log(n))) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def undilated_kernels(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The path of undilated kernels was given, about n / k.

    The table's entry is for dilated convolutions, whose reach is multiplied by k in each layer.

    How many layers do 9 tokens need with dilated kernels of 3?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, -(-n // k) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def no_path_for_one_token(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The path of the convolution was 0 for a single token.

    A signal passes one layer at least: the smallest m of 1 or more is asked for.

    Where does your count begin?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, 0 if layer == "convolutional" and n == 1 else path


@misconception(replaces="layer_costs", caught_by="test_path_of_convolutions")
def one_layer_too_many(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """Where k**m is exactly n, one layer too many was counted.

    k**m >= n is enough: 9 tokens are reached by two layers with kernels of 3.

    Does your loop go on while k**m is smaller than n, or while it is not larger?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, path + (k**path == n) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def kernel_forgotten(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The width of the kernel was left out of the convolution's operations.

    Each output sums over k neighbours: k · n · d².

    What does a kernel twice as wide cost?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations // k if layer == "convolutional" else operations, sequential, path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def recurrent_width_once(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The recurrent layer's operations were counted as n · d.

    Each step multiplies a state of d numbers with a (d, d) matrix, which takes d² multiplications.

    How many multiplications does one row of that matrix need, and how many rows has it?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return n * d if layer == "recurrent" else operations, sequential, path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def recurrent_in_one_step(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The recurrent layer was given one sequential operation.

    Each state needs the one before it, so the n steps wait for each other. That is what the Transformer did away with.

    Can the state of token 5 be computed before that of token 4?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, 1, path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def recurrent_path_of_one(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The recurrent layer was given a path of 1.

    A signal from the first token to the last passes every state in between: n steps.

    Through how many states does the first token reach the last?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, 1 if layer == "recurrent" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def table_exchanged(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """n and d changed places in the operations.

    Attention compares each of n tokens with each of n, d numbers at a time: n² · d. Recurrence multiplies each of n
    tokens with a (d, d) matrix: n · d².

    Which of the two is cheaper for a short text?
    """
    operations = reference.layer_costs(layer, d, n, k, r)[0]
    return operations, *reference.layer_costs(layer, n, d, k, r)[1:]


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def restricted_path_rounded_down(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The path of restricted attention was rounded down.

    What is left over takes one step more, and a text shorter than r takes one step, not none.

    How many steps of 2 tokens does it take to get across 5?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, n // r if layer == "restricted" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def always_one_step_more(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """n // r + 1 was given for the path of restricted attention.

    Where r divides n, that is one too many.

    How can a whole number be rounded up only where something is left over?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, n // r + 1 if layer == "restricted" else path


@misconception(replaces="layer_costs", caught_by="test_exact_integers")
def path_through_a_float(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The path of restricted attention was divided in floats before it was rounded up.

    `math.ceil(n / r)` loses the last digits of a large n before it rounds.

    Can `//` round up, with something added or with the sign turned twice?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, math.ceil(n / r) if layer == "restricted" else path


@misconception(replaces="layer_costs", caught_by="test_exact_integers")
def logarithm_rounded_to_digits(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The floating logarithm was rounded to some digits before it was rounded up.

    That hides the error at powers of k, but just above a large power the logarithm is rounded down to it.

    Can you count the layers instead: multiply by k until n is reached?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, max(1, math.ceil(round(math.log(n, k), 9))) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def restricted_counted_as_full(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """Restricted attention was given the operations of full attention.

    Each query meets r keys, not n.

    How many scores are there per query?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return n * n * d if layer == "restricted" else operations, sequential, path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def unknown_layer_accepted(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int] | None:
    """A name that is not in the table gave an answer, or None.

    A spelling mistake then passes for a result.

    What should the last line of the function do, when no name fits?
    """
    known = ("self-attention", "recurrent", "convolutional", "restricted")
    return reference.layer_costs(layer, n, d, k, r) if layer in known else None


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def multiply_adds_in_the_table(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The operations of the table were doubled, a multiply-add counted as two.

    The table is about growth: every constant is 1 there.

    What does the docstring say about constants?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return 2 * operations, sequential, path


@another_form(undilated_kernels)
def undilated_kernels_between_the_ends(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, max(1, -(-(n - 1) // (k - 1))) if layer == "convolutional" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def restricted_path_of_one(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """Restricted attention was given a path of 1.

    A token sees the r nearest tokens alone: what lies further away takes several layers.

    How far does a signal get in one layer?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, 1 if layer == "restricted" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def path_left_as_a_fraction(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, float]:
    """The path of restricted attention was divided, and not rounded.

    A signal takes whole steps: 5 tokens in neighbourhoods of 2 are 3 steps.

    What do `/` and `//` give, and which way has the number to be rounded?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return operations, sequential, n / r if layer == "restricted" else path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def neighbourhood_cut_to_the_text(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """Restricted attention was counted with at most n neighbours.

    The table has r · n · d, whatever n is.

    What does the docstring give for the operations when r is larger than n?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return min(r, n) * n * d if layer == "restricted" else operations, sequential, path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def separable_convolution(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The operations of a separable convolution were given, k · n · d + n · d².

    The paper has them in its text. The table's row is k · n · d².

    Does each place of your kernel lead from d to d numbers?
    """
    operations, sequential, path = reference.layer_costs(layer, n, d, k, r)
    return k * n * d + n * d * d if layer == "convolutional" else operations, sequential, path


@misconception(replaces="layer_costs", caught_by="test_layers_of_the_table")
def kernel_of_three_always(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """The kernel was taken to be 3 wide, whatever k says.

    3 is the default alone.

    Where does your function use k?
    """
    return reference.layer_costs(layer, n, d, 3, r)
