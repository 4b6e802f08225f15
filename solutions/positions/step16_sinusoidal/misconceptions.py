"""What learners get wrong in step 16, each with the check that catches it."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import misconception, together
from solutions.positions.step16_sinusoidal import reference

Device = torch.device | str | None
Encoding = Callable[..., Tensor]
Names = dict[str, object]

BOTH = ("sinusoidal_encoding", "PositionalEncoding")


class Pieces(reference.PositionalEncoding):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    encoding: Encoding = staticmethod(reference.sinusoidal_encoding)

    def check_length(self, x: Tensor) -> None:
        if x.shape[-2] > self.max_len:
            raise ValueError(f"x has {x.shape[-2]} tokens, but max_len is {self.max_len}")

    def table(self, x: Tensor) -> Tensor:
        """The encoding of the tokens of x, (T, d_model), in its dtype."""
        return self.encoding(x.shape[-2], self.d_model, device=x.device).to(x.dtype)

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x + table

    def forward(self, x: Tensor) -> Tensor:
        self.check_length(x)
        return self.joined(x, self.table(x))


def everywhere(encoding: Encoding) -> Names:
    """Both names of a file whose module adds this encoding."""
    module = type("PositionalEncoding", (Pieces,), {"encoding": staticmethod(encoding)})
    return {"sinusoidal_encoding": encoding, "PositionalEncoding": module}


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


def counted(num_positions: int, device: Device) -> Tensor:
    """The positions, (T, 1)."""
    return torch.arange(num_positions, dtype=torch.float64, device=device)[:, None]


def even_columns(d_model: int, device: Device) -> Tensor:
    """0, 2, 4, … below the width."""
    return torch.arange(0, d_model, 2, dtype=torch.float64, device=device)


def woven(angle: Tensor, d_model: int) -> Tensor:
    """Sines and cosines of these angles, in turn."""
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model].float()


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


# --- odd widths -------------------------------------------------------------------------------------------------------


@misconception(replaces=BOTH, caught_by="test_odd_widths")
def odd_width_fails() -> Names:
    """With an odd width there was one sine more than there was room for cosines.

    The even columns 0::2 are one more than the odd columns 1::2 then, and a slice takes only as many values as it has
    columns.

    How many odd columns does a table of 5 columns have, and how many angles do you have?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        angle = counted(num_positions, device) * base ** (-even_columns(d_model, device) / d_model)
        table = torch.zeros(num_positions, d_model, device=device)
        table[:, 0::2] = torch.sin(angle).float()
        table[:, 1::2] = torch.cos(angle).float()
        return table

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_odd_widths")
def odd_width_loses_a_column() -> Names:
    """An odd width lost its last column.

    d_model // 2 pairs are one column less than an odd width. The last sine stands alone, without its cosine.

    How many angles do five columns need?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return reference.sinusoidal_encoding(num_positions, d_model, base, device)[:, : d_model // 2 * 2]

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_odd_widths")
def odd_width_gains_a_column() -> Names:
    """An odd width got one column more than it should have.

    Each pair has two columns, and the last pair of an odd width has only room for its sine.

    How wide is the result for d_model = 5, and which column is too much?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        angle = counted(num_positions, device) * base ** (-even_columns(d_model, device) / d_model)
        return woven(angle, d_model + 1)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_odd_widths")
def odd_width_ends_in_zeros() -> Names:
    """The last column of an odd width stayed 0.

    It belongs to a sine, whose cosine has no room any more. Zeros say nothing about the position.

    Which columns do your slices fill when d_model is 5?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        right = reference.sinusoidal_encoding(num_positions, d_model, base, device)
        return F.pad(right[:, : d_model // 2 * 2], (0, d_model % 2))

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_odd_widths")
def odd_width_refused() -> Names:
    """An odd width was refused with an error.

    The step asks for odd widths, too: they end with a sine.

    Which of the last pair's two columns still has room?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        if d_model % 2:
            raise ValueError(f"d_model = {d_model} is odd")
        return reference.sinusoidal_encoding(num_positions, d_model, base, device)

    return everywhere(encoding)


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


# --- the module -------------------------------------------------------------------------------------------------------


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class first_axis_taken_for_the_tokens(Pieces):
    """The encoding of the first axis was added: every token of a sequence got that of its place in the batch.

    Some tutorials put the tokens first, `(T, B, d_model)`. Here the batch comes first and the tokens last but one.

    Which entry of `x.shape` counts the tokens, and which one does your slice use?
    """

    def table(self, x: Tensor) -> Tensor:
        return self.encoding(x.shape[0], self.d_model, device=x.device).to(x.dtype)[:, None]


