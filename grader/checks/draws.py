"""Random inputs for a check, reproducible from the seed and the check."""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from grader.checks.bounded import lifted

Drawn = TypeVar("Drawn", Tensor, int)
Array = np.ndarray[Any, Any]

TORCH_DTYPES = {np.dtype(np.float64): torch.float64, np.dtype(np.float32): torch.float32}


def stream_seed(seed: int, check: str, *, stream: str) -> int:
    """The seed of one stream of random numbers in one check.

    A worker sees the seed of torch's own stream. Each stream has its own key, so that this seed reveals neither the
    run's seed nor the inputs to come.
    """
    digest = hmac.digest(f"{stream}:{seed}".encode(), check.encode(), "sha256")
    return int.from_bytes(digest[:7], "big")


class Draw:
    """Draws the inputs of one check from the run's seed.

    One seed gives the same numbers on every device and machine, under every version of torch and NumPy: the bits are
    those of a PCG64, a stream that NumPy never changes, and all that is computed of them in float64 is exact. So a tape
    holds no inputs. The values are rounded to the requested dtype, on the CPU.
    """

    taken = False  # whether the check drew anything: what it asks is then not known in advance

    def __init__(self, seed: int, check: str) -> None:
        self._seeded_by = (seed, check)

    @cached_property
    def _source(self) -> np.random.PCG64DXSM:
        return np.random.PCG64DXSM(stream_seed(*self._seeded_by, stream="draws"))

    def _words(self, count: int) -> Array:
        """(count,) random words of 64 bits."""
        words: Array = self._source.random_raw(count)
        return words

    def _fractions(self, *shape: int) -> Tensor:
        """Uniform multiples of 2^-53 in [0, 1), float64."""
        return torch.from_numpy((self._words(math.prod(shape)) >> 11) * 2.0**-53).view(shape)

    def _integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers (int64) from `low` up to but not including `high`."""
        words = self._words(math.prod(shape)) % np.uint64(high - low)
        return torch.from_numpy(words.astype(np.int64)).view(shape) + low

    @property
    def arrays(self) -> _Arrays:
        """The same draws, as NumPy arrays: `draw.arrays.normal(2, 3)`."""
        return _Arrays(self)

    def _take(self, make: Callable[[], Drawn]) -> Drawn:
        """Draws, noting that the check has drawn."""
        self.taken = True
        with lifted():
            return self._made(make)

    def _made(self, make: Callable[[], Drawn]) -> Drawn:
        """Returns what `make` draws. Every draw goes through here: a cache replays it."""
        return make()

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Normal values of standard deviation `scale`, in the given shape: sums of twelve uniform ones of 16 bits, and
        as many bits more below these, within 6 standard deviations."""

        def make() -> Tensor:
            """Sums twelve uniform numbers for each value: normal enough, and the same bits everywhere."""
            count = math.prod(shape)
            words = self._words(4 * count)
            values = np.add.reduce(words[count:].view(np.uint16).reshape(12, count), 0, np.float64)
            values += words[:count].view(np.uint32)[::2] * 2.0**-32
            values += 5.5 - 6 * 2**16  # 12 times (2^16 - 1) / 2, and half of the last bit, is their mean
            values *= 2.0**-16 * scale
            if dtype == torch.float32:  # what most draws are: one operation of torch less
                return torch.from_numpy(values.reshape(shape).astype(np.float32))
            return torch.from_numpy(values.reshape(shape)).to(dtype)

        return self._take(make)

    def uniform(self, *shape: int, low: float = -1.0, high: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Values uniform in [low, high), in the given shape."""
        return self._take(lambda: (low + (high - low) * self._fractions(*shape)).to(dtype))

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers (int64) from `low` up to but not including `high`, in the given shape."""
        return self._take(lambda: self._integers(low, high, *shape))

    def integer(self, low: int, high: int) -> int:
        """One whole number from `low` to `high`, both included."""
        return self._take(lambda: int(self._integers(low, high + 1)))

    def seed(self) -> int:
        """Draws a seed for `using(seed=…)`."""
        return self.integer(1, 2**31 - 2)

    def permutation(self, count: int) -> Tensor:
        """The numbers 0 to count - 1 in random order (int64)."""
        return self._take(lambda: torch.from_numpy(np.argsort(self._words(count), kind="stable")))

    def mask(self, *shape: int) -> Tensor:
        """A boolean mask (True: may attend). Every row has a True, and a False if it has two positions or more."""

        def make() -> Tensor:
            """Draws a mask that shows six tenths of the entries, with one shown in each row, and one hidden if the row
            is wider."""
            mask = self._fractions(*shape) < 0.6
            rows, width = mask.view(-1, shape[-1]), shape[-1]
            every, shown = torch.arange(len(rows)), self._integers(0, width, len(rows))
            if width > 1:
                rows[every, (shown + self._integers(1, width, len(rows))) % width] = False
            rows[every, shown] = True
            return mask

        return self._take(make)

    def parameters(self, initial: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Values for parameters of these names and shapes.

        Matrices preserve the size of activations (standard deviation 1 / sqrt(inputs)); vectors vary around their
        initial mean, so that a norm's weight is near one and every bias matters.
        """
        matrices = {name: value for name, value in initial.items() if value.dim() > 1}
        vectors = {name: value for name, value in initial.items() if value.dim() <= 1}
        drawn: dict[str, Tensor] = {}
        with lifted():  # nothing is computed of two tensors of different shapes
            for name, numbers in self._shared_out(self.normal, matrices):
                drawn[name] = numbers * matrices[name].shape[-1] ** -0.5
            for name, numbers in self._shared_out(self.uniform, vectors):
                drawn[name] = 0.5 * numbers + round(float(vectors[name].mean()))
            for name, value in matrices.items():
                # Two names of a tied weight hold the same random numbers, on any device or tape.
                tied = next(other for other in matrices if _is_one(matrices[other], value))
                drawn[name] = drawn[tied]
        return {name: drawn[name] for name in initial}

    @staticmethod
    def _shared_out(draw: Callable[[int], Tensor], values: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Yields each name with random numbers in the shape of its value: `draw(count)` is called once for all, since
        each draw is slow."""
        sizes = [value.numel() for value in values.values()]
        parts = draw(sum(sizes)).split(sizes)
        for (name, value), part in zip(values.items(), parts, strict=True):
            yield name, part.view(value.shape)


class Shapes:
    """Draws shapes only: tensors on `meta`."""

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
        """A tensor on `meta` in the shape of `Draw.normal`."""
        return torch.empty(shape, dtype=dtype, device="meta")

    def uniform(self, *shape: int, low: float = -1.0, high: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
        """A tensor on `meta` in the shape of `Draw.uniform`."""
        return torch.empty(shape, dtype=dtype, device="meta")

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """A tensor on `meta` in the shape of `Draw.integers`."""
        return torch.empty(shape, dtype=torch.int64, device="meta")

    def mask(self, *shape: int) -> Tensor:
        """A tensor on `meta` in the shape of `Draw.mask`."""
        return torch.empty(shape, dtype=torch.bool, device="meta")


class _Arrays:
    """Draws NumPy arrays."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def normal(self, *shape: int, scale: float = 1.0, dtype: type[np.floating[Any]] = np.float32) -> Array:
        """Normal values of standard deviation `scale`, in the given shape."""
        return self._draw.normal(*shape, scale=scale, dtype=TORCH_DTYPES[np.dtype(dtype)]).numpy()

    def uniform(
        self, *shape: int, low: float = -1.0, high: float = 1.0, dtype: type[np.floating[Any]] = np.float32
    ) -> Array:
        """Values uniform in [low, high), in the given shape."""
        return self._draw.uniform(*shape, low=low, high=high, dtype=TORCH_DTYPES[np.dtype(dtype)]).numpy()

    def integers(self, low: int, high: int, *shape: int) -> Array:
        """Whole numbers (int64) from `low` up to but not including `high`, in the given shape."""
        return self._draw.integers(low, high, *shape).numpy()

    def permutation(self, count: int) -> Array:
        """The numbers 0 to count - 1 in random order (int64)."""
        return self._draw.permutation(count).numpy()

    def mask(self, *shape: int) -> Array:
        """A boolean mask, as `Draw.mask` makes it."""
        return self._draw.mask(*shape).numpy()


def _is_one(first: Tensor, second: Tensor) -> bool:
    """Whether two parameters are one under two names, a tied weight: the same tensor, or equal ones."""
    return first is second or (first.shape == second.shape and torch.equal(first, second))
