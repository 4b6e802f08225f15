"""Other right ways to do step 16: none of them may lose a point."""

import math

import torch
from torch import Tensor, nn

from grader.checks.catalogue import variant
from solutions.positions.step16_sinusoidal import reference

Device = torch.device | str | None


def table(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """The table of the tutorials: filled by slices, frequencies by exp and log."""
    position = torch.arange(num_positions, device=device).unsqueeze(1)
    divisor = torch.exp(torch.arange(0, d_model, 2, device=device) * (-math.log(base) / d_model))
    encoding = torch.zeros(num_positions, d_model, device=device)
    encoding[:, 0::2] = torch.sin(position * divisor)
    encoding[:, 1::2] = torch.cos(position * divisor[: d_model // 2])
    return encoding


@variant(
    replaces=("sinusoidal_encoding", "PositionalEncoding"),
    trades="The table is made once, and a call only reads it; it takes max_len × d_model numbers, and `.to` rounds it.",
)
def table_of_the_tutorials() -> dict[str, object]:
    """The table is filled by slices, and kept in a buffer of max_len rows."""

    class PositionalEncoding(nn.Module):
        def __init__(self, d_model: int, max_len: int = 5000) -> None:
            super().__init__()
            self.register_buffer("pe", table(max_len, d_model).unsqueeze(0))

        def forward(self, x: Tensor) -> Tensor:
            assert x.size(-2) <= self.pe.size(1), "too long"
            return x + self.pe[0, : x.size(-2)].to(x.dtype).requires_grad_(False)

    return {"sinusoidal_encoding": table, "PositionalEncoding": PositionalEncoding}


@variant(replaces="sinusoidal_encoding")
def column_by_column(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """A loop over the columns, with the angle divided by the wavelength, stacked at the end."""
    position = torch.arange(num_positions, dtype=torch.float32, device=device)
    columns = []
    for column in range(d_model):
        angle = position / base ** (2 * (column // 2) / d_model)
        columns.append(torch.cos(angle) if column % 2 else torch.sin(angle))
    return torch.stack(columns, dim=1)


@variant(
    replaces="sinusoidal_encoding",
    trades="No columns are assigned, and an odd width is no special case; a quarter of a wave is rounded, too.",
)
def one_wave_with_a_shift(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """Every column is a sine; those of odd number are shifted by a quarter of a wave."""
    column = torch.arange(d_model, device=device, dtype=torch.float64)
    wavelength = torch.pow(base, torch.div(column, 2, rounding_mode="floor") * 2 / d_model)
    position = torch.arange(num_positions, device=device, dtype=torch.float64)
    return (position[:, None] / wavelength + column.remainder(2) * math.pi / 2).sin().float()


@variant(replaces="sinusoidal_encoding")
def complex_numbers(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """Points on the unit circle, of which the imaginary part is the sine."""
    frequency = 1.0 / base ** (torch.arange(0, d_model, 2, device=device).float() / d_model)
    angle = torch.outer(torch.arange(num_positions, device=device).float(), frequency)
    circle = torch.view_as_real(torch.polar(torch.ones_like(angle), angle))
    return circle.flip(-1).reshape(num_positions, -1)[:, :d_model]


@variant(
    replaces="sinusoidal_encoding",
    trades="It can be read like the formula, and every number is as exact as float64; it is many times slower.",
)
def python_numbers(num_positions: int, d_model: int, base: float = 10000.0, device: Device = None) -> Tensor:
    """Nested lists by Python's `math`, made a tensor at the end."""
    rows = [
        [
            (math.cos if column & 1 else math.sin)(position * base ** (-(column - (column & 1)) / d_model))
            for column in range(d_model)
        ]
        for position in range(num_positions)
    ]
    return torch.tensor(rows, device=device)


@variant(
    replaces="PositionalEncoding",
    trades="Saved models stay small, and max_len may change between saving and loading.",
)
class buffer_out_of_the_state_dict(nn.Module):
    """A buffer that is not saved; too long an input fails in the sum."""

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        self.register_buffer("table", reference.sinusoidal_encoding(max_len, d_model), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        T = x.shape[-2]
        if len(self.table) < T:
            raise IndexError(T)
        return torch.add(x, self.table.narrow(0, 0, T).type_as(x))


@variant(
    replaces="PositionalEncoding",
    trades="In halves one rounding in place of two; for a moment the sum takes twice the memory.",
)
class sum_in_the_wider_dtype(nn.Module):
    """The float32 table is added first, and the sum is rounded to the input's dtype."""

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        self.width, self.longest = d_model, max_len

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-2] > self.longest:
            raise ValueError("too long")
        return (x + reference.sinusoidal_encoding(x.shape[-2], self.width, device=x.device)).to(x)


@variant(replaces="PositionalEncoding")
class plain_table_moved_at_each_call(nn.Module):
    """A plain tensor, which follows the input at each call and is indexed by the positions."""

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        self.table = reference.sinusoidal_encoding(max_len, d_model)

    def forward(self, x: Tensor) -> Tensor:
        if x.size(-2) > self.table.size(0):
            raise RuntimeError("sequence too long")
        rows = self.table.to(x.device, x.dtype)[torch.arange(x.size(-2), device=x.device)]
        return x + rows.expand_as(x)
