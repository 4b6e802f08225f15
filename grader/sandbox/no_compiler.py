"""Takes the place of torch's compiler until something is to be compiled.

Much of torch tells its compiler to keep out before it does its own work: an optimiser's step, `checkpoint` and
`torch.func` import all of `torch._dynamo` for that, which takes as long as torch itself and wants a folder for a cache.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

NAME = "torch._dynamo"
CONFIG = f"{NAME}.config"  # a file of settings that needs none of the rest

# What torch tells its compiler in passing, by what is done here instead. Torch 2.6 to 2.13 read no other names where
# nothing is compiled; a test looks for those that the installed version reads.
MARKS = ("disable", "allow_in_graph", "disallow_in_graph", "forbid_in_graph", "assume_constant_result")
NEWS = ("graph_break", "mark_dynamic", "maybe_mark_dynamic", "mark_static", "mark_static_address", "reset")


class NoCompiler(types.ModuleType):
    """A `torch._dynamo` that returns the functions that are to be marked for it, and holds its settings.

    Any other name, and any of its modules, is one of the real compiler's, which is imported then.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(NAME)
        self.__path__ = [str(folder)]
        self.__spec__ = importlib.machinery.ModuleSpec(NAME, None, is_package=True)
        for name in MARKS:
            setattr(self, name, _as_it_is)
        for name in NEWS:
            setattr(self, name, _nothing)
        self.is_compiling = _no
        self.compiled_autograd = types.SimpleNamespace(_disable=contextlib.nullcontext)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(real_compiler(), name)


class Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the real compiler as soon as one of its modules is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module of the real compiler, or None for all others."""
        if not fullname.startswith(f"{NAME}.") or fullname == CONFIG:
            return None
        real_compiler()
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The module itself, which may have been imported with the rest."""
        return importlib.import_module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """It has run already."""


def install() -> None:
    """Puts it in place, unless the real one has been imported."""
    if NAME in sys.modules:
        return
    import torch

    sys.modules[NAME] = torch._dynamo = NoCompiler(Path(torch.__file__).parent / "_dynamo")
    importlib.import_module(CONFIG)
    sys.meta_path.insert(0, Submodules())


def real_compiler() -> types.ModuleType:
    """Torch's own `torch._dynamo`, put where it belongs."""
    import torch

    if isinstance(sys.modules.get(NAME), NoCompiler):
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Submodules)]
        for name in (NAME, CONFIG):
            sys.modules.pop(name, None)
        del torch._dynamo
        torch._dynamo = importlib.import_module(NAME)
    return sys.modules[NAME]


def _as_it_is(function: Callable[..., Any] | None = None, *_rest: Any, **_options: Any) -> Any:
    """A decorator that changes nothing, written with arguments or without."""
    return function if callable(function) else _as_it_is


def _nothing(*_args: Any, **_options: Any) -> None:
    """What would tell the compiler something."""


def _no(*_args: Any, **_options: Any) -> bool:
    """Whether the compiler is at work."""
    return False