@misconception(replaces="PositionalEncoding", caught_by="test_any_leading_dimensions")
class second_axis_taken_for_the_tokens(Pieces):
    """The tokens were taken for the second axis: right with one batch dimension, and with no other number of them.

    The tokens always stand last but one, whatever comes before.

    How do you count an axis from the end?
    """

    def check_length(self, x: Tensor) -> None:
        if x.shape[1] > self.max_len:
            raise ValueError(f"x has {x.shape[1]} tokens, but max_len is {self.max_len}")

    def table(self, x: Tensor) -> Tensor:
        longest = self.encoding(self.max_len, self.d_model, device=x.device).to(x.dtype)
        return longest[None, : x.shape[1]]


@misconception(replaces="PositionalEncoding", caught_by="test_any_leading_dimensions")
class as_many_rows_as_the_second_axis(second_axis_taken_for_the_tokens):
    """The tokens were taken for the second axis: right with one batch dimension, and with no other number of them.

    The tokens always stand last but one, whatever comes before.

    How do you count an axis from the end?
    """

    def table(self, x: Tensor) -> Tensor:
        return super().table(x)[0]


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class as_many_rows_as_the_first_axis(Pieces):
    """The table was cut to the length of the first axis, which counts the sequences of the batch.

    The tokens always stand last but one, whatever comes before.

    Which entry of `x.shape` counts the tokens, and which one does your slice use?
    """

    def check_length(self, x: Tensor) -> None:
        if len(x) > self.max_len:
            raise ValueError(f"x has {len(x)} tokens, but max_len is {self.max_len}")

    def table(self, x: Tensor) -> Tensor:
        longest = self.encoding(self.max_len, self.d_model, device=x.device).to(x.dtype)
        return longest[: len(x)]


@misconception(replaces="PositionalEncoding", caught_by="test_any_leading_dimensions")
class three_dimensions_only(Pieces):
    """The shape of x was unpacked into exactly three numbers.

    x may have any number of dimensions before its tokens, or none.

    Which of the three numbers do you need, and how do you count it from the end?
    """

    def check_length(self, x: Tensor) -> None:
        _batch, tokens, _width = x.shape
        if tokens > self.max_len:
            raise ValueError(f"x has {tokens} tokens, but max_len is {self.max_len}")


@misconception(replaces="PositionalEncoding", caught_by="test_any_leading_dimensions")
class one_batch_dimension_too_many(Pieces):
    """A batch dimension of the table, `(1, T, d_model)`, was left on the result of tokens that have none.

    A sum has all dimensions of both. Tokens of shape `(T, d_model)` come back as `(1, T, d_model)` then.

    Does the table need its first dimension for the sum?
    """

    def table(self, x: Tensor) -> Tensor:
        return super().table(x)[None]


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class counted_through_the_batch(Pieces):
    """The positions were counted on from one sequence of the batch to the next.

    Each sequence starts at position 0 by itself.

    How long is the range of positions that your code makes?
    """

    def table(self, x: Tensor) -> Tensor:
        count = x.shape[:-1].numel()
        return self.encoding(count, self.d_model, device=x.device).to(x.dtype).view(x.shape)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding", misses_the_point=True)
class multiplied_in_place_of_added(Pieces):
    """The tokens were multiplied by the encoding.

    Where a sine is 0 nothing of the token is left. The encoding is added.

    Which operator stands between the token and its encoding?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x * table


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding", misses_the_point=True)
class concatenated_in_place_of_added(Pieces):
    """The encoding was put beside the tokens, which made them twice as wide.

    The width stays what it is: the encoding is added to the token.

    Why does the encoding have just the width of a token?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return torch.cat([x, table.expand_as(x)], dim=-1)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class tokens_scaled(Pieces):
    """The tokens were multiplied by the root of d_model before the encoding was added.

    In the paper that belongs to the embedding of the tokens, which comes before. This module adds, and does nothing
    else.

    Which line changes x before the sum?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x * math.sqrt(self.d_model) + table


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class encoding_scaled(Pieces):
    """The encoding was divided by the root of d_model before it was added.

    This module adds the sines and cosines as they are.

    By what is the table multiplied or divided on its way into the sum?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x + table / math.sqrt(self.d_model)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class encoding_subtracted(Pieces):
    """The encoding was subtracted from the tokens.

    It is to be added.

    Which sign stands before the encoding?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x - table


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding", misses_the_point=True)
class tokens_left_out(Pieces):
    """The encoding alone was returned, without the tokens.

    What comes next has to see the token and its position in one vector.

    Where does `x` itself enter what you return?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return table.expand_as(x)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding", misses_the_point=True)
