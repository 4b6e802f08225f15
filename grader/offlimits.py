"""The built-ins that a step puts off limits, and how their use is seen while the code runs.

A mention in the source proves nothing and an alias hides nothing: what counts is what torch was asked to do. Calls from
Python are seen by a torch function mode; what runs below Python (a scripted function, say) by the profiler's op names.
"""

from __future__ import annotations

import re
import types as kinds
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn
from torch._C._autograd import _disable_profiler_legacy, _enable_profiler_legacy
from torch.autograd.profiler_legacy import profile
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

FAMILIES: dict[str, re.Pattern[str]] = {
    "softmax": re.compile(r"soft(max|min)"),
    "scaled_dot_product_attention": re.compile(
        r"scaled_dot_product|_(flash|efficient|cudnn)_attention_(forward|backward)|fused_sdp|triton_scaled_dot"
    ),
    "multi_head_attention": re.compile(r"multi_?head_attention"),
    "flex_attention": re.compile(r"flex_attention"),
    "dropout": re.compile(r"dropout"),
    "layer_norm": re.compile(r"layer_norm"),
    "gelu": re.compile(r"gelu"),
    "transformer": re.compile(r"transformer_(encoder|decoder)|^Transformer"),
}

MAX_PROFILED = 20_000  # torch functions of one call after which it is no longer watched below Python
IGNORED = {"__get__", "__set__"}  # reading `x.shape` is no call worth noting
PLAIN = (kinds.FunctionType, kinds.BuiltinFunctionType, kinds.MethodDescriptorType, kinds.MethodWrapperType)


def banned(names: Iterable[str], families: Iterable[str]) -> list[str]:
    """The names among `names` that belong to one of the `families`, sorted. Raises KeyError for an unknown family."""
    patterns = [FAMILIES[family] for family in families]
    return sorted({name for name in names if any(pattern.search(name) for pattern in patterns)})


class FunctionNames(TorchFunctionMode):
    """Notes the name of every torch function, method, op and higher-order op called inside the block."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self._known: dict[Any, str] = {}  # what functions seen before are noted as, "" for not at all
        self._records_left = 0
        self._recorder = profile().config()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            name = self._known[func]
        except (KeyError, TypeError):
            name = self._noted_as(func)
        if name:
            self.names.add(name)
        if self._records_left:
            self._records_left -= 1
            if not self._records_left:
                self._stop_records()
        return func(*args, **kwargs) if kwargs else func(*args)

    def _noted_as(self, func: Callable[..., Any]) -> str:
        name = getattr(func, "__name__", None) or str(func)
        noted = "" if name in IGNORED or not _is_torchs_own(func) else str(name.partition(".")[0])
        if isinstance(func, PLAIN):  # an object of the learner's own may claim to be equal to any of them
            self._known[func] = noted
        return noted

    def below_python(self, run: Callable[[], Any]) -> Any:
        """Runs `run` and also notes the built-in ops that it executes, composite ones and those of scripts included."""
        # The profiler without Kineto: it works in a forked process too and prints nothing. Its records are read as they
        # are: the tables that torch would make of them take longer than the call. An endless loop must not fill the
        # memory with them.
        self._records_left = MAX_PROFILED
        _enable_profiler_legacy(self._recorder)
        try:
            return run()
        finally:
            if self._records_left:
                self._stop_records()

    def _stop_records(self) -> None:
        self._records_left = 0
        events = {event.name() for thread in _disable_profiler_legacy() for event in thread}
        # A learner's own autograd.Function or scripted function shows its own name: only torch's ops count.
        self.names.update(event.removeprefix("aten::") for event in events if event.startswith("aten::"))


class TransformerModules:
    """Notes the `nn.Transformer…` modules run inside the block; they are made of parts that are all allowed."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def __enter__(self) -> None:
        def note(module: nn.Module, args: Any) -> None:
            for kind in type(module).__mro__:
                if kind.__module__ == "torch.nn.modules.transformer":
                    self.names.add(kind.__name__)

        self.hook = register_module_forward_pre_hook(note)

    def __exit__(self, *exception: object) -> None:
        self.hook.remove()


def _is_torchs_own(func: Callable[..., Any]) -> bool:
    namespace = getattr(func, "namespace", None)  # ops have one; a custom op of the learner's is their own work
    return namespace in (None, "aten", "prims", "higher_order")
