"""The messages between the judge and whatever answers calls, and their form as bytes.

A message is a frame: a header (msgspec, strictly decoded) and a payload (safetensors, no code on load). The side that
answers is not trusted: everything is bounded before it is allocated, and nothing is ever unpickled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import safetensors
import torch
from torch import Tensor

from grader.frames import BadMessage, frame

MAX_TENSOR_ELEMENTS = 1 << 24
MAX_TENSORS = 4096
MAX_TABLE = 1 << 20  # bytes of the table that says which tensors a payload holds
MAX_NESTED = 16  # values in values: whatever goes through an answer goes as deep
MAX_TEXT = 4000  # characters of one string that a worker may send

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

Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]


# --- python values that messages carry ------------------------------------------------------------------------------


@dataclass(frozen=True)
class HandleId:
    """A module that lives on the answering side."""

    number: int


@dataclass(frozen=True)
class Opaque:
    """A value that does not travel, described in words: `a numpy.ndarray of shape (2, 3)`."""

    what: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor with the device it was on; its values travel through the CPU, and on `meta` there are none."""

    tensor: Tensor
    device: str


@dataclass
class Options:
    """How one call is to be made and what is to be noted."""

    gradients: bool = False
    seed: int | None = None
    largest: bool = False
    functions: bool = False
    device: str = "cpu"


@dataclass
class Call:
    """One request. Without `handle` it names a function or class of the module, with it a method of that handle.

    What is in `first` is done before it, in this order; the first of these that does not go well is answered instead.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    handle: int | None = None
    new_handle: int = 0
    begin: int | None = None  # a new check begins: forget its modules, and seed the random stream with this
    options: Options = field(default_factory=Options)
    first: tuple[Call, ...] = ()


@dataclass
class Raised:
    """The called code raised: type, message, and where in the learner's own file."""

    type: str
    message: str
    file: str = ""
    line: int = 0
    function: str = ""
    source: str = ""
    shapes: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """One response. `value` holds Placed, HandleId, Opaque, plain scalars, None, and tuples of them.

    `of` is the place in the call's `first` of what did not go well; None when this is the call's own outcome.
    """

    value: Any = None
    raised: Raised | None = None
    gradients: dict[str, Placed | None] = field(default_factory=dict)
    modified: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    off_limits: list[str] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    largest: int = 0
    of: int | None = None


# --- their form on the wire ------------------------------------------------------------------------------------------


class WireTensor(msgspec.Struct, tag="t", array_like=True):
    key: Annotated[str, msgspec.Meta(max_length=8)] | None
    shape: Annotated[list[Size], msgspec.Meta(max_length=64)]
    dtype: Annotated[str, msgspec.Meta(max_length=32)]
    device: Annotated[str, msgspec.Meta(max_length=32)]
    order: Annotated[list[int], msgspec.Meta(max_length=64)] | None = None


class WireItems(msgspec.Struct, tag="i", array_like=True):
    items: Annotated[list[WireValue], msgspec.Meta(max_length=MAX_TENSORS)]


class WireNamed(msgspec.Struct, tag="d", array_like=True):
    items: dict[Annotated[str, msgspec.Meta(max_length=200)], WireValue]


class WireHandle(msgspec.Struct, tag="h", array_like=True):
    number: int


class WireOpaque(msgspec.Struct, tag="o", array_like=True):
    what: Text


class WireFloat(msgspec.Struct, tag="f", array_like=True):
    """A Python float, kept apart from int; nan and infinities as text."""

    text: Annotated[str, msgspec.Meta(max_length=40)]


WireValue = None | bool | int | Text | WireTensor | WireItems | WireNamed | WireHandle | WireOpaque | WireFloat


class WireOptions(msgspec.Struct, array_like=True):
    gradients: bool
    seed: int | None
    largest: bool
    functions: bool
    device: str


class WireCall(msgspec.Struct, array_like=True):
    name: str
    args: list[WireValue]
    kwargs: dict[str, WireValue]
    handle: int | None
    new_handle: int
    begin: int | None
    options: WireOptions
    first: list[WireCall]


class WireRaised(msgspec.Struct, array_like=True):
    type: Annotated[str, msgspec.Meta(max_length=200)]
    message: Text
    file: Annotated[str, msgspec.Meta(max_length=200)]
    line: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]
    function: Annotated[str, msgspec.Meta(max_length=200)]
    source: Annotated[str, msgspec.Meta(max_length=400)]
    shapes: Annotated[list[Annotated[str, msgspec.Meta(max_length=200)]], msgspec.Meta(max_length=12)]


Names = Annotated[list[Annotated[str, msgspec.Meta(max_length=200)]], msgspec.Meta(max_length=500)]


