"""Sinusoidal positions: where a token stands, told by waves

Attention by itself does not know the order of its tokens. The first Transformer adds a vector to each of them that
depends on the position alone: sines and cosines, from a fast wave to a very slow one. Nothing of it is learned.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. A module has no other parameters than those named: here it has none. Where a ValueError is named, any error will
do.

Off limits: none.
"""

import torch
from torch import Tensor, nn


def sinusoidal_encoding(
    num_positions: int, d_model: int, base: float = 10000.0, device: torch.device | str | None = None
) -> Tensor:
    """The encoding of the positions 0 to T - 1.

    At position p, column 2i holds sin(p / base^(2i / d_model)), and column 2i + 1 the cosine of the same angle. When
    `d_model` is odd, the last column is a sine.

    Args:
        num_positions: number of positions T.
        d_model: width of a token.
        base: the wavelengths run from 2π towards base · 2π.
        device: where the result is made.

    Returns:
        float32 of shape `(T, d_model)`, within 1e-5 at the first 64 positions, and within 1e-3 up to position 4096.
    """
    ### BEGIN SOLUTION
    # In float64: float32 rounds an angle near 4000 by 1e-4, and its sine with it.
    position = torch.arange(num_positions, dtype=torch.float64, device=device)  # (T)
    even_column = torch.arange(0, d_model, 2, dtype=torch.float64, device=device)  # (ceil(d_model / 2))
    frequency = base ** (-even_column / d_model)  # (ceil(d_model / 2))
    angle = position[:, None] * frequency  # (T, ceil(d_model / 2))

    pairs = torch.stack([angle.sin(), angle.cos()], dim=-1)  # (T, ceil(d_model / 2), 2)
    # An odd width has no room for the cosine of its last pair.
    return pairs.flatten(1)[:, :d_model].to(torch.float32)  # (T, d_model)
    ### END SOLUTION


class PositionalEncoding(nn.Module):
    """Adds the sinusoidal encoding of its position to each token. It has no parameters.

    Args:
        d_model: width of a token.
        max_len: the most tokens a sequence may have.
    """

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.d_model = d_model
        self.max_len = max_len
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Add the encoding of the positions 0 to T - 1, and do nothing else: no dropout, no scaling.

        Shapes: `x` is `(..., T, d_model)`, with any number of leading dimensions, none included, and so is the result.
        It has the dtype and the device of `x`. In float16 and bfloat16 the encoding is off by its own rounding only,
        at any position, also after the module was moved with `.to(dtype)`.

        Raises:
            ValueError: when T is larger than `max_len`.
        """
        ### BEGIN SOLUTION
        num_tokens = x.shape[-2]
        if num_tokens > self.max_len:
            raise ValueError(f"x has {num_tokens} tokens, but max_len is {self.max_len}")
        # Made in each call and in float32: a position above 256 has no bfloat16 of its own.
        encoding = sinusoidal_encoding(num_tokens, self.d_model, device=x.device)  # (T, d_model), float32
        return x + encoding.to(x.dtype)  # (..., T, d_model)
        ### END SOLUTION
