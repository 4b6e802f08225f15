"""The torch functions that a call uses, and the values that it reads on `meta`, which has none.

A call that reads a value on `meta` is made on the CPU first, and its reads are recorded in order; then it is made on
`meta`, and each read gets what the same line read there. Printing a tensor reads nothing: a short text takes its place.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types as kinds
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from grader.calls import counters, devices, private_torch
from grader.calls.builtins import IGNORED, NAMESPACES, PLAIN
from grader.calls.private_torch import HigherOrderOperator, OpOverload, OpOverloadPacket
from grader.calls.values import leaves

REFUSAL = "Tensor.item() cannot be called on meta tensors"  # torch's own words
FOREIGN = "<foreign>"  # in place of the name of a function that is not torch's
NOT_ENTERED = (
    kinds.BuiltinFunctionType, kinds.MethodDescriptorType, kinds.MethodWrapperType, kinds.WrapperDescriptorType,
    kinds.GetSetDescriptorType, kinds.ClassMethodDescriptorType, OpOverload, OpOverloadPacket, HigherOrderOperator,
)  # fmt: skip
NOT_AUTHORS = ("torch", "numpy", "grader")
Key = tuple[Any, ...]
# Ops with results of a size that depends on values.
SIZED_BY_VALUES = (
    torch.ops.aten.nonzero.default, torch.ops.aten.masked_select.default, torch.ops.aten._unique2.default,
    torch.ops.aten.unique_dim.default, torch.ops.aten.unique_consecutive.default, torch.ops.aten.bincount.default,
)  # fmt: skip


@dataclass
class Record:
    """The values that a call read on the CPU, in order, each with the line and the function that read it."""

    is_own: Callable[[str], bool]
    entries: list[tuple[Key, Any]] = field(default_factory=list)
    position: int = 0
    is_complete: bool = False  # the call on the CPU is over

    def key(self, kind: str, tensor: Tensor) -> Key:
        """What identifies the read that is being made: its kind, the author's line and the torch function that make it,
        and the tensor's shape and dtype."""
        frame = sys._getframe(1)
        while frame.f_back is not None and not self._is_authors(frame):
            frame = frame.f_back
        site = (frame.f_code.co_filename, frame.f_lineno)
        return kind, site, FunctionRecorder.calling, tuple(tensor.shape), tensor.dtype

    def _is_authors(self, frame: kinds.FrameType) -> bool:
        """Whether a frame runs code of the author's, and none of torch, NumPy or the grader."""
        root = str(frame.f_globals.get("__name__")).partition(".")[0]
        return root not in NOT_AUTHORS and self.is_own(frame.f_code.co_filename)

    def take(self, key: Key) -> Any:
        """The value of the next read with this key; reads before it, that only the call on the CPU made, are skipped
        for good. Raises LookupError if no read is left with this key."""
        for position in range(self.position, len(self.entries)):
            if self.entries[position][0] == key:
                self.position = position + 1
                return self.entries[position][1]
        raise LookupError


class Reads:
    """The record in use, and whether a value was read without one."""

    record: ClassVar[Record | None] = None
    missed: ClassVar[bool] = False

    @classmethod
    @contextlib.contextmanager
    def into(cls, record: Record) -> Iterator[Record]:
        """Records reads on the CPU inside the block; answers those on `meta` once the record is complete."""
        _note_reads()
        was_included = private_torch.is_included(counters.KEY)
        cls.record = record
        private_torch.include(counters.KEY, True)
        try:
            yield record
        finally:
            private_torch.include(counters.KEY, was_included)
            cls.record = None

    @classmethod
    def value(cls, kind: str, tensor: Tensor) -> Any:
        """The recorded value that the same read gave on the CPU. Raises torch's RuntimeError for reads on `meta` if
        none was recorded."""
        if cls.record is None or not cls.record.is_complete:
            cls.missed = True
            raise RuntimeError(REFUSAL)
        try:
            return cls.record.take(cls.record.key(kind, tensor))
        except LookupError:
            raise RuntimeError(REFUSAL) from None

    @classmethod
    def note(cls, kind: str, tensor: Tensor, value: Any) -> None:
        """Records that a read of a CPU tensor gave this value; if the call on `meta` is being made, skips the record of
        the same read instead. Without a record in use, does nothing."""
        if cls.record is None:
            return
        key = cls.record.key(kind, tensor)
        if not cls.record.is_complete:
            cls.record.entries.append((key, value))
        else:
            with contextlib.suppress(LookupError):
                cls.record.take(key)


