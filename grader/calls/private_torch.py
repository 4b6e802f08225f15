"""Every private name of torch that the kit uses: what it is for, and what is lost without it.

A private name may move in any release. `NAMES` lists them all; `tests/calls/test_private_torch.py` looks each up in the
installed torch, and says what to do about one that is gone. No other module of `grader/` names one, but for
`sandbox/no_compiler.py`, which takes the place of `torch._dynamo` before anything else of torch is used.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self, TypeVar

import torch
from torch import Tensor
from torch._C._dynamo import eval_frame
from torch._higher_order_ops import flex_attention
from torch._ops import (
    _HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS,
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
    _higher_order_ops,
)
from torch.autograd.graph import _engine_run_backward as run_backward
from torch.library import fallthrough_kernel
from torch.optim import optimizer
from torch.overrides import TorchFunctionMode
from torch.overrides import _get_current_function_mode as current_function_mode
from torch.overrides import _pop_mode_temporarily as without_function_mode
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket", "current_function_mode", "flex_attention"]
__all__ += ["fallthrough_kernel", "run_backward", "tree_map", "without_function_mode"]

BELOW_PYTHON = "what is off limits or measured can be used below Python, unseen"
# The versions in which a name was seen to be there, and to do what is said.
SEEN, LATER = "2.6 to 2.13", "2.13, and not 2.6"


class Private(NamedTuple):
    """A private name: what it is for, what is lost without it, and the versions in which it was seen. An `optional` one
    may be missing."""

    path: str
    purpose: str
    lost: str = BELOW_PYTHON
    seen: str = SEEN
    optional: bool = False


# TorchScript compiles several ops into one kernel, which is no op any more that is seen.
FUSERS = (
    "_jit_override_can_fuse_on_cpu", "_jit_override_can_fuse_on_cpu_legacy", "_jit_override_can_fuse_on_gpu",
    "_jit_set_texpr_fuser_enabled", "_jit_set_nvfuser_enabled", "_jit_set_llga_enabled",
)  # fmt: skip
# What compiles a graph so that its ops are run past the dispatcher.
COMPILING = ("_jit_pass_fuse", "_jit_pass_fuse_tensorexprs", "_jit_to_static_module", "_fuse_to_static_module")

NAMES = (
    # The dispatcher: functions of ours are before torch's kernels, at keys that torch keeps for tests.
    Private("torch._C._dispatch_key_parse", "a dispatch key by its name"),
    Private("torch._C._dispatch_keyset_full_after", "the keys after ours, to which a noted op goes on"),
    Private("torch._C._DispatchOperatorHandle.redispatch_boxed", "goes on with a noted op; noted itself"),
    Private("torch._C._dispatch_tls_set_dispatch_key_included", "switches our key on for the thread; noted itself"),
    Private("torch._C._dispatch_tls_set_dispatch_key_excluded", "noted, since it switches our key off"),
    Private("torch._C._dispatch_tls_is_dispatch_key_included", "whether our key is on already"),
    Private("torch._C._dispatch_has_kernel_for_dispatch_key", "whether an op has a kernel of its own"),
    Private("torch._C._dispatch_get_registrations_for_dispatch_key", "the ops with a kernel of their own"),
    Private("torch._C._dispatch_get_all_op_names", "finds the ops that are off limits"),
    Private("torch._C._get_operation_overload", "noted: gives the kernel of an op"),
    Private("torch._C._SafeKernelFunction", "noted: calls a kernel by its key", seen=LATER, optional=True),
    Private("torch._C._ForceDispatchKeyGuard", "noted: passes by our key"),
    Private("torch._C._ExcludeDispatchKeyGuard", "noted: passes by our key"),
    Private("torch._C._SetExcludeDispatchKeyGuard", "noted: passes by our key"),
    Private("torch._C._dispatch_find_schema_or_throw", "an op by its name, whatever its Python object says"),
    Private("torch._ops.OpOverload._handle", "what `redispatch_boxed` takes"),
    Private("torch._ops.OpOverload._op_dk", "noted: calls the kernel of a key"),
    Private("torch._ops.OpOverloadPacket", "tells torch's functions from a learner's of the same name"),
    Private("torch._ops.HigherOrderOperator", "tells torch's functions from a learner's of the same name"),
    Private("torch._ops._higher_order_ops", "lets ops written in Python pass our keys", "such an op fails"),
    Private(
        "torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS", "the same for later ones", "such an op fails"
    ),
    Private("torch._C._dispatch_library", "registers our functions; refused at our keys"),
    Private("torch._C._DispatchModule", "the same"),
    # Other ways to a built-in that is off limits.
    Private("torch._decomp.global_decomposition_table", "noted: what ops are made of, for the compiler"),
    Private("torch._decomp.decompositions", "noted: the same functions by name"),
    Private("torch._refs.nn.functional", "noted: torch's own references for its ops"),
    Private("torch._refs.special", "noted: torch's own references for its ops"),
    Private("torch._higher_order_ops.flex_attention", "noted: what flex attention comes to without a compiler"),
    Private("torch.onnx.ops._impl.ONNX_ATEN_DECOMP_TABLE", "noted: attention by ONNX", seen=LATER, optional=True),
    # Modes, and what switches them off.
    Private("torch.utils._python_dispatch.TorchDispatchMode", "sees each op of a call", "no measure of a call"),
    Private("torch.utils._python_dispatch._disable_current_modes", "noted: hides ops from modes"),
    Private("torch._C.DisableTorchFunction", "noted: hides functions from modes"),
    Private("torch._C._to_dlpack", "noted: hands out memory past modes"),
    Private("torch.overrides._get_current_function_mode", "whether a judge's arithmetic is bounded", "a slower judge"),
    Private("torch.overrides._pop_mode_temporarily", "lifts that bound for work of ours", "a slower judge"),
    Private("torch.utils._pytree.tree_map", "changes an op's arguments", "a number on the CPU fails on meta"),
    Private("torch._C._push_on_torch_function_stack", "enters a mode for functions", "a mode can be forged"),
    Private("torch._C._pop_torch_function_stack", "leaves it", "a mode can be forged"),
    Private("torch._C._autograd._push_saved_tensors_default_hooks", "what a backward pass keeps", "no measure `saved`"),
    Private("torch._C._autograd._pop_saved_tensors_default_hooks", "the same", "no measure `saved`"),
    Private("torch.autograd.graph._engine_run_backward", "a backward pass inside which modes don't look"),
    Private("torch._C.TensorBase", "the size of a tensor, whatever `Tensor` was given", "a size can be forged"),
    Private("torch._C.StorageBase", "the size of its storage, in the same way", "a size can be forged"),
    *(
        Private(f"torch._C.{name}", "switched off: fuses ops into a kernel", seen="2.13", optional=True)
        for name in (*FUSERS, *COMPILING, "_te")
    ),
    # Settings that no public name reads or sets without waking the compiler.
    Private("torch._C._set_deterministic_algorithms", "deterministic kernels", "the compiler is imported: two seconds"),
    Private("torch._C._set_deterministic_fill_uninitialized_memory", "leaves new memory as it is", "slower on a GPU"),
    Private("torch._C._get_privateuse1_backend_name", "what an accelerator from a plug-in is called", "it isn't used"),
    *(
        Private(path, "what a step left behind", "a fresh process for each step")
        for path in (
            "torch._C._len_torch_function_stack",
            "torch._C._len_torch_dispatch_stack",
            "torch._C._get_mkldnn_enabled",
            "torch._C._get_flash_sdp_enabled",
            "torch._C._get_math_sdp_enabled",
            "torch._C._get_mem_efficient_sdp_enabled",
            "torch._C._autograd._top_saved_tensors_default_hooks",
            "torch._C._autograd._profiler_enabled",
            "torch._tensor_str.PRINT_OPTS",
            "torch.optim.optimizer._global_optimizer_pre_hooks",
            "torch.optim.optimizer._global_optimizer_post_hooks",
        )
    ),
    # `meta`, loaders and frames.
    Private("torch._meta_registrations._meta_lib_dont_use_me_use_register_meta", "C++ for Python", "slower on meta"),
    Private("torch._refs.native_layer_norm", "words what does not fit a norm", "another error on meta"),
    Private("torch.utils.data.DataLoader._get_iterator", "batches without further processes", "a DataLoader fails"),
    Private("torch.utils.data.dataloader._SingleProcessDataLoaderIter", "the same", "a DataLoader with workers fails"),
    Private("torch._C._dynamo.eval_frame", "refused: hands out any frame", "a learner's code reads ours"),
    Private("torch._dynamo", "replaced until something is compiled: no_compiler.py", "a slower start"),
)

_C: Any = torch._C

# --- the dispatcher --------------------------------------------------------------------------------------------------

key_named, keys_after = _C._dispatch_key_parse, _C._dispatch_keyset_full_after
redispatch = _C._DispatchOperatorHandle.redispatch_boxed  # before it is noted
include, exclude = _C._dispatch_tls_set_dispatch_key_included, _C._dispatch_tls_set_dispatch_key_excluded
is_included = _C._dispatch_tls_is_dispatch_key_included
registered_at = _C._dispatch_get_registrations_for_dispatch_key
has_kernel, all_op_names = _C._dispatch_has_kernel_for_dispatch_key, _C._dispatch_get_all_op_names
python_ops, later_python_ops = _higher_order_ops, _HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS
LOCAL_SCALAR = torch.ops.aten._local_scalar_dense.default  # the op of `item`

handle_of, overload_of = _C._dispatch_find_schema_or_throw, _C._get_operation_overload  # the latter before it is noted
_MODULE, _FILE = _C._DispatchModule, __file__
_new_module = _C._dispatch_library  # before it is refused
_register, _register_fallback, _reset = _MODULE.impl, _MODULE.fallback, _MODULE.reset


class Kernels:
    """Functions of ours at torch's dispatch keys. What `torch.library` does for others can be replaced, and is listed
    with what takes it away again."""

    def __init__(self, namespace: str) -> None:
        self._module = _new_module("IMPL", namespace, "", _FILE, 1)

    def impl(self, name: str, function: Callable[..., Any], key: str, *, with_keyset: bool = False) -> None:
        """Registers a function for an op, by the name of its overload."""
        _register(self._module, name, key, function, with_keyset)

    def fallback(self, function: Callable[..., Any], key: str, *, with_keyset: bool = False) -> None:
        """Registers a function for all ops that have none of their own at this key."""
        _register_fallback(self._module, key, function, with_keyset)

    def destroy(self) -> None:
        """Removes all registrations."""
        _reset(self._module)


Attribute = tuple[Any, str]  # an owner, and the name of what is put in place there
OVERLOADS: Attribute = (_C, "_get_operation_overload")
REDISPATCH: Attribute = (_C._DispatchOperatorHandle, "redispatch_boxed")
KERNEL: Any = getattr(_C, "_SafeKernelFunction", None)
GUARDS = (_C._ForceDispatchKeyGuard, _C._ExcludeDispatchKeyGuard, _C._SetExcludeDispatchKeyGuard)
KEY_SWITCHES: tuple[Attribute, ...] = tuple(
    (_C, f"_dispatch_tls_set_dispatch_key_{what}") for what in ("included", "excluded")
)
# What registers a function at a key: the library's own key, or one by its name.
REGISTERING: tuple[Attribute, ...] = (
    (_C, "_dispatch_library"),
    *((_MODULE, name) for name in dir(_MODULE) if not name.startswith("_")),
)
MODE_SWITCHES: tuple[Attribute, ...] = ((_C, "DisableTorchFunction"), (_python_dispatch, "_disable_current_modes"))
PAST_MODES: tuple[Attribute, ...] = ((_C, "_to_dlpack"), (torch, "to_dlpack"), (torch.utils.dlpack, "to_dlpack"))
SAVED_HOOKS: Attribute = (_C._autograd, "_push_saved_tensors_default_hooks")
FRAME_SETTERS: tuple[Attribute, ...] = tuple(
    (eval_frame, name) for name in ("set_eval_frame", "set_bytecode_debugger_callback")
)

# --- what is measured ------------------------------------------------------------------------------------------------

# Of torch's C classes: a learner may give `Tensor` other ones by the same name.
storage_of, element_size, length = (
    getattr(_C.TensorBase, name) for name in ("untyped_storage", "element_size", "numel")
)
storage_size = _C.StorageBase.nbytes
_weak_reference, _expired, _free = (
    getattr(_C.StorageBase, name) for name in ("_weak_ref", "_expired", "_free_weak_ref")
)
push_saved_hooks, pop_saved_hooks = (
    getattr(_C._autograd, f"_{what}_saved_tensors_default_hooks") for what in ("push", "pop")
)

# --- other ways to a built-in ----------------------------------------------------------------------------------------

# Calls a function as soon as torch's references are imported: at once, unless `sandbox.no_compiler` puts that off.
when_references_are_there: Callable[[Callable[[], None]], None] = lambda then: then()  # noqa: E731


def references() -> list[types.ModuleType]:
    """The modules of torch's own references for its ops, imported."""
    names = ("torch._refs", "torch._refs.nn.functional", "torch._refs.special", "torch._decomp.decompositions")
    return [importlib.import_module(name) for name in names]


