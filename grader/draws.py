"""Fresh inputs for a check, the same again for the same seed and check."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

Drawn = TypeVar("Drawn", Tensor, int)


class Draw:
    """Draws the inputs of one check from the run's seed.

    Values are always drawn on the CPU, in float64, and rounded to the dtype asked for, so that one seed gives the same
    numbers on every device.
    """

    def __init__(self, seed: int, check: str) -> None:
        self._seeded_by = f"{seed}:{check}"

    @cached_property
    def _generator(self) -> torch.Generator:
        digest = hashlib.sha256(self._seeded_by.encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    def _made(self, make: Callable[[], Drawn]) -> Drawn:
        """What `make` draws. Every draw goes through here: a recording keeps it, a tape or a memory gives it back."""
        return make()

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Normal values of standard deviation `scale`, in the given shape."""
        return self._made(
            lambda: (torch.randn(shape, generator=self._generator, dtype=torch.float64) * scale).to(dtype)
        )

    def uniform(self, *shape: int, low: float = -1.0, high: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Values uniform in [low, high), in the given shape."""

        def make() -> Tensor:
            values = torch.rand(shape, generator=self._generator, dtype=torch.float64)
            return (low + (high - low) * values).to(dtype)

        return self._made(make)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers (int64) from `low` up to but not including `high`, in the given shape."""
        return self._made(lambda: torch.randint(low, high, shape, generator=self._generator))

    def integer(self, low: int, high: int) -> int:
        """One whole number from `low` to `high`, both included."""
        return self._made(lambda: int(torch.randint(low, high + 1, (), generator=self._generator)))

    def seed(self) -> int:
        """A seed for `using(seed=…)`."""
        return self.integer(1, 2**31 - 2)

    def permutation(self, count: int) -> Tensor:
        """The numbers 0 to count - 1 in random order (int64)."""
        return self._made(lambda: torch.randperm(count, generator=self._generator))

    def mask(self, *shape: int) -> Tensor:
        """A boolean mask (True: may attend). Every row has a True, and a False where it has two positions or more."""

        def make() -> Tensor:
            mask = torch.rand(shape, generator=self._generator) < 0.6
            rows, width = mask.view(-1, shape[-1]), shape[-1]
            shown = torch.randint(0, width, (len(rows),), generator=self._generator)
            shift = torch.randint(1, width, (len(rows),), generator=self._generator) if width > 1 else None
            if shift is not None:
                rows[torch.arange(len(rows)), (shown + shift) % width] = False
            rows[torch.arange(len(rows)), shown] = True
            return mask

        return self._made(make)

    def parameters(self, initial: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Values for parameters of these names and shapes.

        Matrices keep activations of ordinary size (standard deviation one over the root of the inputs); vectors lie
        around the mean of what they start with, so that a norm's weight is near one and every bias matters.
        """
        matrices = {name: value for name, value in initial.items() if value.dim() > 1}
        vectors = {name: value for name, value in initial.items() if value.dim() <= 1}
        drawn: dict[str, Tensor] = {}
        for name, numbers in self._shared_out(self.normal, matrices):
            drawn[name] = numbers * matrices[name].shape[-1] ** -0.5
        for name, numbers in self._shared_out(self.uniform, vectors):
            drawn[name] = 0.5 * numbers + round(float(vectors[name].mean()))
        for name, value in matrices.items():
            # Two names of one weight hold the same random numbers, whatever device or tape they come from.
            tied = next(other for other in matrices if _is_one(matrices[other], value))
            drawn[name] = drawn[tied]
        return {name: drawn[name] for name in initial}

    @staticmethod
    def _shared_out(draw: Callable[[int], Tensor], values: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Drawn numbers for each of the values, in its shape: one draw for all, since each takes its time."""
        sizes = [value.numel() for value in values.values()]
        parts = draw(sum(sizes)).split(sizes)
        for (name, value), part in zip(values.items(), parts, strict=True):
            yield name, part.view(value.shape)


def _is_one(first: Tensor, second: Tensor) -> bool:
    return first is second or (first.shape == second.shape and torch.equal(first, second))
