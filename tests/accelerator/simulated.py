"""A simulated accelerator: the device `sim`, which computes on the CPU and keeps what an accelerator keeps apart.

A tensor on `sim` wraps a tensor of the CPU that nobody else sees. Devices can't be mixed but where CUDA mixes them;
random numbers come from a generator of its own; memory is counted; only `.cpu()` and `.item()` lead back. torch calls
such a device a Python backend of PrivateUse1: see `torch.utils.backend_registration`.

`install()` puts it in place in this process. As the entry point of a distribution in the group `torch.backends`, torch
calls it in each process, as it does for an accelerator's driver package: see `plugged_in`.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import return_and_correct_aliasing

NAME = "sim"
DEVICE = torch.device("cpu")  # until it is installed
MOST_BYTES = 8 << 30  # of its memory
# Ops that take tensors of several devices on CUDA, whatever their shapes.
COPIES = {"_to_copy", "copy_", "_copy_from", "_copy_from_and_resize", "set_"}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
# A tensor without dimensions may stay on the CPU for these, as a number may.
TAKE_NUMBERS = {
    "masked_fill", "masked_fill_", "where", "fill", "fill_", "lerp", "addcmul", "addcdiv", "clamp", "clamp_",
    "index_fill", "index_fill_", "full_like", "copysign", "float_power", "remainder", "true_divide",
}  # fmt: skip
KEY = "PrivateUse1"
ATEN = torch.ops.aten
# What autocast computes in half precision on CUDA, and what it keeps in float32, of the ops that attention uses.
NARROW = [
    ATEN.mm.default, ATEN.bmm.default, ATEN.addmm.default, ATEN.baddbmm.default, ATEN.addbmm.default, ATEN.mv.default,
    ATEN.matmul.default, ATEN.linear.default, ATEN.conv2d.default, ATEN.conv1d.default, ATEN.convolution.default,
    ATEN.scaled_dot_product_attention.default, ATEN.chain_matmul.default, ATEN.linalg_multi_dot.default,
]  # fmt: skip
WIDE = [
    ATEN.softmax.int, ATEN.log_softmax.int, ATEN.layer_norm.default, ATEN.nll_loss.default, ATEN.exp.default,
    ATEN.log.default, ATEN.pow.Tensor_Scalar, ATEN.sum.default, ATEN.sum.dim_IntList, ATEN.cumsum.default,
    ATEN.rsqrt.default, ATEN.prod.default, ATEN.mse_loss.default, ATEN.cross_entropy_loss.default,
]  # fmt: skip
# Sums that CUDA makes in whatever order its threads come, unless it is told to be deterministic: place of the indices.
UNORDERED = {"index_add": 2, "index_add_": 2, "scatter_add": 2, "scatter_add_": 2}
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "convolution", "convolution_backward"}
LEFT_BEHIND = (
    "Expected all tensors to be on the same device, but found at least two devices, {one} and {other}! "
    "(when checking an argument of {op})"
)
INDICES = "indices should be either on {device} or on the same device as the indexed tensor ({device})"


def is_possible() -> bool:
    """Whether this torch lets Python define a device."""
    from torch.utils import backend_registration

    return hasattr(backend_registration, "_setup_privateuseone_for_python_backend")


class Use:
    """One tensor's use of its storage, over when the tensor is freed. The tensor itself can't be watched: torch swaps
    no tensor that has a weak reference."""

    __slots__ = ("key", "memory")

    def __init__(self, memory: Memory, raw: torch.Tensor) -> None:
        MODULE.init()
        self.memory, self.key = memory, memory.take(raw)

    def __del__(self) -> None:
        self.memory.give_back(self.key)


class Memory:
    """Bytes in use and their peak, and a bound."""

    def __init__(self) -> None:
        self.users: Counter[int] = Counter()
        self.sizes: dict[int, int] = {}
        self.in_use = self.peak = 0
        self.bound = MOST_BYTES
        self.lock = threading.RLock()
        self.tensors = 0
        self.changes: Callable[[], None] = lambda: None  # is told before a tensor comes or goes

    def take(self, raw: torch.Tensor) -> int:
        """Counts a tensor's storage once. Raises OutOfMemoryError as an accelerator does."""
        storage = raw.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        self.changes()
        with self.lock:
            if not self.users[key]:
                if self.in_use + size > self.bound:
                    raise torch.OutOfMemoryError(
                        f"{NAME} out of memory. Tried to allocate {size / 2**20:.2f} MiB. GPU 0 has a total "
                        f"capacity of {self.bound / 2**20:.2f} MiB."
                    )
                self.sizes[key] = size
                self.in_use += size
                self.peak = max(self.peak, self.in_use)
            self.users[key] += 1
            self.tensors += 1
        return key

    def give_back(self, key: int) -> None:
        """One tensor fewer uses the storage."""
        self.changes()
        with self.lock:
            self.users[key] -= 1
            self.tensors -= 1
            if not self.users[key]:
                self.in_use -= self.sizes.pop(key)
                del self.users[key]


