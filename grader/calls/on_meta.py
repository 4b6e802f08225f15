"""Whether code on the `meta` device does what it does on the CPU: a branch for `meta` alone would prove nothing.

On `meta` there are shapes and no numbers, so that code could return a tensor of the right shape and none of the work.
The same call is made once more, on the CPU, and the torch functions that the two use are compared. Calls with lengths
beyond LONGEST, which cost nothing on `meta`, are not: the same code is compared on short ones.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor, nn

from grader.calls.call import MAX_NAMES, Call
from grader.calls.function_names import FunctionNames
from grader.calls.transfer import Inputs, materialised
from grader.calls.values import leaves

LONGEST = 1024
# Functions that look at values, as code may do only where there are some: beside them both calls use the same.
LOOKS = frozenset({
    "all", "any", "item", "tolist", "__bool__", "__int__", "__float__", "__index__", "is_nonzero", "equal", "allclose",
    "isclose", "isfinite", "isinf", "isposinf", "isneginf", "isnan", "eq", "ne", "lt", "le", "gt", "ge", "__eq__",
    "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__invert__", "logical_not", "bitwise_not",
})  # fmt: skip


@dataclass(frozen=True)
class Work:
    """The torch functions that a call used, and which of them gave each tensor of its result."""

    names: set[str]
    makers: list[str]

    def may_replace(self, other: Work) -> bool:
        """Whether the other call did this work, and beside it looked at values: its result has to come from the same
        functions."""
        return self.names <= other.names and other.names - self.names <= LOOKS and self.makers == other.makers


class Twins:
    """The modules that were moved to `meta`, as they were on the CPU before."""

    def __init__(self) -> None:
        self._modules: dict[int, Any] = {}

    def clear(self) -> None:
        """Drops them: a new check begins."""
        self._modules.clear()

    def keep(self, call: Call, handles: Mapping[int, Any]) -> None:
        """Keeps a copy of a module that the call is about to move to `meta`, where it can be copied."""
        if call.name == "to" and call.handle is not None and call.args[0] == "meta":
            module = handles.get(call.handle)
            if isinstance(module, nn.Module) and call.handle not in self._modules:
                with contextlib.suppress(Exception):  # of the author's own attributes, not all can be copied
                    self._modules[call.handle] = copy.deepcopy(module)

    def _twin(self, number: int, module: nn.Module) -> Any:
        """The twin of a module, in the modes of its parts and their dtype."""
        twin = self._modules.get(number)
        if twin is not None:
            for part, other in zip(module.modules(), twin.modules(), strict=True):
                other.training = part.training
            dtypes = {name: value.dtype for name, value in module.named_parameters(remove_duplicate=False)}
            for name, value in twin.named_parameters(remove_duplicate=False):  # moved, a tied weight is two
                value.data = value.data.to(dtypes[name])
        return twin

    def differing(self, call: Call, target: Any, handles: Mapping[int, Any], given: list[int], used: Work) -> list[str]:
        """The torch functions that only one of two calls used: this one on `meta`, which did this work, and the same
        call on the CPU, to a `target` or to the twin of its module. None where there is no twin, where the other call
        raises, and where its work includes this one's, or is included in it, perhaps when it is made again.
        """
        if any(max(leaf.shape, default=0) > LONGEST for leaf in leaves(call.args) if isinstance(leaf, Tensor)):
            return []
        here = replace(call, options=replace(call.options, device="cpu", gradients=False))
        random_state = torch.get_rng_state()
        try:
            numbers = [number for number in (call.handle, *given) if number is not None]
            twins = {number: self._twin(number, handles[number]) for number in numbers}
            target = twins.get(call.handle) if call.handle is not None and call.name == "__call__" else target
            if target is None or None in twins.values():
                return []
            inputs = Inputs(here, twins)
            work = _work(target, inputs)
            # What was made before may be kept, a mask or a table: then the call does less when it is made again.
            if work.names <= used.names or used.may_replace(work):
                return []
            if used.names < work.names and _work(target, Inputs(here, twins)).names <= used.names:
                return []
        except BaseException:  # the called code may raise anything; another check asks for this call by itself
            return []
        finally:
            torch.set_rng_state(random_state)
        return sorted(work.names ^ used.names)[:MAX_NAMES]


def _work(target: Any, inputs: Inputs) -> Work:
    with FunctionNames() as functions:
        result = materialised(target(*inputs.args, **inputs.kwargs))
    return Work(functions.names, functions.makers(result))
