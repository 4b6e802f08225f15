"""What learners get wrong in `sinusoidal_encoding`: odd widths."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.positions.step16_sinusoidal import reference
from solutions.positions.step16_sinusoidal.misconceptions.pieces import (
    BOTH,
    Device,
    Names,
    counted,
    even_columns,
    everywhere,
    woven,
)


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


@another_form(odd_width_gains_a_column)
def odd_width_taken_for_the_next_even_one() -> Names:
    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return reference.sinusoidal_encoding(num_positions, d_model + d_model % 2, base, device)

    return everywhere(encoding)


@misconception(replaces=BOTH, caught_by="test_odd_widths")
def odd_width_cut_from_the_next_even_one() -> Names:
    """An odd width was cut from the encoding of the next even width.

    The number of columns is right then, but the exponents were divided by d_model + 1, and the waves are others.

    By what is 2i divided for d_model = 5?
    """

    def encoding(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
        return reference.sinusoidal_encoding(num_positions, d_model + d_model % 2, base, device)[:, :d_model]

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
