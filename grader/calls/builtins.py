"""The built-ins that a step puts off limits, and how their use is detected at run time.

A mention in the source proves nothing and an alias hides nothing: what counts is what torch runs. Every op goes through
its dispatcher, which calls a fallback of ours before one of these; the few built-ins that are not ops are wrapped.
"""

from __future__ import annotations

import functools
import re
import sys
import types as kinds
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.ao.nn import quantizable
from torch.distributions.transforms import SoftmaxTransform
from torch.nn import functional as F

from grader.calls import counters
from grader.calls import private_torch as private
from grader.calls.call import Contexts
from grader.calls.counters import EveryOp
from grader.calls.private_torch import OpOverload, in_place_of, redispatch

FAMILIES: dict[str, re.Pattern[str]] = {
    "softmax": re.compile(r"[sS]oft(max|min)"),
    "scaled_dot_product_attention": re.compile(
        r"scaled_dot_product|_(flash|efficient|cudnn)_attention_(forward|backward)|fused_sdp|triton_scaled_dot"
        r"|^Attention$"
    ),
    "multi_head_attention": re.compile(r"multi_?head_attention"),
    "flex_attention": re.compile(r"flex_attention"),
    "dropout": re.compile(r"dropout"),
    "layer_norm": re.compile(r"layer_norm"),
    "norms": re.compile(r"(group|instance|batch|rms)_norm"),  # a group norm of one group is a layer norm
    # Fused with a product, it is an argument of the op.
    "gelu": re.compile(r"gelu|_pointwise(_|$)|_addmm_activation"),
    "transformer": re.compile(r"transformer_(encoder|decoder)|^Transformer"),
    # In the dispatcher `F.unfold` and `F.fold` are im2col and col2im; `Tensor.unfold`, a view, is allowed.
    "patches": re.compile(r"im2col|col2im|pixel_(un)?shuffle"),
    "torch": re.compile(r"^torch\."),  # in every form: any op and any function; `AnyTorch` records them under this name
    # What a kernel has to do itself. Nearly all code uses these, so that `AnyTorch` looks for them if they are off
    # limits, and nothing watches them elsewhere.
    "product": re.compile(
        r"^torch\.(_?(scaled_|int_)?mm|bmm|addmm_?|baddbmm_?|addbmm_?|mv|addmv_?|v?dot|inner|outer|ger|addr_?|matmul"
        r"|__r?matmul__|linear|bilinear|einsum|tensordot|kron|chain_matmul|multi_dot|conv\dd|convolution|cdist)$"
    ),
    "exponential": re.compile(
        r"^torch\.((exp2?|expm1|log|log2|log10|log1p|pow|float_power|sigmoid|tanh|sinh|cosh)_?|__r?pow__|logaddexp2?"
        r"|log(cum)?sumexp|log_?sigmoid|softplus|logit|xlogy|special_\w+)$"
    ),
    "arrays": re.compile(r"^torch\.(numpy|__array__|tolist|__dlpack__)$"),  # code out of torch's sight
}
IN_ANY_FORM = ("torch", "product", "exponential", "arrays")  # what `AnyTorch` looks for

# Dispatch keys that come before all others: torch reserves them for tests. Families that much code uses have a key of
# their own, so that this code is no slower if they are not off limits.
PLACES = {
    "TESTING_ONLY_GenericWrapper": ("softmax", "dropout"),
    "TESTING_ONLY_GenericMode": tuple(
        family for family in FAMILIES if family not in ("softmax", "dropout", *IN_ANY_FORM)
    ),
    # While a learner's mode or tensor subclass handles an op, torch skips every key before Python.
    counters.PLACE: tuple(family for family in FAMILIES if family not in IN_ANY_FORM),
}
KEYS = [private.key_named(place) for place in PLACES]
# The namespaces of torch's own ops; in any other an op may be the learner's own work.
NAMESPACES = (*counters.NAMESPACES, "onnx")
TAKEN_APART = "_decomp."  # before the name of a built-in that was asked for by its parts
IGNORED = {"__get__", "__set__"}  # reading `x.shape` does not count as a call
PLAIN = (kinds.FunctionType, kinds.BuiltinFunctionType, kinds.MethodDescriptorType, kinds.MethodWrapperType)


