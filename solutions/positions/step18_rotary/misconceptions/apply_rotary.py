"""What learners get wrong in `apply_rotary`, each with the check that catches it."""

from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.positions.step18_rotary import reference
from solutions.positions.step18_rotary.misconceptions.pieces import Names, angles, cos_and_sin, everywhere, rotated

ROTATION = ("apply_rotary", "RotarySelfAttention")


def in_the_module_alone(wrong: Callable[[], Names]) -> Callable[..., object]:
    """The same mistake in a module that turns its own queries and keys, beside a function that is right."""
    module = wrong()["RotarySelfAttention"]
    module.__doc__ = wrong.__doc__  # type: ignore[attr-defined]  # a class has one
    mark = misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
    return mark(module)  # type: ignore[arg-type]


def rotate_half(x: Tensor) -> Tensor:
    """Llama's, of halves."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def rotate_every_two(x: Tensor) -> Tensor:
    """GPT-J's, of pairs side by side."""
    return torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand", misses_the_point=True)
def half_split_on_interleaved_columns() -> Names:
    """The half-split layout was used on interleaved columns: column i was turned with column i + d/2, as Llama's
    `rotate_half` does.

    Here the columns 2i and 2i + 1 are a pair, as in the paper and in GPT-J. Both layouts turn by the same angles, but
    weights made for one of them give nonsense in the other, and no error.

    For d = 4, which column is turned together with column 0 in your code: column 1 or column 2?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        angle = angles(x, positions, base)
        cos, sin = cos_and_sin(torch.cat([angle, angle], dim=-1), x)
        return x * cos + rotate_half(x) * sin

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def angles_laid_out_in_halves() -> Names:
    """The pairs were right, but the angles were laid out in halves: `cat` in place of `repeat_interleave`.

    The two columns of a pair then get the angles of two different pairs. Each angle has to stand in both columns of its
    own pair: θ0, θ0, θ1, θ1, ….

    For d = 4, in which order do your angles stand over the four columns?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        angle = angles(x, positions, base)
        cos, sin = cos_and_sin(torch.cat([angle, angle], dim=-1), x)
        return x * cos + rotate_every_two(x) * sin

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def halves_turned_with_angles_of_pairs() -> Names:
    """The angles were those of interleaved pairs, θ0, θ0, θ1, θ1, …, and `rotate_half` turned halves with them.

    Two layouts were mixed: column i was turned with column i + d/2, each by an angle of its own.

    Which layout does your helper that swaps columns and changes a sign belong to?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base).repeat_interleave(2, dim=-1), x)
        return x * cos + rotate_half(x) * sin

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def result_left_in_halves() -> Names:
    """The pairs were turned rightly, and the result came back in halves: all first columns, then all second ones.

    The columns 2i and 2i + 1 go in as a pair, and have to come out where they were.

    After `stack` or `cat`, which two numbers are neighbours in the last dimension?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        return reference.to_half_split(reference.apply_rotary(x, positions, base))

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand", misses_the_point=True)
def turned_the_other_way() -> Names:
    """The pairs were turned clockwise: the signs of both sines were exchanged.

    (u, v) becomes (u cos - v sin, u sin + v cos). Turned the other way, a key behind looks like one ahead.

    Where does (1, 0) go after a quarter turn counterclockwise, and where does yours go?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base), x)
        return rotated(x, cos, -sin)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def both_sines_positive() -> Names:
    """The sine was added in both columns: (u cos + v sin, u sin + v cos).

    That is no rotation: lengths change. One of the two sines has a minus sign.

    What does your code make of (0, 1) after a quarter turn?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base), x)
        u, v = x[..., 0::2], x[..., 1::2]
        return torch.stack([u * cos + v * sin, u * sin + v * cos], dim=-1).flatten(-2)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def reflected() -> Names:
    """The pairs were reflected and not turned: (u cos + v sin, u sin - v cos).

    Two reflections of different angles do make a rotation, but a single one turns (0, 1) upside down at position 0,
    where nothing should happen at all.

    What does your code make of a token at position 0?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base), x)
        u, v = x[..., 0::2], x[..., 1::2]
        return torch.stack([u * cos + v * sin, u * sin - v * cos], dim=-1).flatten(-2)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def minus_in_both_columns() -> Names:
    """Both columns had a minus sign: (u cos - v sin, u sin - v cos).

    At position 0 the second column changes its sign then, where nothing should happen at all.

    What does your code make of a token at position 0?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base), x)
        u, v = x[..., 0::2], x[..., 1::2]
        return torch.stack([u * cos - v * sin, u * sin - v * cos], dim=-1).flatten(-2)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def sine_and_cosine_exchanged() -> Names:
    """Sine and cosine changed places.

    At position 0 the angle is 0, its cosine 1 and its sine 0: nothing should happen there.

    What does your code make of a token at position 0?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base), x)
        return rotated(x, sin, cos)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def second_column_from_the_turned_first() -> Names:
    """The second column of a pair was made from the first one after it had been turned.

    Both need the numbers as they came in. Under one name, or in place, the first is overwritten too soon.

    Which value does u have in your second line?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base), x)
        v = x[..., 1::2]
        u = x[..., 0::2] * cos - v * sin
        return torch.stack([u, u * sin + v * cos], dim=-1).flatten(-2)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand", misses_the_point=True)
