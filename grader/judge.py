"""The judging process: one pytest session, collected once, that grades submission after submission.

It never imports a learner's code. Requests come over a channel from whoever wants a report; each check runs as a pytest
item, its `student` answered by a worker and its `reference` by the solutions here.
"""

from __future__ import annotations

import io
import os
import socket
import struct
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Literal

import msgspec

from grader.limits import Limits
from grader.results import StepResult

LENGTH = struct.Struct("<I")
# Bytes that a judge may take beside what it begins with. Answers are bounded, what a check makes of them is not: one of
# a shape that nobody thought of can be spread over another, and a machine out of memory ends other students' processes.
MEMORY = 4 << 30
# Built-in plug-ins that a judge has no use for; each costs time at every check.
UNUSED_PLUGINS = (
    "cacheprovider", "stepwise", "doctest", "junitxml", "pastebin", "nose", "unittest", "faulthandler", "logging",
    "debugging", "recwarn", "setuponly", "setupplan", "tmpdir", "monkeypatch", "warnings", "unraisableexception",
    "threadexception", "legacypath", "capture", "skipping", "terminal", "reports", "subtests",
)  # fmt: skip


class GradeRequest(msgspec.Struct):
    """One submission to grade: which steps, on which devices, under which seed, in which language."""

    sources: dict[str, tuple[str, str]]
    problems: dict[str, str]
    steps: list[str]
    device: str
    seed: int
    language: str
    limits: Limits


class StepGraded(msgspec.Struct, tag=True):
    """One step is done: its result, and the other steps of the submission that its file imported."""

    result: StepResult
    imported: list[str]


class Finished(msgspec.Struct, tag=True):
    """Every step asked for is done: what became of the devices, which layers isolated the code, and what knew the
    right answers: the reference, or a recording of it."""

    devices: dict[str, str]
    isolation: list[str]
    oracle: Literal["live", "recorded"] = "live"


class Broken(msgspec.Struct, tag=True):
    """The judge itself failed."""

    reason: str


class Unmet(msgspec.Struct, tag=True):
    """Nothing was run: on this device the required `layers` would not be in force."""

    device: str
    layers: list[str]


class Ready(msgspec.Struct, tag=True):
    """The checks are collected."""


Event = StepGraded | Finished | Unmet | Broken | Ready


class Channel:
    """Whole messages over a stream socket, between two processes that trust each other."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream  # read without a buffer, so that a selector knows what is still to come

    def send(self, message: msgspec.Struct) -> None:
        """Sends one message."""
        data = msgspec.msgpack.encode(message)
        self.stream.sendall(LENGTH.pack(len(data)) + data)

    def receive(self, kind: Any) -> Any:
        """The next message, None when the other side has closed."""
        try:
            prefix = self.stream.recv(LENGTH.size, socket.MSG_WAITALL)
            if len(prefix) < LENGTH.size:
                return None
            return msgspec.msgpack.decode(self.stream.recv(LENGTH.unpack(prefix)[0], socket.MSG_WAITALL), type=kind)
        except (ConnectionError, msgspec.DecodeError):  # the other side died, perhaps half-way through a message
            return None

    def close(self) -> None:
        """Closes the channel."""
        self.stream.close()

    def __iter__(self) -> Iterator[GradeRequest]:
        while (request := self.receive(GradeRequest)) is not None:
            yield request


def main(
    stream: socket.socket, control: socket.socket | None, proven: Sequence[str] = (), board: int | None = None
) -> None:
    """Collects the checks and serves requests until the other side closes.

    `control` leads to the zygote, if any, which has found the `proven` layers to hold. On the `board`, a
    file, judges side by side note which processor they take.
    """
    channel = Channel(stream)
    try:
        _serve(channel, control, proven, board)
    except BaseException:
        channel.send(Broken(traceback.format_exc(limit=-6)))


def _serve(channel: Channel, control: socket.socket | None, proven: Sequence[str], board: int | None) -> None:
    import pytest
    import torch

    from grader import course
    from grader.plugin import Session
    from grader.sandbox import ForkLauncher, Launcher, SpawnLauncher

    launcher: Launcher = ForkLauncher(control, proven) if control is not None else SpawnLauncher(str(course.ROOT))
    session = Session(channel, launcher, board)
    if control is not None and not torch.cuda.is_available():  # a driver maps more than any bound
        _bound_memory()
    said = io.StringIO()
    arguments = [part for name in UNUSED_PLUGINS for part in ("-p", f"no:{name}")]
    arguments += ["--assert=plain", "--import-mode=importlib", "-c", os.devnull, f"--rootdir={course.ROOT}"]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # one that happens to be installed might shuffle the checks
    os.chdir(course.ROOT)  # what is above may have brackets and colons in its name, which mean something to pytest
    files = [step.check_file for step in course.steps() if step.check_file.is_file()]
    arguments += [str(file.relative_to(course.ROOT)) for file in files]
    debugging = os.environ.get("KIT_DEBUG")
    with redirect_stdout(sys.stderr if debugging else said), redirect_stderr(sys.stderr if debugging else said):
        code = pytest.main(arguments, plugins=[session])
    if not session.started or code == pytest.ExitCode.INTERNAL_ERROR:
        channel.send(Broken(said.getvalue()[-2000:] or f"pytest ended with {code} before a check ran"))


def _bound_memory() -> None:
    """What goes beyond `MEMORY` raises an error in the check that asks for it. Linux only, as forked judges are."""
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))