class tokens_unchanged(Pieces):
    """The tokens came back as they were: nothing was added.

    `x + table` makes a new tensor, which has to be kept and returned.

    What does your `forward` return, and has the encoding gone into it?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x * 1


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class result_detached(Pieces):
    """The sum was cut off from the graph, by `detach`, `.data` or `torch.no_grad`.

    The table needs no gradient, but the tokens do: their embedding is learned.

    Around which lines does `no_grad` stand, or on which tensor is `detach` called?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return x.detach() + table


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class x_changed_in_place(Pieces):
    """The encoding was added to x in place.

    The caller's tokens have changed then, behind the caller's back: called twice, they have two encodings.

    What does `x += …` do that `x = x + …` does not?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        x += table
        return x


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class dropout_on_the_sum(Pieces):
    """Dropout acted on the sum in training.

    The paper's model has a dropout there. This module adds, and does nothing else; who wants dropout puts it behind.

    Which line differs between training and evaluation?
    """

    def joined(self, x: Tensor, table: Tensor) -> Tensor:
        return F.dropout(x + table, 0.1, self.training)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding", misses_the_point=True)
class learned_table(Pieces):
    """The table was an `nn.Parameter`.

    Parameters are learned, or at least saved and counted as such. The sinusoidal encoding is fixed: it has none.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter?
    """

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__(d_model, max_len)
        self.pe = nn.Parameter(reference.sinusoidal_encoding(max_len, d_model))

    def table(self, x: Tensor) -> Tensor:
        return self.pe[: x.shape[-2]].to(x.dtype)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding", misses_the_point=True)
class learned_embedding(Pieces):
    """The positions had an `nn.Embedding`, whose vectors are learned.

    GPT-2 and BERT do so. The sinusoidal encoding has nothing to learn: it is computed.

    Where in your module are sine and cosine?
    """

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__(d_model, max_len)
        self.position_embedding = nn.Embedding(max_len, d_model)

    def table(self, x: Tensor) -> Tensor:
        return self.position_embedding(torch.arange(x.shape[-2], device=x.device))


@misconception(replaces="PositionalEncoding", caught_by="test_follows_device")
class table_kept_as_a_plain_tensor(Pieces):
    """The table was a plain attribute, which stayed on the CPU when the module moved.

    `module.to(device)` moves parameters and buffers, and nothing else.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter?
    """

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__(d_model, max_len)
        self.rows = reference.sinusoidal_encoding(max_len, d_model)

    def table(self, x: Tensor) -> Tensor:
        return self.rows[: x.shape[-2]].to(x.dtype)


@misconception(replaces="PositionalEncoding", caught_by="test_other_dtypes")
class half_promoted_to_float32(Pieces):
    """The table stayed float32 in the sum, and made a float32 result of tokens in half precision.

    torch widens a sum to the wider dtype of the two. The result is to have the dtype of x, also where the module was
    not moved to it.

    What can be done to the rows of the table before they are added?
    """

    def table(self, x: Tensor) -> Tensor:
        return self.encoding(x.shape[-2], self.d_model, device=x.device)


@misconception(replaces="PositionalEncoding", caught_by="test_other_dtypes")
class positions_counted_in_half(Pieces):
    """The angles were made in the dtype of x.

    bfloat16 has three digits: positions above 256 share one number, and their waves are off by whole turns. Only the
    finished sines and cosines may be rounded.

    In which dtype are position and frequency multiplied in your code?
    """

    def table(self, x: Tensor) -> Tensor:
        position = torch.arange(x.shape[-2], device=x.device).to(x.dtype)[:, None]
        frequency = (10000.0 ** (-even_columns(self.d_model, x.device) / self.d_model)).to(x.dtype)
        return woven(position * frequency, self.d_model).to(x.dtype)


@misconception(replaces="PositionalEncoding", caught_by="test_other_dtypes")
class frequencies_rounded_with_the_module(Pieces):
    """The frequencies were kept in a buffer, which `.to(bfloat16)` rounded, and the angles with it.

    A frequency that is off by 1 / 500 turns position 600 by more than a radian. Only the finished sines and cosines may
    be rounded.

    Which of your buffers are still multiplied by the position after they were rounded?
    """

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__(d_model, max_len)
        frequency = 10000.0 ** (-even_columns(d_model, None) / d_model)
        self.register_buffer("frequency", frequency.float(), persistent=False)

    def table(self, x: Tensor) -> Tensor:
        position = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None]
        return woven(position * self.frequency, self.d_model).to(x.dtype)


@misconception(replaces="PositionalEncoding", caught_by="test_lengths")
class any_length_accepted(Pieces):
    """More than max_len tokens were accepted and answered.

    The module promises a longest length. An encoding that is made on the fly knows none, so nothing complains.

    Where could `forward` compare T with what the constructor was given?
    """

    def check_length(self, x: Tensor) -> None:
        pass


@misconception(replaces="PositionalEncoding", caught_by="test_lengths")
class longer_sequences_cut(Pieces):
    """A sequence longer than max_len was cut without a word.

    Tokens that are missing at the end are an error nobody sees. The caller should be told.

    What does your code do with the tokens from max_len on?
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[..., : self.max_len, :])