class FunctionNames(private_torch.FunctionMode):
    """Records the name of every torch function, method, op and higher-order op called from Python inside the block; of
    what switches this off, by a name of torch's own, `hidden` has the name."""

    hidden: set[str] = set()

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        FunctionNames.hidden = set()
        self._inside: Any = None  # the function not of torch's that is being called
        self._made: dict[int, str] = {}  # which of them gave the object of this id
        # The recorded names of functions seen before: "" for none, None for those that are `answered`.
        self._known: dict[Any, str | None] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls a function of torch, or another that handles its arguments, and notes its name if that is torch's."""
        try:
            name = self._known[func]
        except (KeyError, TypeError):
            name = self._noted_as(func)
        if name is None:
            return self.answered(func, args, kwargs or {})
        if name is FOREIGN:
            return self._entered(func, args, kwargs or {})
        result = func(*args, **kwargs) if kwargs else func(*args)
        if name:
            self.names.add(name)
            for each in result if isinstance(result, tuple) else (result,):
                self._made[id(each)] = name
        return result

    def _entered(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function that is not torch's, with this mode on, so that the torch functions it calls are noted."""
        if func is self._inside:  # it asks for the mode by itself, and would for ever
            FunctionNames.hidden.add(FOREIGN)
            return func(*args, **kwargs)
        before, self._inside = self._inside, func
        try:
            with self:
                return func(*args, **kwargs)
        finally:
            self._inside = before

    def answered(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a function that a subclass answers in place of torch: one that it maps to None in `_known`."""
        raise NotImplementedError

    def makers(self, value: Any) -> list[str]:
        """For each tensor of a value the name of the function that gave it: "" if none did, as for an argument or for
        what was kept."""
        return [self._made.get(id(leaf), "") for leaf in leaves(value) if isinstance(leaf, Tensor)]

    def _noted_as(self, func: Callable[..., Any]) -> str:
        """The name under which a function is recorded; empty for one that is not, FOREIGN if it isn't torch's."""
        name = getattr(func, "__name__", None) or str(func)
        if _is_torchs_own(func):
            noted = "" if name in IGNORED else str(name.partition(".")[0])
        else:
            noted = "" if isinstance(func, NOT_ENTERED) or func is torch.device else FOREIGN
        if isinstance(func, PLAIN):  # a learner's object may claim to equal any of them
            self._known[func] = noted
        return noted


def _noted_switch(switch: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch's that switches modes off, or that no mode sees, wrapped so that `hidden` gets its name."""

    def noting(*args: Any) -> Any:
        FunctionNames.hidden.add(switch.__name__)
        return switch(*args)

    return noting


# Before a learner's file can import the originals.
for _switch in (*private_torch.MODE_SWITCHES, *private_torch.PAST_MODES):
    private_torch.put(_switch, _noted_switch)


def _is_torchs_own(func: Callable[..., Any]) -> bool:
    """Whether a function is torch's, and not another that has the name of one."""
    if isinstance(func, OpOverload | OpOverloadPacket | HigherOrderOperator):
        namespace = getattr(func, "namespace", None) or str(func).partition(".")[0]
        return namespace in (*NAMESPACES, "prims", "higher_order")
    if isinstance(func, kinds.FunctionType):  # with the very names of a module of torch's
        module = sys.modules.get(str(func.__globals__.get("__name__")))
        return str(module and module.__name__).startswith("torch.") and vars(module) is func.__globals__
    return isinstance(func, PLAIN) and not str(getattr(func, "__module__", None)).startswith("_")


class FunctionRecorder(FunctionNames):
    """Records the torch functions of a call on `meta`, or of the same call on the CPU. What shows a tensor is answered
    without torch, and what copies one from `meta` by the record."""

    calling: ClassVar[str] = ""  # the torch function that is being called

    def __init__(self) -> None:
        super().__init__()
        self._known.update(dict.fromkeys((*SHOWING, *COPYING, *COMPARING)))
        self._handed_out: list[tuple[Tensor, Tensor, str]] = []  # memory, its bits, and the function that gave it

    def note_writes(self) -> None:
        """Adds to `hidden` each function that gave out a tensor's memory (as `numpy` does) to which something other
        than torch has written since the last torch function."""
        for tensor, bits, name in self._handed_out:
            if not torch.equal(_bits(tensor), bits):
                FunctionNames.hidden.add(name)

    def answered(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a function that shows or copies a tensor."""
        tensor = args[0] if args else None
        if not isinstance(func, PLAIN) or type(tensor) not in devices.tensor_types():
            return func(*args, **kwargs)
        assert isinstance(tensor, Tensor)
        if func in TAKING_OUT:
            self.names.add(func.__name__)
        if func in SHOWING:
            return _shown(tensor, *args[1:])
        if func in COMPARING:
            return self._compared(func, args, kwargs)
        if func is Tensor.to and not any(_is_cpu(value) for value in (*args[1:], *kwargs.values())):
            self.names.add("to")
            result = func(*args, **kwargs)
            self._made[id(result)] = "to"
            return result
        if not tensor.is_meta:
            copied = func(*args, **kwargs)
            Reads.note("copy", tensor, tensor.detach().clone())
            return copied
        if Reads.record is None:
            Reads.missed = True
            return func(*args, **kwargs)
        return func(Reads.value("copy", tensor), *args[1:], **kwargs)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls a function of torch and, while reads are recorded, notes which one is reading."""
        if Reads.record is not None:  # a read inside a function is told from one of the author's own
            FunctionRecorder.calling = str(getattr(func, "__name__", ""))
            if func is torch.tensor:  # it reads the numbers in a list past the dispatcher
                for leaf in leaves(args):
                    if isinstance(leaf, Tensor) and not leaf.is_meta and leaf.numel() == 1:
                        leaf.item()
        self.note_writes()
        result = super().__torch_function__(func, types, args, kwargs)
        self._handed_out = [(tensor, _bits(tensor), name) for tensor, _before, name in self._handed_out]
        if isinstance(func, PLAIN) and func in HANDING_OUT and type(args[0]) in devices.tensor_types():
            self._handed_out += [(each, _bits(each), func.__name__) for each in args[:1] if not each.is_meta]
        return result

    def _entered(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As for `FunctionNames`; notes what the function wrote at its end, too."""
        result = super()._entered(func, args, kwargs)
        self.note_writes()
        return result

    @staticmethod
    def _compared(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of `torch.equal`, recorded as a read; on `meta` the recorded one."""
        if args[0].is_meta:
            return Reads.value("equal", args[0])
        same = func(*args, **kwargs)
        Reads.note("equal", args[0], same)
        return same


SHOWING = (Tensor.__repr__, Tensor.__format__)
COPYING = (Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.cpu, Tensor.to)
COMPARING = (Tensor.equal, torch.equal)
HANDING_OUT = (Tensor.numpy, Tensor.__array__, Tensor.untyped_storage)  # memory that other code can write to
TAKING_OUT = (Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.__format__)  # what follows is not torch's work


def _bits(tensor: Tensor) -> Tensor:
    """A copy of a tensor's whole storage, as bytes (uint8)."""
    return torch.empty(0, dtype=torch.uint8).set_(private_torch.storage_of(tensor)).clone()


def _shown(tensor: Tensor, spec: str = "") -> str:
    """A tensor as text, without reading its values unless it is a formatted scalar."""
    if spec and tensor.dim() == 0:
        return str(tensor.detach().item().__format__(spec))
    return object.__format__(tensor, spec) if spec else f"tensor(..., size={tuple(tensor.shape)})"


def _is_cpu(value: Any) -> bool:
    """Whether an argument names the CPU: as a string, a device, or a tensor that is there."""
    return isinstance(value, str | torch.device | Tensor) and str(getattr(value, "device", value)) == devices.CPU


@functools.cache
def _note_reads() -> list[Any]:
    """Registers kernels that note reads on the CPU, once per process; returns their library in a list, to be kept,
    since deleting it would undo it."""
    counters.let_ops_pass(patiently=True)
    library = private_torch.Kernels("aten")
    for op, recorded_as in ((private_torch.LOCAL_SCALAR, _itself), *((op, _sizes) for op in SIZED_BY_VALUES)):
        library.impl(op.name(), _noting(op, recorded_as), counters.PLACE, with_keyset=True)
    return [library]


def _noting(op: Any, recorded_as: Callable[[Any], Any]) -> Callable[..., Any]:
    """A kernel for an op that reads values: it runs the op and, for a tensor not on `meta`, records
    `recorded_as(result)`."""

    def noting(keys: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        value = counters.run(op, keys, (tensor, *args), kwargs)
        if Reads.record is not None and not tensor.is_meta:
            Reads.note(op.name(), tensor, recorded_as(value))
        return value

    return noting


def _itself(value: Any) -> Any:
    return value


def _sizes(value: Any) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """The shape and dtype of each tensor in a value."""
    return [(tuple(tensor.shape), tensor.dtype) for tensor in leaves(value) if isinstance(tensor, Tensor)]


def item_on_meta(tensor: Tensor) -> Any:
    """The kernel of `item` on `meta`: the number that the same read gave on the CPU. Raises RuntimeError without it."""
    return Reads.value(private_torch.LOCAL_SCALAR.name(), tensor)


def sized_on_meta(op: Any) -> Callable[..., Any]:
    """A kernel on `meta` for an op with results as large as values say: it returns empty ones, as large as on the CPU,
    and raises RuntimeError if no call on the CPU was recorded."""
    name = op.name()

    def kernel(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        results = [torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in Reads.value(name, tensor)]
        return tuple(results) if len(results) > 1 else results[0]

    return kernel