def banned(names: Iterable[str], families: Iterable[str]) -> list[str]:
    """The names of built-ins among `names` that match one of the `families`, groups by their names in `FAMILIES`;
    sorted. Raises KeyError for an unknown group."""
    patterns = [FAMILIES[family] for family in families]
    return sorted({name for name in names if any(pattern.search(name) for pattern in patterns)})


class BuiltIns:
    """Records the names of the built-ins that run inside the block, at least those of the `families`, wherever they are
    called from: Python, TorchScript, another op or a backward pass."""

    noted: set[str] = set()  # the names of each active block: the fallbacks are registered once per process
    places: Sequence[Any] = ()  # the keys of each active block

    def __init__(self, families: Iterable[str]) -> None:
        """Prepares to record the built-ins of these families, by their names in `FAMILIES`, into `names`."""
        families = set(families)
        keys = _register_watchers()
        self._keys = [keys[place] for place, watched in PLACES.items() if set(watched).intersection(families)]
        self._any_torch = AnyTorch() if families.intersection(IN_ANY_FORM) else None
        self.names: set[str] = set()
        self._outer: list[tuple[set[str], Sequence[Any]]] = []  # who looked before

    def __enter__(self) -> BuiltIns:
        """Starts to note uses of the built-ins, in place of those of an outer block."""
        self._outer.append((BuiltIns.noted, BuiltIns.places))
        BuiltIns.noted, BuiltIns.places = self.names, self._keys
        if counters.KEY in self._keys:
            counters.let_ops_pass(patiently=private.is_included(counters.KEY))
        for key in self._keys:
            private.include(key, True)
        if self._any_torch is not None:
            self._any_torch.enter(self.names)
        return self

    def __exit__(self, *exception: object) -> None:
        """Ends this block's noting, and goes on with that of an outer block."""
        if self._any_torch is not None:
            self._any_torch.close()
        BuiltIns.noted, BuiltIns.places = self._outer.pop()
        for key in self._keys:
            private.include(key, key in BuiltIns.places)


@functools.cache
def _register_watchers() -> dict[str, Any]:
    """Registers a fallback of ours for each op in one of `FAMILIES` and wraps built-ins that are not ops, once per
    process; returns the dispatch keys of `PLACES` by their names.

    The fallback of an op is called only if its key is included, and nothing else gets slower.
    """
    keys = {place: private.key_named(place) for place in PLACES}
    ops = list(_ops_of_families())
    noted: dict[OpOverload, str] = {}
    for place, families in PLACES.items():
        if place == counters.PLACE:
            counters.let_ops_pass()
        else:
            _EVERYTHING.fallback(private.fallthrough_kernel, place)
        for higher_order in private.python_ops.values():  # they are implemented in Python and have no fallback
            higher_order.fallthrough(keys[place])
        private.later_python_ops.append(keys[place])  # ops registered later
        after = private.keys_after(keys[place])
        for op, name, its_own in ops:
            if its_own.isdisjoint(families):
                continue
            kernel = _noting_below(name, op) if place == counters.PLACE else _noting_op(name, op, after)
            _REGISTERED.setdefault((its_own, op.namespace), []).append((op.name(), kernel, place))
            noted[op] = name
    look_for(FAMILIES)
    _watch_kernels(noted)
    for owner, attribute, name in _built_ins_besides_ops():
        setattr(owner, attribute, _noting(getattr(owner, attribute), name))
    private.when_references_are_there(functools.partial(_watch_references, noted))
    return keys


def _watch_references(noted: Mapping[OpOverload, str]) -> None:
    """Wraps torch's own references for its ops, and the functions that compute the ops in `noted` from other ops for
    its compiler, so that calling one of them is noted."""
    for module in private.references():
        functions = [name for name, value in vars(module).items() if isinstance(value, kinds.FunctionType)]
        for name in banned(functions, FAMILIES):
            setattr(module, name, _noting(getattr(module, name), TAKEN_APART + name))
    for table in private.decompositions():  # the op is called again, by itself
        for op, name in noted.items():
            if op in table:
                table[op] = _noting(table[op], TAKEN_APART + name)


