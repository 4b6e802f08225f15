"""Other right ways to do step 18: none of them may lose a point."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant
from solutions.positions.step18_rotary import reference

Device = torch.device | str | None


@variant(replaces="rotary_frequencies")
def by_exp_and_log(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """The power as an exponential of logarithms."""
    assert head_dim % 2 == 0, "pairs"
    return torch.exp(torch.arange(0, head_dim, 2, device=device).float() * (-math.log(base) / head_dim))


@variant(replaces="rotary_frequencies")
def one_over_the_power(head_dim: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """As Llama writes it."""
    if head_dim & 1:
        raise TypeError(head_dim)
    return 1.0 / (base ** (torch.arange(0, head_dim, 2, device=device, dtype=torch.int64).float() / head_dim))


@variant(
    replaces="apply_rotary",
    trades="One product turns a pair, without a formula to mix up; halves must be widened first.",
)
def complex_numbers(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """Each pair is a complex number, multiplied by one of size 1: Meta's way. Halves are widened first."""
    if positions is None:
        positions = torch.arange(x.size(-2), device=x.device)
    wide = x.double()
    angle = positions.double().unsqueeze(1) * reference.rotary_frequencies(x.size(-1), base, x.device).double()
    pairs = torch.view_as_complex(wide.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2).to(x.dtype)


@variant(replaces="apply_rotary")
def complex_numbers_in_float32(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """As Llama has them: widened or narrowed to float32, whatever the tensor is made of."""
    place = torch.arange(x.size(-2), device=x.device) if positions is None else positions
    angle = torch.outer(place.float(), reference.rotary_frequencies(x.size(-1), base, x.device))
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2).type_as(x)


@variant(
    replaces="apply_rotary",
    trades="Two products of whole tensors, no loop; sine and cosine are kept twice, for each column of a pair.",
)
def every_two_columns(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """x cos + (its pairs turned by a right angle) sin, with angles repeated for both columns: GPT-J's way."""
    d = x.shape[-1]
    if d % 2:
        raise ValueError(d)
    place = torch.arange(x.shape[-2], device=x.device) if positions is None else positions
    frequency = base ** -(torch.arange(0, d, 2, device=x.device) / d)
    angle = torch.outer(place.float(), frequency).repeat_interleave(2, dim=-1)
    turned = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).reshape(x.shape)
    return (x * angle.cos() + turned * angle.sin()).to(x.dtype)


@variant(
    replaces="apply_rotary",
    trades="Code and weights of Llama's layout serve as they are; two permutations of the columns come on top.",
)
def through_the_other_layout(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """Converted to halves, turned by Llama's function, and converted back."""
    half = x.shape[-1] // 2
    if positions is None:
        positions = torch.arange(x.shape[-2], device=x.device)
    split = reference.to_half_split(x)
    angle = positions.float()[:, None] * reference.rotary_frequencies(x.shape[-1], base, x.device)
    angles = torch.cat([angle, angle], dim=-1)
    turned = torch.cat([-split[..., half:], split[..., :half]], dim=-1)
    rotated = split * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)
    return reference.to_interleaved(rotated)


@variant(
    replaces="apply_rotary",
    trades="It shows that a rotation is a matrix; twice the products, and four numbers where two would do.",
)
def matrix_of_each_position(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """A 2 × 2 matrix for each position and pair."""
    place = torch.arange(x.shape[-2], device=x.device) if positions is None else positions
    angle = place[..., None] * reference.rotary_frequencies(x.shape[-1], base, x.device)
    matrix = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).unflatten(-1, (2, 2)).to(x.dtype)
    return torch.einsum("tiab,...tib->...tia", matrix, x.unflatten(-1, (-1, 2))).flatten(-2)


@variant(replaces="apply_rotary")
def written_into_a_copy(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """Slices of an empty tensor are filled, computed in float32 at least."""
    if positions is None:
        positions = torch.arange(0, x.shape[-2], 1, device=x.device)
    wide = x if x.dtype == torch.float64 else x.float()
    angle = positions.to(wide.dtype).view(-1, 1) * reference.rotary_frequencies(x.shape[-1], base, x.device)
    result = torch.empty_like(wide)
    result[..., 0::2] = wide[..., 0::2] * angle.cos() - wide[..., 1::2] * angle.sin()
    result[..., 1::2] = wide[..., 0::2] * angle.sin() + wide[..., 1::2] * angle.cos()
    return result.to(x.dtype)


@variant(replaces=("to_half_split", "to_interleaved"))
def by_reshape_and_transpose() -> dict[str, object]:
    """(d / 2, 2) and (2, d / 2), each the other transposed."""

    def to_half_split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, 2)).transpose(-1, -2).reshape(x.shape)

    def to_interleaved(x: Tensor) -> Tensor:
        return x.unflatten(-1, (2, -1)).mT.flatten(-2) if x.dim() > 1 else x.view(2, -1).T.reshape(-1)

    return {"to_half_split": to_half_split, "to_interleaved": to_interleaved}