def angles_added() -> Names:
    """Sines and cosines, or angles, were added to the columns.

    Rotary positions add nothing: each pair is multiplied by a rotation, and keeps its length.

    Which operator stands between a column and its cosine?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base), x)
        return torch.stack([x[..., 0::2] + sin, x[..., 1::2] + cos], dim=-1).flatten(-2)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand", misses_the_point=True)
def cosines_and_sines_added() -> Names:
    """Cosines and sines were added to the columns, as sinusoidal positions are.

    Rotary positions add nothing: each pair is multiplied by a rotation, and keeps its length.

    Which operator stands between a column and its cosine?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base), x)
        return torch.stack([x[..., 0::2] + cos, x[..., 1::2] + sin], dim=-1).flatten(-2)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand", misses_the_point=True)
def bare_angles_added() -> Names:
    """The angles themselves were added to the columns.

    A pair is turned by its angle: multiplied by its cosine and sine, so that its length stays.

    What becomes of the length of a pair when a number is added to it?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        return x + angles(x, positions, base).to(x.dtype).repeat_interleave(2, dim=-1)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand", misses_the_point=True)
def cosine_alone() -> Names:
    """Each column was multiplied by its cosine, and the other column of the pair did not enter.

    A rotation mixes the two: what the cosine takes from one column, the sine gives to the other.

    Where does v enter what becomes of u?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, _sin = cos_and_sin(angles(x, positions, base), x)
        return x * cos.repeat_interleave(2, dim=-1)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def one_frequency_for_all_pairs() -> Names:
    """All pairs were turned by the angle of the first one.

    Each pair has a frequency of its own, so that near and far positions can both be told apart.

    Where does the number of the pair enter the angle?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base)[:, :1], x)
        return rotated(x, cos, sin)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand", misses_the_point=True)
def not_turned() -> Names:
    """Nothing was turned: what came in came back.

    The scores then know nothing of positions.

    What does your function return, and have the sines gone into it?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        angles(x, positions, base)
        return x * 1

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_by_hand")
def positions_from_one() -> Names:
    """Without `positions` the rows were counted from 1.

    The first row stands at position 0, which is not turned.

    Where does your range start?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        if positions is None:
            positions = torch.arange(1, x.shape[-2] + 1, device=x.device)
        return reference.apply_rotary(x, positions, base)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_of_any_shape")
def positions_not_used() -> Names:
    """`positions` was not used: the rows were always counted from 0.

    A caller who says where the tokens stand, behind a prompt for instance, gets the wrong angles.

    Where in your function does the name `positions` appear?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        return reference.apply_rotary(x, None, base)

    return everywhere(turn)


