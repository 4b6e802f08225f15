"""Hides this package from a learner's code in its own process: the code that measures it must be out of its reach.

None of it is a security boundary: code that searches the memory, or calls native code, gets past it. It removes the
short ways: the package can't be imported, and neither a frame, nor a function, nor a list of classes leads to it. What
is done below uses no global name and no built-in once a learner's code has run, which could have replaced it.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grader.sandbox import no_compiler

OURS = __name__.partition(".")[0]
NOTEBOOK = f"{OURS}.notebook"  # what a released notebook imports `check` and others from; here they do nothing
# Classes that hold what is true at the moment; nothing that can be found leads to them.
CHANGING = (
    "BuiltIns",
    "EveryOp",
    "FunctionNames",
    "FunctionRecorder",
    "PeakMemory",
    "Reads",
    "SavedForBackward",
    "_Fallback",
)
DOORS = ("check", "lab", "points")
# Classes of others by which is measured: in Python, so that a method of theirs could be replaced.
MEASURED_BY = {
    "torch._ops": ("OperatorBase", "OpOverload", "OpOverloadPacket", "_OpNamespace"),
    "torch.overrides": ("BaseTorchFunctionMode", "TorchFunctionMode"),
    "torch.utils._python_dispatch": ("BaseTorchDispatchMode", "TorchDispatchMode"),
}
# What gives away any object of the process: no exercise needs it.
SEARCHES = ("gc.get_objects", "gc.get_referents", "gc.get_referrers")
PATCHED_EXTENSIONS = ("torch._C",)  # loading one again would put back what is counted with
ASKED_BY_CTYPES = ("ctypes.dlsym", "ctypes.dlsym/handle")
NATIVE = ("Py", "_Py", "_Z", "dlsym", "dlvsym")  # functions of Python, torch's in C++, and those that find a function
OF_TESTS = ("_test", "_xx")  # extensions that Python tests itself with: they hand out any code, or another interpreter
M_PERTURB, PERTURBED = -6, 0xA5  # of glibc's mallopt, and the byte that is written
KEPT_APART, OF_A_SIZE = 1040, 16  # bytes up to which glibc keeps freed pieces by size, and more than it keeps of each
IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
FLAGS_AT, BUILTINS_AT = 168, 24  # of a type and of a function, on a 64-bit Python
WITHIN = (f"{OURS}.calls.", f"{OURS}.sandbox.")

_spaces: dict[int, Mapping[str, Any]] = {}  # by their id: whoever runs in one of these is sealed
_fixed: dict[int, Mapping[str, Any]] = {}  # functions with these global names are readable, and can't be changed
_suspicions: list[str] = []
_sealed: list[bool] = []
_searching: list[bool] = []  # we, in the garbage collector
_GET_OBJECTS = gc.get_objects


def seal_space(space: dict[str, Any]) -> None:
    """Has functions and frames with these globals show neither their names nor their code, once `conceal` has run."""
    _spaces[id(space)] = space


def own_builtins() -> None:
    """Gives our functions built-ins of their own, once in a process: a learner's code may replace Python's `sorted`."""
    own = {**vars(builtins)}
    for module in [module for name, module in sys.modules.items() if name.startswith(WITHIN)]:
        vars(module)["__builtins__"] = own  # for functions that are made later
        classes = [value for value in vars(module).values() if isinstance(value, type)]
        for value in [value for names in (vars(module), *map(vars, classes)) for value in names.values()]:
            for function in (value, *(getattr(value, part, None) for part in ("__func__", "fget", "__wrapped__"))):
                if isinstance(function, types.FunctionType) and function.__globals__ is vars(module):
                    place = ctypes.c_void_p.from_address(id(function) + BUILTINS_AT)
                    whole: Any = function  # what types know of a function depends on the version of mypy
                    if place.value == id(whole.__builtins__):  # if this Python has them there
                        place.value = id(own)


def suspicions() -> list[str]:
    """The suspicious attempts since the last call, in a few words each: such as no answer to an exercise needs."""
    tried = _suspicions[:]
    _suspicions.clear()
    return tried


def collected() -> list[Any]:
    """Every object that the garbage collector knows of, except for those made before this process was forked."""
    _searching.append(True)
    try:
        return _GET_OBJECTS()
    finally:
        _searching.clear()


def conceal() -> None:
    """Hides the package, once in a process, before any of a learner's code has run."""
    if _sealed:
        return
    _sealed.append(True)
    modules = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == OURS}
    main = sys.modules.get("__main__")
    for module in (*modules.values(), *([main] if main else [])):
        seal_space(vars(module))
    own = _classes(modules.values())
    _fixed.update({id(names): names for names in (vars(sys.modules[name]) for name in MEASURED_BY)})
    _seal_functions_and_frames()
    _hide_subclasses(own)
    for kind in [kind for kind in own if kind.__name__ not in CHANGING] + _measured_by():
        _make_immutable(kind)
    for name in modules:
        del sys.modules[name]
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.meta_path.insert(0, _Nowhere())
    sys.addaudithook(_noting())