def decompositions() -> list[dict[Any, Any]]:
    """torch's tables of decompositions: the functions that compute an op by other ops."""
    tables: list[dict[Any, Any]] = [*importlib.import_module("torch._decomp").global_decomposition_table.values()]
    with suppress(ImportError):
        from torch.onnx.ops import _impl as onnx_ops

        tables.append(onnx_ops.ONNX_ATEN_DECOMP_TABLE)
    return tables


# --- modes -----------------------------------------------------------------------------------------------------------


def kernels_at(*keys: str) -> set[str]:
    """The names of the ops that have a kernel at one of the keys."""
    return {name for key in keys for name in registered_at(key)}


Made = TypeVar("Made", bound=Callable[..., Any])
_push_mode, _pop_mode = _C._push_on_torch_function_stack, _C._pop_torch_function_stack
beside_modes = _python_dispatch._disable_current_modes  # before a learner's are noted


def in_place_of(function: Callable[..., Any]) -> Callable[[Made], Made]:
    """A decorator like `functools.wraps`, without `__wrapped__`, by which `inspect.unwrap` would give the original."""

    def dressed(stand_in: Made) -> Made:
        functools.update_wrapper(stand_in, function)
        del stand_in.__wrapped__  # type: ignore[attr-defined]
        return stand_in

    return dressed


