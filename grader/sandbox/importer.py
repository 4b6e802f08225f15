"""Imports the files of a submission from memory: none of them is on a disk that the worker can read."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import linecache
import re
import types
from collections.abc import Mapping, Sequence

PACKAGE = "exercises"
STEP_MODULE = re.compile(r"step\d{2}_\w+")


class SubmissionImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports `exercises.name` from the sources given, and `stepNN_name` alone as the same module.

    Of a module in `public`, a reference, others see these names alone. `asked` notes each step of the course that an
    import asks for, whether it is there or not.
    """

    def __init__(self, sources: Mapping[str, tuple[str, str]], public: Mapping[str, Sequence[str]] = {}) -> None:
        self.sources, self.public = sources, public
        self.asked: dict[str, bool] = {}  # and whether that was reported

    def newly_asked(self) -> list[str]:
        """The steps that imports have asked for since this was called last."""
        names = [name for name, reported in self.asked.items() if not reported]
        self.asked.update(dict.fromkeys(names, True))
        return names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module of the submission, or None for all others."""
        package, _dot, name = fullname.rpartition(".")
        if package in ("", PACKAGE) and STEP_MODULE.fullmatch(name):
            self.asked.setdefault(name, False)
        if fullname == PACKAGE:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        if (package == PACKAGE or (not package and STEP_MODULE.fullmatch(name))) and name in self.sources:
            return importlib.machinery.ModuleSpec(fullname, self)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        """A file imported by its bare name is the package's module itself."""
        if "." not in spec.name and spec.name != PACKAGE:
            return importlib.import_module(f"{PACKAGE}.{spec.name}")
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the source of a module of the package."""
        package, _dot, name = (module.__spec__.name if module.__spec__ else "").rpartition(".")
        if package != PACKAGE:
            return
        filename, source = self.sources[name]
        module.__file__ = filename
        if name in self.public:
            inner = {"__name__": module.__name__, "__file__": filename}
            exec(compile(source, filename, "exec", dont_inherit=True), inner)
            module.__dict__.update({name: inner[name] for name in self.public[name] if name in inner})
            return
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(compile(source, filename, "exec", dont_inherit=True), module.__dict__)  # what a worker is for


class BesideImporter(importlib.abc.MetaPathFinder):
    """Imports any other file of a submission by its bare name, as a script finds the files beside it.

    It is the last finder: `import random` gets Python's own module, never a learner's `random.py`.
    """

    def __init__(self, importer: SubmissionImporter) -> None:
        self.importer = importer

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a file of the submission, or None for all others."""
        return importlib.machinery.ModuleSpec(fullname, self.importer) if fullname in self.importer.sources else None
