"""Workers forked from the warm zygote: the channel is a non-blocking socket."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from grader.base.limits import Limits
from grader.calls.framing import BadMessage
from grader.sandbox import scratch
from grader.sandbox.cpus import allowed
from grader.sandbox.process import (
    FAULTS_KEPT,
    LAYERS_EVERYWHERE,
    Command,
    Launcher,
    Process,
    Reply,
    ResourceUse,
    SandboxError,
    TooMuchWritten,
)

GRACE = 2  # times the seconds of a call: how far a deadline is extended while the worker waits for a CPU
PAGE = os.sysconf("SC_PAGE_SIZE")
LOOK_EVERY = 0.25  # seconds between two checks of how much a worker has written


class ForkLauncher(Launcher):
    """Has the warm zygote fork workers, over the socket `control`. `proven` are the layers that the zygote tested."""

    def __init__(self, control: socket.socket, proven: Sequence[str] = ()) -> None:
        super().__init__()
        self.control = control
        self.proven = tuple(proven)
        self.ended: dict[int, int] = {}
        self.dismissed: set[int] = set()  # killed without waiting: their status is dropped

    def launch(self, limits: Limits) -> Process:
        """A worker forked from the zygote, in a folder of its own."""
        ours, theirs = socket.socketpair()
        output, output_end = os.pipe()
        faults, faults_end = os.pipe()
        command = Command("worker", limits=limits, cpus=allowed())
        try:
            descriptors = [theirs.fileno(), output_end, faults_end]
            socket.send_fds(self.control, [msgspec.msgpack.encode(command)], descriptors)
            reply = self.await_reply("started")
        except (OSError, SandboxError) as error:
            for descriptor in (output, faults):
                os.close(descriptor)
            ours.close()
            raise SandboxError(f"the warm process failed: {error}") from error
        finally:
            theirs.close()
            os.close(output_end)
            os.close(faults_end)
        process = ForkedProcess(self, reply.pid, ours, output, faults, reply.folder, limits)
        self._note(process)
        return process

    def promised(self, limits: Limits) -> tuple[str, ...]:
        """The layers in force everywhere and, unless on an accelerator, those that the zygote has proven; but for those
        that `limits` leave out."""
        layers = (*LAYERS_EVERYWHERE, *(() if limits.accelerator else self.proven))
        return tuple(name for name in layers if name not in limits.without)

    def await_reply(self, kind: str, pid: int = 0, seconds: float = 20.0) -> Reply:
        """The zygote's next reply of this kind, for this process if `pid` is not 0; processes that exited meanwhile are
        recorded. Raises Unforkable, or SandboxError if it refuses or none comes in time."""
        deadline = time.monotonic() + seconds
        while True:
            data = b""
            if is_readable(self.control.fileno(), max(0.0, deadline - time.monotonic())):
                with contextlib.suppress(OSError):
                    data = self.control.recv(1 << 16)
            if not data:
                raise SandboxError("no answer")
            reply = msgspec.msgpack.decode(data, type=Reply)
            if reply.kind == "ended" and reply.pid in self.dismissed:
                self.dismissed.remove(reply.pid)
            elif reply.kind == "ended":
                self.ended[reply.pid] = reply.status
            if reply.kind == "unforkable":
                raise Unforkable(reply.reason)
            if reply.kind == "refused":
                raise SandboxError(reply.reason)
            if reply.kind == kind and pid in (0, reply.pid):
                return reply

    def wait(self, pid: int, seconds: float) -> int | None:
        """The wait status of a worker that is exiting, given once; None if it does not exit in these seconds."""
        if pid not in self.ended:
            with contextlib.suppress(SandboxError):
                self.await_reply("ended", pid, seconds)
        return self.ended.pop(pid, None)

    def tell(self, command: Command) -> None:
        """Has the zygote signal a worker: only the parent can be sure that the pid still is that worker's."""
        with contextlib.suppress(OSError):
            self.control.send(msgspec.msgpack.encode(command))


class Unforkable(SandboxError):
    """The warm process can't be forked safely: a backend of torch's has started threads, or its accelerator."""


