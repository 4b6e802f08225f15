"""The messages to and from a judge, and the channel that carries them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Literal

import msgspec

from grader.base.limits import Limits
from grader.base.results import Reproduction, StepResult

LENGTH = struct.Struct("<I")


class GradeRequest(msgspec.Struct):
    """One submission to grade: which steps, on which devices, under which seed, in which language.

    `references`: the modules among the sources that are references, each with its public names; with any, nothing is
    shown that the learner's code chose. `in_order`: a step that imports others is not diagnosed yet, since it may be
    blocked by one of them.
    """

    sources: dict[str, tuple[str, str]]
    problems: dict[str, str]
    steps: list[str]
    device: str
    seed: int
    language: str
    limits: Limits
    references: dict[str, list[str]] = {}
    reproduce: bool = False
    in_order: bool = False
    run: int = 0  # the number of the submission's run in which its steps may share a worker; 0: none may
    repeats: bool = False  # other submissions, or later versions, are asked under the same seed
    is_over: bool = False  # this run is, and nothing is answered
    prepare: bool = False  # nothing is graded: the reference answers what the checks will ask under this seed
    tells: bool = False  # each check is announced before it runs


class Route(StrEnum):
    """A way in which a step is graded, with the reason for it: `routes.py` decides."""

    NOT_RUN = "there is nothing to run: a stub, no file, or a device or package is missing"
    FEW_MESSAGES = "in a right answer nothing has to be looked at twice"
    CALL_BY_CALL = "a check failed, or its calls have to be seen one by one"
    ON_REFERENCES = "what it imports is wrong or absent, and references take its place"
    WITHOUT_DIAGNOSIS = "a check failed, perhaps for what the step imports, which is graded first"


class StepGraded(msgspec.Struct, tag=True, frozen=True):
    """One step is done: its result, the other steps that its imports asked for, whether they were there or not, the way
    in which it was graded, and if that was requested, the first call that fails as a program."""

    result: StepResult
    imported: list[str]
    route: Route
    reproduction: Reproduction | None = None


class Asking(msgspec.Struct, tag=True):
    """The next check of a step, by its title; `failed` is the message of the first that has failed so far."""

    step: str
    title: str
    failed: str = ""


class Finished(msgspec.Struct, tag=True):
    """Every requested step is graded: the state of each device, the layers that isolated the code, and the source of
    the right answers: the reference, or a recording of it."""

    devices: dict[str, str]
    isolation: list[str]
    oracle: Literal["live", "recorded"] = "live"


class Broken(msgspec.Struct, tag=True):
    """The judge itself failed."""

    reason: str


class Unmet(msgspec.Struct, tag=True):
    """Nothing was run: on this device the required `layers` would not be in force; without any, torch knows no such
    device."""

    device: str
    layers: list[str]


Event = StepGraded | Asking | Finished | Unmet | Broken


class Channel:
    """Whole messages over a stream socket, between two processes that trust each other."""

    def __init__(self, stream: socket.socket, pid: int = 0) -> None:
        """`stream` is one end of a connected socket, `pid` the process at the other end, if that is known."""
        self.stream, self.pid = stream, pid  # unbuffered, so that a selector sees all pending data; the other process

    def send(self, message: msgspec.Struct) -> None:
        """Sends one message."""
        data = msgspec.msgpack.encode(message)
        self.stream.sendall(LENGTH.pack(len(data)) + data)

    def receive(self, kind: Any) -> Any:
        """The next message, of the type `kind` or one of its union; None once the other side has closed or died."""
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
        """Yields grade requests until the other side has closed."""
        while (request := self.receive(GradeRequest)) is not None:
            yield request
