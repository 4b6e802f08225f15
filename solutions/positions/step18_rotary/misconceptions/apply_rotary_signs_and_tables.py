"""What learners get wrong in `apply_rotary`: further signs and columns, and tables that are too short."""

from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.positions.step18_rotary import reference
from solutions.positions.step18_rotary.misconceptions.apply_rotary import (
    ROTATION,
    angles_in_half,
    tokens_in_front_of_the_heads,
)
from solutions.positions.step18_rotary.misconceptions.pieces import Names, angles, cos_and_sin, everywhere, rotated


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def both_sines_negative() -> Names:
    """The sine was subtracted in both columns: (u cos - v sin, v cos - u sin).

    That is no rotation: lengths change. One of the two sines has a plus sign.

    What does your code make of (1, 0) after a quarter turn?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base), x)
        u, v = x[..., 0::2], x[..., 1::2]
        return torch.stack([u * cos - v * sin, v * cos - u * sin], dim=-1).flatten(-2)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def second_column_with_u_and_v_exchanged() -> Names:
    """In the second column the cosine and the sine changed places: (u cos - v sin, u cos + v sin).

    At position 0 the second column is then the first one, where nothing should happen at all.

    What does your code make of a token at position 0?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base), x)
        u, v = x[..., 0::2], x[..., 1::2]
        return torch.stack([u * cos - v * sin, u * cos + v * sin], dim=-1).flatten(-2)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def partner_left_in_halves() -> Names:
    """What is multiplied by the sine was laid out in halves: all -v, then all u.

    Beside columns 2i and 2i + 1 have to stand -v and u of the same pair: -v0, u0, -v1, u1, ….

    For d = 4, which four numbers does your helper give, in which order?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base).repeat_interleave(2, dim=-1), x)
        return x * cos + torch.cat([-x[..., 1::2], x[..., 0::2]], dim=-1) * sin

    return everywhere(turn)


@another_form(angles_in_half)
def positions_in_half() -> Names:
    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        return rotated(x, *cos_and_sin(angles(x, positions.to(x.dtype), base), x))

    return everywhere(turn)


@another_form(tokens_in_front_of_the_heads, caught_by="test_rotation_by_hand")
def as_many_rows_as_the_second_axis() -> Names:
    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        return reference.apply_rotary(x, positions, base)

    return everywhere(turn)


def _looked_up(rows: Callable[[Tensor], int]) -> Names:
    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        table = torch.arange(rows(x), device=x.device)[:, None] * reference.rotary_frequencies(
            x.shape[-1], base, device=x.device
        )
        return rotated(x, *cos_and_sin(table[positions], x))

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_far_positions")
def angles_from_a_short_table() -> Names:
    """The angles were looked up in a table that is too short for the positions.

    `positions` may have gaps, and may be larger than the number of rows of x: 4096 with two tokens.

    How many rows does your table have, and which position is the largest that it knows?
    """
    return _looked_up(lambda x: x.shape[-2])


@another_form(angles_from_a_short_table)
def table_of_1024_angles() -> Names:
    return _looked_up(lambda x: 1024)


@another_form(angles_from_a_short_table)
def table_of_2048_angles() -> Names:
    return _looked_up(lambda x: 2048)


@another_form(angles_from_a_short_table)
def table_of_4096_angles() -> Names:
    return _looked_up(lambda x: 4096)
