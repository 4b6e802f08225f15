"""What learners get wrong in step 18, each with the check that catches it."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import misconception, together
from solutions.core.step07_heads.reference import merge_heads, split_heads
from solutions.positions.step18_rotary import reference

Device = torch.device | str | None
Names = dict[str, object]
Parts = tuple[Tensor, Tensor, Tensor]

ROTATION = ("apply_rotary", "RotarySelfAttention")
FREQUENCIES = ("rotary_frequencies", "apply_rotary", "RotarySelfAttention")
LAYOUTS = ("to_half_split", "to_interleaved")


class Pieces(reference.RotarySelfAttention):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    turn: Callable[..., Tensor] = staticmethod(reference.apply_rotary)

    def parts(self, x: Tensor) -> Parts:
        return self.c_attn(x).chunk(3, dim=-1)

    def split(self, x: Tensor) -> Tensor:
        return split_heads(x, self.n_head)

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return self.turn(query, positions, self.base), self.turn(key, positions, self.base), value

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)

    def weights(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)

    def merged(self, context: Tensor) -> Tensor:
        return merge_heads(context)

    def output(self, merged: Tensor) -> Tensor:
        return self.c_proj(merged)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        query, key, value = (self.split(part) for part in self.parts(x))
        query, key, value = self.turned(query, key, value, positions)
        scores = self.scores(query, key)
        return self.output(self.merged(self.weights(scores, self.hidden(scores, positions)) @ value))


def everywhere(turn: Callable[..., Tensor]) -> Names:
    """Both names of a file whose attention turns its queries and keys like this."""
    module = type("RotarySelfAttention", (Pieces,), {"turn": staticmethod(turn)})
    return {"apply_rotary": turn, "RotarySelfAttention": module}


def with_frequencies(frequencies: Callable[..., Tensor]) -> Names:
    """All names of a file whose pairs have these frequencies."""

    def apply_rotary(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        cos, sin = cos_and_sin(angles(x, positions, base, frequencies), x)
        return rotated(x, cos, sin)

    return {"rotary_frequencies": frequencies, **everywhere(apply_rotary)}


def in_the_module_alone(wrong: Callable[[], Names]) -> Callable[..., object]:
    """The same mistake in a module that turns its own queries and keys, beside a function that is right."""
    module = wrong()["RotarySelfAttention"]
    module.__doc__ = wrong.__doc__  # type: ignore[attr-defined]  # a class has one
    mark = misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
    return mark(module)  # type: ignore[arg-type]


def angles(
    x: Tensor, positions: Tensor | None, base: float, frequencies: Callable[..., Tensor] = reference.rotary_frequencies
) -> Tensor:
    """The angle of each position and pair, (T, d / 2)."""
    if positions is None:
        positions = torch.arange(x.shape[-2], device=x.device)
    return positions[:, None] * frequencies(x.shape[-1], base, device=x.device)


def cos_and_sin(angle: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the dtype of x."""
    return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The pairs side by side, turned."""
    u, v = x[..., 0::2], x[..., 1::2]
    return torch.stack([u * cos - v * sin, u * sin + v * cos], dim=-1).flatten(-2)


def rotate_half(x: Tensor) -> Tensor:
    """Llama's, of halves."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def rotate_every_two(x: Tensor) -> Tensor:
    """GPT-J's, of pairs side by side."""
    return torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)


# --- the frequencies --------------------------------------------------------------------------------------------------


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