def put(attribute: Attribute, wrapper: Callable[[Any], Any]) -> None:
    """Replaces an attribute by what `wrapper` returns for its value."""
    owner, name = attribute
    setattr(owner, name, wrapper(getattr(owner, name)))


class FunctionMode(TorchFunctionMode):
    """A mode for functions that is entered by torch's C++."""

    def __enter__(self) -> Self:
        _push_mode(self)
        return self

    def __exit__(self, *why: object) -> None:
        _pop_mode()


class WeakStorage:
    """Tells whether a storage is gone, without keeping it."""

    def __init__(self, storage: Any) -> None:
        self._reference = _weak_reference(storage)

    def expired(self) -> bool:
        """Whether the storage is gone."""
        return bool(_expired(self._reference))

    def __del__(self) -> None:
        _free(self._reference)


class UncompiledMode(TorchDispatchMode):
    """A dispatch mode that torch does not hide from its compiler: hiding it would import the whole compiler."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


# --- settings --------------------------------------------------------------------------------------------------------

# How torch is told that float32 products may be rounded to 19 bits (TF32) or less, and half-precision sums to halves.
LOOSENERS = (
    "_set_cublas_allow_tf32",
    "_set_cudnn_allow_tf32",
    "_set_float32_matmul_precision",
    "_set_cublas_allow_fp16_reduced_precision_reduction",
    "_set_cublas_allow_bf16_reduced_precision_reduction",
    "_set_fp32_precision_setter",
)
set_deterministic = _C._set_deterministic_algorithms  # as torch.use_deterministic_algorithms, without the compiler
fill_new_memory = _C._set_deterministic_fill_uninitialized_memory
plugged_in_backend = _C._get_privateuse1_backend_name


def replace_looseners(replacement: Callable[..., None]) -> None:
    """Puts a function in place of each of torch's setters that would make products less exact."""
    for name in LOOSENERS:
        if hasattr(_C, name):
            setattr(_C, name, replacement)