@variant(replaces=("to_half_split", "to_interleaved"))
def by_an_index() -> dict[str, object]:
    """A permutation of the columns, and its inverse."""

    def order(x: Tensor) -> Tensor:
        return torch.arange(x.shape[-1], device=x.device).view(-1, 2).T.reshape(-1)

    def to_half_split(x: Tensor) -> Tensor:
        return x[..., order(x)]

    def to_interleaved(x: Tensor) -> Tensor:
        d = x.shape[-1]
        columns = torch.arange(d, device=x.device)
        return x.index_select(-1, columns // 2 + (columns % 2) * (d // 2))

    return {"to_half_split": to_half_split, "to_interleaved": to_interleaved}


class Layers(nn.Module):
    """The layers of the contract."""

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        super().__init__()
        if n_embd % n_head or (n_embd // n_head) % 2:
            raise ValueError("heads")
        self.n_head, self.base, self.d = n_head, base, n_embd // n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)


@variant(replaces="RotarySelfAttention")
class scores_of_complex_numbers(Layers):
    """Own softmax, mask by position of the rows, rotation before the tokens and heads change places."""

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        B, T, _ = x.shape
        fused = self.c_attn(x).view(B, T, 3, self.n_head, self.d)
        query, key, value = fused.unbind(dim=2)  # (B, T, H, d)
        query, key = (
            reference.apply_rotary(part.transpose(1, 2), positions, self.base).transpose(1, 2) for part in (query, key)
        )
        scores = torch.einsum("bihd,bjhd->bhij", query, key) * self.d**-0.5
        row = torch.arange(T, device=x.device)
        scores = scores.masked_fill(row[None, :] > row[:, None], torch.finfo(x.dtype).min)
        context = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), value)
        return self.c_proj(context.reshape(B, T, -1))


@variant(
    replaces="RotarySelfAttention",
    trades="Halves need no stepping over columns, which is faster; weights trained so no longer fit the other layout.",
)
class halves_with_converted_weights(Layers):
    """Query and key are turned in the half-split layout: their scores are the same, as both are permuted alike."""

    def turned(self, part: Tensor, angle: Tensor) -> Tensor:
        first, second = reference.to_half_split(part).chunk(2, dim=-1)
        cos, sin = angle.cos().to(part), angle.sin().to(part)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        query, key, value = (
            part.unflatten(-1, (self.n_head, self.d)).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=-1)
        )
        angle = positions[:, None] * reference.rotary_frequencies(self.d, self.base, x.device)
        query, key = self.turned(query, angle), self.turned(key, angle)
        context = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.c_proj(context.transpose(1, 2).flatten(2))


@variant(
    replaces="RotarySelfAttention",
    trades="The frequencies are made once and stay float32 after `.to`; each call moves them where the input is.",
)
class table_of_frequencies(Layers):
    """The frequencies are a plain tensor made once and moved at each call, the heads a loop."""

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        super().__init__(n_embd, n_head, bias, base)
        self.theta = reference.rotary_frequencies(self.d, base)

    def turned(self, part: Tensor, angle: Tensor) -> Tensor:
        pairs = part.unflatten(-1, (self.d // 2, 2))
        u, v = pairs[..., 0], pairs[..., 1]
        cos, sin = torch.cos(angle).type_as(part), torch.sin(angle).type_as(part)
        return torch.stack((cos * u - sin * v, cos * v + sin * u), dim=-1).reshape(part.shape)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        T = x.shape[1]
        place = torch.arange(T, device=x.device) if positions is None else positions
        angle = place.unsqueeze(-1).float() * self.theta.to(x.device)
        heads = []
        hidden = torch.full((T, T), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        parts = [part.split(self.d, dim=-1) for part in self.c_attn(x).chunk(3, dim=-1)]
        for query, key, value in zip(*parts, strict=True):
            scores = self.turned(query, angle) @ self.turned(key, angle).mT / math.sqrt(self.d) + hidden
            heads.append(torch.softmax(scores, dim=-1) @ value)
        return self.c_proj(torch.cat(heads, dim=-1))