@misconception(replaces="apply_rotary", caught_by="test_rotation_by_hand")
def base_not_handed_on(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """The base was not handed to `rotary_frequencies`.

    The frequencies are then those of 10000, whatever the argument said.

    Which arguments does your call of `rotary_frequencies` have?
    """
    return reference.apply_rotary(x, positions)


@misconception(replaces=ROTATION, caught_by="test_rotation_of_any_shape")
def tokens_in_front_of_the_heads() -> Names:
    """The tokens were taken for the second axis, as in `(B, T, H, d)`.

    They stand last but one, `(…, T, d)`, whatever comes before.

    How do you count an axis from the end?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        if positions is None:
            positions = torch.arange(x.shape[1] if x.dim() > 3 else x.shape[-2], device=x.device)
        frequency = reference.rotary_frequencies(x.shape[-1], base, device=x.device)
        angle = positions[:, None] * frequency
        cos, sin = cos_and_sin(angle[:, None] if x.dim() > 3 else angle, x)
        return rotated(x, cos, sin)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_of_any_shape")
def four_dimensions_only() -> Names:
    """The shape of x was unpacked into exactly four numbers.

    x may have any number of dimensions before its tokens, or none.

    Which of the four numbers do you need, and how do you count it from the end?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        if x.dim() == 2:
            return reference.apply_rotary(x, positions, base)
        _batch, _heads, _tokens, _width = x.shape
        return reference.apply_rotary(x, positions, base)

    return everywhere(turn)


@misconception(replaces="apply_rotary", caught_by="test_rotation_by_hand")
def batch_and_heads_needed(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """The shape of x was unpacked into exactly four numbers, so that `(T, d)` was an error.

    x may have any number of dimensions before its tokens, or none.

    Which of the four numbers do you need, and how do you count it from the end?
    """
    _batch, _heads, _tokens, _width = x.shape
    return reference.apply_rotary(x, positions, base)


@misconception(replaces="apply_rotary", caught_by="test_rotation_of_any_shape")
def odd_column_left_alone(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """With an odd width the last column was left as it was, without a word.

    It has no partner to be turned with. That is a mistake of the caller, who should be told.

    What does `x.shape[-1] % 2` tell you?
    """
    even = x.shape[-1] // 2 * 2
    return torch.cat([reference.apply_rotary(x[..., :even], positions, base), x[..., even:]], dim=-1)


@misconception(replaces=ROTATION, caught_by="test_rotation_dtypes_and_device")
def angles_in_half() -> Names:
    """The angles, or the positions in them, were made in the dtype of x.

    bfloat16 has three digits: positions above 256 share one number, and their angles are off by whole turns. Only the
    finished sines and cosines may be rounded.

    In which dtype are position and frequency multiplied in your code?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        frequency = reference.rotary_frequencies(x.shape[-1], base, device=x.device).to(x.dtype)
        cos, sin = cos_and_sin(positions.to(x.dtype)[:, None] * frequency, x)
        return rotated(x, cos, sin)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_dtypes_and_device")
def half_promoted_to_float32() -> Names:
    """Sine and cosine stayed float32, and made a float32 result of tokens in half precision.

    torch widens a product to the wider dtype of the two. The result is to have the dtype of x.

    What can be done to sine and cosine before the product, or to the result after it?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        angle = angles(x, positions, base)
        return rotated(x, angle.cos(), angle.sin())

    return everywhere(turn)


# The reference's attention is torch's own, which fails otherwise where the dtypes of query and value differ.
@misconception(replaces="apply_rotary", caught_by="test_rotation_dtypes_and_device")
def half_promoted_beside_torchs_attention(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """Sine and cosine stayed float32, and made a float32 result of tokens in half precision.

    torch widens a product to the wider dtype of the two. The result is to have the dtype of x.

    What can be done to sine and cosine before the product, or to the result after it?
    """
    angle = angles(x, positions, base)
    return rotated(x, angle.cos(), angle.sin())


@misconception(replaces="apply_rotary", caught_by="test_rotation_dtypes_and_device")
def own_positions_on_the_cpu(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """The positions or frequencies were made on the CPU, without a device.

    On a GPU they cannot be multiplied by what lies there.

    From which tensor can your function take the device?
    """
    if positions is None:
        positions = torch.arange(x.shape[-2])
    frequency = reference.rotary_frequencies(x.shape[-1], base, device=x.device)
    return rotated(x, *cos_and_sin(positions.float()[:, None] * frequency, x))


@misconception(replaces=ROTATION, caught_by="test_rotation_dtypes_and_device")
def turned_in_float32() -> Names:
    """Everything was converted to float32, and the result stayed float32.

    The result has the dtype of x.

    What has to happen to the result of `x.float()` at the end?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        return reference.apply_rotary(x.float(), positions, base)

    return everywhere(turn)


@misconception(replaces=ROTATION, caught_by="test_rotation_dtypes_and_device")
def positions_on_the_cpu() -> Names:
    """The positions or frequencies were made on the CPU, without a device.

    On a GPU they cannot be multiplied by what lies there.

    From which tensor can your function take the device?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        if positions is None:
            positions = torch.arange(x.shape[-2])
        cos, sin = cos_and_sin(positions[:, None] * reference.rotary_frequencies(x.shape[-1], base), x)
        return rotated(x, cos, sin)

    return everywhere(turn)


@misconception(replaces="apply_rotary", caught_by="test_rotation_of_any_shape")
def x_changed_in_place(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """The turned pairs were written into x itself.

    The caller's queries have changed then, behind the caller's back.

    Into which tensor does `x[..., 0::2] = …` write?
    """
    cos, sin = cos_and_sin(angles(x, positions, base), x)
    u, v = x[..., 0::2] * cos - x[..., 1::2] * sin, x[..., 0::2] * sin + x[..., 1::2] * cos
    x[..., 0::2], x[..., 1::2] = u, v
    return x


@misconception(replaces=ROTATION, caught_by="test_rotation_of_any_shape")
def result_detached() -> Names:
    """The result was cut off from the graph, by `detach`, `.data`, `torch.no_grad` or a new tensor.

    Sine and cosine need no gradient, but queries and keys do.

    Around which lines does `no_grad` stand, or on which tensor is `detach` called?
    """

    def turn(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        return reference.apply_rotary(x.detach(), positions, base)

    return everywhere(turn)


# A module that turns its own queries and keys, wrong beside a function that is right.
half_split_in_the_module = in_the_module_alone(half_split_on_interleaved_columns)
angles_in_halves_in_the_module = in_the_module_alone(angles_laid_out_in_halves)
the_other_way_in_the_module = in_the_module_alone(turned_the_other_way)
reflected_in_the_module = in_the_module_alone(both_sines_positive)
