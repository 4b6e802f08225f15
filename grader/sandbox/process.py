"""Starts a worker, limits it, times it and kills it.

Deadlines are enforced here, in the judge, and never by the code that is graded. A worker is forked from the zygote
if there is one, else spawned: slower, with the same answers.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import msgspec

from grader.base.limits import Limits
from grader.calls.framing import NEXT_STEP, PREFIX, BadMessage, frame, frame_sizes

FAULT_LINE = re.compile(r'File "([^"\n]{1,200})", line (\d{1,7}) in ([\w<>.]{1,100})')
FAULTS_KEPT = 16 << 10
LAYERS_EVERYWHERE = ("process", "limits")
SLACK_SECONDS = 5  # of a processor, which the kernel grants a process beyond the seconds of a step
SLACK_SHARE = 32  # of its memory: one part may be in use when a step takes a process over
RENEWAL_SECONDS = 5.0  # to leave a step and look at what is left of it
SET_UP_SECONDS = 60.0  # to start a worker: never counted against a learner's code


class NoAnswer(Exception):
    """A worker did not answer. `why` is "late", "ended" or "full" (it wrote too much).

    `place` is (file, line, function) in the submission, if known. It is what the worker reports, and not to be trusted.
    """

    def __init__(self, why: str, status: int | None = None, place: tuple[str, int, str] | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.status = status
        self.place = place


class SandboxError(RuntimeError):
    """A worker could not be started: a fault of the grader or of the machine."""


class TooMuchWritten(Exception):
    """A worker has used up its disk quota."""


@dataclass(frozen=True)
class ResourceUse:
    """Processor seconds, and the bytes of its address space."""

    seconds: float
    space: int


class Process(Protocol):
    """A started worker, however it was started."""

    layers: tuple[str, ...]  # in force for it

    def send(self, data: bytes, deadline: float) -> None:
        """Sends all of `data`.

        Raises TimeoutError past the deadline (time.monotonic), EOFError or OSError when it has exited, TooMuchWritten,
        and BadMessage when it has sent something unsolicited.
        """

    def receive(self, count: int, deadline: float) -> bytes:
        """Exactly `count` bytes of its answers. Raises as `send` does."""

    def pause(self) -> None:
        """Stops the process until the next `send`, if the system allows that: an answer has come, and none is due."""

    def printed(self) -> str:
        """The process's output so far, truncated."""

    def faults(self, wait: float) -> str:
        """The output of its fault handler, after waiting up to `wait` seconds for some."""

    def ask_where(self) -> None:
        """Makes its fault handler dump the stack, if that is possible."""

    def kill(self) -> int | None:
        """Kills the process and every descendant. Returns its wait status (os.waitpid), None when unknown."""

    def dismiss(self) -> None:
        """Kills the process like `kill`, without waiting."""

    def used(self) -> ResourceUse | None:
        """The processor time and memory that it has used so far; None if the system doesn't tell, or it has ended."""

    def rest(self) -> None:
        """Stops the process until the next `send`, wherever its files are: another step may follow."""

    def resume(self) -> None:
        """Starts a step as a new process does: pinned as this process is, with nothing printed."""

    def ended(self) -> int | None:
        """Waits for a process whose channel has closed. Returns its wait status, None when unknown."""


class Launcher:
    """Starts workers, and keeps the isolation layers that those of a run had."""

    def __init__(self) -> None:
        self._had: list[tuple[str, ...]] = []

    def launch(self, limits: Limits) -> Process:
        """A new worker. Raises SandboxError if none can be started."""
        raise NotImplementedError

    def promised(self, limits: Limits) -> tuple[str, ...]:
        """The layers that a worker with these limits will have, determined before any learner's code runs."""
        raise NotImplementedError

    def begin_run(self) -> None:
        """Starts a run: `in_force` covers the workers started from here on."""
        self._had.clear()

    def in_force(self, limits: Limits) -> tuple[str, ...]:
        """The layers that every worker of the run had; the promised ones when none was started."""
        return tuple(name for name in self.promised(limits) if all(name in layers for layers in self._had))

    def _note(self, process: Process) -> None:
        """Waits until a new worker is confined, sets its `layers`, and counts it as one of this run. Raises
        SandboxError."""
        process.layers = (*LAYERS_EVERYWHERE, *await_set_up(process))
        self._had.append(process.layers)

    def note_again(self, process: Process) -> None:
        """Counts a worker that takes over another step as one of this run."""
        self._had.append(process.layers)


