"""Bounds what a check computes from answers: two small tensors may broadcast to gigabytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from itertools import zip_longest
from math import prod
from typing import Any

from torch import Tensor
from torch.nn.parameter import Parameter, is_lazy
from torch.overrides import TorchFunctionMode

from grader.base.errors import CheckFailed
from grader.base.language import gettext as _
from grader.calls.private_torch import current_function_mode, without_function_mode

PLAIN = (Tensor, Parameter)  # a lazy parameter has no number of elements yet
MAX_ELEMENTS = 1 << 25  # twice as many as any answer has


class BoundedArithmetic(TorchFunctionMode):
    """Refuses an op if its tensors could broadcast to more elements than any check needs."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls a function. Raises CheckFailed if its arguments would broadcast to too many elements."""
        if len(args) > 1 and isinstance(args[0], Tensor) and _may_be_large(args[:3]):
            shapes = [tuple(value.shape) for value in args[:3] if _has_elements(value)]
            if len(shapes) > 1:
                _require_bounded(shapes)
        return func(*args, **kwargs) if kwargs else func(*args)


def lifted() -> AbstractContextManager[Any]:
    """A context without the bound, for work of ours that doesn't broadcast, such as sending and comparing: testing each
    op takes a sixth of a judge's time."""
    is_bounded = isinstance(current_function_mode(), BoundedArithmetic)
    return without_function_mode() if is_bounded else nullcontext()


def bounded(values: Iterable[Any]) -> AbstractContextManager[Any]:
    """A context with the bound, for code of ours that computes with these values; without it if no three of them can
    broadcast beyond it, as on `meta`, where no tensor has elements."""
    sizes = sorted(value.numel() for value in values if isinstance(value, Tensor) and not value.is_meta)
    return BoundedArithmetic() if prod(sizes[-3:]) > MAX_ELEMENTS else nullcontext()


def _may_be_large(values: tuple[Any, ...]) -> bool:
    """True if the result may have too many elements: at most the product of theirs. Called for each op."""
    product = 1
    for value in values:
        if isinstance(value, Tensor):
            product *= max(1, value.numel()) if type(value) in PLAIN else MAX_ELEMENTS + 1
    return product > MAX_ELEMENTS


def _has_elements(value: Any) -> bool:
    """True for a tensor with a shape and values: none on `meta`, and no lazy parameter, whose `materialize` comes
    through here."""
    return isinstance(value, Tensor) and not value.is_meta and not is_lazy(value)


def _require_bounded(shapes: list[tuple[int, ...]]) -> None:
    """Raises CheckFailed if these shapes broadcast to more than MAX_ELEMENTS."""
    sizes = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    if prod(max(size) for size in sizes) > MAX_ELEMENTS:
        listed = ", ".join(str(shape) for shape in shapes)
        raise CheckFailed(_("What was returned has a shape that does not fit: {shapes}").format(shapes=listed))