def _classes(modules: Any) -> list[type]:
    """The classes of this package that these modules hold, each once."""
    classes = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    return list({id(value): value for value in classes if value.__module__.partition(".")[0] == OURS}.values())


def _measured_by() -> list[type]:
    """torch's classes by which a call is measured, `MEASURED_BY`, as far as they are imported."""
    named = [(sys.modules.get(module), name) for module, names in MEASURED_BY.items() for name in names]
    return [getattr(module, name) for module, name in named if hasattr(module, name)]


class _Nowhere(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An import finder before Python's own that hides this package, except for what notebooks import from it."""

    def __init__(self) -> None:
        self.note = _suspicions.append

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module that notebooks import from this package; None for all that is not ours. Raises
        ModuleNotFoundError for the rest of it."""
        if fullname.partition(".")[0] != OURS:
            return None
        if fullname in (OURS, NOTEBOOK):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname == OURS)
        self.note(f"import {fullname[:80]}")
        raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

    def exec_module(self, module: types.ModuleType) -> None:
        """Fills a module that notebooks import with functions that do nothing."""
        if module.__name__ == NOTEBOOK:
            module.__dict__.update(dict.fromkeys(DOORS, _done))


def _done(*given: object, **named: object) -> None:
    """Does nothing: stands for the functions that notebooks import."""


def _noting() -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that notes suspicious attempts, and refuses some imports and native functions."""
    note, searches, patched, tests = _suspicions.append, SEARCHES, PATCHED_EXTENSIONS, OF_TESTS
    asked_by_ctypes, native, as_text = ASKED_BY_CTYPES, NATIVE, str
    searching = _searching
    wait, put_off = no_compiler.kernels_wait, no_compiler.FILES_OF_KERNELS

    def notice(event: str, arguments: tuple[Any, ...]) -> None:
        """The hook. Raises RuntimeError or ImportError for what is refused."""
        if event in searches:
            if searching:
                return
            note(event)
            raise RuntimeError(f"{event}: not in an exercise")
        if event in asked_by_ctypes and as_text(arguments[-1]).startswith(native):
            note(f"ctypes: {arguments[-1]}"[:80])
            raise RuntimeError(f"ctypes: {arguments[-1]}: not in an exercise")
        if event == "exec" and wait and any(file in arguments[0].co_filename for file in put_off):
            note(
                f"load {arguments[0].co_filename}"
            )  # by another way than import, which would have them looked at first
            raise ImportError(arguments[0].co_filename)
        if (
            event == "import"
            and arguments[1]
            and (arguments[0] in patched or arguments[0].rpartition(".")[2].startswith(tests))
        ):
            note(f"load {arguments[0]}")
            raise ImportError(arguments[0])

    return notice


# --- memory -----------------------------------------------------------------------------------------------------------


def wipe_freed(on: bool) -> None:
    """Switches the overwriting of freed memory on or off: `torch.empty` returns memory with its old content. Only glibc
    can do it."""
    libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_PERTURB, PERTURBED if on else 0)
        if on:
            _overwrite_small(libc)


