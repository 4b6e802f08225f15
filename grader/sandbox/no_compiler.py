"""Stands in for torch's compiler, for sympy, and for torch's kernels in Python until something asks for them.

Much of torch tells its compiler to keep out before it does its own work: an optimiser's step, `checkpoint` and
`torch.func` import all of `torch._dynamo` for that, which takes as long as torch itself and wants a folder for a cache.
Its Python kernels for `meta` ask whether a size is symbolic, which only the compiler has, and import sympy for that: a
fifth of the time that loading torch takes.

Those kernels, with the references and decompositions that they are made of, take a third of it, and what an exercise
does needs next to none of them. A process that grades once puts them off (`put_off_kernels`): see `preload`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import operator
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

NAME = "torch._dynamo"
CONFIG = f"{NAME}.config"  # a file of settings that needs none of the rest
SHAPES = "torch.fx.experimental.symbolic_shapes"
SYMBOLS = "sympy"
ON_SYMBOLS = "torch.utils._sympy"  # a package of what torch builds on sympy
FUNCTIONS = f"{ON_SYMBOLS}.functions"
KERNELS = "torch._meta_registrations"
REFERENCES = ("torch._decomp", "torch._prims", "torch._refs")  # what they are made of
FILES_OF_KERNELS = tuple(f"/{name.replace('.', '/')}{end}" for name in (KERNELS, *REFERENCES) for end in ("/", ".py"))

# What torch tells its compiler in passing, by what is done here instead. Torch 2.6 to 2.13 read no other names where
# nothing is compiled; a test looks for those that the installed version reads.
MARKS = ("disable", "allow_in_graph", "disallow_in_graph", "forbid_in_graph", "assume_constant_result")
NEWS = ("graph_break", "mark_dynamic", "maybe_mark_dynamic", "mark_static", "mark_static_address", "reset")


class LazyModule(types.ModuleType):
    """A stand-in with the few names that torch reads in passing; any other name imports the real module."""

    def __init__(self, name: str, names: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__all__", "__version__"):  # the import system asks for others
            raise AttributeError(name)
        return getattr(real(self.__name__), name)


class Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the real module as soon as one of its submodules is imported."""

    def __init__(self) -> None:
        self._own_specs: dict[str, importlib.machinery.ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a submodule of a module that a stand-in replaces, after importing the real one; None for all
        others."""
        packages = (NAME, SYMBOLS, ON_SYMBOLS, *REFERENCES)
        package = next((name for name in packages if fullname.startswith(f"{name}.")), None)
        needed = SYMBOLS if package == ON_SYMBOLS else package
        if needed is None or fullname == CONFIG or not isinstance(sys.modules.get(needed), LazyModule):
            return None
        real(needed)
        # A module that is there by now would be run once more, and some of torch's can't be.
        imported = sys.modules.pop(fullname, None)
        return importlib.machinery.ModuleSpec(fullname, self, loader_state=imported)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The module itself, which may have been imported with the rest."""
        module = spec.loader_state or importlib.import_module(spec.name)
        self._own_specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs nothing, since the module has run already; gives it its own spec again."""
        module.__spec__ = self._own_specs.pop(module.__name__)


class LazyOps:
    """A stand-in for `torch.ops.prims`, whose ops come with the kernels in Python."""

    def __getattr__(self, name: str) -> Any:
        import torch

        if name.startswith("__"):
            raise AttributeError(name)
        real(KERNELS)
        return getattr(torch.ops.prims, name)


kernels_wait: list[bool] = []  # not empty while they are put off
_instead: list[Any] = []  # libraries of kernels that stand in until then
_afterwards: list[Callable[[], None]] = []


def put_off_kernels() -> None:
    """Has torch leave out its kernels in Python, before it is imported."""
    sys.modules[KERNELS] = types.ModuleType(KERNELS)
    kernels_wait.append(True)


def until_kernels(library: Any, then: Callable[[], None]) -> None:
    """Has a library of kernels removed as soon as the real ones are imported, and `then` called after that."""
    _instead.append(library)
    afterwards(then)


def afterwards(then: Callable[[], None]) -> None:
    """Calls `then` when the real kernels are there, which may be now."""
    if kernels_wait:
        _afterwards.append(then)
    else:
        then()


def _real_kernels() -> None:
    """Imports torch's kernels in Python in place of the stand-ins, then calls what waited for that."""
    kernels_wait.clear()
    for name in (KERNELS, *REFERENCES):
        sys.modules.pop(name, None)
    for library in _instead:
        library._destroy()
    vars(sys.modules["torch"].ops).pop("prims", None)
    importlib.import_module(KERNELS)
    while _afterwards:
        _afterwards.pop(0)()


def install() -> None:
    """Puts the stand-ins in place, unless the real modules have been imported."""
    import torch

    sys.meta_path.insert(0, Submodules())
    if kernels_wait and any(name in sys.modules for name in REFERENCES):  # this torch needs them for something else
        _real_kernels()
    if kernels_wait:
        _let_generators_be_made()
        vars(torch.ops)["prims"] = LazyOps()
    for name in (KERNELS, *REFERENCES) if kernels_wait else ():
        sys.modules[name] = LazyModule(name, {"__path__": []})
        setattr(torch, name.rpartition(".")[2], sys.modules[name])
    if NAME not in sys.modules:
        compiler = LazyModule(NAME, dict.fromkeys(MARKS, _as_it_is) | dict.fromkeys(NEWS, _nothing))
        compiler.__path__ = [str(Path(torch.__file__).parent / "_dynamo")]
        compiler.is_compiling = _no  # type: ignore[attr-defined]
        compiler.compiled_autograd = types.SimpleNamespace(_disable=contextlib.nullcontext)  # type: ignore[attr-defined]
        sys.modules[NAME] = torch._dynamo = compiler
        importlib.import_module(CONFIG)
    if SYMBOLS not in sys.modules and SHAPES not in sys.modules:
        sys.modules[SYMBOLS] = LazyModule(SYMBOLS, {"__path__": [], "Basic": type("Basic", (), {})})  # nothing is one
        shapes = sys.modules[SHAPES] = LazyModule(SHAPES, {name: _of_numbers(name) for name in OF_NUMBERS})
        functions = sys.modules[FUNCTIONS] = LazyModule(FUNCTIONS, {"Max": _of_numbers("Max", FUNCTIONS)})
        for module in (shapes, functions):
            package, _dot, name = module.__name__.rpartition(".")
            setattr(importlib.import_module(package), name, module)


def _let_generators_be_made() -> None:
    """Gives `torch.Generator` the metaclass that torch 2.13 gives it when it imports its kernels in Python, and without
    which none can be made."""
    import torch

    if hasattr(torch._C, "_set_generator_metaclass"):
        torch._C._set_generator_metaclass(importlib.import_module("torch._opaque_base").OpaqueBaseMeta)


def real(name: str) -> types.ModuleType:
    """The real module by this name: torch's compiler, its kernels in Python, or sympy and what torch builds on it,
    imported in place of the stand-in."""
    if name in (KERNELS, *REFERENCES):
        if kernels_wait:
            _real_kernels()
    elif isinstance(sys.modules.get(name), LazyModule):
        together = (SYMBOLS, SHAPES, FUNCTIONS) if name != NAME else (NAME, CONFIG)
        for each in together:
            sys.modules.pop(each, None)
        if name == NAME:
            import torch

            del torch._dynamo
            torch._dynamo = importlib.import_module(NAME)
        else:
            importlib.import_module(SHAPES)
    return importlib.import_module(name)


def _as_it_is(function: Callable[..., Any] | None = None, *_rest: Any, **_options: Any) -> Any:
    """A decorator that changes nothing, written with arguments or without."""
    return function if callable(function) else _as_it_is


def _nothing(*_args: Any, **_options: Any) -> None:
    """Stands in for functions that tell the compiler something."""


def _no(*_args: Any, **_options: Any) -> bool:
    """False: the compiler is not at work."""
    return False


def _itself(value: Any) -> Any:
    return value


# What torch's functions of these names return if every argument is a plain number or a sequence of such.
OF_NUMBERS: Mapping[str, Callable[..., Any]] = {
    "Max": lambda *values: max(values),
    "expect_true": _itself,
    "guard_or_false": _itself,
    "guard_or_true": _itself,
    "guard_size_oblivious": _itself,
    "guarding_hint_or_throw": _itself,
    "has_guarding_hint": lambda value: True,
    "is_nested_int": lambda value: False,
    "statically_known_true": _itself,
    "sym_and": lambda *values: functools.reduce(operator.and_, values),
    "sym_or": lambda *values: functools.reduce(operator.or_, values),
    "sym_eq": lambda one, other: tuple(one) == tuple(other) if isinstance(one, tuple | list) else one == other,
}


def _of_numbers(name: str, module: str = SHAPES) -> Callable[..., Any]:
    """A stand-in for torch's function of this name: answers plain numbers itself, and imports the real one for anything
    else."""

    def function(*values: Any, **options: Any) -> Any:
        if not options and all(map(_is_plain, values)):
            return OF_NUMBERS[name](*values)
        return getattr(real(module), name)(*values, **options)

    return function


def _is_plain(value: Any) -> bool:
    """Whether a value is a number of Python's own, or a tuple or list of such values."""
    kind = type(value)
    return kind in (bool, int, float) or (kind in (tuple, list) and all(map(_is_plain, value)))
