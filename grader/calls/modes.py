"""The context of a call: applies its options and records measurements."""

from __future__ import annotations

import _tracemalloc
import functools
import math
import mmap
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.bias import CausalBias

from grader.calls.builtins import BuiltIns
from grader.calls.call import Contexts, Measure, Options, Outcome
from grader.calls.counters import (
    LargestStorage,
    LiveStorages,
    MatrixProducts,
    SavedForBackward,
)
from grader.calls.private_torch import FunctionMode, UncompiledMode, beside_modes, in_place_of, tree_map
from grader.calls.reads import FunctionNames, FunctionRecorder, Reads
from grader.calls.values import leaves


class Circumstances(Contexts):
    """Enters the contexts for a call's options; `note` then puts what was recorded into the outcome."""

    def __init__(
        self, options: Options, built_ins: BuiltIns | None, called: Iterable[Any] = (), narrows: bool = False,
        compares: bool = False,
    ) -> None:  # fmt: skip
        """Prepares the contexts. `called`: the objects that take part in the call; `narrows`: a narrowed precision is
        noted; `compares`: the call's work on `meta` is recorded, to be compared with that on the CPU."""
        super().__init__()
        self._options, self._built_ins = options, built_ins
        recorded = compares or Reads.record is not None
        self._functions = (FunctionRecorder if recorded else FunctionNames)() if options.functions or recorded else None
        self._narrowed = Narrowed() if narrows else None
        makers: dict[Measure, Callable[[], Any]] = {
            "largest": LargestStorage,
            "live": LiveStorages,
            "products": lambda: MatrixProducts(options.device == "meta"),
            "saved": lambda: SavedForBackward(called),
            "launches": KernelLaunches,
            "peak": PeakMemory,  # last, so that it does not include what the other contexts allocate
        }
        self._meters = {measure: make() for measure, make in makers.items() if measure in options.measures}

    def __enter__(self) -> Self:
        """Enters each context that the options of the call ask for."""
        if self._options.no_grad:
            self.enter_context(torch.no_grad())
        if self._options.made_on_meta:
            self.enter_context(torch.device("meta"))
            self.enter_context(CopiesStay())
        if self._options.device == "meta":
            self.enter_context(OneDevice())  # type: ignore[no-untyped-call]  # torch gives it no types
        if "triton" in sys.modules:
            self.enter_context(UnwrittenIsNan())
            self.enter_context(np.errstate(all="ignore"))  # its interpreter warns of what a GPU ignores
        for watch in (self._built_ins, self._functions, self._narrowed, *self._meters.values()):
            if watch is not None:
                self.enter_context(watch)
        return self

    @property
    def functions(self) -> FunctionNames | None:
        """The torch functions that were called, if they are recorded."""
        return self._functions

    def note(self, outcome: Outcome, result: Any) -> None:
        """Puts the recorded names and measurements into the outcome of the call that gave this result."""
        if self._functions is not None and self._options.functions:
            outcome.functions = sorted(self._functions.names)
        if saved := self._meters.get("saved"):
            saved.add_what_is_left(result)
        if self._narrowed is not None:
            outcome.narrowed = self._narrowed.seen
        outcome.measured = {
            measure: meter.measured for measure, meter in self._meters.items() if meter.measured is not None
        }


class Ordinary(nullcontext[None]):
    """Replaces `Circumstances` for calls of trusted code without options: most of a reference's."""

    functions = None

    @staticmethod
    def suits(options: Options) -> bool:
        """True if no option is set."""
        any_option = options.measures or options.functions or options.no_grad or options.made_on_meta
        return not any_option and options.device != "meta" and "triton" not in sys.modules

    def note(self, outcome: Outcome, result: Any) -> None:
        """Notes nothing."""


