"""The context of a call: applies its options and records measurements."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from grader.calls import counters
from grader.calls.builtins import BuiltIns
from grader.calls.call import Measure, Options, Outcome
from grader.calls.counters import (
    KernelLaunches,
    LargestStorage,
    LiveStorages,
    MatrixProducts,
    Narrowed,
    SavedForBackward,
)
from grader.calls.memory import PeakMemory, UncompiledMode
from grader.calls.reads import FunctionNames, Reads, Watched


class Circumstances(ExitStack):
    """Enters the contexts for a call's options; `note` then puts what was recorded into the outcome.

    `called`: the objects that take part in the call; `narrows`: a narrowed precision is noted; `trusted`: nobody will
    ask whether the code did on `meta` what it does elsewhere, or computed in float32.
    """

    def __init__(
        self, options: Options, built_ins: BuiltIns | None, called: Iterable[Any] = (), narrows: bool = False,
        trusted: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self._options, self._built_ins = options, built_ins
        on_meta = options.device == "meta" and (not trusted or Reads.record is not None)
        self._functions = (Watched if on_meta else FunctionNames)() if options.functions or on_meta else None
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

    def __enter__(self) -> Circumstances:
        super().__enter__()
        if self._options.no_grad:
            self.enter_context(torch.no_grad())
        if self._options.made_on_meta:
            self.enter_context(torch.device("meta"))
            self.enter_context(CopiesStay())
        if self._options.device == "meta":
            self.enter_context(OneDevice())  # type: ignore[no-untyped-call]  # torch gives it no types
        if "triton" in sys.modules:
            self.enter_context(UnwrittenIsNan())
            self.enter_context(np.errstate(all="ignore"))  # its interpreter warns where a GPU says nothing
        if self._built_ins and not (self._built_ins.looks or self._meters):
            counters.rest()
        for watch in (self._built_ins, self._functions, self._narrowed, *self._meters.values()):
            if watch is not None:
                self.enter_context(watch)
        return self

    @property
    def functions(self) -> FunctionNames | None:
        """The torch functions that were called, where they are recorded: on `meta` always, unless trusted."""
        return self._functions

    def note(self, outcome: Outcome, result: Any) -> None:
        """Puts what was recorded into the outcome of a call that gave this result."""
        if self._functions is not None and self._options.functions:
            outcome.functions = sorted(self._functions.names)
        if saved := self._meters.get("saved"):
            saved.add_what_is_left(result)
        if self._narrowed is not None:
            outcome.narrowed = self._narrowed.seen
        outcome.measured = {
            measure: meter.measured for measure, meter in self._meters.items() if meter.measured is not None
        }


class CopiesStay(TorchFunctionMode):
    """Makes a tensor from a tensor where that lies, as in every process whose default device is the CPU: there torch
    moves to a default device only what comes from numbers."""

    MAKERS = (torch.tensor, torch.as_tensor, torch.asarray)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = args[0] if args else kwargs.get("data", kwargs.get("obj"))
        if func in self.MAKERS and isinstance(given, Tensor) and kwargs.get("device") is None:
            kwargs = kwargs | {"device": given.device}
        return func(*args, **kwargs)


class UnwrittenIsNan(TorchFunctionMode):
    """Fills with NaN what is made without values, where kernels are to write it: memory holds what was there before,
    another number in each run, and now and then the right one."""

    MAKERS = (torch.empty, torch.empty_like, torch.empty_strided, Tensor.new_empty, Tensor.new_empty_strided)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in self.MAKERS and made.is_floating_point():
            with torch.no_grad():  # a leaf with gradients refuses
                made.fill_(math.nan)
        return made


class OneDevice(UncompiledMode):
    """Refuses to mix tensors on `meta` with others, as an accelerator does: some ops don't check this on `meta`.

    Copies between devices are allowed, and an accelerator accepts indices from the CPU.
    """

    MASKED = ("masked_fill", "masked_fill_", "masked_select", "masked_scatter", "masked_scatter_")
    MIXING = ("copy_", "_to_copy", "index", "index_put", "index_put_", "set_", "detach")

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        leaves = _tensors([*args, *kwargs.values()] if kwargs else args)
        others = [leaf for leaf in leaves if not leaf.is_meta]
        if others and len(leaves) > 1:
            name = func.name().removeprefix("aten::").partition(".")[0]  # type: ignore[attr-defined]  # an op has one
            # A mask has to lie there even where it is a single number.
            elsewhere = [leaf for leaf in others if leaf.dim() > 0 or (name in self.MASKED and leaf is args[1])]
            if elsewhere and len(elsewhere) < len(leaves) and name not in self.MIXING:
                stray = elsewhere[0]
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but {name} got one on meta and one of shape "
                    f"{tuple(stray.shape)} on {stray.device}"
                )
            numbers = sum(leaf.dim() == 0 and leaf.device.type == "cpu" for leaf in others)
            if 0 < numbers < len(leaves):
                # A scalar on the CPU is accepted by an accelerator; some of torch's meta kernels refuse it.
                args, kwargs = tree_map(_number_on_meta, (args, kwargs))
        return func(*args, **kwargs)


def _number_on_meta(leaf: Any) -> Any:
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