@misconception(replaces="rotary_frequencies", caught_by="test_frequencies")
def frequencies_on_the_cpu(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """The frequencies were made on the CPU, whatever `device` said.

    On a GPU they cannot be multiplied by positions that lie there.

    Which of your calls that make new tensors take a `device`?
    """
    return reference.rotary_frequencies(head_dim, base)


# --- the rotation -----------------------------------------------------------------------------------------------------


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
    """The angles were made in the dtype of x.

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


# --- the two layouts --------------------------------------------------------------------------------------------------


@misconception(replaces=LAYOUTS, caught_by="test_layouts")
def layouts_exchanged() -> Names:
    """The two conversions changed places.

    `to_half_split` takes neighbours apart, `to_interleaved` brings them together.

    Of 10, 11, 20, 21, which number should come second in the half-split layout?
    """
    return {"to_half_split": reference.to_interleaved, "to_interleaved": reference.to_half_split}


@misconception(replaces="to_half_split", caught_by="test_layouts")
def nothing_split(x: Tensor) -> Tensor:
    """The columns came back in the order they had.

    A reshape to pairs and back changes no order: two dimensions have to change places in between.

    What lies between your two reshapes?
    """
    return x.unflatten(-1, (-1, 2)).flatten(-2)


@misconception(replaces="to_interleaved", caught_by="test_layouts")
def nothing_interleaved(x: Tensor) -> Tensor:
    """The columns came back in the order they had.

    A reshape to halves and back changes no order: two dimensions have to change places in between.

    What lies between your two reshapes?
    """
    return x.unflatten(-1, (2, -1)).flatten(-2)


@misconception(replaces="to_interleaved", caught_by="test_layouts")
def split_once_more(x: Tensor) -> Tensor:
    """`to_interleaved` did the same as `to_half_split`.

    Done twice the permutation comes back to the beginning with 4 columns only. The inverse takes one number from each
    half in turn.

    Of the halves 10, 20, 30 and 11, 21, 31, which two numbers come first?
    """
    return reference.to_half_split(x)


@misconception(replaces="to_half_split", caught_by="test_layouts")
def odd_columns_first(x: Tensor) -> Tensor:
    """The odd columns came first and the even ones after them.

    The half-split layout begins with the first column of each pair: 0, 2, 4, ….

    Where does your first slice start?
    """
    return torch.cat([x[..., 1::2], x[..., 0::2]], dim=-1)


@misconception(replaces="to_interleaved", caught_by="test_layouts")
def second_half_first(x: Tensor) -> Tensor:
    """In each pair the number of the second half came first.

    Column 2i comes from the first half, column 2i + 1 from the second.

    In which order do the two halves stand in your `stack`?
    """
    first, second = x.chunk(2, dim=-1)
    return torch.stack([second, first], dim=-1).flatten(-2)


@misconception(replaces="to_half_split", caught_by="test_layouts")
def tokens_split(x: Tensor) -> Tensor:
    """The rows were taken apart, and not the columns.

    The last dimension holds the columns. A slice without `...` works on the first one.

    Which dimension does `x[0::2]` slice?
    """
    return torch.cat([x[0::2], x[1::2]])


@misconception(replaces="to_half_split", caught_by="test_layouts")
def split_with_a_sign(x: Tensor) -> Tensor:
    """One half came back with its sign changed.

    That is `rotate_half`, a step of the rotation. A conversion only moves columns.

    Which of your lines changes a number?
    """
    return torch.cat([-x[..., 1::2], x[..., 0::2]], dim=-1)


# --- the attention ----------------------------------------------------------------------------------------------------


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class values_turned_too(Pieces):
    """The values were turned as well.

    What is fetched would then depend on where it stood. Only queries and keys are turned, whose product compares
    positions.

    On which of the three parts is `apply_rotary` called?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        query, key, value = super().turned(query, key, value, positions)
        return query, key, self.turn(value, positions, self.base)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class queries_turned_alone(Pieces):
    """Only the queries were turned, and the keys were not.

    A score then depends on where the query stands, and not on how far away the key is.

    On which of the three parts is `apply_rotary` called?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return self.turn(query, positions, self.base), key, value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class keys_turned_alone(Pieces):
    """Only the keys were turned, and the queries were not.

    A score then depends on where the key stands, and not on how far away it is.

    On which of the three parts is `apply_rotary` called?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return query, self.turn(key, positions, self.base), value


@misconception(
    replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws", misses_the_point=True
)
class nothing_turned(Pieces):
    """Queries and keys were not turned by their positions: plain causal attention.

    Without rotation, or with one that is the same for all tokens of a head, the attention knows nothing of positions.

    Where in your `forward` is `apply_rotary` called, on which shape, and is its result kept?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return query, key, value


@misconception(
    replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws", misses_the_point=True
)
class turned_before_the_heads(Pieces):
    """Queries and keys were turned before they were split into heads.

    The frequencies then run over all columns, and each head gets a few of them. Every head has all frequencies, over
    its own width d.

    Which width does what you hand to `apply_rotary` have?
    """

    def parts(self, x: Tensor) -> Parts:
        query, key, value = super().parts(x)
        return self.turn(query, self.at, self.base), self.turn(key, self.at, self.base), value

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return query, key, value

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        self.at = positions
        return super().forward(x, positions)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class tokens_turned_before_the_projection(Pieces):
    """The tokens were turned before `c_attn`, and with them queries, keys and values.

    A linear layer mixes the columns: after it nothing of the rotation is left that a product could compare.

    Does the rotation come before or after `c_attn`?
    """

    def parts(self, x: Tensor) -> Parts:
        return super().parts(self.turn(x, self.at, self.base))

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return query, key, value

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        self.at = positions
        return super().forward(x, positions)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class heads_taken_for_tokens(Pieces):
    """The rotation counted the heads: it was applied to `(B, T, H, d)`.

    `apply_rotary` takes the last but one dimension for the tokens. Head 0 is then never turned, and all tokens alike.

    Which shape do queries and keys have when they are turned?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        query, key = (self.turn(part.transpose(1, 2), positions, self.base).transpose(1, 2) for part in (query, key))
        return query, key, value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class opposite_ways(Pieces):
    """Queries and keys were turned in opposite directions.

    The score then depends on the sum of the two positions. Turned the same way, it depends on their difference.

    Which sign do the positions have in your two calls?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        if positions is None:
            positions = torch.arange(query.shape[-2], device=query.device)
        return self.turn(query, positions, self.base), self.turn(key, -positions, self.base), value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class base_forgotten_in_the_module(Pieces):
    """The module's base was not handed to the rotation.

    The frequencies are then those of 10000, whatever the constructor was told.

    What becomes of `base` after the constructor?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return self.turn(query, positions), self.turn(key, positions), value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_at_any_positions")
class positions_forgotten_in_the_module(Pieces):
    """The module's `positions` were not handed to the rotation.

    The rows are then counted from 0, whatever the caller said.

    What becomes of `positions` in your `forward`?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return super().turned(query, key, value, None)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_at_any_positions")
class table_of_the_first_call(Pieces):
    """The sines and cosines of the first call were kept, and used for every later one.

    Other positions and another length need other angles.

    When is the table made, and what does it depend on?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        if not hasattr(self, "kept"):
            self.kept = angles(query, positions, self.base)
        cos, sin = cos_and_sin(self.kept[: query.shape[-2]].to(query.device), query)
        return rotated(query, cos, sin), rotated(key, cos, sin), value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_at_any_positions")
class hidden_by_positions(Pieces):
    """Keys were hidden by their positions, and not by their rows.

    What is causal follows the order of the rows, whatever the positions are: with repeats and gaps they say how far
    apart two tokens are, and not which came first.

    From which numbers is your mask made?
    """

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        if positions is None:
            return super().hidden(scores, positions)
        return positions[None, :] > positions[:, None]


@misconception(replaces="RotarySelfAttention", caught_by="test_future_has_no_effect")
class no_mask(Pieces):
    """Every token attended to every other one, the later ones included.

    A model that is to predict the next token must not see it. torch's own function hides nothing by itself.

    Which argument of `scaled_dot_product_attention` hides the future, or which entries of your scores must be hidden?
    """

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return torch.zeros_like(scores, dtype=torch.bool)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class future_instead_of_past(Pieces):
    """The mask was the wrong way round: each token saw itself and the later tokens, and its past was hidden.

    The last token then sees only itself, and the first one sees the whole sequence.

    Does your mask say "may attend" or "is hidden", and does the line that uses it mean the same?
    """

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return super().hidden(scores, positions).T


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class own_token_hidden(Pieces):
    """Each token's own position was hidden together with the future.

    A token may look at itself. The first token has nothing else, so its softmax has no finite entry and gives NaN.

    Is the diagonal of the mask part of the past or of the future? Look at the number handed to `tril` or `triu`.
    """

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return super().hidden(scores, positions) | torch.eye(len(scores[0, 0]), dtype=torch.bool, device=scores.device)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class masked_after_softmax(Pieces):
    """The mask was applied after the softmax, and the rows were not divided by their new sum.

    The softmax had already shared weight out to the later tokens. That share is lost, and the rows no longer sum to 1.

    What must happen to the hidden scores before the softmax, so that nothing is left to lose?
    """

    def weights(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return scores.softmax(dim=-1).masked_fill(hidden, 0.0)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class softmax_over_queries(Pieces):
    """The softmax ran over the queries, so that the columns of the weights summed to 1 and the rows did not.

    Each query shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension must the weights sum to 1, and what does `dim` say in your softmax?
    """

    def weights(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return scores.masked_fill(hidden, -torch.inf).softmax(dim=-2)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class not_scaled(Pieces):
    """The scores went into the softmax without being divided by the root of the head's width.

    The wider the heads are, the larger the scores grow, and the softmax turns into a choice of one single token.

    Which number does attention divide the scores by, and from which tensor's shape can you read it?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class scaled_twice(Pieces):
    """The scores were divided by the head's width instead of its root: by all of it, or twice by the root.

    Of a sum over d numbers the root of d is the usual size. torch's own `scaled_dot_product_attention` divides by it
    without being asked.

    By what is a score divided, all in all, between your product and the softmax?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / query.shape[-1]


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class scaled_by_all_heads(Pieces):
    """The scores were divided by the root of `n_embd`, the width of all heads together.

    A score is a sum over the columns of one head only, so it grows with the root of the head's width.

    When one head's query and key are multiplied, over how many numbers does the sum run?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(self.c_proj.in_features)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class key_query_value_order(Pieces):
    """Query and key changed places: `c_attn` was read as key, query, value, or the keys were multiplied by the queries.

    In GPT-2's layout the first third is the query, the second the key, the last the value. The rows of the scores
    belong to the queries, and the columns to the keys.

    To which names does your code assign the three parts, and which of them comes first in the product?
    """

    def parts(self, x: Tensor) -> Parts:
        query, key, value = super().parts(x)
        return key, query, value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class cut_into_heads_first(Pieces):
    """The output of `c_attn` was cut into heads first, and each head's columns then into query, key and value.

    The layout is query of all heads, then key of all heads, then value of all heads, each D numbers wide.

    What is the first number of the key of head 0: number d or number D of the 3 · D?
    """

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        parts = self.c_attn(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2).chunk(3, dim=-1)
        query, key, value = self.turned(*parts, positions)
        scores = self.scores(query, key)
        return self.output(self.merged(self.weights(scores, self.hidden(scores, positions)) @ value))


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class split_without_transpose(Pieces):
    """The heads were split off by one bare reshape to `(B, H, T, d)`.

    A reshape keeps the order of the numbers in memory, so each head got pieces of different tokens' columns.

    The columns of one token split into `(H, d)`. Which two dimensions must swap then?
    """

    def split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], self.n_head, x.shape[1], -1)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class merged_without_transpose(Pieces):
    """The heads were merged by one bare reshape from `(B, H, T, d)` to `(B, T, D)`.

    A reshape keeps the order of the numbers in memory, so a token got pieces of other tokens instead of its own heads.

    Which two dimensions must swap, so that the heads of one token lie next to each other?
    """

    def merged(self, context: Tensor) -> Tensor:
        return context.reshape(context.shape[0], context.shape[2], -1)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class output_not_projected(Pieces):
    """The merged heads were returned without `c_proj`.

    Nothing mixes the heads then, and the layer is never used.

    What is the last line of your `forward`?
    """

    def output(self, merged: Tensor) -> Tensor:
        return merged


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class dropout_on_the_output(Pieces):
    """Dropout acted in training.

    This class takes no `dropout`, and none acts.

    Which line differs between training and evaluation?
    """

    def output(self, merged: Tensor) -> Tensor:
        return F.dropout(self.c_proj(merged), 0.1, self.training)


@misconception(replaces="RotarySelfAttention", caught_by="test_any_regime")
class mask_of_a_fixed_length(Pieces):
    """The causal mask was a buffer for 1,024 tokens.

    There is no `block_size` here: any length has to work.

    For how many tokens is your mask made, and when?
    """

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        super().__init__(n_embd, n_head, bias, base)
        self.register_buffer("kept", torch.ones(1024, 1024, dtype=torch.bool).triu(1), persistent=False)

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return self.kept[: scores.shape[-2], : scores.shape[-1]]


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class bias_always_on(Pieces):
    """The linear layers had a bias, also when `bias` was False.

    The caller decides with `bias` whether the two layers have one.

    Which argument of `nn.Linear` should `bias` be handed to?
    """

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        super().__init__(n_embd, n_head, True, base)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class frequencies_learned(Pieces):
    """The frequencies were an `nn.Parameter`.

    They are fixed numbers: the module has the parameters of `c_attn` and `c_proj`, and no others.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter?
    """

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        super().__init__(n_embd, n_head, bias, base)
        self.theta = nn.Parameter(reference.rotary_frequencies(n_embd // n_head, base))


@misconception(replaces="RotarySelfAttention", caught_by="test_head_counts")
class odd_head_accepted(Pieces):
    """Heads of odd width were accepted, their last column not turned.

    It has no partner to be turned with. That is a mistake of the caller, who should be told.

    What is the width of a head when 6 columns are cut into 2 heads, and where can the constructor act on it?
    """

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        even = n_embd % (2 * n_head) == 0
        super().__init__(n_embd if even else 2 * n_head * n_embd, n_head, bias, base)
        if not even:
            assert n_embd % n_head == 0
            self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd, bias), nn.Linear(n_embd, n_embd, bias)

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        even = query.shape[-1] // 2 * 2
        query, key = (
            torch.cat([self.turn(part[..., :even], positions, self.base), part[..., even:]], dim=-1)
            for part in (query, key)
        )
        return query, key, value


@misconception(replaces="RotarySelfAttention", caught_by="test_head_counts")
class remainder_columns_dropped(Pieces):
    """Where `n_embd` was not divisible by `n_head`, the remaining columns were left out without a word.

    The caller asked for heads that cannot have equal widths. That is a mistake, and the caller should be told.

    What does `n_embd % n_head` tell you, and where can the constructor act on it?
    """

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        self.used = n_embd if n_embd % n_head == 0 else n_embd // n_head * n_head
        super().__init__(self.used, n_head, bias, base)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        return torch.cat([super().forward(x[..., : self.used], positions), x[..., self.used :]], dim=-1)


@misconception(replaces="RotarySelfAttention", caught_by="test_follows_device")
class mask_made_on_the_cpu(Pieces):
    """The mask stayed on the CPU: it was a plain attribute, or made in `forward` without a device.

    `module.to(device)` moves parameters and buffers, and nothing else. On a GPU the mask and the scores then lie on
    two devices.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter?
    """

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class weights_detached(Pieces):
    """The attention weights were cut off from the graph, by `detach`, `.data`, `torch.no_grad` or a new tensor.

    The result is right, but no gradient reaches the query and key part of `c_attn`, and they never learn.

    Which operation between the scores and the context does autograd not see?
    """

    def weights(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return super().weights(scores, hidden).detach()


# A module that turns its own queries and keys, wrong beside a function that is right.
half_split_in_the_module = in_the_module_alone(half_split_on_interleaved_columns)
angles_in_halves_in_the_module = in_the_module_alone(angles_laid_out_in_halves)
the_other_way_in_the_module = in_the_module_alone(turned_the_other_way)
reflected_in_the_module = in_the_module_alone(both_sines_positive)

# --- two mistakes in one file -----------------------------------------------------------------------------------------

TURNED = (values_turned_too, queries_turned_alone, nothing_turned, turned_before_the_heads)
SCALES = (not_scaled, scaled_twice, scaled_by_all_heads)
PAIRS = [
    *together(TURNED, SCALES),
    *together(TURNED, (no_mask, future_instead_of_past)),
    *together(SCALES, (no_mask, future_instead_of_past)),
]
