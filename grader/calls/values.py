"""The kinds of value that pass between a check and the code it calls, and functions that traverse them.

A value is None, a bool, an int, a float, a string, a tensor (`PlacedTensor`, an argument also bare), a NumPy array,
a module (`HandleId`), something only described (`Opaque`), or a tuple or dictionary of values. A new kind is one case
in `transfer.py` (what a result becomes), in `codec.py` (its bytes) and in `checks/value_text.py` (its words).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
import torch
from torch import Tensor

MAX_TENSOR_ELEMENTS = 1 << 24
MAX_TENSORS = 4096  # of one message, and items of one tuple
MAX_NESTED = 16  # nesting depth: code that traverses an answer recurses as deep
MAX_TEXT = 4000  # characters of one string that a worker may send
MAX_NAME = 200  # characters of a name in a dictionary
MAX_BITS = 4096  # of an integer

# Every dtype that can be sent, by its safetensors name: a dtype is never looked up by a name from a worker.
DTYPES: dict[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
ARRAY_DTYPES = frozenset(
    np.dtype(name) for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
)

Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
Device = Annotated[str, msgspec.Meta(max_length=32)]
Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]
Key = Annotated[str, msgspec.Meta(max_length=8)]  # of a tensor in its message's payload
Order = Annotated[list[int], msgspec.Meta(max_length=64)] | None  # of its dimensions, by stride; None: contiguous


class HandleId(msgspec.Struct, tag="h", array_like=True, frozen=True):
    """An object that lives on the answering side."""

    number: int


class Opaque(msgspec.Struct, tag="o", array_like=True, frozen=True):
    """A value that can't be sent, described in words: `an object of type Model`."""

    what: Text


class PlacedTensor(msgspec.Struct, frozen=True, eq=False):
    """A tensor with its original device; its values are sent through the CPU, and `meta` has none."""

    tensor: Tensor
    device: str


# --- what some kinds are in a message's header ------------------------------------------------------------------------


class StoredTensor(msgspec.Struct, tag="t", array_like=True):
    """A tensor with its values in the payload."""

    key: Key
    device: Device
    order: Order = None


class MetaTensor(msgspec.Struct, tag="m", array_like=True):
    """A tensor on `meta`."""

    shape: Annotated[list[Size], msgspec.Meta(max_length=64)]
    dtype: Annotated[str, msgspec.Meta(max_length=8)]  # as in DTYPES


class StoredArray(msgspec.Struct, tag="a", array_like=True):
    """A NumPy array with its values in the payload."""

    key: Key
    order: Order = None


class BigInt(msgspec.Struct, tag="n", array_like=True):
    """An int beyond 64 bits, in hexadecimal."""

    digits: Annotated[str, msgspec.Meta(max_length=MAX_BITS // 4 + 8)]


class Items(msgspec.Struct, tag="i", array_like=True):
    """A tuple."""

    items: Annotated[list[Value], msgspec.Meta(max_length=MAX_TENSORS)]


class NamedValues(msgspec.Struct, tag="d", array_like=True):
    """A dictionary."""

    items: dict[Name, Value]


if TYPE_CHECKING:
    Value = Any
    Gradient = PlacedTensor
else:  # what a message may hold there
    Gradient = StoredTensor | MetaTensor
    Value = None | bool | int | float | Text | Gradient | StoredArray | BigInt | Items | NamedValues | HandleId | Opaque


# --- walks ------------------------------------------------------------------------------------------------------------


def folded(
    value: Any,
    of_leaf: Callable[[Any], Any],
    of_items: Callable[[Iterator[Any]], Any] = tuple,
    of_names: Callable[[Iterator[tuple[str, Any]]], Any] = dict,
) -> Any:
    """Folds a value from its leaves up: `of_leaf` maps each leaf, `of_items` the results of a tuple's or list's items,
    `of_names` the results of a dictionary's values by name."""
    if isinstance(value, tuple | list):
        return of_items(folded(item, of_leaf, of_items, of_names) for item in value)
    if isinstance(value, dict):
        return of_names((name, folded(item, of_leaf, of_items, of_names)) for name, item in value.items())
    return of_leaf(value)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nested tuples and dictionaries with each leaf changed."""
    if isinstance(value, tuple | list):
        return tuple([mapped(item, change) for item in value])
    if isinstance(value, dict):
        return {name: mapped(item, change) for name, item in value.items()}
    return change(value)


def mapped_by_path(path: str, value: Any, change: Callable[[str, Any], Any]) -> Any:
    """Like `mapped`, but `change` also gets each leaf's path: the root's, then indices and names, separated by dots."""
    if isinstance(value, tuple | list):
        return tuple([mapped_by_path(f"{path}.{index}", item, change) for index, item in enumerate(value)])
    if isinstance(value, dict):
        return {name: mapped_by_path(f"{path}.{name}", item, change) for name, item in value.items()}
    return change(path, value)


def leaves(value: Any) -> Iterator[Any]:
    """The leaves of a value; those of a dictionary sorted by name."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for name in sorted(value, key=str):
            yield from leaves(value[name])
    else:
        yield value


# --- tensors and arrays -----------------------------------------------------------------------------------------------


def numbers_of(leaf: Any) -> Tensor | None:
    """The values of a tensor or an array as a tensor; None for any other leaf, and for a tensor on `meta`."""
    if isinstance(leaf, np.ndarray):
        return as_tensor(leaf)
    tensor = leaf.tensor if isinstance(leaf, PlacedTensor) else leaf
    return tensor if isinstance(tensor, Tensor) and tensor.device.type != "meta" else None


def as_tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor with the array's values, sharing its memory if torch can."""
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = np.array(array)  # in the order of its dimensions' strides
    return torch.from_numpy(array)


def bare(value: Any) -> Any:
    """A value with its tensors unwrapped (no `PlacedTensor`)."""
    return mapped(value, lambda leaf: leaf.tensor if isinstance(leaf, PlacedTensor) else leaf)


def copied(value: Any) -> Any:
    """A copy of the value with its own tensors and arrays."""
    return mapped(value, _copied_leaf)


def _copied_leaf(leaf: Any) -> Any:
    """A copy of a tensor or array; any other value itself."""
    if isinstance(leaf, PlacedTensor):
        return PlacedTensor(leaf.tensor.clone(), leaf.device)
    if isinstance(leaf, Tensor):
        return leaf.clone()
    return np.array(leaf) if isinstance(leaf, np.ndarray) else leaf


def extent(shape: Iterable[int]) -> int:
    """The elements of a tensor of this shape, a dimension of size 0 counted as 1.

    A tensor without elements may still have any number of empty rows, and iterating over them would never end.
    """
    return math.prod(max(size, 1) for size in shape)