class Module:
    """What `torch.sim` is: the functions that torch and programs ask a device's module for."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.generator = torch.Generator()
        self.synchronised = 0  # times that somebody waited for it
        self.lost = False
        self.orders = itertools.cycle((False, True))  # whether the next unordered sum is made from its end
        self.coming: list[Callable[[], Any]] = []  # copies to the CPU that nobody has waited for
        self._initialized = False  # torch reads it, too

    def init(self) -> None:
        _guard()
        self._initialized = True

    _lazy_init = init  # which torch calls before it makes a tensor here

    def is_initialized(self) -> bool:
        return self._initialized

    def is_available(self) -> bool:
        return not self.lost

    def is_bf16_supported(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 0 if self.lost else 1

    def get_device_name(self, device: Any = None) -> str:
        return "Simulated accelerator"

    def device(self, index: Any) -> AbstractContextManager[None]:
        """There is one."""
        return nullcontext()

    def set_device(self, device: Any) -> None:
        """There is one."""

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed(self, seed: int) -> None:
        self.generator.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return self.generator.get_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        self.generator.set_state(state)

    def synchronize(self, device: Any = None) -> None:
        self.synchronised += 1
        while self.coming:
            self.coming.pop(0)()

    def empty_cache(self) -> None:
        """Nothing is cached."""

    def memory_allocated(self, device: Any = None) -> int:
        return self.memory.in_use

    def max_memory_allocated(self, device: Any = None) -> int:
        return self.memory.peak

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        self.memory.peak = self.memory.in_use

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    @property
    def tensor_types(self) -> tuple[type[torch.Tensor], ...]:
        """What the kit takes for a plain tensor: `grader.calls.devices`."""
        return (OnDevice,)


MODULE = Module()


class OnDevice(torch.Tensor):
    """A tensor on `sim`. `raw` holds its numbers, in memory of its own or of the tensor that it is a view of."""

    raw: torch.Tensor
    use: Use
    is_new = False  # just moved here

    @staticmethod
    def __new__(cls, raw: torch.Tensor) -> OnDevice:
        raw = raw.resolve_conj().resolve_neg()
        made: OnDevice = torch.Tensor._make_wrapper_subclass(
            cls, raw.size(), strides=raw.stride(), storage_offset=raw.storage_offset(), dtype=raw.dtype, device=DEVICE
        )
        made.raw, made.use = raw, Use(MODULE.memory, raw)
        return made

    def __deepcopy__(self, _memo: dict[int, Any]) -> torch.Tensor:
        copied: torch.Tensor = OnDevice(self.raw.detach().clone()).requires_grad_(self.requires_grad)
        return torch.nn.Parameter(copied, self.requires_grad) if isinstance(self, torch.nn.Parameter) else copied

    # `nn.Module.to` swaps a parameter with its new self where that has these two, else it sets `data`. From the CPU it
    # has to swap, so that a parameter stays the same object; afterwards it can't, since a graph may hold the parameter.
    @property
    def __tensor_flatten__(self) -> Any:
        if not self.is_new:
            raise AttributeError("__tensor_flatten__")
        return lambda: (["raw"], None)

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], _context: None, _size: Any, _stride: Any) -> OnDevice:
        return OnDevice(inner["raw"])

    @property
    def data(self) -> torch.Tensor:  # type: ignore[override]
        return self.detach()

    @data.setter
    def data(self, value: OnDevice) -> None:
        torch.Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self.raw, self.use = value.raw, value.use

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.raw.untyped_storage()

    def tolist(self) -> Any:
        """Waits for the device and copies, as `.cpu()` does."""
        MODULE.synchronize()
        return self.raw.tolist()

    def numpy(self, *_how: Any, **_more: Any) -> Any:
        """Refused, as for any device that NumPy can't read."""
        raise TypeError(
            f"can't convert {DEVICE} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
            "first."
        )

    __array__ = numpy

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self, **_how: Any) -> str:
        return f"{repr(self.raw)[:-1]}, device='{DEVICE}')"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, *args, **(kwargs or {}))


