"""Compares the state of a process before and after a step: what one leaves behind must not reach the next.

Two steps of one submission may run in one process. Honest code can change how later code computes, by a default dtype,
a hook or a function of torch's that it replaces; then the process is not used again. Code that hides what it changed
could as well have changed it in the next step: both are of one author.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import gc
import math
import operator
import os
import random
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.modules.module as hooks
from torch import nn

from grader.calls import private_torch

# Modules with functions that a file may replace, for itself and for all code that runs after it.
OWNERS = (
    "torch", "torch._C", "torch._tensor", "torch.autograd", "torch.autograd.function", "torch.autograd.grad_mode",
    "torch.linalg", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.parameter", "torch.special",
    "torch.optim", "math", "random", "operator", "functools", "itertools", "collections", "copy", "dataclasses",
    "abc", "enum", "inspect", "numbers", "time", "types", "typing", "typing_extensions", "numpy", "numpy.linalg",
    "numpy.random", "torch.fft", "__future__", "collections.abc",
)  # fmt: skip
CLASSES = (torch.Tensor, nn.Parameter, torch.autograd.Function, torch.optim.Optimizer)
SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGPROF", "SIGVTALRM") if hasattr(signal, name)
]
SUBNORMAL = 1e-40
# Objects that code makes and that code can be kept in, or a result of it.
MADE = (types.FunctionType, types.ModuleType, types.GeneratorType, types.CoroutineType, type, torch.Tensor, nn.Module)


@contextlib.contextmanager
def settings_taken_back() -> Iterator[None]:
    """A context that takes back what its block sets for all code in this process: whether gradients are recorded,
    torch's default dtype and device, anomaly mode, autocast, and what NumPy does about errors.

    So what a file's top level sets, for an experiment of its own, decides nothing about its functions. Another mode
    that is held open (inference mode) is left as it is: only whoever opened it can close it."""
    dtype, gradients, anomaly = torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_anomaly_enabled()
    errors, autocast, device = np.geterr(), torch.is_autocast_enabled("cpu"), torch.get_default_device()
    try:
        yield
    finally:
        torch.set_grad_enabled(gradients)
        if torch.get_default_dtype() != dtype:
            torch.set_default_dtype(dtype)
        # Not only if another is set: to ask for one that isn't there would raise.
        torch.set_default_device(None if device.type == "cpu" else device)
        if torch.is_anomaly_enabled() != anomaly:
            torch.autograd.set_detect_anomaly(anomaly)
        torch.set_autocast_enabled("cpu", autocast)
        np.seterr(**errors)


class Surroundings:
    """The state of this process when it was made, before any of a learner's code has run."""

    def __init__(self, objects: Callable[[], list[Any]] = gc.get_objects) -> None:
        """Records torch's and Python's settings, torch's random state and the namespaces that code could change.

        `objects` gives all objects of the process; called by `settle` and `restored`, not here."""
        self._objects = objects
        self._owners = [(names, tuple(names.values())) for names in _namespaces()]
        self._state = _state()
        self._torch = torch.get_rng_state()

    def settle(self) -> None:
        """Records the settings again, and the objects that are there: `restored`, which may be called only after this,
        compares with them. The namespaces stay as recorded at first."""
        self._state = _state()
        self._kept = _made(self._objects())

    def restored(self) -> bool:
        """Restarts the random streams of torch and Python. Returns True if everything else is as it was.

        NumPy's streams are a module of their own: a process that has loaded it since isn't as it was.
        """
        torch.set_rng_state(self._torch)
        random.seed()
        if self._state != _state() or not all(_same(names, values) for names, values in self._owners):
            return False
        return _made(self._objects()).keys() <= self._kept.keys()


def _made(objects: list[Any]) -> dict[int, Any]:
    """The functions, modules, classes, tensors and the like (`MADE`) among the objects, by their ids: a step's code may
    have made them, or have put something into them."""
    owned = {}
    for each in objects:  # by no comprehension: that is a function while it runs
        if issubclass(type(each), MADE):
            owned[id(each)] = each
    return owned


def _same(names: Mapping[str, Any], values: tuple[Any, ...]) -> bool:
    """True if a namespace holds the very same objects, in the same order, as in `values`."""
    return len(names) == len(values) and all(map(operator.is_, names.values(), values))


def _namespaces() -> Iterator[Mapping[str, Any]]:
    """The namespaces in which one step could replace something that the next one uses."""
    yield vars(builtins)
    for name in [*OWNERS, *(name for name in sys.modules if name.startswith("grader.calls."))]:
        if isinstance(module := sys.modules.get(name), types.ModuleType):
            yield vars(module)
    yield from (vars(kind) for kind in CLASSES)
    for module in [sys.modules[name] for name in sys.modules if name.startswith("torch.nn.modules.")]:
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield vars(value)


def _state() -> list[Any]:
    """The settings of torch and of Python, to be compared with `==`."""
    return [*_of_torch(), *_of_python()]


def _of_torch() -> list[Any]:
    """torch's global settings and the numbers of its global hooks, to be compared before and after."""
    return [
        torch.get_default_dtype(), str(torch.get_default_device()), torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(),
        torch.is_anomaly_enabled(), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(), torch.ones(()).mul(SUBNORMAL).mul(1.0).item() > 0,
        *(len(hooked) for name, hooked in vars(hooks).items() if "_global_" in name and isinstance(hooked, dict)),
        *private_torch.hidden_settings(),
    ]  # fmt: skip


def _of_python() -> list[Any]:
    """The interpreter's global state: threads, tracers, streams, signals, modules, warnings and the like."""
    timers: Callable[[int], Any] = getattr(signal, "getitimer", lambda which: None)
    return [
        threading.active_count(), sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile(),
        sys.getrecursionlimit(), sys.stdout, sys.stderr, sys.excepthook, sys.displayhook, list(sys.path),
        list(sys.path_hooks), set(sys.modules), gc.isenabled(), gc.get_threshold(), list(gc.callbacks),
        list(warnings.filters), warnings.warn, dict(os.environ), atexit._ncallbacks(), np.geterr(), np.geterrcall(),
        [signal.getsignal(number) for number in SIGNALS], [timers(which) for which in range(3)], math.pi,
        repr(np.get_printoptions()),
    ]  # fmt: skip
