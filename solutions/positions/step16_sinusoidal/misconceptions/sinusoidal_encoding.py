"""What learners get wrong in `sinusoidal_encoding`, each with the check that catches it."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.positions.step16_sinusoidal import reference
from solutions.positions.step16_sinusoidal.misconceptions.pieces import (
    BOTH,
    Device,
    Encoding,
    Names,
    Pieces,
    counted,
    even_columns,
    everywhere,
    woven,
)


def beside_a_buffer(encoding: Encoding) -> Names:
    """Both names of a file whose module keeps its rows in a buffer, made by this encoding on the CPU."""

    class PositionalEncoding(Pieces):
        def __init__(self, d_model: int, max_len: int = 5000) -> None:
            super().__init__(d_model, max_len)
            self.register_buffer("rows", encoding(max_len, d_model), persistent=False)

        def table(self, x: Tensor) -> Tensor:
            return self.rows[: x.shape[-2]].to(x.dtype)

    return {"sinusoidal_encoding": encoding, "PositionalEncoding": PositionalEncoding}


def in_the_module_alone(wrong: Callable[[], Names]) -> Callable[..., object]:
    """The same mistake in a module that makes a table of its own, beside a function that is right."""
    module = wrong()["PositionalEncoding"]
    module.__doc__ = wrong.__doc__  # type: ignore[attr-defined]  # a class has one
    return misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")(module)  # type: ignore[arg-type]


# --- the layout of the columns ----------------------------------------------------------------------------------------


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand", misses_the_point=True)
def halves_in_place_of_pairs() -> Names:
    """All sines stood in the first half of the columns and all cosines in the second half.

    The numbers are the right ones, in the order of another layout (tensor2tensor's). Here sine and cosine of one angle
    are neighbours: column 2i and column 2i + 1.

    Which columns does a slice `0::2` take, and which ones `1::2`?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        right = reference.sinusoidal_encoding(num_positions, d_model, base, device)
        return torch.cat([right[:, 0::2], right[:, 1::2]], dim=1)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def sine_and_cosine_exchanged() -> Names:
    """The cosines stood in the even columns and the sines in the odd ones.

    Column 0 belongs to a sine, so that position 0 reads 0, 1, 0, 1.

    Print the encoding of position 0. Which of the two is 0 there?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        angle = counted(num_positions, device) * base ** (-even_columns(d_model, device) / d_model)
        return torch.stack([angle.cos(), angle.sin()], dim=-1).flatten(1)[:, :d_model].float()

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand", misses_the_point=True)
def sines_alone() -> Names:
    """Every column held a sine.

    With the cosine beside the sine each pair is a point on a circle, and a shift of positions turns it by one angle
    wherever it starts. A sine by itself does not know which way it is going.

    What stands in column 2i + 1?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        angle = counted(num_positions, device) * base ** (-even_columns(d_model, device) / d_model)
        return angle.sin().repeat_interleave(2, dim=1)[:, :d_model].float()

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def one_row_per_column() -> Names:
    """The encoding was returned with one row for each column: `(d_model, T)`.

    Each token gets a row of the table, so that its shape has to be that of a sequence: `(T, d_model)`.

    Which of position and frequency has to run along the first dimension?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return reference.sinusoidal_encoding(num_positions, d_model, base, device).T

    return everywhere(encoding)


@misconception(replaces="sinusoidal_encoding", caught_by="test_encoding_by_hand")
def batch_dimension_in_front(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """The encoding had a batch dimension in front: `(1, T, d_model)`.

    The function gives a table of shape `(T, d_model)`; a sum spreads it over any batch by itself.

    Which line adds the dimension of size 1, and who needs it?
    """
    return reference.sinusoidal_encoding(num_positions, d_model, base, device)[None]


# --- frequencies and positions ----------------------------------------------------------------------------------------


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def frequency_of_each_column() -> Names:
    """Each column had a frequency of its own: the exponent was the column's number, also for the cosines.

    A sine and the cosine beside it share one angle, that of the even column of the two.

    Which exponent do the columns 2 and 3 have in the formula, if i counts pairs?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        column = torch.arange(d_model, dtype=torch.float64, device=device)
        angle = counted(num_positions, device) * base ** (-column / d_model)
        return torch.where(column % 2 == 0, angle.sin(), angle.cos()).float()

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def doubled_exponent_of_each_column() -> Names:
    """The number of the column was put in place of i, so that column c had the exponent 2c / d_model.

    In the formula i counts pairs, and 2i is the number of the even column. Columns 2 and 3 belong to i = 1.

    How many different values does i have when there are 4 columns?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        column = torch.arange(d_model, dtype=torch.float64, device=device)
        angle = counted(num_positions, device) * base ** (-2 * column / d_model)
        return torch.where(column % 2 == 0, angle.sin(), angle.cos()).float()

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def exponent_halved() -> Names:
    """The exponent of pair i was i / d_model: half of what it should be.

    The frequencies then run only half as far down, and the slowest waves are missing.

    The exponent is 2i / d_model. Does your range count pairs, or even columns?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        exponent = even_columns(d_model, device) / 2 / d_model
        return woven(counted(num_positions, device) * base**-exponent, d_model)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def exponent_doubled() -> Names:
    """The exponent of pair i was 4i / d_model: twice what it should be.

    A range 0, 2, 4, … counts 2i already. Doubled once more, the waves become slow far too soon.

    Which of the two already has the factor 2: the range, or the formula that uses it?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        exponent = even_columns(d_model, device) * 2 / d_model
        return woven(counted(num_positions, device) * base**-exponent, d_model)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand", misses_the_point=True)
def position_times_wavelength() -> Names:
    """The position was multiplied by base^(2i / d_model) and not divided by it.

    The later columns then jump about from one position to the next. They should be the slow waves.

    What is the sign of the exponent, or is there a division?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return woven(counted(num_positions, device) * base ** (even_columns(d_model, device) / d_model), d_model)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def power_taken_of_the_whole() -> Names:
    """The position was divided first and the power taken of the quotient: (p / base)^(2i / d_model).

    Powers come before divisions in the formula, as they do in Python without parentheses.

    Which parentheses stand around `position / base`, and which should stand around the exponent?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return woven((counted(num_positions, device) / base) ** (even_columns(d_model, device) / d_model), d_model)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def base_times_exponent() -> Names:
    """The base was multiplied by 2i / d_model and not raised to that power.

    Wavelengths are to grow by the same factor from pair to pair. Position 0 of pair 0 has no angle at all here.

    In Python, what is the difference between `*` and `**`?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return woven(counted(num_positions, device) / (base * even_columns(d_model, device) / d_model), d_model)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def whole_number_exponent() -> Names:
    """The exponent was divided in whole numbers, so that it was 0 in every column.

    `//` rounds down: 2i // d_model is 0 for every pair, and all of them have the same frequency.

    Which value does 2 // 4 have in Python, and which one 2 / 4?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        exponent = even_columns(d_model, device) // d_model
        return woven(counted(num_positions, device) * base**-exponent, d_model)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def last_frequency_is_the_base() -> Names:
    """The exponent was divided by d_model - 2, so that the last pair has exactly the base as its wavelength.

    tensor2tensor spreads its frequencies like that. In the paper's formula the last exponent stays below 1.

    By what is 2i divided in the exponent?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        exponent = even_columns(d_model, device) / (d_model - 2)
        return woven(counted(num_positions, device) * base**-exponent, d_model)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def halves_of_another_library() -> Names:
    """Sines and cosines stood in two halves, and the last frequency was exactly one over the base.

    tensor2tensor and fairseq do both. Here sine and cosine of one angle are neighbours, and 2i is divided by d_model.

    Which columns hold the sines, and by what is the exponent divided?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        half = d_model // 2
        exponent = torch.arange(half, dtype=torch.float64, device=device) / max(half - 1, 1)
        angle = counted(num_positions, device) * base**-exponent
        halves = torch.cat([angle.sin(), angle.cos()], dim=1).float()
        return torch.nn.functional.pad(halves, (0, d_model % 2))

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def decimal_logarithm() -> Names:
    """The frequency was made by `exp`, and the logarithm of the base was a decimal one.

    exp(-x · ln base) is base^-x. With log10 in place of the natural logarithm it is another, smaller base.

    Which logarithm is undone by `exp`, and which function of `math` takes it?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        frequency = torch.exp(-even_columns(d_model, device) / d_model * math.log10(base))
        return woven(counted(num_positions, device) * frequency, d_model)

    return everywhere(encoding)


@misconception(replaces="sinusoidal_encoding", caught_by="test_encoding_by_hand")
def base_not_used(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """The base was always 10000, whatever the argument said.

    The default is only what holds where the caller says nothing.

    Where in your function does the name `base` appear?
    """
    return reference.sinusoidal_encoding(num_positions, d_model, 10000.0, device)


@misconception(replaces=BOTH, caught_by="test_any_shape")
def another_default_base() -> Names:
    """Without an argument the base was 1000.

    The paper's wavelengths run from 2π towards 10000 · 2π, and the signature says so.

    How many zeros does the default have?
    """

    def encoding(num_positions: int, d_model: int, base: float = 1000.0, device: Device = None) -> Tensor:
        return reference.sinusoidal_encoding(num_positions, d_model, base, device)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def positions_from_one() -> Names:
    """The positions were counted from 1.

    The first token stands at position 0, where every sine is 0 and every cosine 1.

    Where does your range start, and where does it end?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return reference.sinusoidal_encoding(num_positions + 1, d_model, base, device)[1:]

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def positions_as_shares() -> Names:
    """The positions were spread from 0 to 1 over the sequence.

    One and the same position then has another encoding in each length. Positions are whole numbers: 0, 1, 2, ….

    What does your code divide the position by, before it comes to the frequency?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        share = counted(num_positions, device) / max(num_positions - 1, 1)
        return woven(share * base ** (-even_columns(d_model, device) / d_model), d_model)

    return everywhere(encoding)


@another_form(positions_as_shares)
def positions_divided_by_their_number() -> Names:
    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        share = counted(num_positions, device) / num_positions
        return woven(share * base ** (-even_columns(d_model, device) / d_model), d_model)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def full_turns() -> Names:
    """The angle was multiplied by 2π.

    The wavelengths are 2π · base^(2i / d_model) because a sine has the period 2π already. With another 2π the first
    pair makes a full turn at each position, and stays where it was.

    How large is the angle of position 1 in column 0?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        frequency = base ** (-even_columns(d_model, device) / d_model)
        return woven(2 * math.pi * counted(num_positions, device) * frequency, d_model)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand")
def angles_in_degrees() -> Names:
    """The angle was taken for degrees and converted to radians.

    torch's sine takes radians, and p / base^(2i / d_model) is in radians already.

    Does the formula have a conversion between the angle and its sine?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        angle = counted(num_positions, device) * base ** (-even_columns(d_model, device) / d_model)
        return woven(torch.deg2rad(angle), d_model)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_by_hand", misses_the_point=True)
def angles_without_waves() -> Names:
    """The angles themselves were returned, without sine and cosine.

    An angle grows with the position without end. The waves keep every entry between -1 and 1.

    Which two functions have still to be applied?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        angle = counted(num_positions, device) * base ** (-even_columns(d_model, device) / d_model)
        return angle.repeat_interleave(2, dim=1)[:, :d_model].float()

    return everywhere(encoding)


@misconception(replaces="sinusoidal_encoding", caught_by="test_far_positions")
def angles_in_half(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """The angles were computed in half precision.

    bfloat16 has three digits, so that positions above 256 share one number, and their waves with it.

    Which dtype do your positions and frequencies have?
    """
    frequency = base ** (-even_columns(d_model, device) / d_model)
    angle = counted(num_positions, device).bfloat16() * frequency.bfloat16()
    return woven(angle.double(), d_model)


# --- dtype and device of the table ------------------------------------------------------------------------------------


@misconception(replaces="sinusoidal_encoding", caught_by="test_encoding_on_its_device")
def table_in_double(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """The encoding was float64.

    It may be computed in float64, but the result is to be float32: added to float32 tokens it would widen them.

    What does your last line return, and with which dtype?
    """
    angle = counted(num_positions, device) * base ** (-even_columns(d_model, device) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]


@misconception(replaces="sinusoidal_encoding", caught_by="test_encoding_on_its_device")
def device_not_used(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """The encoding was made on the CPU, whatever `device` said.

    Tokens on a GPU cannot be added to a table on the CPU.

    Which of your calls that make new tensors take a `device`?
    """
    return reference.sinusoidal_encoding(num_positions, d_model, base)


@misconception(replaces="sinusoidal_encoding", caught_by="test_encoding_on_its_device")
def device_of_some_tensors(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """Some of the tensors were made on `device` and others on the CPU.

    On a GPU the two cannot be multiplied.

    How many tensors does your function make, and which of them takes `device`?
    """
    position = torch.arange(num_positions, dtype=torch.float32, device=device)[:, None]
    return woven(position * base ** (-even_columns(d_model, None) / d_model).float(), d_model)


@misconception(replaces=BOTH, caught_by="test_encoding_on_its_device")
def device_not_used_beside_a_buffer() -> Names:
    """The encoding was made on the CPU, whatever `device` said.

    Tokens on a GPU cannot be added to a table on the CPU.

    Which of your calls that make new tensors take a `device`?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return reference.sinusoidal_encoding(num_positions, d_model, base)

    return beside_a_buffer(encoding)


@misconception(replaces=BOTH, caught_by="test_encoding_on_its_device")
def positions_on_the_cpu_beside_a_buffer() -> Names:
    """Some of the tensors were made on `device` and others on the CPU.

    On a GPU the two cannot be multiplied.

    How many tensors does your function make, and which of them takes `device`?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        position = torch.arange(num_positions, dtype=torch.float64)[:, None]
        return woven(position * base ** (-even_columns(d_model, device) / d_model), d_model)

    return beside_a_buffer(encoding)


# A module with a table of its own, wrong beside a function that is right.
halves_in_the_module = in_the_module_alone(halves_in_place_of_pairs)
exchanged_in_the_module = in_the_module_alone(sine_and_cosine_exchanged)
each_column_in_the_module = in_the_module_alone(frequency_of_each_column)
exponent_halved_in_the_module = in_the_module_alone(exponent_halved)
exponent_doubled_in_the_module = in_the_module_alone(exponent_doubled)
wavelength_in_the_module = in_the_module_alone(position_times_wavelength)
from_one_in_the_module = in_the_module_alone(positions_from_one)
