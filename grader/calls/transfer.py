"""Converts arguments for the called code, and what it returns or raises into a value that can be sent."""

from __future__ import annotations

import builtins
import difflib
import itertools
import linecache
import numbers
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from grader.calls import devices
from grader.calls.call import Call, Raised
from grader.calls.values import (
    ARRAY_DTYPES,
    DTYPE_NAMES,
    MAX_BITS,
    MAX_NAME,
    MAX_TENSOR_ELEMENTS,
    HandleId,
    Opaque,
    PlacedTensor,
    as_tensor,
    extent,
    mapped_by_path,
)

MAX_ITEMS = 2000  # items taken from one generator, list or dictionary
MAX_DEPTH = 4  # of tuples in tuples
# Sent unchanged.
PLAIN = (type(None), bool, int, float, str, bytes, tuple, list, dict, set, Tensor, nn.Module, np.ndarray, np.generic)
HIDDEN_LOCALS = ("self", "__class__")


class NotThere(Exception):
    """The called name does not exist or can't be called: "undefined", "not callable", "no module", "no part …" or "no
    such method". `name`: that of what is undefined."""

    def __init__(self, what: str, name: str = "") -> None:
        super().__init__(what)
        self.name = name


# --- what goes in ---


class Inputs:
    """The arguments of one call: modules for handle numbers, tensors on the device, leaves for gradients."""

    def __init__(self, call: Call, handles: Mapping[int, Any]) -> None:
        self.leaves: dict[str, Tensor] = {}
        self.handle_numbers: list[int] = []
        self._given: list[tuple[str, Any, Any]] = []
        self._options = call.options
        self._handles = handles
        self._keep = call.is_authors
        self.args = tuple([mapped_by_path(str(index), value, self._ready) for index, value in enumerate(call.args)])
        self.kwargs = {name: mapped_by_path(name, value, self._ready) for name, value in call.kwargs.items()}

    def _ready(self, name: str, value: Any) -> Any:
        """An argument ready for the call: the module of a handle; a copy of a tensor or array, on the call's device;
        any other value itself. `name`: its path, such as `0.1`."""
        if isinstance(value, HandleId):
            self.handle_numbers.append(value.number)
            return self._handles.get(value.number)
        if not self._keep or not isinstance(value, Tensor | np.ndarray):
            return value
        # A copy, so that changes don't reach the original, and not a leaf: a leaf that requires a gradient refuses
        # in-place changes, with an error about autograd instead of about the change.
        if isinstance(value, np.ndarray):
            ready: Any = _reversed(value) if self._options.strided else np.array(value)
        else:
            if self._options.device != "cpu":
                value = value.to(self._options.device)
            ready = value.detach().clone(memory_format=torch.preserve_format)
            if self._options.gradients and value.is_floating_point():
                self.leaves[name] = ready.requires_grad_()
                ready = ready if self._options.strided else ready.clone(memory_format=torch.preserve_format)
            if self._options.strided:
                ready = _apart(ready)
        self._given.append((name, ready, value))
        return ready

    @property
    def wide(self) -> bool:
        """Whether a float64 tensor is among the arguments."""
        return any(
            isinstance(argument, Tensor) and argument.dtype == torch.float64 for _name, argument, _before in self._given
        )

    def modified(self) -> list[str]:
        """The names of the tensor and array arguments that were modified."""
        return [name for name, argument, before in self._given if not _same_bits(argument, before)]


def _apart(tensor: Tensor) -> Tensor:
    """A copy of the same shape in which the first dimension has the smallest stride and no dimension is contiguous.

    Made here and not by the caller: encoding makes a tensor contiguous.
    """
    back = tuple(reversed(range(tensor.dim())))
    turned = tensor.permute(back)
    return torch.stack([turned, torch.zeros_like(turned)], dim=-1)[..., 0].permute(back)