class Worker:
    """One worker: frames in, frames out, each within its deadline."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._at_first = process.used()

    def can_go_on(self, limits: Limits) -> bool:
        """True if the process has used so little time and memory that the next step would have what a new process has;
        False if the system doesn't tell."""
        now = self.process.used()
        if now is None or self._at_first is None:
            return False
        return now.seconds < SLACK_SECONDS and now.space - self._at_first.space < limits.memory // SLACK_SHARE

    def renewed(self) -> bool:
        """Makes the process leave its step. Returns True if nothing of that step remains that could affect the next
        one; False also if it doesn't answer."""
        try:
            self.process.resume()
            header, _payload = self.exchange(frame(*NEXT_STEP), RENEWAL_SECONDS)
            return msgspec.msgpack.decode(header, type=bool) and not self.process.printed()
        except (NoAnswer, BadMessage, OSError, msgspec.MsgspecError):
            return False

    def exchange(self, data: bytes, seconds: float) -> tuple[bytes, bytes]:
        """Sends a frame and waits for the answer's header and payload.

        Raises NoAnswer if it timed out or the process exited, BadMessage when the answer's sizes are absurd. The
        worker is dead after either.
        """
        return self.exchange_all(data, 1, seconds)[0]

    def exchange_all(self, data: bytes, count: int, seconds: float) -> list[tuple[bytes, bytes]]:
        """Header and payload of each answer to the `count` frames joined in `data`. Raises as `exchange` does."""
        deadline = time.monotonic() + seconds
        try:
            self.process.send(data, deadline)
            answers = [self._received(deadline) for _frame in range(count)]
            self.process.pause()
            return answers
        except TimeoutError:
            self.process.ask_where()
            place = _place(self.process.faults(wait=1.0))
            self.process.kill()
            raise NoAnswer("late", place=place) from None
        except TooMuchWritten:
            self.process.kill()
            raise NoAnswer("full") from None
        except BadMessage:
            self.process.kill()
            raise
        except (EOFError, OSError):
            status = self.process.ended()
            raise NoAnswer("ended", status, _place(self.process.faults(wait=0.0))) from None

    def _received(self, deadline: float) -> tuple[bytes, bytes]:
        """The header and payload of the next answer. Raises as `Process.receive` does, and BadMessage."""
        header, payload = frame_sizes(self.process.receive(PREFIX.size, deadline))
        return self.process.receive(header, deadline), self.process.receive(payload, deadline)

    def close(self) -> None:
        """Kills the process without waiting for it."""
        self.process.dismiss()


def report_set_up(layers: Sequence[str]) -> bytes:
    """The first frame of a worker, sent before it has read any learner's code: it is confined, by these layers."""
    return frame(msgspec.msgpack.encode(list(layers)), b"")


def await_set_up(process: Process) -> list[str]:
    """Waits until a new worker is confined and returns its layers.

    Raises SandboxError if that fails: no learner's code has run yet, so it is never their fault.
    """
    deadline = time.monotonic() + SET_UP_SECONDS
    try:
        header, _payload = frame_sizes(process.receive(PREFIX.size, deadline))
        return msgspec.msgpack.decode(process.receive(header, deadline), type=list[str])
    except (TimeoutError, EOFError, OSError, ValueError, TooMuchWritten) as error:
        process.kill()
        printed = process.printed().strip()[-300:]
        raise SandboxError(printed or f"it was not set up ({type(error).__name__})") from error


def _place(faults: str) -> tuple[str, int, str] | None:
    """The innermost line of the submission in the fault handler's output, which is untrusted text: file, line and
    function; None without one."""
    for filename, line, function in FAULT_LINE.findall(faults):
        if not os.path.isabs(filename) and not filename.startswith("<"):
            return filename, int(line), function
    return None


# --- the messages to and from the zygote: small, one per packet -------------------------------------------------------


class Command(msgspec.Struct):
    """A client's request: fork a judge or a worker (descriptors are passed along), make a worker dump its stack, or
    kill it. A worker runs on `cpus`, or anywhere if the set is empty."""

    kind: Literal["judge", "worker", "where", "kill"]
    pid: int = 0
    limits: Limits | None = None
    cpus: set[int] = set()


class Reply(msgspec.Struct):
    """The zygote's reply: a process was started (or none, with the reason), or has exited with this status.

    `folder` is a started worker's own, to be looked at; empty if the kernel keeps its size.
    """

    kind: Literal["ready", "started", "ended", "refused", "unforkable"]
    pid: int = 0
    status: int = 0
    folder: str = ""
    reason: Annotated[str, msgspec.Meta(max_length=1000)] = ""