def run(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs one op, on the device that its arguments name or lie on."""
    name = func._schema.name.removeprefix("aten::")
    if MODULE.lost:
        raise RuntimeError(f"{NAME} error: the device was lost ({name})")
    tensors: list[torch.Tensor] = []
    if name == "_pin_memory" and isinstance(args[0], OnDevice):
        pin(args[0])  # which refuses it
    raw_args, raw_kwargs = _mapped(
        lambda tensor: tensors.append(tensor) or getattr(tensor, "raw", tensor), (args, kwargs)
    )
    here = [tensor for tensor in tensors if isinstance(tensor, OnDevice)]
    _refuse_mixed(func, name, args, tensors, here)
    is_here = bool(here) if kwargs.get("device") is None else torch.device(kwargs["device"]).type == NAME
    if name in COPIES and name != "_to_copy":
        is_here = isinstance(args[0], OnDevice)
    if kwargs.get("device") is not None and is_here:
        raw_kwargs["device"] = torch.device("cpu")
    raw_kwargs.pop("pin_memory", None)
    if name in UNORDERED and not torch.are_deterministic_algorithms_enabled() and next(MODULE.orders):
        raw_args = _from_the_end(*raw_args)
    if name in PRODUCTS and _rounds_to_tf32(name):
        raw_args = _mapped(_as_tf32, raw_args)
    with _own_random_numbers(raw_kwargs) if torch.Tag.nondeterministic_seeded in func.tags else nullcontext():
        try:
            result = func(*raw_args, **raw_kwargs)
        except RuntimeError as error:
            if is_here and "can't allocate memory" in str(error):
                raise torch.OutOfMemoryError(f"{NAME} out of memory ({name})") from None
            raise
    if name == "_local_scalar_dense":
        MODULE.synchronize()
    if here and not is_here and name in COPIES:
        return _to_the_cpu(name, args, kwargs, result)
    if not is_here or result is None:
        return args[0] if name in COPIES and func._schema.is_mutable else result
    if name == "_to_copy" and result is raw_args[0]:
        result = result.clone()  # between devices a copy is one, also where nothing changes
    if name == "copy_" and not isinstance(args[1], OnDevice):
        args[0].is_new = True
    if any(tensor.shape != tensor.raw.shape for tensor in here) and torch.Tag.inplace_view not in func.tags:
        raise NotImplementedError(f"a tensor on {NAME} keeps its size, and {name} changes it")
    # A view of an ordinary tensor is one, too, in inference mode.
    is_ordinary = func.is_view and bool(here) and not here[0].is_inference()
    with torch.inference_mode(False) if is_ordinary else nullcontext():
        made = _mapped(OnDevice, result)
    if torch.is_inference_mode_enabled():  # which keeps no record of views
        return args[0] if func._schema.is_mutable and isinstance(args[0], OnDevice) else made
    return return_and_correct_aliasing(func, args, kwargs, made)


def _to_the_cpu(name: str, args: Any, kwargs: Any, result: torch.Tensor) -> torch.Tensor:
    """What is copied to the CPU: there at once, or after whoever asked not to wait has waited. Then it lies in pinned
    memory, and where it goes into memory that is not, the copy waits in spite of it."""
    whole = kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2])
    if name == "copy_":
        result = args[0]
    if not whole or (name == "copy_" and not is_pinned(result)):
        MODULE.synchronize()
        return result
    values = result if name == "_to_copy" else args[1].raw.clone()
    late = pin(torch.zeros_like(values)) if name == "_to_copy" else result.zero_()
    MODULE.coming.append(functools.partial(late.copy_, values))
    return late


def _from_the_end(into: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *more: Any) -> Any:
    return into, dim, index.flip(dim if index.dim() > 1 else 0), source.flip(dim), *more


class Pinned(bytearray):
    """Memory of the CPU that the device may read and write while nobody waits: known while a tensor lies in it."""

    places: dict[int, int] = {}

    def __del__(self) -> None:
        Pinned.places.pop(id(self), None)


def pin(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    """A copy in pinned memory. Raises RuntimeError unless it lies on the CPU, as CUDA does."""
    if isinstance(tensor, OnDevice):
        raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
    held = Pinned(max(1, tensor.numel()) * tensor.element_size())
    made = torch.frombuffer(held, dtype=tensor.dtype)
    Pinned.places[id(held)] = made.data_ptr()
    return made[: tensor.numel()].view(tensor.shape).copy_(tensor)


def is_pinned(tensor: torch.Tensor, device: Any = None) -> bool:
    """Whether a tensor lies in pinned memory."""
    return not isinstance(tensor, OnDevice) and tensor.untyped_storage().data_ptr() in Pinned.places.values()


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """`value` with each tensor in it replaced. torch's own pytree leaves behind what a bound on memory notices."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, tuple | list):
        return type(value)([_mapped(function, item) for item in value])
    if isinstance(value, dict):
        return {name: _mapped(function, item) for name, item in value.items()}
    return value


def _refuse_mixed(func: Any, name: str, args: Any, tensors: list[torch.Tensor], here: list[OnDevice]) -> None:
    elsewhere = [tensor for tensor in tensors if not isinstance(tensor, OnDevice)]
    if not here or not elsewhere or name in COPIES:
        return
    if name in INDEXING:
        if not isinstance(args[0], OnDevice):
            raise RuntimeError(INDICES.format(device=args[0].device))
        indices = [index for index in args[1] if index is not None]
        elsewhere = [tensor for tensor in elsewhere if not any(tensor is index for index in indices)]
        if name.startswith(("index_put", "_index_put")):
            elsewhere = [tensor for tensor in elsewhere if tensor.dim() > 0]
    elif torch.Tag.pointwise in func.tags or name in TAKE_NUMBERS:
        elsewhere = [tensor for tensor in elsewhere if tensor.dim() > 0]
    if elsewhere:
        raise RuntimeError(LEFT_BEHIND.format(one=DEVICE, other=elsewhere[0].device, op=name))


def _rounds_to_tf32(name: str) -> bool:
    """Whether float32 products are rounded, as CUDA's are: convolutions unless told not to, others where asked to."""
    if name.startswith("conv"):
        return bool(torch.backends.cudnn.allow_tf32)
    return bool(torch.backends.cuda.matmul.allow_tf32)


def _as_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """float32 numbers with the 10 bits of a mantissa that TF32 has, rounded to nearest."""
    if tensor.dtype != torch.float32:
        return tensor
    bits = tensor.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


@contextmanager
def _own_random_numbers(kwargs: dict[str, Any]) -> Iterator[None]:
    """Has an op draw from a generator of the device: its own, or the one that was given."""
    given = kwargs.pop("generator", None)
    if given is not None and given._cdata not in Generator.made:
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found '{given.device}'")
    source = given or MODULE.generator
    before = torch.default_generator.get_state()
    torch.default_generator.set_state(source.get_state())
    try:
        yield
    finally:
        source.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(before)


class Generator(torch._C.Generator):
    """`torch.Generator`, for this device too."""

    made: dict[int, Generator] = {}

    def __new__(cls, device: Any = "cpu") -> Any:
        if torch.device(device).type != NAME:
            return torch._C.Generator(device)
        made = super().__new__(cls, "cpu")
        cls.made[made._cdata] = made  # an op gets it in another object; kept, else the next generator has its address
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return DEVICE

    def manual_seed(self, seed: int) -> Generator:
        super().manual_seed(seed)
        return self


_kept: list[Any] = []  # a library ends with its object


@functools.cache
def install() -> None:
    """Puts the device in place in this process, for good. Does nothing where torch is too old for it."""
    if not is_possible():
        return
    from torch.utils import backend_registration

    torch.utils.rename_privateuse1_backend(NAME)
    torch.utils.generate_methods_for_privateuse1_backend()
    torch._register_device_module(NAME, MODULE)
    torch._C._acc.register_python_privateuseone_hook(backend_registration._DummyPrivateUse1Hook())
    torch.autograd._engine_run_backward = torch.autograd.graph._engine_run_backward = _with_guard(
        torch.autograd.graph._engine_run_backward
    )
    global DEVICE
    DEVICE = torch.device(NAME, 0)
    torch.Generator = Generator  # type: ignore[misc,assignment]
    every, aten = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    every.fallback(run_below, KEY)
    # torch.tensor makes a tensor on the CPU and moves it, with Python's kernels switched off but for these; the
    # others make an empty tensor and resize it.
    resized = (ATEN.arange.default, ATEN.arange.start, ATEN.arange.start_step, ATEN.eye.default, ATEN.eye.m)
    for op in (ATEN.empty_strided.default, ATEN.copy_.default, *resized):
        aten.impl(op, functools.partial(run, op), KEY)
    for key in ("CPU", KEY):
        aten.impl("is_pinned", is_pinned, key)
        aten.impl("_pin_memory", pin, key)
    every.fallback(torch.library.fallthrough_kernel, f"Autocast{KEY}")
    for op in (*NARROW, *WIDE):
        aten.impl(op, functools.partial(_autocast, op, op in NARROW), f"Autocast{KEY}")
    _kept.extend((every, aten))


@functools.cache
def _guard() -> None:
    """Tells torch's autograd of the device: from then on a first backward pass starts a thread for it."""
    from torch.utils import backend_registration

    torch._C._acc.register_python_privateuseone_device_guard(backend_registration._DummyDeviceGuard())


def _with_guard(run_backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward pass, before which autograd is told of the device unless accelerators are hidden from this process, in
    the variable that CUDA asks."""

    def run_backward_here(*args: Any, **kwargs: Any) -> Any:
        if os.environ.get("CUDA_VISIBLE_DEVICES") != "":
            _guard()
        return run_backward(*args, **kwargs)

    return run_backward_here


def run_below(func: Any, *args: Any, **kwargs: Any) -> Any:
    """An op that reached the device's own kernels: a factory, which has no tensor among its arguments."""
    return run(func, *args, **kwargs)


def _autocast(op: Any, is_narrow: bool, *args: Any, **kwargs: Any) -> Any:
    """An op under `torch.autocast`: products in the narrow type, what sums or divides in float32."""
    dtype = torch.get_autocast_dtype(NAME) if is_narrow else torch.float32

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        is_cast = tensor.is_floating_point() and tensor.dtype != torch.float64 and tensor.device.type == NAME
        return tensor.to(dtype) if is_cast else tensor

    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
        return op(*_mapped(cast, args), **_mapped(cast, kwargs))