def hidden_settings() -> list[Any]:
    """Settings of this process that no public name reads."""
    return [
        _C._len_torch_function_stack(), _C._len_torch_dispatch_stack(), _C._get_mkldnn_enabled(),
        _C._get_flash_sdp_enabled(), _C._get_math_sdp_enabled(), _C._get_mem_efficient_sdp_enabled(),
        _C._autograd._top_saved_tensors_default_hooks(True) is None, _C._autograd._profiler_enabled(),
        repr(torch._tensor_str.PRINT_OPTS),
        len(optimizer._global_optimizer_pre_hooks), len(optimizer._global_optimizer_post_hooks),
    ]  # fmt: skip


def disable_fusers(replacement: Callable[..., bool]) -> None:
    """Has TorchScript run ops one by one: switches off all that fuses several, and puts a function in its place."""
    for name in FUSERS:
        if switch := getattr(_C, name, None):
            switch(False)
            setattr(_C, name, replacement)
    for name in COMPILING:
        setattr(_C, name, replacement)
    if hasattr(_C, "_te"):  # the fuser's own language
        _C._te = types.ModuleType("torch._C._te")
        sys.modules.pop("torch._C._te", None)


# --- `meta`, and loaders ---------------------------------------------------------------------------------------------


def remove_meta_kernels() -> tuple[Any, dict[str, dict[Any, Any]]]:
    """Unregisters the kernels for `meta` that torch has in Python. Returns a new library, to register others in, and
    torch's tables of such functions: kind ("meta", "post_autograd", …) to op to function."""
    from torch import _meta_registrations as registered

    registered._meta_lib_dont_use_me_use_register_meta._destroy()
    library = registered._meta_lib_dont_use_me_use_register_meta = torch.library.Library("aten", "IMPL", "Meta")
    return library, torch._decomp.global_decomposition_table


def python_kernel(op: Any) -> Callable[..., Any]:
    """torch's function in Python that computes an op on `meta`, importing its module."""
    tables = importlib.import_module("torch._decomp").global_decomposition_table
    kinds = ("meta", "post_autograd", "pre_autograd")
    found: Callable[..., Any] = next(tables[kind][op] for kind in kinds if op in tables[kind])
    return found


def layer_norm_by_reference(*args: Any) -> tuple[Tensor, ...]:
    """The results of torch's own reference for a layer norm, which raises clear errors for shapes that don't fit."""
    results: tuple[Tensor, ...] = torch._refs.native_layer_norm(*args)
    return results


def load_in_this_process() -> None:
    """Has data loaders load in this process: their workers can't be started in a sandbox."""
    from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

    def batches(loader: Any) -> Any:
        loader.num_workers, loader.timeout = 0, 0
        return _SingleProcessDataLoaderIter(loader)

    torch.utils.data.DataLoader._get_iterator = batches  # type: ignore[method-assign,assignment]
