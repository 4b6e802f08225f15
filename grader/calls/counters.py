"""What a call cost: the work of its matrix products, the kernels it launched, what it kept for its backward pass."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from grader.calls.memory import UncompiledMode

# Where an op has its two factors: all that a matrix product, a linear layer or an einsum comes down to.
FACTORS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1, "mv": 0, "addmv": 1, "dot": 0, "vdot": 0}
LAUNCHERS = (
    ("triton.runtime.interpreter", "GridExecutor", "__call__"),
    ("triton.runtime.jit", "JITFunction", "run"),
)
ATTENTION = "scaled_dot_product"  # one op with two products in it, of query and key, and of weights and value


class MatrixProducts(UncompiledMode):
    """Counts the multiplications and additions of matrix products inside the block, by the dtype of their factors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.by_dtype: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.name().removeprefix("aten::").partition(".")[0]
        if name in FACTORS:
            first, second = args[FACTORS[name] :][:2]
            self._count(first, first.numel() * (second.shape[-1] if second.dim() > 1 else 1))
        elif ATTENTION in name and "backward" not in name:
            query, key, value = args[:3]
            self._count(query, query.shape[:-1].numel() * key.shape[-2] * (query.shape[-1] + value.shape[-1]))
        return func(*args, **(kwargs or {}))

    def _count(self, factor: Tensor, products: int) -> None:
        self.by_dtype[str(factor.dtype).removeprefix("torch.")] += 2 * products


class Narrowed(UncompiledMode):
    """Notes whether an op inside the block gives a float32 or a half."""

    supports_higher_order_operators = True  # torch.cond and the like are run as they are

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.seen = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in result if isinstance(result, list | tuple) else (result,):
            self.seen |= isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.dtype != torch.float64
        return result


class SavedForBackward:
    """Counts the elements of the storages that are saved for a backward pass inside the block, each once.

    What is kept within hooks of the called code's own, as `checkpoint` has them, is not seen.
    """

    def __init__(self, modules: Iterable[Any]) -> None:
        parameters = (p for module in modules if isinstance(module, nn.Module) for p in module.parameters())
        self._ours = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self._seen: dict[int, torch.UntypedStorage] = {}  # held, so that no place in memory is taken twice
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._note, _unchanged)
        self.elements = 0

    def __enter__(self) -> SavedForBackward:
        self._hooks.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._hooks.__exit__(*exception)

    def _note(self, saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        place = storage.data_ptr()
        if place not in self._ours and place not in self._seen:
            self._seen[place] = storage
            self.elements += storage.nbytes() // saved.element_size()
        return saved


def _unchanged(saved: Tensor) -> Tensor:
    return saved


class KernelLaunches(ExitStack):
    """Counts the launches of Triton's kernels inside the block: compiled ones, and those that its interpreter runs."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __enter__(self) -> KernelLaunches:
        super().__enter__()
        for module, name, method in LAUNCHERS:
            if owner := getattr(sys.modules.get(module), name, None):  # nothing is launched before it is imported
                launch = getattr(owner, method)
                setattr(owner, method, self._counting(launch))
                self.callback(setattr, owner, method, launch)
        return self

    def _counting(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(launch)
        def counting(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return launch(*args, **kwargs)

        return counting


def method_of(kept: Any, name: str) -> Callable[..., Any]:
    """What a call of `.name` does to an object, or `?name`, which reads an attribute of it."""
    return getattr(kept, name[1:]) if name.startswith(".") else lambda: getattr(kept, name[1:])
