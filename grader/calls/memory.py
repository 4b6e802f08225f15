"""The memory of a call: the largest storage that torch made, the peak of Python's allocator, and whether a second call
writes where the first one's result lies."""

from __future__ import annotations

import _tracemalloc
import functools
import mmap
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.bias import CausalBias
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes as beside_modes  # before a learner's are noted

from grader.calls.values import leaves

Made = TypeVar("Made", bound=Callable[..., Any])


def in_place_of(function: Callable[..., Any]) -> Callable[[Made], Made]:
    """`functools.wraps` without `__wrapped__`, by which `inspect.unwrap` would give the original."""

    def dressed(stand_in: Made) -> Made:
        functools.update_wrapper(stand_in, function)
        del stand_in.__wrapped__  # type: ignore[attr-defined]
        return stand_in

    return dressed


class UncompiledMode(TorchDispatchMode):
    """A dispatch mode that torch does not hide from its compiler: hiding it would import the whole compiler."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def _bias_beside_modes(kind: type, *sizes: Any) -> Any:
    """A `causal_lower_right(…)`, made while no dispatch mode looks: torch can't make one where a mode does."""
    with beside_modes():
        return Tensor.__new__(kind, *sizes)


CausalBias.__new__ = _bias_beside_modes  # type: ignore[assignment,method-assign]  # it has none of its own


class ResultBefore:
    """A call of `target` with the same tensors and arrays, which hold other values meanwhile, and what its result was
    then. What is returned of the arguments' own memory does not count: it has to change with them."""

    def __init__(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        given = [leaf for leaf in leaves((args, dict(kwargs))) if isinstance(leaf, Tensor | np.ndarray)]
        values = [_copy(leaf) for leaf in given]
        for leaf in given:
            _fill(leaf, _other(leaf))
        result = target(*args, **kwargs)
        ours = {leaf.untyped_storage().data_ptr() for leaf in given if isinstance(leaf, Tensor) and not leaf.is_meta}
        self._tensors = [
            leaf
            for leaf in leaves(result)
            if isinstance(leaf, Tensor) and not leaf.is_meta and leaf.untyped_storage().data_ptr() not in ours
        ]
        self._before = [tensor.detach().clone() for tensor in self._tensors]
        # By NumPy alone: torch may be off limits in the call.
        arrays = [leaf for leaf in given if isinstance(leaf, np.ndarray)]
        self._arrays = [
            leaf
            for leaf in leaves(result)
            if isinstance(leaf, np.ndarray) and not any(np.may_share_memory(leaf, array) for array in arrays)
        ]
        self._arrays_before = [array.copy() for array in self._arrays]
        for leaf, value in zip(given, values, strict=True):
            _fill(leaf, value)

    def has_changed(self) -> bool:
        """Whether a later call wrote over it."""
        pairs = zip(self._before, self._tensors, strict=True)
        if not all(torch.equal(was.nan_to_num(), tensor.nan_to_num()) for was, tensor in pairs):
            return True
        arrays = zip(self._arrays_before, self._arrays, strict=True)
        return not all(was.tobytes() == array.tobytes() for was, array in arrays)


def _copy(leaf: Tensor | np.ndarray[Any, Any]) -> Any:
    return leaf.detach().clone() if isinstance(leaf, Tensor) else leaf.copy()


def _fill(leaf: Tensor | np.ndarray[Any, Any], values: Any) -> None:
    if isinstance(leaf, np.ndarray):
        np.copyto(leaf, values)
    else:
        leaf.detach().copy_(values)


def _other(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f":
        return -leaf
    if not isinstance(leaf, Tensor) or leaf.dtype == torch.bool:
        return leaf  # a mask must keep a True in each row
    leaf = leaf.detach()
    return -leaf if leaf.is_floating_point() else leaf.flip(-1)  # token ids must stay ids


class PeakMemory:
    """Measures the peak, in bytes, of what Python and NumPy allocate inside the block beyond what they held before.

    It does not include torch's tensors or BLAS workspaces. Files that are mapped into memory count as memory, from the
    first one on. Code that stops or resets the measurement gets none.
    """

    disturbed = False  # set by calls that may disturb it; a process has only one tracemalloc
    mapped = 0  # bytes of files

    def __init__(self) -> None:
        self.measured: int | None = None

    def __enter__(self) -> PeakMemory:
        _warm_up()
        self._before_us = tracemalloc.is_tracing()
        if not self._before_us:
            _START()
        _RESET_PEAK()
        PeakMemory.disturbed = False
        self._before = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *exception: object) -> None:
        if tracemalloc.is_tracing() and not PeakMemory.disturbed:
            self.measured = max(_GET_TRACED_MEMORY()[1] - self._before, 0) + PeakMemory.mapped
        if not self._before_us:
            _STOP()


@functools.cache
def _warm_up() -> None:
    """Makes NumPy import and cache what it needs for these operations."""
    x = np.ones((2, 2), dtype=np.float32)
    np.einsum("ij,kj->ik", x, x, optimize=True)
    np.exp(x - x.max(axis=-1, keepdims=True)) @ np.swapaxes(x, -1, -2)
    np.where(np.tril(x) > 0, x, -np.inf).sum(axis=-1)
    np.concatenate([x, np.zeros_like(x)])


def _noting(function: Callable[..., Any]) -> Callable[..., Any]:
    @in_place_of(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        PeakMemory.disturbed = True
        return function(*args, **kwargs)

    return noting


class _Mapped(mmap.mmap):
    """A mapped file, which counts."""

    def __new__(cls, *given: Any, **named: Any) -> Self:
        made = super().__new__(cls, *given, **named)
        PeakMemory.mapped += len(made)
        return made


mmap.mmap = _Mapped  # type: ignore[misc]  # np.memmap looks it up there
_START, _STOP, _RESET_PEAK = tracemalloc.start, tracemalloc.stop, tracemalloc.reset_peak
_GET_TRACED_MEMORY = tracemalloc.get_traced_memory
for _module in (tracemalloc, _tracemalloc):  # before a learner's file can import the originals
    for _name in ("stop", "reset_peak", "clear_traces"):
        setattr(_module, _name, _noting(getattr(_module, _name)))
