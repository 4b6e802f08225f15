"""`RotarySelfAttention` cut into pieces, and the rotation."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from solutions.core.step07_heads.reference import merge_heads, split_heads
from solutions.positions.step18_rotary import reference

Names = dict[str, object]
Parts = tuple[Tensor, Tensor, Tensor]


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
