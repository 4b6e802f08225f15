"""The devices of this machine by torch's own names, what they have in common, and how exactly they compute.

Next to the CPU, a process of torch has at most one kind of accelerator, and torch knows which: `cuda` (a ROCm build
calls its own so, too), `mps`, `xpu`, or the name that a backend has given itself.
"""

from __future__ import annotations

import functools
import os
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from grader.calls import private_torch

CPU, META = "cpu", "meta"


@functools.cache
def accelerator() -> str:
    """torch's name of the accelerator that is there; empty without one. No driver is initialised by it."""
    if not torch.accelerator.is_available():
        return ""
    device = torch.accelerator.current_accelerator()
    return device.type if device is not None else ""


def is_there(name: str) -> bool:
    """Whether tensors can be made on the device of this name."""
    return name in (CPU, accelerator())


def single(wanted: str) -> str:
    """The device to use if only one can be: for `all` the accelerator, or the CPU without one; any other name itself,
    unchecked."""
    return (accelerator() or CPU) if wanted == "all" else wanted


def states(wanted: str) -> dict[str, str]:
    """The state of each device, if `wanted` (the name of one, or `all`) is to be checked: "checked", "not available" or
    "not requested".

    Raises RuntimeError if torch knows no device of this name.
    """
    names = dict.fromkeys([CPU, accelerator() or "cuda", *([wanted] if wanted != "all" else [])])
    if wanted != "all":
        torch.device(wanted)  # raises RuntimeError if torch knows no device of this name
    return {
        name: "not requested" if wanted not in ("all", name) else "checked" if is_there(name) else "not available"
        for name in names
    }


def with_index(name: str) -> str:
    """The name as a tensor's device has it: `cuda:0` for `cuda`; `cpu`, `meta` and `cuda:1` stay."""
    return name if name in (CPU, META) or ":" in name else f"{name}:0"


def label(name: str) -> str:
    """The device's name for people: the accelerator's own name if its module knows that."""
    named = getattr(torch.get_device_module(name), "get_device_name", None) if name != CPU else None
    return str(named()) if named is not None else name


def prepare(name: str) -> None:
    """Initialises an accelerator, so that its generators can be seeded, and asks for its deterministic kernels: one
    that has none runs as it is. If only the CPU computes, nothing changes."""
    if name in (CPU, META):
        return
    initialise = getattr(torch.get_device_module(name), "init", None)
    if initialise is not None:
        initialise()
    if not torch.are_deterministic_algorithms_enabled():
        private_torch.set_deterministic(True, warn_only=True)
        private_torch.fill_new_memory(False)
        warnings.filterwarnings("ignore", message=".*deterministic")


def is_in_use() -> bool:
    """Whether this process has initialised an accelerator, so that forking it is unsound."""
    name = accelerator()
    is_initialized = getattr(torch.get_device_module(name), "is_initialized", None) if name else None
    return bool(is_initialized()) if is_initialized is not None else bool(name)


def seed(number: int) -> None:
    """Like `torch.manual_seed`, without recording the call stack for every missing accelerator."""
    torch.default_generator.manual_seed(number)
    name = accelerator()
    if name and is_in_use():
        module = torch.get_device_module(name)
        getattr(module, "manual_seed_all", module.manual_seed)(number)


def synchronise(name: str) -> None:
    """Waits until the device has finished its work: before a clock is read."""
    if name not in (CPU, META):
        torch.get_device_module(name).synchronize()


def works(name: str) -> bool:
    """Whether the device still computes, by trying: after some errors, a process gets nothing more from its
    accelerator."""
    if name in (CPU, META):
        return True
    try:
        return bool(torch.ones(1, device=name).item())
    except Exception:
        return False


def counts_memory(name: str) -> bool:
    """Whether torch can tell the peak of the memory in use on the device; never on the CPU."""
    return name != CPU and hasattr(torch.get_device_module(name), "max_memory_allocated")


@functools.cache
def tensor_types() -> tuple[type[Tensor], ...]:
    """The classes of plain tensors: torch's own, and that of a backend written in Python, which says so."""
    backend = getattr(torch, private_torch.plugged_in_backend(), None)
    return (Tensor, nn.Parameter, *getattr(backend, "tensor_types", ()))


def compute_exactly() -> None:
    """Has torch compute products of float32 and sums of halves in float32, in this process, for good: a learner's file
    may set otherwise, as many do for speed, and still gets the reference's numbers.

    cuDNN's convolutions use TF32 unless told not to: an error of 0.0015; 0.0001 is allowed.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else two products of the same may differ in a bit
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.set_float32_matmul_precision("highest")
    private_torch.replace_looseners(_ignored)
    setattr(type(torch.backends.cudnn), "allow_tf32", property(lambda module: False, _ignored))  # noqa: B010


def _ignored(*_values: Any) -> None:
    """Does nothing: replaces setters that would make products less exact."""