class WireOutcome(msgspec.Struct, array_like=True):
    value: WireValue
    raised: WireRaised | None
    gradients: dict[Annotated[str, msgspec.Meta(max_length=200)], WireTensor | None]
    modified: Names
    functions: Names
    off_limits: Names
    imported: Names
    largest: Size
    of: Size | None = None


class Load(msgspec.Struct, array_like=True):
    """The first message to a worker: the learner's files, and which of them to import.

    `sources` maps a module name to (file name to show, text). `off_limits` maps a public name to banned families.
    """

    module: str
    sources: dict[str, tuple[str, str]]
    off_limits: dict[str, tuple[str, ...]]


_encoder = msgspec.msgpack.Encoder()
_call_decoder = msgspec.msgpack.Decoder(WireCall)
_outcome_decoder = msgspec.msgpack.Decoder(WireOutcome)
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
    wire = _call_to_wire(call, tensors)
    return frame(_encoder.encode(wire), _pack(tensors))


def _call_to_wire(call: Call, tensors: dict[str, Tensor]) -> WireCall:
    options = call.options
    return WireCall(
        call.name,
        [_to_wire(value, tensors) for value in call.args],
        {name: _to_wire(value, tensors) for name, value in call.kwargs.items()},
        call.handle,
        call.new_handle,
        call.begin,
        WireOptions(options.gradients, options.seed, options.largest, options.functions, options.device),
        [_call_to_wire(earlier, tensors) for earlier in call.first],
    )


def decode_call(header: bytes, payload: bytes) -> Call:
    """A call from its bytes. Read by the worker, from the judge it trusts."""
    return _call_from_wire(_call_decoder.decode(header), _unpack(payload))


def _call_from_wire(wire: WireCall, tensors: Mapping[str, Tensor]) -> Call:
    options = wire.options
    return Call(
        wire.name,
        tuple(_bare(_from_wire(value, tensors)) for value in wire.args),
        {name: _bare(_from_wire(value, tensors)) for name, value in wire.kwargs.items()},
        wire.handle,
        wire.new_handle,
        wire.begin,
        Options(options.gradients, options.seed, options.largest, options.functions, options.device),
        tuple(_call_from_wire(earlier, tensors) for earlier in wire.first),
    )


def encode_outcome(outcome: Outcome) -> bytes:
    """The bytes of an outcome: header and tensors."""
    tensors: dict[str, Tensor] = {}
    wire = outcome_to_wire(outcome, tensors)
    return frame(_encoder.encode(wire), _pack(tensors))


def outcome_to_wire(outcome: Outcome, tensors: dict[str, Tensor]) -> WireOutcome:
    """An outcome in its typed form, its tensors put aside into `tensors`."""
    raised = outcome.raised
    return WireOutcome(
        _to_wire(outcome.value, tensors),
        None
        if raised is None
        else WireRaised(
            raised.type[:200],
            raised.message[:MAX_TEXT],
            raised.file[:200],
            raised.line,
            raised.function[:200],
            raised.source[:400],
            [shape[:200] for shape in raised.shapes[:12]],
        ),
        {name: None if value is None else _wire_tensor(value, tensors) for name, value in outcome.gradients.items()},
        outcome.modified,
        outcome.functions[:500],
        outcome.off_limits[:500],
        outcome.imported[:500],
        outcome.largest,
        outcome.of,
    )


def outcome_from_wire(wire: WireOutcome, tensors: Mapping[str, Tensor]) -> Outcome:
    """An outcome from its typed form and the tensors put aside. Raises what a damaged one gives rise to."""
    raised = wire.raised
    return Outcome(
        value=_from_wire(wire.value, tensors),
        raised=None
        if raised is None
        else Raised(
            raised.type, raised.message, raised.file, raised.line, raised.function, raised.source, raised.shapes
        ),
        gradients={name: None if value is None else _placed(value, tensors) for name, value in wire.gradients.items()},
        modified=wire.modified,
        functions=wire.functions,
        off_limits=wire.off_limits,
        imported=wire.imported,
        largest=wire.largest,
        of=wire.of,
    )


def decode_outcome(header: bytes, payload: bytes) -> Outcome:
    """An outcome from bytes that nobody vouches for. Raises BadMessage for anything that is not one."""
    try:
        return outcome_from_wire(_outcome_decoder.decode(header), _unpack(payload))
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


def extent(shape: Iterable[int]) -> int:
    """The elements of a tensor of this shape, a dimension of size 0 counted as 1.

    Without an element there may still be any number of empty rows: what goes through them, or sums each, never ends.
    """
    return math.prod(max(size, 1) for size in shape)


# --- values ----------------------------------------------------------------------------------------------------------


