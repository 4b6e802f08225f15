"""Whether code on the `meta` device does what it does on the CPU: a branch for `meta` alone would prove nothing.

On `meta` there are shapes and no numbers, so that code could return a tensor of the right shape and none of the work.
The same call is made once more, on the CPU, and the torch functions that the two use are compared. Calls with lengths
beyond LONGEST, which cost nothing on `meta`, are not: the same code is compared on short ones.
"""

from __future__ import annotations

import contextlib
import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor, nn

from grader.calls import devices
from grader.calls.call import MAX_NAMES, Call
from grader.calls.reads import FunctionRecorder, Reads, Record
from grader.calls.transfer import Inputs, materialised
from grader.calls.values import HandleId, leaves, mapped

LONGEST = 1024
# Functions that read values, as code may do only if there are some: apart from them both calls use the same.
LOOKS = frozenset({
    "all", "any", "item", "tolist", "numpy", "__array__", "__format__",
    "__bool__", "__int__", "__float__", "__index__", "is_nonzero", "equal", "allclose",
    "isclose", "isfinite", "isinf", "isposinf", "isneginf", "isnan", "eq", "ne", "lt", "le", "gt", "ge", "__eq__",
    "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__invert__", "logical_not", "bitwise_not",
    "untyped_storage", "storage_offset",  # of what is saved or copied deeply
})  # fmt: skip


@dataclass(frozen=True)
class Work:
    """The torch functions that a call used, and for each tensor of its result the one that returned it."""

    names: set[str]
    makers: list[str]
    hidden: list[str] = field(default_factory=list)  # what kept the names of others from being recorded

    def may_replace(self, other: Work) -> bool:
        """True if the other call did this work and also read values; its result has to come from the same functions."""
        return self.names <= other.names and other.names - self.names <= LOOKS and self.makers == other.makers


Recorded = tuple[Record, Work] | None


class CpuCopies:
    """Copies of the modules that were moved to `meta`, as they were on the CPU before, by handle number."""

    def __init__(self) -> None:
        self._modules: dict[int, Any] = {}

    def clear(self) -> None:
        """Drops all copies when a new check starts."""
        self._modules.clear()

    def keep(self, call: Call, handles: Mapping[int, Any]) -> None:
        """Stores a copy of the module that the call is about to move to `meta`, if it is such a call and a copy can be
        made. `handles`: the objects by handle number."""
        if call.name == "to" and call.handle is not None and call.args[0] == "meta":
            module = handles.get(call.handle)
            if isinstance(module, nn.Module) and call.handle not in self._modules:
                with contextlib.suppress(Exception):  # of the author's own attributes, not all can be copied
                    self._modules[call.handle] = _deep_copy(module)

    def _updated(self, number: int, module: nn.Module) -> Any:
        """The CPU copy of a module, switched to its training modes and dtypes of now; None without a copy."""
        copied = self._modules.get(number)
        if copied is not None:
            for part, other in zip(module.modules(), copied.modules(), strict=True):
                other.training = part.training
            dtypes = {name: value.dtype for name, value in module.named_parameters(remove_duplicate=False)}
            for name, value in copied.named_parameters(remove_duplicate=False):  # moved, a tied weight is two
                value.data = value.data.to(dtypes[name])
        return copied

    def recorded(self, call: Call, target: Any, handles: Mapping[int, Any], is_own: Callable[[str], bool]) -> Recorded:
        """Makes the same call on the CPU, to `target` or, if a module is called, to its CPU copy. Returns the values
        that it read, and its work; None if it raises, or there is nothing to call."""
        here = replace(call, args=mapped(call.args, _filled), kwargs=mapped(call.kwargs, _filled))
        here.options = replace(call.options, device="cpu", gradients=False, made_on_meta=False)
        random_state = torch.get_rng_state()
        try:
            modules = [leaf.number for leaf in leaves(call.args) if isinstance(leaf, HandleId)]
            for number in (call.handle, *modules):
                if number is not None and number not in self._modules:
                    self._modules[number] = _on_cpu(handles[number])
            copies = self._of_call(call, modules, handles)
            target = copies[call.handle] if call.handle is not None and call.name == "__call__" else target
            if target is None:
                return None
            with Reads.into(Record(is_own)) as record:
                work = _work(target, Inputs(here, copies))
            record.is_complete = True
            return record, work
        except BaseException:  # the called code may raise anything
            return None
        finally:
            torch.set_rng_state(random_state)

    def _of_call(self, call: Call, arguments: list[int], handles: Mapping[int, Any]) -> dict[int, Any]:
        """The CPU copies of the module that is called and of those in its arguments, by handle number; None for a
        module without one."""
        numbers = [number for number in (call.handle, *arguments) if number is not None]
        return {number: self._updated(number, handles[number]) for number in numbers}

    def differing(
        self, call: Call, target: Any, handles: Mapping[int, Any], arguments: list[int], used: Work, before: Work | None
    ) -> list[str]:
        """The torch functions that only one of two calls used: this one on `meta`, which did the work `used`, and the
        same call on the CPU, to `target` or to the CPU copy of its module. `arguments`: the handle numbers in its
        arguments; `before`: the work on the CPU if it was done already, else None, and the call is made.

        Empty if a module has no copy, the call on the CPU raises, or the work of one includes that of the other,
        perhaps when it is made again.
        """
        here = replace(call, options=replace(call.options, device="cpu", gradients=False))
        random_state = torch.get_rng_state()
        try:
            copies = self._of_call(call, arguments, handles)
            target = copies.get(call.handle) if call.handle is not None and call.name == "__call__" else target
            if target is None or None in copies.values():
                return []
            work = before or _work(target, Inputs(here, copies))
            if work.hidden:  # what was called then is not known
                return work.hidden
            # What was made before may be kept, a mask or a table: then the call does less when it is made again.
            if work.names <= used.names or used.may_replace(work):
                return []
            if used.names < work.names and _work(target, Inputs(here, copies)).names <= used.names:
                return []
        except BaseException:  # the called code may raise anything; another check asks for this call by itself
            return []
        finally:
            torch.set_rng_state(random_state)
        return sorted(work.names ^ used.names)[:MAX_NAMES]


