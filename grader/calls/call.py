"""A call, its options, and its outcome. The types bound what a worker may put into an outcome."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Annotated, Any, Literal, Self

import msgspec

from grader.calls.values import Gradient, Name, Size, Text, Value, copied

MAX_SHAPES = 12  # reported with an error
MAX_SOURCE = 400  # characters of the line of an error
MAX_NAMES = 500
MAX_LEFT_OUT = 20  # lines reported in one answer

# What a call costs: the largest storage made (elements), the peak of what Python and NumPy allocate (bytes), the
# operations of matrix products (by dtype), what is kept for a backward pass (elements), launches of Triton's kernels.
Measure = Literal["largest", "live", "peak", "products", "saved", "launches"]

Names = Annotated[list[Name], msgspec.Meta(max_length=MAX_NAMES)]


class Options(msgspec.Struct, array_like=True):
    """The options of one call and of what is recorded; see `checks.implementation.How`."""

    gradients: bool = False
    seed: int | None = None
    measures: tuple[Measure, ...] = ()
    functions: bool = False
    device: str = "cpu"
    no_grad: bool = False
    strided: bool = False
    made_on_meta: bool = False
    keep: bool = False
    again: bool = False
    part: int | None = None
    going_on: bool = False


class Call(msgspec.Struct, array_like=True):
    """One request. Without `handle` it names a function or class of the module. With it, it names what is done to that
    object: `__call__`, one of our operations (`calls.modules`), or, if `own`, a method or attribute that the step asks
    for.

    The operations in `first` run before it, in order; the first that fails is answered instead.
    """

    name: str
    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = {}
    handle: int | None = None
    new_handle: int = 0
    begin: int | None = None  # a new check starts: drop all modules and seed the random stream with this
    options: Options = msgspec.field(default_factory=Options)
    first: tuple[Call, ...] = ()
    own: Literal["", "method", "attribute"] = ""

    @property
    def is_authors(self) -> bool:
        """True if the call runs code of the module's author; False for one of our operations on an object."""
        return self.handle is None or self.name == "__call__" or bool(self.own)


class LeftOut(msgspec.Struct, array_like=True):
    """A line at the top level that raised, and was left out."""

    type: Name
    message: Text
    file: Name
    line: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]
    source: Annotated[str, msgspec.Meta(max_length=MAX_SOURCE)]


class Raised(msgspec.Struct, array_like=True):
    """The called code raised: type, message, and the line in the learner's own file. `left_out`: the line at the top
    level that failed before, and would have made the name that is missing; `near`: the known name that is spelled
    almost like it."""

    type: Name
    message: Text
    file: Name = ""
    line: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0
    function: Name = ""
    source: Annotated[str, msgspec.Meta(max_length=MAX_SOURCE)] = ""
    shapes: Annotated[list[Name], msgspec.Meta(max_length=MAX_SHAPES)] = []
    left_out: LeftOut | None = None
    near: Name = ""


class Outcome(msgspec.Struct, array_like=True):
    """One response.

    `of` is the index in the call's `first` of the operation that failed; None when this is the call's own outcome.
    `measured`: what was asked for in `measures`, but for what the called code prevented. `elsewhere`: of a call on
    `meta`, the torch functions that only one of the two calls used, on `meta` and on the CPU. `overwritten`: the call
    changed the result of an earlier one. `imported`: the steps of the course that imports asked for since the last
    answer, here or not. `left_out`: the lines at the top level that raised since then. `narrowed`: a float32 or a half
    was computed in a call with a float64. `odd`: what was tried that no answer needs.
    """

    value: Value = None
    raised: Raised | None = None
    gradients: dict[Name, Gradient | None] = {}
    modified: Names = []
    functions: Names = []
    off_limits: Names = []
    imported: Names = []
    of: Size | None = None
    measured: dict[Measure, Size | dict[Name, Size]] = {}
    elsewhere: Names = []
    overwritten: bool = False
    narrowed: bool = False
    odd: Names = []
    left_out: Annotated[list[LeftOut], msgspec.Meta(max_length=MAX_LEFT_OUT)] = []
    is_last: bool = False  # the accelerator is of no use to this process any more

    def copied(self) -> Outcome:
        """A copy with its own tensors."""
        return msgspec.structs.replace(self, value=copied(self.value), gradients=copied(self.gradients))


class Load(msgspec.Struct, array_like=True):
    """The first message to a worker: the learner's files, and which of them to import.

    `sources` maps a module name to (displayed file name, text). `off_limits` maps a public name to banned families.
    `public`: of a module that is a reference, the names that others see. `seconds`: what the top level of all files
    may take. `packages`: what the step requires besides what any may import. `quick`: what only a failing check asks
    for is not noted.
    """

    module: str
    sources: dict[str, tuple[str, str]]
    off_limits: dict[str, tuple[str, ...]]
    public: dict[str, list[str]] = {}
    seconds: float = 5.0
    packages: tuple[str, ...] = ()
    quick: bool = False


class Contexts:
    """Contexts that are left in reverse, as by `contextlib.ExitStack`, of which anything can be replaced."""

    def __init__(self) -> None:
        self._leaving: list[Callable[..., Any]] = []

    def enter_context(self, context: Any) -> None:
        """Enters a context, which is left when this object is."""
        leave = type(context).__exit__
        type(context).__enter__(context)
        self._leaving.append(lambda *why: leave(context, *why))

    def callback(self, function: Callable[..., Any], *args: Any) -> None:
        """Has a function called when this one is left."""
        self._leaving.append(lambda *_why: function(*args))

    def close(self) -> None:
        """Leaves all entered contexts, the last one first."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves the entered contexts, the last one first, each even if another raises."""
        if self._leaving:
            try:
                self._leaving.pop()(kind, error, trace)
            finally:
                self.__exit__(kind, error, trace)