class ForkedProcess:
    """A worker forked by the zygote: its channel is a non-blocking socket."""

    def __init__(
        self, launcher: ForkLauncher, pid: int, channel: socket.socket, output: int, faults: int, folder: str,
        limits: Limits,
    ) -> None:  # fmt: skip
        """Takes over the worker `pid`, its channel, and the descriptors of its output and of its stack dumps."""
        self._launcher, self._pid, self._channel, self._folder = launcher, pid, channel, folder
        self._output, self._faults, self._limits = output, faults, limits
        self._kept = bytearray()
        self._unread = bytearray()
        self._said = ""
        self._looked = time.monotonic()
        self._grace = self._starved_before = 0.0
        self.layers: tuple[str, ...] = ()
        self._allowed = limits.call_seconds
        self._over: int | None = None
        self._closed = self._rests = False
        self._handle = _handle_of(pid)
        channel.setblocking(False)
        os.set_blocking(output, False)
        os.set_blocking(faults, False)

    def send(self, data: bytes, deadline: float) -> None:
        """Sends all of `data` while draining the worker's output: a call starts. Raises as `Process.send` says."""
        self._allowed = deadline - time.monotonic()
        self._require_little_written()  # its process may have gone on after its last answer
        with contextlib.suppress(BlockingIOError):
            if self._unread or self._channel.recv(1, socket.MSG_PEEK):
                raise BadMessage("more answers than calls")
            raise EOFError
        if self._rests and self._handle is not None:
            signal.pidfd_send_signal(self._handle, signal.SIGCONT)
            self._rests = False
        self._signal(signal.SIGCONT)
        rest = memoryview(data)
        while rest:
            with contextlib.suppress(BlockingIOError):
                rest = rest[self._channel.send(rest) :]
                continue
            self._read_ahead()
            self._wait(deadline, writing=True)

    def _read_ahead(self) -> None:
        """Stores what has arrived of answers to the first of several calls, before the last is sent: else both sides
        would wait. Raises BadMessage beyond the limit of bytes."""
        with contextlib.suppress(BlockingIOError):
            while piece := self._channel.recv(1 << 16):
                self._unread += piece
                if len(self._unread) > self._limits.answers:
                    raise BadMessage("answers without end")

    def receive(self, count: int, deadline: float) -> bytes:
        """Reads exactly `count` bytes while draining the worker's output. Raises as `Process.send` says."""
        while len(self._unread) < count:
            try:
                piece = self._channel.recv(1 << 16)
            except BlockingIOError:
                self._wait(deadline)
                continue
            if not piece:
                raise EOFError
            self._unread += piece
            self._left(deadline)
        data = bytes(self._unread[:count])
        del self._unread[:count]
        return data

    def pause(self) -> None:
        """Stops it until the next call, so that it writes nothing while the judge is busy. With a file system of its
        own, of a size that the kernel limits, it goes on: stopping it would only make grading slower."""
        self._signal(signal.SIGSTOP)

    def used(self) -> ResourceUse | None:
        """The processor time and memory that it has used so far."""
        try:
            ran, _waited, _times = self._schedule()
            pages = int(Path(f"/proc/{self._pid}/statm").read_text(encoding="ascii").split()[0])
        except (OSError, ValueError, IndexError):  # not every kernel records it
            return None
        return ResourceUse(ran / 1e9, pages * PAGE)

    def rest(self) -> None:
        """Stops the worker until the next `send`."""
        if self._handle is None:
            raise OSError("it can't be stopped")
        signal.pidfd_send_signal(self._handle, signal.SIGSTOP)
        self._rests = True

    def resume(self) -> None:
        """Pins it anew, and drops the extra time that it got while another step waited."""
        if numbers := allowed():
            os.sched_setaffinity(self._pid, numbers)
        self._grace, self._starved_before = 0.0, 0.0
        self._starved_before = self._starved()

    def _signal(self, number: signal.Signals) -> None:
        """Sends a signal to a worker in a folder that the judge has to watch; does nothing to any other."""
        if self._handle is not None and self._folder:
            with contextlib.suppress(OSError):  # it has ended
                signal.pidfd_send_signal(self._handle, number)

    def _left(self, deadline: float) -> float:
        """Seconds to the deadline, extended (at most GRACE ×) by the time the worker was runnable but not scheduled.
        Raises TimeoutError if none are left."""
        left = deadline + self._grace - time.monotonic()
        if left <= 0:
            self._grace = min(self._starved(), GRACE * self._allowed)
            left = deadline + self._grace - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _starved(self) -> float:
        """Seconds for which the worker could run and had no CPU, since the call started."""
        try:
            _ran, waited, _times = self._schedule()
        except (OSError, ValueError):  # not every kernel records it
            return 0.0
        return waited / 1e9 - self._starved_before

    def _schedule(self) -> list[int]:
        """The nanoseconds for which it ran, those for which it waited for a CPU, and how often it ran. Raises OSError
        or ValueError if the kernel doesn't record it."""
        text = Path(f"/proc/{self._pid}/schedstat").read_text(encoding="ascii")
        return [int(number) for number in text.split()]

    def _wait(self, deadline: float, writing: bool = False) -> None:
        """Waits until the channel can be read, or if `writing` be written, or LOOK_EVERY is over. Drains the output.
        Raises TimeoutError past the deadline, TooMuchWritten."""
        left = self._left(deadline)
        poll = select.poll()
        poll.register(self._channel, select.POLLIN | (select.POLLOUT if writing else 0))
        if self._output >= 0:
            poll.register(self._output, select.POLLIN)
        events = poll.poll(min(left, LOOK_EVERY) * 1000)
        if any(descriptor == self._output for descriptor, _event in events):
            self._drain()
        if time.monotonic() > self._looked + LOOK_EVERY:
            self._require_little_written()

    def _require_little_written(self) -> None:
        """Raises TooMuchWritten if it has filled its folder. The kernel bounds a file system of its own."""
        self._looked = time.monotonic()
        if self._folder and scratch.size(self._folder, self._limits.disk) > self._limits.disk:
            raise TooMuchWritten

    def _drain(self) -> None:
        """Reads output that has arrived, and keeps it up to the limit of bytes."""
        try:
            piece = os.read(self._output, 1 << 16)
        except OSError:
            return
        if not piece:
            os.close(self._output)
            self._output = -1
        self._kept += piece[: max(0, self._limits.output - len(self._kept))]

    def printed(self) -> str:
        """The worker's output so far, truncated."""
        if self._output >= 0:
            self._drain()
        return self._kept.decode("utf-8", errors="replace")

    def faults(self, wait: float) -> str:
        """All that the fault handler has written, after waiting up to `wait` seconds for some: it arrives in pieces,
        once the zygote has passed on the signal."""
        deadline = time.monotonic() + wait
        while not self._closed and len(self._said) < FAULTS_KEPT and is_readable(self._faults, wait):
            try:
                piece = os.read(self._faults, FAULTS_KEPT)
            except OSError:
                break
            if not piece:
                break
            self._said += piece.decode("utf-8", errors="replace")
            wait = min(0.05, max(0.0, deadline - time.monotonic()))
        return self._said

    def ask_where(self) -> None:
        """Has the zygote make the worker's fault handler write its stack, which `faults` then reads."""
        self._launcher.tell(Command("where", pid=self._pid))

    def dismiss(self) -> None:
        """Has the zygote kill it and every descendant, and remove its folder, in the background."""
        if not self._closed and self._over is None:
            self._launcher.dismissed.add(self._pid)
            self._launcher.tell(Command("kill", pid=self._pid))
        self._close()

    def kill(self) -> int | None:
        """Kills the worker and every descendant, and removes its folder. Returns its wait status, None if unknown."""
        if not self._closed and self._over is None:
            self._launcher.tell(Command("kill", pid=self._pid))
            self._over = self._launcher.wait(self._pid, 5.0)
        self._close()
        return self._over

    def ended(self) -> int | None:
        """The worker's wait status, once its channel has closed; it is killed if it lives on."""
        self._over = self._launcher.wait(self._pid, 1.0)
        return self.kill()

    def _close(self) -> None:
        """Reads the rest of the output and of the stack dump, and closes all descriptors; a second call does
        nothing."""
        if self._closed:
            return
        self.printed()
        self.faults(wait=0.0)
        self._closed = True
        self._channel.close()
        os.close(self._faults)
        if self._handle is not None:
            os.close(self._handle)
        if self._output >= 0:
            os.close(self._output)
            self._output = -1


def _handle_of(pid: int) -> int | None:
    """A descriptor of this process and no later one; None if the kernel has none (Linux before 5.3)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def is_readable(descriptor: int, seconds: float) -> bool:
    """Whether there is something to read, after waiting up to `seconds`."""
    poll = select.poll()  # select takes only the first 1024 descriptors
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