@misconception(replaces="PositionalEncoding", caught_by="test_lengths")
class longest_length_refused(Pieces):
    """A sequence of exactly max_len tokens was refused.

    max_len is the most tokens a sequence may have, so that many are still allowed.

    Is it `>` or `>=` that your condition needs?
    """

    def check_length(self, x: Tensor) -> None:
        if x.shape[-2] >= self.max_len:
            raise ValueError(f"x has {x.shape[-2]} tokens, but max_len is {self.max_len}")


@misconception(replaces="PositionalEncoding", caught_by="test_lengths")
class batch_taken_for_the_length(Pieces):
    """The number that was compared with max_len was that of the batch.

    Then a large batch of short sequences is refused, and T is not looked at.

    Which entry of `x.shape` is T?
    """

    def check_length(self, x: Tensor) -> None:
        if len(x) > self.max_len:
            raise ValueError(f"x has {len(x)} tokens, but max_len is {self.max_len}")


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class whole_table_added(Pieces):
    """The table of max_len rows was added as it is, whatever the length of x.

    It has max_len rows, and x only T.

    How do you take the first T rows of the table?
    """

    def table(self, x: Tensor) -> Tensor:
        return self.encoding(self.max_len, self.d_model, device=x.device).to(x.dtype)


@misconception(replaces="PositionalEncoding", caught_by="test_lengths")
class table_of_the_first_call(Pieces):
    """The table was made at the first call and kept, with the length of that call.

    A longer sequence later finds too few rows, and another length none that fits.

    For how many positions is the table made, and when?
    """

    def table(self, x: Tensor) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = super().table(x)
        return self.kept.to(x.device, x.dtype)


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class last_rows_of_the_table(Pieces):
    """The last T rows of the table were added in place of the first T.

    The first token stands at position 0.

    Which rows does your slice take: those up to T, or those from -T on?
    """

    def table(self, x: Tensor) -> Tensor:
        return self.encoding(self.max_len, self.d_model, device=x.device).to(x.dtype)[-x.shape[-2] :]


@misconception(replaces="PositionalEncoding", caught_by="test_adds_the_encoding")
class row_of_the_length(Pieces):
    """One row of the table, that of the number T, was added to all tokens.

    Each token has a position of its own, and with it a row.

    What is the difference between `table[T]` and `table[:T]`?
    """

    def table(self, x: Tensor) -> Tensor:
        return self.encoding(x.shape[-2] + 1, self.d_model, device=x.device).to(x.dtype)[-1]


# A module with a table of its own, wrong beside a function that is right.
halves_in_the_module = in_the_module_alone(halves_in_place_of_pairs)
exchanged_in_the_module = in_the_module_alone(sine_and_cosine_exchanged)
each_column_in_the_module = in_the_module_alone(frequency_of_each_column)
exponent_halved_in_the_module = in_the_module_alone(exponent_halved)
exponent_doubled_in_the_module = in_the_module_alone(exponent_doubled)
wavelength_in_the_module = in_the_module_alone(position_times_wavelength)
from_one_in_the_module = in_the_module_alone(positions_from_one)

# --- two mistakes in one file -----------------------------------------------------------------------------------------

SCALED = (tokens_scaled, encoding_scaled)
PAIRS = [
    *together((*SCALED, x_changed_in_place), (first_axis_taken_for_the_tokens,)),
    *together(SCALED, (half_promoted_to_float32,)),
    *together((x_changed_in_place, dropout_on_the_sum, half_promoted_to_float32), (any_length_accepted,)),
    *together((half_promoted_to_float32,), (three_dimensions_only,)),
    *together((dropout_on_the_sum,), (half_promoted_to_float32,)),
]