def _ops_of_families() -> Iterator[tuple[OpOverload, str, frozenset[str]]]:
    """Yields each op in one of `FAMILIES`, with its name and the names of the groups that it is in."""
    families: dict[str, frozenset[str]] = {}
    for qualified in private.all_op_names():
        namespace, _colons, overload = qualified.partition("::")
        if namespace not in NAMESPACES:
            continue
        name, _dot, variant = overload.partition(".")
        if name not in families:
            families[name] = frozenset(family for family, pattern in FAMILIES.items() if pattern.search(name))
        if families[name]:
            op = getattr(getattr(getattr(torch.ops, namespace), name), variant or "default")
            yield op, name, families[name]


def look_for(families: Collection[str]) -> None:
    """Has the registered watchers look for the ops of these groups in `FAMILIES` in this process, and for no others:
    each of the ops takes ten times as long then."""
    for (its_own, namespace), functions in _REGISTERED.items():
        library, is_wanted = _LIBRARIES.pop((its_own, namespace), None), not its_own.isdisjoint(families)
        if is_wanted and library is None:
            library = private.Kernels(namespace)
            for op_name, function, place in functions:
                library.impl(op_name, function, place, with_keyset=True)
        if library is not None and is_wanted:
            _LIBRARIES[its_own, namespace] = library
        elif library is not None:
            library.destroy()


def _watch_kernels(noted: Mapping[OpOverload, str]) -> None:
    """Wraps torch's functions that call a kernel by its key, past all others, to note the ops in `noted` (op to name),
    and those that exclude keys, to keep ours."""
    for op, name in noted.items():
        op._op_dk = _noting(op._op_dk, name)
    private.put(private.OVERLOADS, _noting_overloads)
    private.put(private.REDISPATCH, lambda function: _noting_handle(function, lambda handle: handle))
    if kernel := private.KERNEL:
        kernel.call_boxed = _noting_handle(kernel.call_boxed, lambda function: function.op_handle)
    for guard in private.GUARDS:
        guard.__enter__ = _keeping_our_keys(guard.__enter__)
    for switch in private.KEY_SWITCHES:
        private.put(switch, _keeping_our_keys)
    for registering in private.REGISTERING:
        private.put(registering, _not_at_our_keys)


def _built_ins_besides_ops() -> Iterator[tuple[Any, str, str]]:
    """Yields for each built-in in `FAMILIES` that is no op a class or module, the name of its attribute, and the name
    under which a use is noted."""
    yield F, "multi_head_attention_forward", "multi_head_attention_forward"
    yield type(private.flex_attention), "__call__", "flex_attention"
    yield SoftmaxTransform, "_call", "SoftmaxTransform"
    for attribute in ("__call__", "forward"):
        yield quantizable.MultiheadAttention, attribute, "multi_head_attention"
    for name in nn.modules.transformer.__all__:  # composed of parts that are all allowed
        yield from ((getattr(nn, name), attribute, name) for attribute in ("__call__", "forward"))
    module = sys.modules["torch._higher_order_ops.flex_attention"]  # the function that it calls if nothing is compiled
    yield from ((module, name, "flex_attention") for name in vars(module) if re.search("math_attention|sdpa", name))


_EVERYTHING = private.Kernels("_")
_REGISTERED: dict[tuple[frozenset[str], str], list[tuple[str, Callable[..., Any], str]]] = {}
_LIBRARIES: dict[
    tuple[frozenset[str], str], private.Kernels
] = {}  # of the ops of each set of families that is looked for


def _noting_op(name: str, op: OpOverload, after: Any) -> Callable[..., Any]:
    """A kernel for our key that notes the built-in `name`, then runs the op with the keys in `after`."""
    handle = op._handle

    def noting(keys: Any, *args: Any, **kwargs: Any) -> Any:
        BuiltIns.noted.add(name)
        return redispatch(handle, keys & after, *args, **kwargs)

    return noting