def _reversed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that lies apart as `_apart` has it, and backwards: every stride is negative, as after `[::-1]`."""
    if not array.ndim:
        return np.array(array)
    back = np.ascontiguousarray(np.flip(array.T))
    return np.flip(np.stack([back, np.zeros_like(back)], axis=-1)[..., 0]).T


def _same_bits(value: Any, before: Any) -> bool:
    """True if a tensor or array is unchanged: shape, dtype, device and values, NaN equal to NaN."""
    if value.shape != before.shape or value.dtype != before.dtype:
        return False
    if isinstance(value, np.ndarray):
        value, before = as_tensor(value), as_tensor(before)
    if value.device != before.device:
        return False
    if value.device.type == "meta" or torch.equal(value, before):
        return True
    return (
        value.is_floating_point()
        and torch.equal(value.isnan(), before.isnan())
        and torch.equal(value.nan_to_num(), before.nan_to_num())
    )


# --- what comes back ---


def materialised(value: Any) -> Any:
    """A generator, a data loader or any other iterable becomes the list of what it yields, up to a bound.

    So does a subclass of tuple, list or dict, which may compute lazily, and has to do so while it is watched.
    """
    if isinstance(value, tuple | list) and type(value) not in (tuple, list):
        return list(itertools.islice(value, MAX_ITEMS + 1))
    if isinstance(value, dict) and type(value) is not dict:
        return dict(itertools.islice(value.items(), MAX_ITEMS + 1))
    # `isinstance(…, Iterable)` is slow for a class seen for the first time, as each learner's classes are.
    if not isinstance(value, PLAIN) and isinstance(value, Iterable):
        return list(itertools.islice(value, MAX_ITEMS))
    if not isinstance(value, PLAIN) and hasattr(type(value), "__getitem__") and hasattr(type(value), "__len__"):
        return list(itertools.islice(iter(value), min(len(value), MAX_ITEMS)))  # `for` can iterate it, by index
    return value


def travelling(value: Any, handle_of: Callable[[Any], HandleId], depth: int = 0) -> Any:
    """A result as a value that can be sent; `handle_of` gives that of a module that is the whole result. Anything else
    becomes an `Opaque`. `depth`: how deep `value` itself is nested."""
    match value:
        case None | bool():
            return value
        case Tensor():
            return _travelling_tensor(value)
        case np.ndarray():
            return _travelling_array(value)
        case str():
            return str(value)
        case np.bool_():
            return bool(value)
        case nn.Module() if depth == 0:
            return handle_of(value)
        case int() | numbers.Integral():  # NumPy's, say
            number = int(value)
            bits = number.bit_length()
            return number if bits <= MAX_BITS else Opaque(f"an integer of {bits} bits")
        case float() | numbers.Real():
            return float(value)
        case tuple() | list() if depth < MAX_DEPTH and len(value) <= MAX_ITEMS:
            return tuple([travelling(item, handle_of, depth + 1) for item in value])
        case dict() if depth < MAX_DEPTH and len(value) <= MAX_ITEMS:
            return {str(name)[:MAX_NAME]: travelling(item, handle_of, depth + 1) for name, item in value.items()}
    return Opaque(f"an object of type {type(value).__qualname__}")


def _travelling_tensor(value: Tensor) -> PlacedTensor | Opaque:
    """The tensor with its values on the CPU, or a description of one that can't be sent."""
    shape = tuple(value.shape)
    if type(value) not in devices.tensor_types():
        return Opaque(f"a {type(value).__name__}, a tensor subclass, of shape {shape}")
    if value.layout != torch.strided or value.is_quantized:
        return Opaque(f"a tensor of layout {value.layout} and shape {shape}")
    if extent(shape) > MAX_TENSOR_ELEMENTS and value.device.type != "meta":
        return Opaque(f"a tensor of shape {shape} (too big)")
    if value.dtype not in DTYPE_NAMES:
        return Opaque(f"a tensor of dtype {str(value.dtype).removeprefix('torch.')} and shape {shape}")
    if value.device.type == "meta":
        return PlacedTensor(value.detach(), "meta")
    return PlacedTensor(value.detach().resolve_neg().to("cpu"), str(value.device))


def _travelling_array(value: np.ndarray[Any, Any]) -> Any:
    """The array, or a description of one that can't be sent."""
    shape = tuple(value.shape)
    if type(value) is not np.ndarray:
        return Opaque(f"a {type(value).__name__}, a kind of array, of shape {shape}")
    if value.dtype not in ARRAY_DTYPES:
        return Opaque(f"an array of dtype {value.dtype} and shape {shape}")
    if extent(shape) > MAX_TENSOR_ELEMENTS:
        return Opaque(f"an array of shape {shape} (too big)")
    return value


# --- errors -----------------------------------------------------------------------------------------------------------


def described(error: BaseException, is_own: Callable[[str], bool], file: object) -> Raised:
    """The description of an error of the called code, with the line in its author's own `file`; `is_own` tells whether
    a file name is the author's."""
    own = [(frame, line) for frame, line in _frames(error) if is_own(frame.f_code.co_filename)]
    try:
        message = str(error)
    except BaseException:  # a learner's exception class may fail even here
        message = ""
    raised = Raised(type(error).__name__, message)
    if isinstance(error, SyntaxError) and is_own(error.filename or ""):
        raised.file, raised.line = error.filename or "", error.lineno or 0
        raised.source, raised.message = error.text or "", error.msg
        raised.source = (raised.source or linecache.getline(raised.file, raised.line)).strip()
    elif isinstance(error, NotThere):
        raised.file = file if type(file) is str and is_own(file) else ""
    elif own:
        frame, raised.line = own[-1]
        raised.file, raised.function = frame.f_code.co_filename, frame.f_code.co_name
        raised.source = linecache.getline(raised.file, raised.line).strip()
        raised.near = _near(error, frame)
        raised.shapes = [
            f"{name}: {shape}"
            for name, value in itertools.islice(frame.f_locals.items(), 50)
            if name not in HIDDEN_LOCALS and (shape := _shape(value))
        ]
    return raised


def _near(error: BaseException, frame: types.FrameType) -> str:
    """The known name that is spelled almost like the unknown one; empty without one. Python searches for it only when
    it prints a traceback."""
    candidates: Iterable[object] = ()
    if type(error) is NameError:
        candidates = dict.fromkeys([*frame.f_locals, *frame.f_globals, *vars(builtins)])
    elif type(error) is AttributeError and isinstance(error.obj, types.ModuleType | Tensor):
        candidates = dir(Tensor if isinstance(error.obj, Tensor) else error.obj)
    wanted = getattr(error, "name", None)
    if type(wanted) is not str or len(wanted) > MAX_NAME or not candidates:
        return ""
    names = [name for name in itertools.islice(candidates, MAX_ITEMS) if type(name) is str and len(name) <= MAX_NAME]
    return next(iter(difflib.get_close_matches(wanted, names, 1)), "")


def _frames(error: BaseException) -> Iterator[tuple[types.FrameType, int]]:
    """The frames of a traceback with their lines, from the outermost."""
    walker = error.__traceback__
    while walker is not None:
        yield walker.tb_frame, walker.tb_lineno
        walker = walker.tb_next


def _shape(value: Any) -> str:
    """The shape of a tensor or array; the shapes in a pair, as `((1, 2, 5), None)`; else empty."""
    if isinstance(value, Tensor | np.ndarray):
        return str(tuple(value.shape))
    if type(value) is tuple and len(value) == 2 and isinstance(value[0], Tensor | np.ndarray):
        return f"({_shape(value[0])}, {_shape(value[1]) or ('None' if value[1] is None else '…')})"
    return ""
