"""Every op that torch runs inside a block, seen below its modes.

A mode of torch's can be switched off by whoever is measured, with torch's own context managers, and code within another
mode or a tensor subclass passes it by. So ops are seen where torch's dispatcher has already run all of these: between
its Python key and the kernels stands a fallback of ours. What a kernel calls inside is part of its op.
"""

from __future__ import annotations

import functools
from types import TracebackType
from typing import Any, ClassVar, Self

import torch
from torch.utils._python_dispatch import _disable_current_modes as beside_modes

__all__ = ["EveryOp", "beside_modes", "rest", "run"]

PLACE = "Fake"  # the key that comes after `Python` (not in old versions), and is otherwise unused
COMPOSITE = "CompositeImplicitAutograd"
KEY = torch._C._dispatch_key_parse(PLACE)
REDISPATCH = torch._C._DispatchOperatorHandle.redispatch_boxed
_AFTER = torch._C._dispatch_keyset_full_after(KEY)
_include = torch._C._dispatch_tls_set_dispatch_key_included
_is_included = torch._C._dispatch_tls_is_dispatch_key_included


class EveryOp:
    """Is told of every op inside the block, by `see`: its arguments and what it gave."""

    watching: ClassVar[tuple[EveryOp, ...]] = ()
    _was_included = False

    def __enter__(self) -> Self:
        if not EveryOp.watching:
            _look()
        self._was_included = _is_included(KEY)
        EveryOp.watching = (*EveryOp.watching, self)
        _include(KEY, True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        EveryOp.watching = tuple(watcher for watcher in EveryOp.watching if watcher is not self)
        _include(KEY, self._was_included)
        rest()

    def see(self, op: Any, args: tuple[Any, ...], result: Any) -> None:
        """An op has run."""
        raise NotImplementedError


def run(op: Any, keys: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs an op that has got as far as our key, and tells whoever is watching."""
    if not EveryOp.watching or (_runs_others(op) and not _has_number_for_tensor(op, args)):
        return REDISPATCH(op._handle, keys & _AFTER, *args, **kwargs)
    _include(KEY, False)
    try:
        result = op(*args, **kwargs)  # not `REDISPATCH`, which takes no number where a tensor may stand
    finally:
        _include(KEY, True)
    for watcher in EveryOp.watching:
        watcher.see(op, args, result)
    return result


@functools.cache
def _runs_others(op: Any) -> bool:
    """Whether the ops inside this one are to be seen: it is composed of them, as in inference mode it gets as far as
    our key, or it is not torch's own."""
    return op.namespace != "aten" or torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), COMPOSITE)


def _has_number_for_tensor(op: Any, args: tuple[Any, ...]) -> bool:
    return any(
        isinstance(given, int | float | complex) and isinstance(wanted.type, torch.TensorType)
        for given, wanted in zip(args, op._schema.arguments, strict=False)
    )


class _Fallback:
    """What is done at our key with an op that has no function of its own there: nothing, unless somebody looks. A
    function of Python's for each op takes time, and the key is included elsewhere too."""

    library: Any = None

    @classmethod
    def register(cls, fallback: Any, **how: Any) -> None:
        """Registers another one; that takes a millisecond."""
        if cls.library is not None:
            cls.library._destroy()
        cls.library = torch.library.Library("_", "IMPL")
        cls.library.fallback(fallback, PLACE, **how)


# `detach` does no work, and gives what is to become a parameter: that must not have been an object of Python's before.
_DETACHED = torch.library.Library("aten", "IMPL")
_DETACHED.impl("detach", torch.library.fallthrough_kernel, PLACE)


def rest() -> None:
    """Nothing is done at our key."""
    if not EveryOp.watching:
        _Fallback.register(torch.library.fallthrough_kernel)


def _look() -> None:
    _Fallback.register(lambda keys, op, *args, **kwargs: run(op, keys, args, kwargs), with_keyset=True)