def reaches_meta(call: Call) -> bool:
    """True if a call of the author's code is made on `meta`, or has the name `meta` as an argument."""
    if not call.is_authors:
        return False
    named = any(leaf == devices.META for leaf in leaves((call.args, call.kwargs)) if isinstance(leaf, str))
    return named or call.options.made_on_meta or call.options.device == devices.META


def is_compared(call: Call, target: Any) -> bool:
    """Whether the work of a call to `target` on `meta` is compared with that of the same call on the CPU: of none with
    a length beyond LONGEST, nor of a class that can give nothing but a module, which is compared when it is called."""
    if call.options.device != devices.META or not call.is_authors:
        return False
    if makes_a_module(target):
        return False
    return all(max(leaf.shape, default=0) <= LONGEST for leaf in leaves(call.args) if isinstance(leaf, Tensor))


def makes_a_module(target: Any) -> bool:
    """Whether a call of this object is certain to give a module, or to raise: neither its class nor its metaclass has a
    way of its own to make one."""
    return type(target) is type and issubclass(target, nn.Module) and target.__new__ is object.__new__


def state_of(module: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """For `put_back`: the attributes of a module and of each of its parts, each time the dictionary itself and a copy
    of it; empty for any other object."""
    parts = module.modules() if isinstance(module, nn.Module) else ()
    return [(vars(part), {name: _shallow_copy(value) for name, value in vars(part).items()}) for part in parts]


def put_back(state: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Undoes what a call did to the attributes of a module and its parts, in place. `state` is from `state_of`."""
    for attributes, before in state:
        attributes.clear()
        attributes.update(before)


def _shallow_copy(value: Any) -> Any:
    """A copy of a dict, list or set; any other value itself."""
    return value.copy() if type(value) in (dict, list, set) else value


def _deep_copy(module: nn.Module) -> nn.Module:
    """What `copy.deepcopy` makes of a module, in half of the time: most of that are empty tables of hooks, nine in each
    part. Raises what it raises."""
    tables = [value for part in module.modules() for value in vars(part).values() if type(value) in (dict, OrderedDict)]
    return copy.deepcopy(module, {id(table): type(table)() for table in tables if not table})


def _on_cpu(module: nn.Module) -> nn.Module:
    """A CPU copy of a module on `meta`, with arbitrary values: of a trusted module no copy was kept."""
    copied = _deep_copy(module).to_empty(device="cpu")
    for tensor in (*copied.parameters(), *copied.buffers()):
        tensor.data = _filled(tensor.data.to("meta"))
    return copied


def _filled(leaf: Any) -> Any:
    """A CPU tensor of arbitrary values for one on `meta`, "cpu" for the string "meta"; any other value itself."""
    if isinstance(leaf, str) and leaf == devices.META:
        return devices.CPU
    if not isinstance(leaf, Tensor) or not leaf.is_meta:
        return leaf
    if leaf.is_floating_point():
        return torch.randn(leaf.shape, dtype=leaf.dtype)
    return torch.full(leaf.shape, leaf.dtype == torch.bool, dtype=leaf.dtype)


def _work(target: Any, inputs: Inputs) -> Work:
    """Calls the target; returns the torch functions that it used. Raises what the target raises."""
    with FunctionRecorder() as functions:
        result = materialised(target(*inputs.args, **inputs.kwargs))
    functions.note_writes()
    return Work(functions.names, functions.makers(result), sorted(functions.hidden))
