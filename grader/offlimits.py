"""The built-ins that a step puts off limits, and how their use is seen while the code runs.

A mention in the source proves nothing and an alias hides nothing: what counts is what torch was asked to do. Every op
goes through its dispatcher, which calls a function of ours before one of these; the few that are no ops are wrapped.
"""

from __future__ import annotations

import functools
import re
import types as kinds
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch._decomp.decompositions
import torch._refs.nn.functional
import torch._refs.special
from torch import nn
from torch._higher_order_ops import flex_attention
from torch._ops import _HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS, OpOverload, _higher_order_ops
from torch.ao.nn import quantizable
from torch.distributions.transforms import SoftmaxTransform
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

FAMILIES: dict[str, re.Pattern[str]] = {
    "softmax": re.compile(r"[sS]oft(max|min)"),
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

# Places in the dispatcher before all others: torch keeps them for tests that have them call something first. Families
# that much code uses in passing have one to themselves, so that it is no slower where they are not off limits.
PLACES = {
    "TESTING_ONLY_GenericWrapper": ("softmax", "dropout"),
    "TESTING_ONLY_GenericMode": tuple(family for family in FAMILIES if family not in ("softmax", "dropout")),
    # While a mode or a tensor class of the learner's does an op's work, torch passes over all that comes before
    # Python. This place comes after it (not yet in old versions), holds no choice of kernels, and nobody uses it.
    "Fake": tuple(FAMILIES),
}
IGNORED = {"__get__", "__set__"}  # reading `x.shape` is no call worth noting
PLAIN = (kinds.FunctionType, kinds.BuiltinFunctionType, kinds.MethodDescriptorType, kinds.MethodWrapperType)


def banned(names: Iterable[str], families: Iterable[str]) -> list[str]:
    """The names among `names` that belong to one of the `families`, sorted. Raises KeyError for an unknown family."""
    patterns = [FAMILIES[family] for family in families]
    return sorted({name for name in names if any(pattern.search(name) for pattern in patterns)})


class BuiltIns:
    """Notes the names of the built-ins that run inside the block, those of the `families` at least, wherever they are
    called from: from Python, a script, another op or a backward pass."""

    noted: set[str] = set()  # the names of whoever looks: what notes them is there once a process
    places: Sequence[Any] = ()  # the keys of whoever looks

    def __init__(self, families: Iterable[str]) -> None:
        keys = _watched()
        self._keys = [keys[place] for place, watched in PLACES.items() if set(watched).intersection(families)]
        self.names: set[str] = set()

    def __enter__(self) -> BuiltIns:
        BuiltIns.noted, BuiltIns.places = self.names, self._keys
        for key in self._keys:
            torch._C._dispatch_tls_set_dispatch_key_included(key, True)
        return self

    def __exit__(self, *exception: object) -> None:
        for key in self._keys:
            torch._C._dispatch_tls_set_dispatch_key_included(key, False)
        BuiltIns.noted, BuiltIns.places = set(), ()


@functools.cache
def _watched() -> dict[str, Any]:
    """Puts a function of ours before each op of the families and around what is no op; gives each place's key.

    What is before an op is called only where the key is included, and nothing else is any slower there.
    """
    keys = {place: torch._C._dispatch_key_parse(place) for place in PLACES}
    everything, ops = _LIBRARIES
    overloads = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    noted: dict[OpOverload, str] = {}
    for place, families in PLACES.items():
        everything.fallback(torch.library.fallthrough_kernel, place)
        for higher_order in _higher_order_ops.values():  # they are Python's and ask no fallback
            higher_order.fallthrough(keys[place])
        _HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(keys[place])  # those to come
        after = torch._C._dispatch_keyset_full_after(keys[place])
        for overload in overloads:
            name, _dot, variant = overload.removeprefix("aten::").partition(".")
            if banned([name], families):
                op = getattr(getattr(torch.ops.aten, name), variant or "default")
                ops.impl(op, _noting_op(name, op, after), place, with_keyset=True)
                noted[op] = name
    _watch_kernels(noted)
    for owner, attribute, name in _no_ops():
        setattr(owner, attribute, _noting(getattr(owner, attribute), name))
    for table in torch._decomp.global_decomposition_table.values():  # ops anew, by the op
        for op, name in noted.items():
            if op in table:
                table[op] = _noting(table[op], name)
    return keys


def _watch_kernels(noted: Mapping[OpOverload, str]) -> None:
    """Wraps what calls a kernel by its place, past all others, and what takes places out of a call's way."""
    c: Any = torch._C
    for op, name in noted.items():
        op._op_dk = _noting(op._op_dk, name)
    c._get_operation_overload = _noting_overloads(c._get_operation_overload)
    c._DispatchOperatorHandle.redispatch_boxed = _noting_handle(REDISPATCH, lambda handle: handle)
    if kernel := getattr(c, "_SafeKernelFunction", None):  # not in old versions
        kernel.call_boxed = _noting_handle(kernel.call_boxed, lambda function: function.op_handle)
    for guard in (c._ForceDispatchKeyGuard, c._ExcludeDispatchKeyGuard, c._SetExcludeDispatchKeyGuard):
        guard.__enter__ = _still_looking(guard.__enter__)


def _no_ops() -> Iterator[tuple[Any, str, str]]:
    """What belongs to the families and is no op: whose attribute it is, and its name."""
    yield F, "multi_head_attention_forward", "multi_head_attention_forward"
    yield type(flex_attention), "__call__", "flex_attention"
    yield SoftmaxTransform, "_call", "SoftmaxTransform"
    for attribute in ("__call__", "forward"):
        yield quantizable.MultiheadAttention, attribute, "multi_head_attention"
    for name in nn.modules.transformer.__all__:  # made of parts that are all allowed
        yield from ((getattr(nn, name), attribute, name) for attribute in ("__call__", "forward"))
    for module in (torch._refs, torch._refs.nn.functional, torch._refs.special, torch._decomp.decompositions):
        functions = [name for name, value in vars(module).items() if isinstance(value, kinds.FunctionType)]
        yield from ((module, name, name) for name in banned(functions, FAMILIES))  # ops anew, for torch's compiler


REDISPATCH = torch._C._DispatchOperatorHandle.redispatch_boxed
# They take their functions with them when they go.
_LIBRARIES = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")


def _noting_op(name: str, op: OpOverload, after: torch._C.DispatchKeySet) -> Callable[..., Any]:
    handle = op._handle

    def noting(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        BuiltIns.noted.add(name)
        return REDISPATCH(handle, keys & after, *args, **kwargs)

    return noting


def _noting(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        BuiltIns.noted.add(name)
        return function(*args, **kwargs)

    if inner := getattr(function, "__wrapped__", None):  # the work itself, inside of torch's own decorators
        noting.__wrapped__ = _noting(inner, name)
    return noting


def _noting_handle(function: Callable[..., Any], handle_of: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def noting(subject: Any, *args: Any, **kwargs: Any) -> Any:
        if name := _watched_name(handle_of(subject).schema().name):
            BuiltIns.noted.add(name)
        return function(subject, *args, **kwargs)

    return noting


def _noting_overloads(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def noting(qualified: str, overload: str) -> Any:
        found, name = function(qualified, overload), _watched_name(qualified)
        if found is None or not name:
            return found
        op, kernel, *more = found
        return op, _noting(kernel, name), *more

    return noting


def _watched_name(qualified: str) -> str:
    """The name of an op of torch's own that belongs to a family, else nothing."""
    namespace, _colons, name = qualified.partition("::")
    return name if namespace == "aten" and banned([name], FAMILIES) else ""


def _still_looking(enter: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(enter)
    def entering(guard: Any) -> Any:
        entered = enter(guard)
        for key in BuiltIns.places:
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
            torch._C._dispatch_tls_set_dispatch_key_included(key, True)
        return entered

    return entering


class FunctionNames(TorchFunctionMode):
    """Notes the name of every torch function, method, op and higher-order op called from Python inside the block."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self._known: dict[Any, str] = {}  # what functions seen before are noted as, "" for not at all

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            name = self._known[func]
        except (KeyError, TypeError):
            name = self._noted_as(func)
        if name:
            self.names.add(name)
        return func(*args, **kwargs) if kwargs else func(*args)

    def _noted_as(self, func: Callable[..., Any]) -> str:
        name = getattr(func, "__name__", None) or str(func)
        noted = "" if name in IGNORED or not _is_torchs_own(func) else str(name.partition(".")[0])
        if isinstance(func, PLAIN):  # an object of the learner's own may claim to be equal to any of them
            self._known[func] = noted
        return noted


def _is_torchs_own(func: Callable[..., Any]) -> bool:
    namespace = getattr(func, "namespace", None)  # ops have one; a custom op of the learner's is their own work
    return namespace in (None, "aten", "prims", "higher_order")
