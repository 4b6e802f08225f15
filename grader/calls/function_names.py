"""The names of the torch functions that a call used, as they are seen from Python."""

from __future__ import annotations

import sys
import types as kinds
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch

from grader.calls import counters
from grader.calls.values import leaves

# Where torch has ops of its own; in any other an op may be the learner's own work.
NAMESPACES = (*counters.NAMESPACES, "onnx")
IGNORED = {"__get__", "__set__"}  # reading `x.shape` does not count as a call
PLAIN = (kinds.FunctionType, kinds.BuiltinFunctionType, kinds.MethodDescriptorType, kinds.MethodWrapperType)


class FunctionNames(TorchFunctionMode):
    """Records the name of every torch function, method, op and higher-order op called from Python inside the block; of
    what switches this off, by a name of torch's own, `hidden` has the name."""

    hidden: set[str] = set()

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        FunctionNames.hidden = set()
        self._made: dict[int, str] = {}  # which of them gave the object of this id
        self._known: dict[Any, str] = {}  # the recorded names of functions seen before, "" for none

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            name = self._known[func]
        except (KeyError, TypeError):
            name = self._noted_as(func)
        result = func(*args, **kwargs) if kwargs else func(*args)
        if name:
            self.names.add(name)
            for made in result if isinstance(result, tuple) else (result,):
                self._made[id(made)] = name
        return result

    def makers(self, value: Any) -> list[str]:
        """Which of them gave each tensor of a value: "" where none did, as of an argument or of what was kept."""
        return [self._made.get(id(leaf), "") for leaf in leaves(value) if isinstance(leaf, Tensor)]

    def _noted_as(self, func: Callable[..., Any]) -> str:
        name = getattr(func, "__name__", None) or str(func)
        noted = "" if name in IGNORED or not _is_torchs_own(func) else str(name.partition(".")[0])
        if isinstance(func, PLAIN):  # a learner's object may claim to equal any of them
            self._known[func] = noted
        return noted


def _noted_switch(switch: Callable[[], Any]) -> Callable[[], Any]:
    def noting() -> Any:
        FunctionNames.hidden.add(switch.__name__)
        return switch()

    return noting


# Before a learner's file can import the originals.
torch._C.DisableTorchFunction = _noted_switch(torch._C.DisableTorchFunction)
_python_dispatch._disable_current_modes = _noted_switch(_python_dispatch._disable_current_modes)


def _is_torchs_own(func: Callable[..., Any]) -> bool:
    """Whether a function is torch's, and not another that has the name of one."""
    if isinstance(func, OpOverload | OpOverloadPacket | HigherOrderOperator):
        namespace = getattr(func, "namespace", None) or str(func).partition(".")[0]
        return namespace in (*NAMESPACES, "prims", "higher_order")
    if isinstance(func, kinds.FunctionType):  # with the very names of a module of torch's
        module = sys.modules.get(str(func.__globals__.get("__name__")))
        return str(module and module.__name__).startswith("torch.") and vars(module) is func.__globals__
    return isinstance(func, PLAIN) and not str(getattr(func, "__module__", None)).startswith("_")