def _noting_below(name: str, op: OpOverload) -> Callable[..., Any]:
    """A kernel below the dispatcher's Python key that notes the built-in `name`, then runs the op."""

    def noting(keys: Any, *args: Any, **kwargs: Any) -> Any:
        BuiltIns.noted.add(name)
        return counters.run(op, keys, args, kwargs)

    return noting


def _noting(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, wrapped so that each call notes the built-in `name`."""

    @in_place_of(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        BuiltIns.noted.add(name)
        return function(*args, **kwargs)

    if inner := getattr(function, "__wrapped__", None):  # the implementation, inside torch's own decorators
        noting.__wrapped__ = _noting(inner, name)  # type: ignore[attr-defined]
    # Forward-mode derivatives compile the source of some, with the names around it: those of the function itself.
    noting.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]  # how torch marks a wrapper as one
    noting.__original_fn = function  # type: ignore[attr-defined]
    return noting


def _noting_handle(function: Callable[..., Any], handle_of: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function, wrapped so that a call notes the op of its first argument, of which `handle_of` gives torch's
    handle, if that op is in one of `FAMILIES`."""

    @in_place_of(function)
    def noting(subject: Any, *args: Any, **kwargs: Any) -> Any:
        """Notes the op of `subject`, then calls the function."""
        if name := _watched_name(handle_of(subject).schema().name):
            BuiltIns.noted.add(name)
        return function(subject, *args, **kwargs)

    return noting


def _noting_overloads(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch's function that looks up an overload, wrapped so that the kernel it gives notes an op in `FAMILIES`."""

    @in_place_of(function)
    def noting(qualified: str, overload: str) -> Any:
        """What torch's function gives, its kernel wrapped."""
        overloaded, name = function(qualified, overload), _watched_name(qualified)
        if overloaded is None or not name:
            return overloaded
        op, kernel, *more = overloaded
        return op, _noting(kernel, name), *more

    return noting


def _watched_name(qualified: str) -> str:
    """The bare name of an op (`aten::softmax`), if it is torch's own and in one of `FAMILIES`; else an empty string."""
    namespace, _colons, name = qualified.partition("::")
    return name if namespace in NAMESPACES and banned([name], FAMILIES) else ""


def _keeping_our_keys(switch: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch's that switches dispatch keys on or off, wrapped so that those in use here stay on."""

    @in_place_of(switch)
    def switching(*args: Any) -> Any:
        """Switches, then sets our keys as they are in use."""
        switched = switch(*args)
        looking = (*BuiltIns.places, *([counters.KEY] if EveryOp.watching else []))
        for key in KEYS:
            private.exclude(key, False)
            private.include(key, key in looking)
        return switched

    return switching


def _not_at_our_keys(register: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that registers kernels: it raises RuntimeError for a dispatch key that the grader uses."""
    ours, exactly = frozenset(PLACES), str.__str__

    @in_place_of(register)
    def registering(*args: Any, **kwargs: Any) -> Any:
        """Registers, unless an argument is a key of ours."""
        for argument in (*args, *kwargs.values()):
            if isinstance(argument, bytes) or (isinstance(argument, str) and exactly(argument) in ours):
                raise RuntimeError("nothing can be registered at this dispatch key: the grader looks there")
        return register(*args, **kwargs)

    return registering


class AnyTorch(Contexts):
    """Records every op, and every torch function called from Python, like `torch.exp`: no tensor can be made or used
    without one of them."""

    def enter(self, names: set[str]) -> None:
        """Records into `names` until it is closed."""
        self.enter_context(_Functions(names))
        self.enter_context(_Ops(names))


class _Functions(private.FunctionMode):
    """Adds to `names` each torch function called from Python, as `torch.exp`."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self._names = names

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        self._names.add(f"torch.{str(name).partition('.')[0]}" if name not in IGNORED else "torch.Tensor")
        return func(*args, **(kwargs or {}))


class _Ops(EveryOp):
    """Adds to `names` each op that runs, as `torch.exp`."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def see(self, op: counters.Op, args: tuple[Any, ...], result: Any) -> None:
        self._names.add(f"torch.{op.short}")
