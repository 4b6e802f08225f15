"""`PositionalEncoding` cut into pieces, and the columns of its table."""

from collections.abc import Callable

import torch
from torch import Tensor

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


def counted(num_positions: int, device: Device) -> Tensor:
    """The positions, (T, 1)."""
    return torch.arange(num_positions, dtype=torch.float64, device=device)[:, None]


def even_columns(d_model: int, device: Device) -> Tensor:
    """0, 2, 4, … below the width."""
    return torch.arange(0, d_model, 2, dtype=torch.float64, device=device)


def woven(angle: Tensor, d_model: int) -> Tensor:
    """Sines and cosines of these angles, in turn."""
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model].float()
