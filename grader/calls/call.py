"""A call, its options, and its outcome. The types bound what a worker may put into an outcome."""

from __future__ import annotations

from typing import Annotated

import msgspec

from grader.calls.values import Gradient, Name, Size, Text, Value

MAX_SHAPES = 12  # reported with an error
MAX_SOURCE = 400  # characters of the line of an error
MAX_NAMES = 500

Names = Annotated[list[Name], msgspec.Meta(max_length=MAX_NAMES)]


class Options(msgspec.Struct, array_like=True):
    """How one call is made and what is recorded; see `checks.implementation.How`."""

    gradients: bool = False
    seed: int | None = None
    largest: bool = False
    functions: bool = False
    device: str = "cpu"
    no_grad: bool = False
    strided: bool = False
    made_on_meta: bool = False
    peak: bool = False
    keep: bool = False
    products: bool = False
    saved: bool = False
    again: bool = False
    launches: bool = False
    part: int | None = None
    going_on: bool = False


class Call(msgspec.Struct, array_like=True):
    """One request. Without `handle` it names a function or class of the module; with it, a method of that handle.

    The operations in `first` run before it, in order; the first that fails is answered instead.
    """

    name: str
    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = {}
    handle: int | None = None
    new_handle: int = 0
    begin: int | None = None  # a new check begins: drop all modules and seed the random stream with this
    options: Options = msgspec.field(default_factory=Options)
    first: tuple[Call, ...] = ()


class Raised(msgspec.Struct, array_like=True):
    """The called code raised: type, message, and where in the learner's own file."""

    type: Name
    message: Text
    file: Name = ""
    line: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0
    function: Name = ""
    source: Annotated[str, msgspec.Meta(max_length=MAX_SOURCE)] = ""
    shapes: Annotated[list[Name], msgspec.Meta(max_length=MAX_SHAPES)] = []


class Outcome(msgspec.Struct, array_like=True):
    """One response.

    `of` is the index in the call's `first` of the operation that failed; None when this is the call's own outcome.
    `peak` is None where it was not measured, or where the called code prevented that. `elsewhere`: of a call on `meta`,
    the torch functions that only one of the two calls used, on `meta` and on the CPU. `overwritten`: the call changed
    the result of an earlier one. `imported`: the steps of the course that imports asked for since the last
    answer, here or not. `narrowed`: a float32 or a half was computed in a call with a float64.
    """

    value: Value = None
    raised: Raised | None = None
    gradients: dict[Name, Gradient | None] = {}
    modified: Names = []
    functions: Names = []
    off_limits: Names = []
    imported: Names = []
    largest: Size = 0  # elements
    of: Size | None = None
    peak: Size | None = None  # bytes
    products: dict[Name, Size] = {}  # operations of matrix products, by dtype
    saved: Size = 0  # elements kept for a backward pass
    elsewhere: Names = []
    overwritten: bool = False
    narrowed: bool = False
    launches: Size = 0  # of Triton's kernels
    is_last: bool = False  # the accelerator is of no use to this process any more


class Load(msgspec.Struct, array_like=True):
    """The first message to a worker: the learner's files, and which of them to import.

    `sources` maps a module name to (displayed file name, text). `off_limits` maps a public name to banned families.
    `public`: of a module that is a reference, the names that others see.
    """

    module: str
    sources: dict[str, tuple[str, str]]
    off_limits: dict[str, tuple[str, ...]]
    public: dict[str, list[str]] = {}