class CopiesStay(FunctionMode):
    """Makes a tensor from a tensor on the same device, as in a process with the CPU as its default device: torch moves
    only tensors made from numbers to another default device."""

    MAKERS = (torch.tensor, torch.as_tensor, torch.asarray)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls a function; a copy of a tensor is made on the device of that tensor."""
        kwargs = kwargs or {}
        source = args[0] if args else kwargs.get("data", kwargs.get("obj"))
        if func in self.MAKERS and isinstance(source, Tensor) and kwargs.get("device") is None:
            kwargs = kwargs | {"device": source.device}
        return func(*args, **kwargs)


class UnwrittenIsNan(FunctionMode):
    """Fills uninitialised tensors with NaN, if kernels are to write them: memory holds old values, other ones in each
    run, and now and then the right ones."""

    MAKERS = (torch.empty, torch.empty_like, torch.empty_strided, Tensor.new_empty, Tensor.new_empty_strided)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls a function, and fills what `empty` and its like return with NaN."""
        result = func(*args, **(kwargs or {}))
        if func in self.MAKERS and result.is_floating_point():
            with torch.no_grad():  # a leaf with gradients refuses
                result.fill_(math.nan)
        return result


def _bias_beside_modes(kind: type, *sizes: Any) -> Any:
    """torch's `causal_lower_right(…)` tensor, made outside all dispatch modes: torch can't make one inside."""
    with beside_modes():
        return Tensor.__new__(kind, *sizes)


CausalBias.__new__ = _bias_beside_modes  # type: ignore[assignment,method-assign]  # it has none of its own


class OneDevice(UncompiledMode):
    """Refuses to mix tensors on `meta` with others, as an accelerator does: some ops don't check this on `meta`.

    Copies between devices are allowed, and an accelerator accepts indices from the CPU.
    """

    MASKED = ("masked_fill", "masked_fill_", "masked_select", "masked_scatter", "masked_scatter_")
    MIXING = ("copy_", "_to_copy", "index", "index_put", "index_put_", "set_", "detach")

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs an op. Raises RuntimeError, as an accelerator does, if it mixes `meta` and CPU tensors."""
        kwargs = kwargs or {}
        tensors = _tensors([*args, *kwargs.values()] if kwargs else args)
        others = [leaf for leaf in tensors if not leaf.is_meta]
        if others and len(tensors) > 1:
            name = func.name().removeprefix("aten::").partition(".")[0]  # type: ignore[attr-defined]  # an op has one
            # A mask has to lie there even if it is a single number.
            elsewhere = [leaf for leaf in others if leaf.dim() > 0 or (name in self.MASKED and leaf is args[1])]
            if elsewhere and len(elsewhere) < len(tensors) and name not in self.MIXING:
                stray = elsewhere[0]
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but {name} got one on meta and one of shape "
                    f"{tuple(stray.shape)} on {stray.device}"
                )
            numbers = sum(leaf.dim() == 0 and leaf.device.type == "cpu" for leaf in others)
            if 0 < numbers < len(tensors):
                # A scalar on the CPU is accepted by an accelerator; some of torch's meta kernels refuse it.
                args, kwargs = tree_map(_number_on_meta, (args, kwargs))
        return func(*args, **kwargs)


def _number_on_meta(leaf: Any) -> Any:
    """A CPU tensor without dimensions moved to `meta`; any other value itself."""
    return leaf.to("meta") if isinstance(leaf, Tensor) and leaf.dim() == 0 and leaf.device.type == "cpu" else leaf


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among an op's arguments, also in lists."""
    tensors: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, list | tuple):
            tensors += [item for item in value if isinstance(item, Tensor)]
    return tensors


