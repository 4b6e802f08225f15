"""Calls and outcomes as bytes.

A message is a frame: a header (msgspec, strictly decoded) and a payload (safetensors, no code on load). The answering
side is not trusted: sizes are checked before anything is allocated, and nothing is ever unpickled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import safetensors
import torch
from msgspec.structs import replace
from torch import Tensor

from grader.calls.call import MAX_LEFT_OUT, MAX_NAMES, MAX_SHAPES, MAX_SOURCE, Call, Load, Outcome, Raised
from grader.calls.framing import BadMessage, frame
from grader.calls.values import (
    DTYPE_NAMES,
    DTYPES,
    MAX_NAME,
    MAX_NESTED,
    MAX_TENSOR_ELEMENTS,
    MAX_TENSORS,
    MAX_TEXT,
    BigInt,
    HandleId,
    Items,
    MetaTensor,
    NamedValues,
    Opaque,
    Order,
    PlacedTensor,
    StoredArray,
    StoredTensor,
    as_tensor,
    extent,
    folded,
)

MAX_TABLE = 1 << 20  # bytes of the table that says which tensors a payload holds
INT_BITS = 63

_encoder = msgspec.msgpack.Encoder()
_call_decoder = msgspec.msgpack.Decoder(Call)
_outcome_decoder = msgspec.msgpack.Decoder(Outcome)
_load_decoder = msgspec.msgpack.Decoder(Load)


def encode_load(load: Load) -> bytes:
    """The bytes of a `Load` frame."""
    return frame(_encoder.encode(load), b"")


def decode_load(header: bytes) -> Load:
    """A `Load` from its header."""
    return _load_decoder.decode(header)


def encode_call(call: Call) -> bytes:
    """The bytes of a call: header and tensors."""
    tensors: dict[str, Tensor] = {}
    packed = _packed_call(call, tensors)
    return frame(_encoder.encode(packed), _payload(tensors))


def decode_call(header: bytes, payload: bytes) -> Call:
    """A call from its bytes; its tensors are not wrapped in `PlacedTensor`."""
    call, due = decode_call_later(header, payload)
    call.first = tuple([due(earlier) for earlier in call.first])
    return due(call)


def decode_call_later(header: bytes, payload: bytes) -> tuple[Call, Callable[[Call], Call]]:
    """A call from its bytes, without its arguments, and a function that adds them, in place, to it or to one of the
    calls in `first` and returns that. Tensors are made only then. Used by the worker, which trusts the judge."""
    tensors = _Later(payload)
    return _call_decoder.decode(header), lambda call: _unpacked_call(call, tensors)


def _packed_call(call: Call, tensors: dict[str, Tensor]) -> Call:
    """A copy of the call and of those in its `first`, with their tensors moved to `tensors` (key to tensor)."""
    return replace(
        call,
        args=tuple([packed(value, tensors) for value in call.args]),
        kwargs={name: packed(value, tensors) for name, value in call.kwargs.items()},
        first=tuple([_packed_call(earlier, tensors) for earlier in call.first]),
    )


def _unpacked_call(call: Call, tensors: Mapping[str, Tensor]) -> Call:
    """The same call, its arguments replaced in place by values with bare tensors."""
    call.args = tuple([unpacked(value, tensors, enveloped=False) for value in call.args])
    call.kwargs = {name: unpacked(value, tensors, enveloped=False) for name, value in call.kwargs.items()}
    return call


def encode_outcome(outcome: Outcome) -> bytes:
    """The bytes of an outcome: header and tensors."""
    tensors: dict[str, Tensor] = {}
    header = packed_outcome(outcome, tensors)
    return frame(_encoder.encode(header), _payload(tensors))


def decode_outcome(header: bytes, payload: bytes) -> Outcome:
    """An outcome from untrusted bytes. Raises BadMessage for anything that is not one."""
    try:
        return unpacked_outcome(_outcome_decoder.decode(header), _tensors(payload))
    except BadMessage:
        raise
    except (
        msgspec.MsgspecError,
        safetensors.SafetensorError,
        RecursionError,
        ValueError,
        KeyError,
        TypeError,
        RuntimeError,
        UnicodeError,
        OverflowError,
        MemoryError,
    ) as error:
        raise BadMessage(type(error).__name__) from error


def packed_outcome(outcome: Outcome, tensors: dict[str, Tensor]) -> Outcome:
    """An outcome as its header holds it, truncated to its bounds, its tensors moved to `tensors`."""
    return replace(
        outcome,
        value=packed(outcome.value, tensors),
        raised=outcome.raised and _cut(outcome.raised),
        left_out=outcome.left_out[:MAX_LEFT_OUT],
        gradients={name: packed(gradient, tensors) for name, gradient in outcome.gradients.items()},
        functions=outcome.functions[:MAX_NAMES],
        off_limits=outcome.off_limits[:MAX_NAMES],
        imported=outcome.imported[:MAX_NAMES],
        odd=outcome.odd[:MAX_NAMES],
    )


def unpacked_outcome(outcome: Outcome, tensors: Mapping[str, Tensor]) -> Outcome:
    """An outcome from its header and tensors. A damaged one may raise various errors."""
    gradients = {name: unpacked(gradient, tensors) for name, gradient in outcome.gradients.items()}
    return replace(outcome, value=unpacked(outcome.value, tensors), gradients=gradients)


def _cut(raised: Raised) -> Raised:
    """The error with each text cut to the length that may travel."""
    return Raised(
        raised.type[:MAX_NAME],
        raised.message[:MAX_TEXT],
        raised.file[:MAX_NAME],
        raised.line,
        raised.function[:MAX_NAME],
        raised.source[:MAX_SOURCE],
        [shape[:MAX_NAME] for shape in raised.shapes[:MAX_SHAPES]],
        raised.left_out,
        raised.near[:MAX_NAME],
    )


# --- values -----------------------------------------------------------------------------------------------------------


def packed(value: Any, tensors: dict[str, Tensor]) -> Any:
    """A value as a header holds it, its tensors and arrays moved to `tensors` under new keys. Raises TypeError for
    unsupported types."""
    return folded(
        value,
        lambda leaf: _packed_leaf(leaf, tensors),
        lambda items: Items(list(items)),
        lambda items: NamedValues(dict(items)),
    )


def _packed_leaf(value: Any, tensors: dict[str, Tensor]) -> Any:
    """One value as it travels: a tensor is moved to `tensors`, text is cut. Raises TypeError for any other type."""
    match value:
        case None | bool() | float() | HandleId():
            return value
        case str():
            return value[:MAX_TEXT]
        case int():
            return value if value.bit_length() <= INT_BITS else BigInt(hex(value))
        case PlacedTensor(tensor, device):
            if device == "meta":
                return MetaTensor(list(tensor.shape), DTYPE_NAMES[tensor.dtype])
            return StoredTensor(*_put_aside(tensor, tensors, device))
        case Tensor():
            return _packed_leaf(PlacedTensor(value, str(value.device)), tensors)
        case np.ndarray():
            return StoredArray(*_put_aside(as_tensor(value), tensors))
        case Opaque(what):
            return Opaque(what[:MAX_TEXT])
    raise TypeError(f"{type(value).__name__} does not travel")


def unpacked(value: Any, tensors: Mapping[str, Tensor], enveloped: bool = True, depth: int = 0) -> Any:
    """A value from its form in a header; tensors are `PlacedTensor` if `enveloped`, else bare. `depth`: how deep the
    value itself is nested. Raises BadMessage, KeyError, …"""
    match value:
        case StoredTensor(key, device, order):
            tensor = _as_it_lay(tensors[key], order)
            return PlacedTensor(tensor, device) if enveloped else tensor
        case Items(items):
            _require_shallow(depth)
            return tuple([unpacked(item, tensors, enveloped, depth + 1) for item in items])
        case NamedValues(names):
            _require_shallow(depth)
            return {name: unpacked(item, tensors, enveloped, depth + 1) for name, item in names.items()}
        case StoredArray(key, order):
            return _as_it_lay(tensors[key], order).numpy()
        case MetaTensor(shape, dtype):
            if extent(shape) > 1 << 48:
                raise BadMessage("a tensor of absurd size")
            tensor = torch.empty(shape, dtype=DTYPES[dtype], device="meta")
            return PlacedTensor(tensor, "meta") if enveloped else tensor
        case BigInt(digits):
            return int(digits, 16)
    return value


def _require_shallow(depth: int) -> None:
    """Raises BadMessage for a value nested deeper than MAX_NESTED."""
    if depth > MAX_NESTED:
        raise BadMessage("values nested too deep")


def _put_aside(tensor: Tensor, tensors: dict[str, Tensor], *device: str) -> tuple[Any, ...]:
    """Adds the tensor to `tensors`. Returns the fields that describe it in a header: its key there, its device if
    given, and its dimensions ordered by stride (None: contiguous)."""
    order: Order = None
    if not tensor.is_contiguous():
        order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
        if tensor.permute(order).is_contiguous():
            tensor = tensor.permute(order)
        else:
            order, tensor = None, tensor.contiguous()
    key = str(len(tensors))
    tensors[key] = tensor
    return key, *device, order


def _as_it_lay(tensor: Tensor, order: Order) -> Tensor:
    """The tensor with its dimensions permuted to the memory layout it was sent with. Raises BadMessage."""
    if order is None:
        return tensor
    if sorted(order) != list(range(tensor.dim())):
        raise BadMessage("a tensor with an impossible layout")
    back = [0] * tensor.dim()
    for position, dim in enumerate(order):
        back[dim] = position
    return tensor.permute(back)


# --- the payload ------------------------------------------------------------------------------------------------------


def _payload(tensors: dict[str, Tensor]) -> bytes:
    """The tensors as bytes in the format of safetensors; empty without any."""
    if not tensors:
        return b""
    contiguous = {
        key: tensor.detach().contiguous() for key, tensor in tensors.items()
    }  # alive while their memory is read
    described = {
        key: safetensors.TensorSpec(
            dtype=_SAFETENSORS_NAMES[tensor.dtype],
            shape=list(tensor.shape),
            data_ptr=tensor.data_ptr(),
            data_len=tensor.numel() * tensor.element_size(),
        )
        for key, tensor in contiguous.items()
    }
    return bytes(safetensors.serialize(described))


_SAFETENSORS_NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPE_NAMES}


def _tensors(payload: bytes) -> dict[str, Tensor]:
    """The tensors of a payload, by key. Raises BadMessage for a table or a number of tensors that is too large."""
    if not payload:
        return {}
    # The parsed table takes a hundred times its size in memory: its size is checked first.
    if int.from_bytes(payload[:8], "little") > MAX_TABLE:
        raise BadMessage("a table of tensors that is too long")
    entries = safetensors.deserialize(payload)
    if len(entries) > MAX_TENSORS:
        raise BadMessage(f"{len(entries)} tensors in one message")
    return {key: _tensor(entry) for key, entry in entries}


def _tensor(entry: Mapping[str, Any]) -> Tensor:
    """The tensor of a payload's entry (`dtype`, `shape`, `data`). Raises BadMessage if its size is absurd, or not that
    of its bytes."""
    dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
    data = entry["data"]
    elements = math.prod(shape)
    if (elements or extent(shape)) > MAX_TENSOR_ELEMENTS:
        raise BadMessage("a tensor of absurd size")
    if elements * dtype.itemsize != len(data):
        raise BadMessage("a tensor whose size disagrees")
    own = data if isinstance(data, bytearray) else bytearray(data)  # torch requires writable memory
    flat = torch.frombuffer(own, dtype=dtype) if len(data) else torch.empty(0, dtype=dtype)
    return flat.reshape(shape)


class _Later(Mapping[str, Tensor]):
    """The tensors of a payload that is trusted, each made when it is asked for, and kept nowhere."""

    def __init__(self, payload: bytes) -> None:
        self._entries = dict(safetensors.deserialize(payload)) if payload else {}

    def __getitem__(self, key: str) -> Tensor:
        return _tensor(self._entries[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