def _to_wire(value: Any, tensors: dict[str, Tensor]) -> Any:
    match value:
        case None | bool() | int() | str():
            return value[:MAX_TEXT] if isinstance(value, str) else value
        case float():
            return WireFloat(repr(value))
        case Placed():
            return _wire_tensor(value, tensors)
        case Tensor():
            return _wire_tensor(Placed(value, str(value.device)), tensors)
        case HandleId(number):
            return WireHandle(number)
        case Opaque(what):
            return WireOpaque(what[:MAX_TEXT])
        case tuple() | list():
            return WireItems([_to_wire(item, tensors) for item in value])
        case dict():
            return WireNamed({name: _to_wire(item, tensors) for name, item in value.items()})
    raise TypeError(f"{type(value).__name__} does not travel")


def _wire_tensor(placed: Placed, tensors: dict[str, Tensor]) -> WireTensor:
    tensor, dtype = placed.tensor, str(placed.tensor.dtype).removeprefix("torch.")
    if placed.device == "meta":
        return WireTensor(None, list(tensor.shape), dtype, "meta")
    order = None
    if not tensor.is_contiguous():
        order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
        if tensor.permute(order).is_contiguous():
            tensor = tensor.permute(order)
        else:
            order, tensor = None, tensor.contiguous()
    key = str(len(tensors))
    tensors[key] = tensor
    return WireTensor(key, list(tensor.shape), dtype, placed.device, order)


def _from_wire(value: Any, tensors: Mapping[str, Tensor], depth: int = 0) -> Any:
    if depth > MAX_NESTED:
        raise BadMessage("values nested too deep")
    match value:
        case WireTensor():
            return _placed(value, tensors)
        case WireItems(items):
            return tuple(_from_wire(item, tensors, depth + 1) for item in items)
        case WireNamed(items):
            return {name: _from_wire(item, tensors, depth + 1) for name, item in items.items()}
        case WireHandle(number):
            return HandleId(number)
        case WireOpaque(what):
            return Opaque(what)
        case WireFloat(text):
            return float(text)
    return value


def _placed(wire: WireTensor, tensors: Mapping[str, Tensor]) -> Placed:
    if wire.key is None:
        dtype = getattr(torch, wire.dtype, None)
        if wire.device != "meta" or not isinstance(dtype, torch.dtype):
            raise BadMessage("a tensor without values")
        if math.prod(wire.shape) > 1 << 48:
            raise BadMessage("a tensor of absurd size")
        return Placed(torch.empty(wire.shape, dtype=dtype, device="meta"), "meta")
    tensor = tensors[wire.key]
    if list(tensor.shape) != wire.shape:
        raise BadMessage("a tensor whose shapes disagree")
    if wire.order is not None:
        if sorted(wire.order) != list(range(tensor.dim())):
            raise BadMessage("a tensor with an impossible layout")
        back = [0] * tensor.dim()
        for position, dim in enumerate(wire.order):
            back[dim] = position
        tensor = tensor.permute(back)
    return Placed(tensor, wire.device)


def _bare(value: Any) -> Any:
    """Arguments as the called code wants them: tensors without their envelope."""
    if isinstance(value, Placed):
        return value.tensor
    if isinstance(value, tuple):
        return tuple(_bare(item) for item in value)
    if isinstance(value, dict):
        return {name: _bare(item) for name, item in value.items()}
    return value


def _pack(tensors: dict[str, Tensor]) -> bytes:
    if not tensors:
        return b""
    kept = {key: tensor.detach().contiguous() for key, tensor in tensors.items()}  # alive while their memory is read
    described = {
        key: safetensors.TensorSpec(
            dtype=_SAFETENSORS_NAMES[tensor.dtype],
            shape=list(tensor.shape),
            data_ptr=tensor.data_ptr(),
            data_len=tensor.numel() * tensor.element_size(),
        )
        for key, tensor in kept.items()
    }
    return bytes(safetensors.serialize(described))


_SAFETENSORS_NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPE_NAMES}


def _unpack(payload: bytes) -> dict[str, Tensor]:
    if not payload:
        return {}
    # The table becomes objects a hundred times its size: it is bounded before it is read.
    if int.from_bytes(payload[:8], "little") > MAX_TABLE:
        raise BadMessage("a table of tensors that is too long")
    entries = safetensors.deserialize(payload)
    if len(entries) > MAX_TENSORS:
        raise BadMessage(f"{len(entries)} tensors in one message")
    tensors = {}
    for key, entry in entries:
        dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
        data = entry["data"]
        elements = math.prod(shape)
        if (elements or extent(shape)) > MAX_TENSOR_ELEMENTS:
            raise BadMessage("a tensor of absurd size")
        if elements * dtype.itemsize != len(data):
            raise BadMessage("a tensor whose size disagrees")
        own = data if isinstance(data, bytearray) else bytearray(data)  # torch wants memory that may be written to
        flat = torch.frombuffer(own, dtype=dtype) if len(data) else torch.empty(0, dtype=dtype)
        tensors[key] = flat.reshape(shape)
    return tensors