class Narrowed(UncompiledMode):
    """Notes whether an op inside the block gives a float32 or a half."""

    supports_higher_order_operators = True  # torch.cond and the like are run as they are

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.seen = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs an op, and sets `seen` if a result is a float other than float64."""
        result = func(*args, **(kwargs or {}))
        for leaf in result if isinstance(result, list | tuple) else (result,):
            self.seen |= isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.dtype != torch.float64
        return result


# --- memory ----------------------------------------------------------------------------------------------------------


class ResultBefore:
    """The result of `target` before its tensors and arrays got other values for a second call. Results that share the
    arguments' memory don't count: they have to change with them."""

    def __init__(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Calls the target with other values in its arguments, keeps a copy of the result, and restores the
        arguments."""
        arguments = [leaf for leaf in leaves((args, dict(kwargs))) if isinstance(leaf, Tensor | np.ndarray)]
        values = [_copy(leaf) for leaf in arguments]
        for leaf in arguments:
            _fill(leaf, _other(leaf))
        result = target(*args, **kwargs)
        ours = {
            leaf.untyped_storage().data_ptr() for leaf in arguments if isinstance(leaf, Tensor) and not leaf.is_meta
        }
        self._tensors = [
            leaf
            for leaf in leaves(result)
            if isinstance(leaf, Tensor) and not leaf.is_meta and leaf.untyped_storage().data_ptr() not in ours
        ]
        self._before = [tensor.detach().clone() for tensor in self._tensors]
        # By NumPy alone: torch may be off limits in the call.
        arrays = [leaf for leaf in arguments if isinstance(leaf, np.ndarray)]
        self._arrays = [
            leaf
            for leaf in leaves(result)
            if isinstance(leaf, np.ndarray) and not any(np.may_share_memory(leaf, array) for array in arrays)
        ]
        self._arrays_before = [array.copy() for array in self._arrays]
        for leaf, value in zip(arguments, values, strict=True):
            _fill(leaf, value)

    def has_changed(self) -> bool:
        """Whether the result of the first call has other values by now."""
        pairs = zip(self._before, self._tensors, strict=True)
        if not all(torch.equal(was.nan_to_num(), tensor.nan_to_num()) for was, tensor in pairs):
            return True
        arrays = zip(self._arrays_before, self._arrays, strict=True)
        return not all(was.tobytes() == array.tobytes() for was, array in arrays)


def _copy(leaf: Tensor | np.ndarray[Any, Any]) -> Any:
    return leaf.detach().clone() if isinstance(leaf, Tensor) else leaf.copy()


def _fill(leaf: Tensor | np.ndarray[Any, Any], values: Any) -> None:
    """Overwrites a tensor or an array with these values."""
    if isinstance(leaf, np.ndarray):
        np.copyto(leaf, values)
    else:
        leaf.detach().copy_(values)


def _other(leaf: Any) -> Any:
    """Other values in the shape and dtype of an argument: negated numbers, reversed ids; masks stay as they are."""
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
        """Starts to trace allocations, unless they are traced; the peak counts from here."""
        _warm_up()
        self._before_us = tracemalloc.is_tracing()
        if not self._before_us:
            _START()
        _RESET_PEAK()
        PeakMemory.disturbed = False
        self._before = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *exception: object) -> None:
        """Sets `measured`, in bytes, unless the code disturbed the tracing."""
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
    """A function of `tracemalloc`, wrapped so that a call of it makes the measurement void."""

    @in_place_of(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        PeakMemory.disturbed = True
        return function(*args, **kwargs)

    return noting


class _CountedMap(mmap.mmap):
    """A memory-mapped file, which counts as allocated."""

    def __new__(cls, *args: Any, **named: Any) -> Self:
        mapping = super().__new__(cls, *args, **named)
        PeakMemory.mapped += len(mapping)
        return mapping


mmap.mmap = _CountedMap  # type: ignore[misc]  # np.memmap looks it up there
_START, _STOP, _RESET_PEAK = tracemalloc.start, tracemalloc.stop, tracemalloc.reset_peak
_GET_TRACED_MEMORY = tracemalloc.get_traced_memory
for _module in (tracemalloc, _tracemalloc):  # before a learner's file can import the originals
    for _name in ("stop", "reset_peak", "clear_traces"):
        setattr(_module, _name, _noting(getattr(_module, _name)))


# --- kernels ----------------------------------------------------------------------------------------------------------

LAUNCHERS = (
    ("triton.runtime.interpreter", "GridExecutor", "__call__"),
    ("triton.runtime.jit", "JITFunction", "run"),
)


class KernelLaunches(Contexts):
    """Counts the launches of Triton's kernels inside the block: compiled ones, and those that its interpreter runs."""

    def __init__(self) -> None:
        super().__init__()
        self.measured = 0

    def __enter__(self) -> KernelLaunches:
        """Wraps Triton's launchers until the block ends, as far as they are imported."""
        super().__enter__()
        for module, name, method in LAUNCHERS:
            if owner := getattr(sys.modules.get(module), name, None):  # nothing is launched before it is imported
                launch = getattr(owner, method)
                setattr(owner, method, self._counting(launch))
                self.callback(setattr, owner, method, launch)
        return self

    def _counting(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        """A launcher, wrapped so that its calls are counted."""

        @in_place_of(launch)
        def counting(*args: Any, **kwargs: Any) -> Any:
            self.measured += 1
            return launch(*args, **kwargs)

        return counting
