"""Imports the files of a submission from memory: none of them is on a disk that the worker can read."""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import importlib.machinery
import linecache
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grader.base.limits import IMPORTABLE
from grader.calls import private_torch
from grader.sandbox.conceal import OURS, seal_space
from grader.sandbox.top_level import TopLevel

PACKAGE = "exercises"
STEP_MODULE = re.compile(r"step\d{2}_\w+")
# What gives away any object, frame or code of the process.
TELLING = (
    "gc.get_objects", "gc.get_referents", "gc.get_referrers", "sys.addaudithook", "sys.setprofile", "sys.settrace",
    "sys.monitoring.register_callback", "sys._current_frames", "sys._current_exceptions",
)  # fmt: skip
OF_GENERATORS = ("gi_code", "cr_code", "ag_code")
IMPORTING = ("grader.", "importlib", "_frozen_importlib")  # the modules that import for others
REFUSAL = "not while the reference of an earlier step is in its place"


class SubmissionImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports `exercises.name` from the sources given, and `stepNN_name` alone as the same module.

    Of a module in `public`, a reference, others see these names alone; it is removed from `sources`. `asked` notes each
    step of the course that an import asks for, whether it is there or not.
    """

    def __init__(
        self,
        sources: dict[str, tuple[str, str]],
        public: Mapping[str, Sequence[str]] = {},
        seconds: float = 5.0,
        packages: Sequence[str] = (),
    ) -> None:
        self.references = _sealed({name: sources.pop(name) for name in public}, public) if public else {}
        self.sources: Mapping[str, tuple[str, str]] = sources
        self.asked: dict[str, bool] = {}  # and whether that was reported
        self.top_level = TopLevel(seconds)
        self._importable = IMPORTABLE.union(packages, self.sources, self.references, (PACKAGE, OURS))
        self._files = frozenset(filename for filename, _source in self.sources.values())
        self._loaded_before = frozenset(sys.modules)

    def newly_asked(self) -> list[str]:
        """The names of the steps that imports have asked for since this was called last."""
        names = [name for name, reported in self.asked.items() if not reported]
        self.asked.update(dict.fromkeys(names, True))
        return names

    def forget(self) -> None:
        """Takes the modules of the submission out of this process."""
        own = (name for name in sys.modules if name.partition(".")[0] == PACKAGE or name in self.sources)
        for name in [name for name in own if name not in self._loaded_before]:
            del sys.modules[name]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module of the submission, or None for all others."""
        package, _dot, name = fullname.rpartition(".")
        if package in ("", PACKAGE) and STEP_MODULE.fullmatch(name):
            self.asked.setdefault(name, False)
        if fullname == PACKAGE or (fullname == OURS and OURS in self.sources):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        if (package == PACKAGE or (not package and STEP_MODULE.fullmatch(name))) and (
            name in self.sources or name in self.references
        ):
            return importlib.machinery.ModuleSpec(fullname, self)
        if not package and fullname not in self._importable and self._is_asking():
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None

    def _is_asking(self) -> bool:
        """True if the submission imports, and not a library."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and str(frame.f_globals.get("__name__")).startswith(IMPORTING):
            frame = frame.f_back
        return frame is not None and frame.f_code.co_filename in self._files

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        """The package's module for a file imported by its bare name; None for the rest, of which Python makes one."""
        if "." not in spec.name and spec.name != PACKAGE:
            return importlib.import_module(f"{PACKAGE}.{spec.name}")
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the source of a module of the package in it; of a reference, gives it the public names alone."""
        package, _dot, name = (module.__spec__.name if module.__spec__ else "").rpartition(".")
        if package != PACKAGE:
            return
        if name in self.references:
            module.__dict__.update(self.references[name]())
            return
        filename, source = self.sources[name]
        module.__file__ = filename
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        self.top_level.run(source, filename, module.__dict__)


class BesideImporter(importlib.abc.MetaPathFinder):
    """Imports any other file of a submission by its bare name, as a script finds the files next to it."""

    def __init__(self, importer: SubmissionImporter) -> None:
        self.importer = importer

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a file of the submission, or None for all others."""
        return importlib.machinery.ModuleSpec(fullname, self.importer) if fullname in self.importer.sources else None


def _sealed(
    sources: Mapping[str, tuple[str, str]], public: Mapping[str, Sequence[str]]
) -> dict[str, Callable[[], dict[str, Any]]]:
    """For each reference, by its module's name, a function that runs it and returns its public names: all of it that
    the rest of the process gets. `sources`: displayed file name and text. From now on frames can't be read here."""
    plain = vars(builtins).copy()
    execute, package, seal = exec, PACKAGE, seal_space

    def run_of(name: str, filename: str, code: types.CodeType) -> Callable[[], dict[str, Any]]:
        """The function that runs one compiled reference."""

        def run() -> dict[str, Any]:
            """The public names of the reference, by name, once its code has run in a namespace of its own."""
            # Built-ins of its own: an import is a call of one of them, with the names next to it.
            space = {"__name__": f"{package}.{name}", "__file__": filename, "__builtins__": {**plain}}
            seal(space)
            execute(code, space)
            return {each: space[each] for each in ("__file__", *public[name]) if each in space}

        return run

    runs = {
        name: run_of(name, filename, compile(source, filename, "exec", dont_inherit=True))
        for name, (filename, source) in sources.items()
    }
    _refuse_access_to_frames()
    return runs


def _refuse_access_to_frames() -> None:
    """Has all functions that give access to other code's frames raise RuntimeError, for good."""
    telling, of_generators, refusal = TELLING, OF_GENERATORS, REFUSAL  # names that cannot be replaced later

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in telling or (event == "object.__getattr__" and arguments[1] in of_generators):
            raise RuntimeError(f"{refusal}: {event}")

    def refuse_frames(*given: object) -> None:
        raise RuntimeError(f"{refusal}: torch's compiler")

    sys.addaudithook(refuse)
    for setter in private_torch.FRAME_SETTERS:  # to what they are given torch hands any frame
        private_torch.put(setter, lambda _original: refuse_frames)