def _overwrite_small(libc: Any) -> None:
    """Overwrites the freed pieces that glibc keeps apart for each size, which it does not do by itself."""
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    pieces = [(libc.malloc(size), size) for size in range(16, KEPT_APART, 16) for _count in range(OF_A_SIZE)]
    for place, size in pieces:
        ctypes.memset(place, PERTURBED, size)
        libc.free(place)


# --- attributes of types ----------------------------------------------------------------------------------------------


def _seal_functions_and_frames() -> None:
    """Has the attributes of our functions and frames that lead to names of ours give empty ones."""
    _seal(
        types.FunctionType,
        "__globals__",
        {"__globals__": _no_names, "__builtins__": _no_names, "__closure__": _nothing, "__code__": _hull},
        ("__defaults__", "__kwdefaults__"),
    )
    names = dict.fromkeys(("f_globals", "f_builtins", "f_locals"), _no_names)
    of_code = {"f_code": _hull, "f_generator": _nothing}  # the latter from Python 3.14 on
    _seal(types.FrameType, "f_globals", {**names, **of_code}, ("f_trace", "f_lineno"))


def _seal(kind: type, space_of: str, shown: Mapping[str, Callable[[Any], Any]], unchangeable: Sequence[str]) -> None:
    """Changes the attributes of functions or frames whose globals, their attribute `space_of`, were given to
    `seal_space`: those in `shown` give what its function makes of the value, and these and the `unchangeable` ones
    can't be set or deleted.

    Python has no means for that, so the type's dictionary is changed.
    """
    attributes = _names_of(kind)
    space, identity, spaces, fixed = attributes[space_of].__get__, id, _spaces, _fixed

    def sealed(name: str, stand_in: Callable[[Any], Any] | None) -> property:
        """The property in place of the attribute; without a `stand_in` it gives the value itself."""
        original = attributes[name]

        def get(thing: Any) -> Any:
            found = original.__get__(thing)
            return stand_in(found) if stand_in and identity(space(thing)) in spaces else found

        def put(thing: Any, value: Any) -> None:
            if identity(space(thing)) in spaces or (name == "__code__" and identity(space(thing)) in fixed):
                raise AttributeError(name)
            original.__set__(thing, value)

        def delete(thing: Any) -> None:
            if identity(space(thing)) in spaces:
                raise AttributeError(name)
            original.__delete__(thing)

        return property(get, put, delete)

    attributes.update({name: sealed(name, shown.get(name)) for name in (*shown, *unchangeable) if name in attributes})
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _hide_subclasses(own: Sequence[type]) -> None:
    """Leaves our classes out of what `__subclasses__` lists."""
    attributes, identity, hidden = _names_of(type), id, {id(kind) for kind in own}
    original = attributes["__subclasses__"]

    def subclasses(kind: type) -> list[type]:
        return [each for each in original(kind) if identity(each) not in hidden]

    attributes["__subclasses__"] = subclasses
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(type))


def _make_immutable(kind: type) -> None:
    """Makes a class of ours immutable: code that finds an instance of it could change it."""
    flags = ctypes.c_ulong.from_address(id(kind) + FLAGS_AT)
    if flags.value == kind.__flags__:  # if this Python keeps them there
        flags.value |= IMMUTABLE


def _names_of(kind: type) -> dict[str, Any]:
    """The dictionary of a type itself, which can be changed, and not the read-only view that Python gives."""
    (names,) = gc.get_referents(kind.__dict__)
    return names  # type: ignore[no-any-return]


def _no_names(found: Mapping[str, Any]) -> dict[str, Any]:
    """A new namespace with the name and file of the module of this one, and no more."""
    return {name: found[name] for name in ("__name__", "__file__") if name in found}


def _nothing(found: object) -> None:  # no docstring: `_hull` takes this code with None as its first constant
    return None


NOTHING = _nothing.__code__


def _hull(code: types.CodeType) -> types.CodeType:
    """A code object of the same signature and place that does nothing."""
    return code.replace(
        co_code=NOTHING.co_code, co_consts=(None,), co_names=(), co_exceptiontable=b"", co_freevars=(),
        co_stacksize=NOTHING.co_stacksize,
    )  # fmt: skip
