"""The process that runs a learner's code: the only one that imports it, and one that holds nothing worth reading.

It gets the learner's files as text from the judge, imports the step from memory, and answers calls until told no more.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.abc
import importlib.machinery
import io
import linecache
import os
import re
import signal
import sys
import traceback
import types
import warnings
from collections.abc import Mapping, Sequence
from typing import BinaryIO

import msgspec
import torch
from torch import nn

from grader.frames import PREFIX
from grader.limits import Limits
from grader.messages import (
    Call,
    Options,
    Outcome,
    Raised,
    decode_call,
    decode_load,
    decode_outcome,
    encode_call,
    encode_outcome,
)
from grader.responder import Responder

PACKAGE = "exercises"
INTERNALS = re.compile(r"\s*\(Triggered internally at .*\)")  # torch's word on its own source
STEP_MODULE = re.compile(r"step\d{2}_\w+")


class SubmissionImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports `exercises.name` from the sources given, and `stepNN_name` alone as the same module."""

    def __init__(self, sources: Mapping[str, tuple[str, str]]) -> None:
        self.sources = sources
        self.imported: list[str] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module of the submission, or None for all others."""
        package, _dot, name = fullname.rpartition(".")
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
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(compile(source, filename, "exec", dont_inherit=True), module.__dict__)  # what a worker is for
        self.imported.append(name)


class BesideImporter(importlib.abc.MetaPathFinder):
    """Imports any other file of a submission by its bare name, as a script finds what lies beside it.

    It is asked last: nobody gets a learner's `random.py` who asks for Python's own.
    """

    def __init__(self, importer: SubmissionImporter) -> None:
        self.importer = importer

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a file of the submission, or None for all others."""
        return importlib.machinery.ModuleSpec(fullname, self.importer) if fullname in self.importer.sources else None


def serve(requests: BinaryIO, answers: BinaryIO, faults: int) -> None:
    """Loads what the first message says and answers calls until the judge closes the channel."""
    faulthandler.enable(file=faults, all_threads=False)
    if hasattr(faulthandler, "register"):
        # The judge asks where a late answer hangs by this signal, and reads the answer from `faults`.
        faulthandler.register(signal.SIGUSR1, file=faults, all_threads=False, chain=False)
    first = _read_frame(requests)
    if first is None:
        return
    load = decode_load(first[0])
    responder, outcome = _loaded(load.module, load.sources, load.off_limits)
    _send(answers, outcome)
    _answer(requests, answers, responder)


def rehearse() -> None:
    """Answers calls, and reads the answers, for nothing but that the processes forked from this one begin with it done.

    Python adapts a function's code to what it is given once it has run eight times. No gradients: torch can't be forked
    once it has differentiated.
    """
    x, options = torch.ones(2, 3, 4), Options(largest=True, functions=True)
    responder = Responder({"function": torch.matmul, "Module": nn.Linear}, {"function": ("softmax",)})
    module = Call("Module", (4, 4), {"bias": False}, new_handle=1, options=Options(seed=1))
    load = Call("load_parameters", ({"weight": x[0].mT @ x[0]}, True), handle=1)
    for _time in range(10):
        for call in (
            Call("function", (x, x.mT), begin=1),
            Call("function", (x,), {"other": x.mT}, options=options),
            Call("function", (x, x.mT), options=Options(device="meta")),
            Call("__call__", (x,), handle=1, first=(module, load)),
            Call("parameters", handle=1),
            Call("function"),
        ):
            answers = io.BytesIO()
            _answer(io.BytesIO(encode_call(call)), answers, responder)
            answers.seek(0)
            if frame := _read_frame(answers):
                decode_outcome(*frame)


def _answer(requests: BinaryIO, answers: BinaryIO, responder: Responder) -> None:
    while (frame := _read_frame(requests)) is not None:
        _send(answers, responder.respond(decode_call(*frame)))


def _loaded(
    module_name: str, sources: Mapping[str, tuple[str, str]], off_limits: Mapping[str, tuple[str, ...]]
) -> tuple[Responder, Outcome]:
    importer = SubmissionImporter(sources)
    sys.meta_path[:] = [importer, *sys.meta_path, BesideImporter(importer)]
    filenames = {filename for filename, _source in sources.values()}
    _warn_of_lines_in(filenames)
    names: dict[str, object] = {}
    responder = Responder(names, off_limits, filenames.__contains__)
    outcome = Outcome()
    try:
        names.update(vars(importlib.import_module(f"{PACKAGE}.{module_name}")))
    except BaseException as error:  # a learner's module may raise anything at all
        outcome.raised = responder.describe(error)
    outcome.imported = sorted(name for name in importer.imported if name != module_name)
    return responder, outcome


def _warn_of_lines_in(filenames: set[str]) -> None:
    """Has warnings name the learner's line, also where it is torch or a line of ours that warns."""

    def show(message: object, category: type[Warning], *place: object, **more: object) -> None:
        frames = (frame for frame, _line in traceback.walk_stack(None))
        own = next((frame for frame in frames if frame.f_code.co_filename in filenames), None)
        where = f"{own.f_code.co_filename}:{own.f_lineno}: " if own else ""
        sys.stderr.write(f"{where}{category.__name__}: {INTERNALS.sub('', str(message))}\n")

    warnings.showwarning = show


def _read_frame(stream: BinaryIO) -> tuple[bytes, bytes] | None:
    prefix = stream.read(PREFIX.size)
    if len(prefix) < PREFIX.size:
        return None
    header, payload = PREFIX.unpack(prefix)
    return stream.read(header), stream.read(payload)


def _send(answers: BinaryIO, outcome: Outcome) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a learner may have closed or replaced them
            stream.flush()  # what was printed is lost if the process is killed before
    try:
        data = encode_outcome(outcome)
    except Exception as error:  # an object of the learner's that pretends to be what it is not
        data = encode_outcome(Outcome(raised=Raised(type(error).__name__, "this answer can't be sent")))
    answers.write(data)
    answers.flush()


def main(root: str, folder: str, limits: str) -> None:
    """Serves over standard input and output: how a worker runs where it can't be forked.

    `root` is where this package is imported from; a learner's code must find neither it nor its folder afterwards.
    """
    from grader import isolation, namespaces, preload, sandbox

    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    if sys.platform == "linux":
        isolation.prctl(isolation.PR_SET_PDEATHSIG, signal.SIGKILL)
    preload.load_torch()
    preload.warm_up()  # some of it reads files that the sandbox hides
    readable = isolation.readable_paths(root)
    sys.path[:] = [entry for entry in sys.path if entry != root]
    sys.argv[:] = sys.orig_argv[:] = [""]
    bounds = msgspec.json.decode(limits, type=Limits)
    spaces = None if bounds.accelerator else namespaces.make(folder, readable, isolation.library_places())
    answers.write(sandbox.report_set_up(sandbox.restrict(bounds, folder, readable, (), spaces)))
    answers.flush()
    serve(requests, answers, 2)
