"""Starts a worker, bounds it, times it, and ends it.

Deadlines are kept here, in the process that judges, and never by the code that is judged. A worker is forked from the
zygote where that exists, else spawned: slower, the same answers.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from grader.limits import Limits
from grader.messages import PREFIX, frame_sizes
from grader.zygote_messages import Command, Reply

FAULT_LINE = re.compile(r'File "([^"\n]{1,200})", line (\d{1,7}) in ([\w<>.]{1,100})')
FAULTS_KEPT = 16 << 10
LAYERS_EVERYWHERE = ("process", "limits")


class NoAnswer(Exception):
    """A worker did not answer. `why` is "late" or "ended"; `place` is the learner's (file, line, function), if known."""

    def __init__(self, why: str, status: int | None = None, place: tuple[str, int, str] | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.status = status
        self.place = place


class SandboxError(RuntimeError):
    """A worker could not be started: our fault, or the machine's."""


class Process(Protocol):
    """A started worker, however it was started."""

    def send(self, data: bytes, deadline: float) -> None:
        """Sends all of `data`. Raises TimeoutError past the deadline (time.monotonic) and EOFError at its end."""

    def receive(self, count: int, deadline: float) -> bytes:
        """Exactly `count` bytes of its answers. Raises TimeoutError and EOFError as `send` does."""

    def printed(self) -> str:
        """What it has printed so far, cut at a bound."""

    def faults(self, wait: float) -> str:
        """What its fault handler has written, after waiting up to `wait` seconds for something."""

    def ask_where(self) -> None:
        """Asks the process to write where it is to its faults, if it can."""

    def kill(self) -> int | None:
        """Ends it with every descendant. Its wait status (os.waitpid), None when unknown."""

    def ended(self) -> int | None:
        """Waits for a process whose channel has closed. Its wait status, None when unknown."""


class Launcher(Protocol):
    """Starts workers."""

    layers: tuple[str, ...]

    def launch(self, limits: Limits) -> Process:
        """A new worker. Raises SandboxError when none can be had."""


class Worker:
    """One worker: frames in, frames out, each within its deadline."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def exchange(self, frame: bytes, seconds: float) -> tuple[bytes, bytes]:
        """Sends a frame and waits for the answer's header and payload.

        Raises NoAnswer when none came in time or the process ended, BadMessage when the answer's sizes are absurd. The
        worker is dead after either.
        """
        deadline = time.monotonic() + seconds
        try:
            self.process.send(frame, deadline)
            header, payload = frame_sizes(self.process.receive(PREFIX.size, deadline))
            return self.process.receive(header, deadline), self.process.receive(payload, deadline)
        except TimeoutError:
            self.process.ask_where()
            place = _place(self.process.faults(wait=0.2))
            self.process.kill()
            raise NoAnswer("late", place=place) from None
        except (EOFError, OSError):
            status = self.process.ended()
            raise NoAnswer("ended", status, _place(self.process.faults(wait=0.0))) from None
        except ValueError:
            self.process.kill()
            raise

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()


def restrict(limits: Limits, folder: str) -> None:
    """Bounds the process that calls it: the last thing a worker does before it sees a learner's code.

    The place for more layers (Landlock, seccomp): each is a function of the limits and the worker's own folder.
    """
    os.chdir(folder)
    os.environ.update(HOME=folder, TMPDIR=folder)
    tempfile.tempdir = folder
    _limit_resources(limits)


def _limit_resources(limits: Limits) -> None:
    try:
        import resource
    except ImportError:  # Windows has none; deadlines still hold
        return
    bounds = {
        resource.RLIMIT_CPU: int(limits.step_seconds) + 5,
        resource.RLIMIT_FSIZE: limits.file_size,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
    }
    if not limits.accelerator:
        bounds[resource.RLIMIT_NPROC] = 0  # no new process or thread; root is not bound by it
        if sys.platform == "linux":
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            bounds[resource.RLIMIT_AS] = pages * resource.getpagesize() + limits.memory
    for kind, bound in bounds.items():
        _soft, hard = resource.getrlimit(kind)
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        with contextlib.suppress(ValueError, OSError):  # not every system knows every limit
            resource.setrlimit(kind, (bound, bound))


# --- forked from the zygote ------------------------------------------------------------------------------------------


class ForkLauncher:
    """Workers forked from the warm zygote, asked for over `control`."""

    layers = LAYERS_EVERYWHERE

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.ended: dict[int, int] = {}

    def launch(self, limits: Limits) -> Process:
        """A worker forked from the zygote, in a folder of its own."""
        ours, theirs = socket.socketpair()
        output, output_end = os.pipe()
        faults, faults_end = os.pipe()
        folder = tempfile.TemporaryDirectory(prefix="kit-")
        command = Command("worker", folder=folder.name, limits=limits)
        try:
            descriptors = [theirs.fileno(), output_end, faults_end]
            socket.send_fds(self.control, [msgspec.msgpack.encode(command)], descriptors)
            reply = self.await_reply("started")
        except OSError as error:
            raise SandboxError(f"the warm process is gone ({error})") from error
        finally:
            theirs.close()
            os.close(output_end)
            os.close(faults_end)
        return ForkedProcess(self, reply.pid, ours, output, faults, folder, limits)

    def await_reply(self, kind: str, pid: int = 0, seconds: float = 20.0) -> Reply:
        """The next reply of this kind (for this process); what ended meanwhile is noted. Raises SandboxError."""
        deadline = time.monotonic() + seconds
        while True:
            ready, _write, _error = select.select([self.control], [], [], max(0.0, deadline - time.monotonic()))
            data = self.control.recv(1 << 16) if ready else b""
            if not data:
                raise SandboxError("the warm process does not answer")
            reply = msgspec.msgpack.decode(data, type=Reply)
            if reply.kind == "ended":
                self.ended[reply.pid] = reply.status
            if reply.kind == "refused":
                raise SandboxError(reply.reason)
            if reply.kind == kind and pid in (0, reply.pid):
                return reply

    def wait(self, pid: int, seconds: float) -> int | None:
        """The wait status of a worker that is ending, None if it does not."""
        if pid not in self.ended:
            with contextlib.suppress(SandboxError):
                self.await_reply("ended", pid, seconds)
        return self.ended.pop(pid, None)

    def kill(self, pid: int) -> None:
        """Tells the zygote to end a worker with all its descendants."""
        with contextlib.suppress(OSError):
            self.control.send(msgspec.msgpack.encode(Command("kill", pid=pid)))


class ForkedProcess:
    """A worker that the zygote forked: its channel is a socket, read without blocking."""

    def __init__(
        self, launcher: ForkLauncher, pid: int, channel: socket.socket, output: int, faults: int,
        folder: tempfile.TemporaryDirectory[str], limits: Limits,
    ) -> None:  # fmt: skip
        self._launcher, self._pid, self._channel, self._folder = launcher, pid, channel, folder
        self._output, self._faults, self._limits = output, faults, limits
        self._kept = bytearray()
        self._over: int | None = None
        self._closed = False
        channel.setblocking(False)
        os.set_blocking(output, False)
        os.set_blocking(faults, False)

    def send(self, data: bytes, deadline: float) -> None:
        """Sends all of `data` while draining what is printed."""
        rest = memoryview(data)
        while rest:
            with contextlib.suppress(BlockingIOError):
                rest = rest[self._channel.send(rest) :]
                continue
            self._wait(deadline, writing=True)

    def receive(self, count: int, deadline: float) -> bytes:
        """Exactly `count` bytes while draining what is printed."""
        data = bytearray()
        while len(data) < count:
            try:
                piece = self._channel.recv(min(count - len(data), 1 << 20))
            except BlockingIOError:
                self._wait(deadline)
                continue
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def _wait(self, deadline: float, writing: bool = False) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        watched = [self._channel, *([] if self._output < 0 else [self._output])]
        reading, _writing, _error = select.select(watched, [self._channel] if writing else [], [], left)
        if self._output in reading:
            self._drain()

    def _drain(self) -> None:
        try:
            piece = os.read(self._output, 1 << 16)
        except (BlockingIOError, OSError):
            return
        if not piece:
            os.close(self._output)
            self._output = -1
        self._kept += piece[: max(0, self._limits.output - len(self._kept))]

    def printed(self) -> str:
        """What it has printed, cut at the bound."""
        if self._output >= 0:
            self._drain()
        return self._kept.decode("utf-8", errors="replace")

    def faults(self, wait: float) -> str:
        """What the fault handler wrote."""
        select.select([self._faults], [], [], wait)
        with contextlib.suppress(OSError):
            return os.read(self._faults, FAULTS_KEPT).decode("utf-8", errors="replace")
        return ""

    def ask_where(self) -> None:
        """Has the fault handler write the learner's line."""
        with contextlib.suppress(OSError):
            os.kill(self._pid, signal.SIGUSR1)

    def kill(self) -> int | None:
        """Ends it with every descendant and removes its folder."""
        if not self._closed and self._over is None:
            self._launcher.kill(self._pid)
            self._over = self._launcher.wait(self._pid, 5.0)
        self._close()
        return self._over

    def ended(self) -> int | None:
        """Its wait status, once its channel has closed; it is killed if it lives on without one."""
        self._over = self._launcher.wait(self._pid, 1.0)
        return self._over if self._over is not None else self.kill()

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.printed()
        self._channel.close()
        if self._output >= 0:
            os.close(self._output)
            self._output = -1
        self._folder.cleanup()


# --- spawned ---------------------------------------------------------------------------------------------------------


class SpawnLauncher:
    """Workers started as fresh processes: macOS, Windows, and wherever forking torch is unsound."""

    layers = LAYERS_EVERYWHERE

    def __init__(self, root: str) -> None:
        self.root = root

    def launch(self, limits: Limits) -> Process:
        """A worker in a new interpreter, in a folder of its own."""
        return SpawnedProcess(self.root, limits)


class SpawnedProcess:
    """A worker in a fresh interpreter: its channel is a pair of pipes, read by threads since not every system can
    wait for a pipe with a deadline."""

    def __init__(self, root: str, limits: Limits) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kit-", ignore_cleanup_errors=True)
        self._limits = limits
        start = (
            "import sys; root, folder = sys.argv[1:]; sys.path.insert(0, root)\n"
            "from grader import worker; sys.path.remove(root); worker.main(folder)"
        )
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-c", start, root, self._folder.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(),
            start_new_session=True,
        )  # fmt: skip
        assert self._popen.stdin and self._popen.stdout and self._popen.stderr
        self._requests = self._popen.stdin
        self._answers: queue.Queue[bytes] = queue.Queue(maxsize=64)
        self._pending = bytearray()
        self._kept = bytearray()
        self._pump(self._popen.stdout, self._answers.put)
        self._pump(self._popen.stderr, self._keep)

    def _pump(self, stream: BinaryIO, take: object) -> None:
        def run() -> None:
            while piece := os.read(stream.fileno(), 1 << 16):
                take(piece)  # type: ignore[operator]
            take(b"")  # type: ignore[operator]

        threading.Thread(target=run, daemon=True).start()

    def _keep(self, piece: bytes) -> None:
        self._kept += piece[: max(0, self._limits.output - len(self._kept))]

    def send(self, data: bytes, deadline: float) -> None:
        """Sends all of `data`, from a thread: a process that does not read must not hold the judge."""

        def run() -> None:
            with contextlib.suppress(OSError, ValueError):
                self._requests.write(data)
                self._requests.flush()

        sending = threading.Thread(target=run, daemon=True)
        sending.start()
        sending.join(max(0.0, deadline - time.monotonic()))
        if sending.is_alive():
            raise TimeoutError

    def receive(self, count: int, deadline: float) -> bytes:
        """Exactly `count` bytes."""
        while len(self._pending) < count:
            try:
                piece = self._answers.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError from None
            if not piece:
                raise EOFError
            self._pending += piece
        data = bytes(self._pending[:count])
        del self._pending[:count]
        return data

    def printed(self) -> str:
        """What it has printed, cut at the bound."""
        return self._kept.decode("utf-8", errors="replace")

    def faults(self, wait: float) -> str:
        """The end of its standard error: the fault handler writes there too."""
        time.sleep(wait)
        return self.printed()[-FAULTS_KEPT:]

    def ask_where(self) -> None:
        """Has the fault handler write the learner's line, where there is such a signal."""
        if hasattr(signal, "SIGUSR1"):
            with contextlib.suppress(OSError):
                os.kill(self._popen.pid, signal.SIGUSR1)

    def kill(self) -> int | None:
        """Ends its whole session."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(OSError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.kill()
        return self.ended()

    def ended(self) -> int | None:
        """Its end as os.waitpid would give it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._popen.wait(2.0)
            self._folder.cleanup()
            return -code if code < 0 else code << 8
        return None


def clean_environment() -> dict[str, str]:
    """The environment of everything that comes near a learner's code: nothing of the user's but where libraries are."""
    kept = ("LD_LIBRARY_PATH", "DYLD_", "CUDA_", "NVIDIA_", "SYSTEMROOT", "TZ", "KIT_DEBUG")
    environment = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    one_thread = dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_THREAD_LIMIT", "VECLIB_MAXIMUM_THREADS"), "1"
    )
    return environment | one_thread | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "LANG": "C.UTF-8", "PATH": os.defpath}


def _place(faults: str) -> tuple[str, int, str] | None:
    """The innermost line of the submission in what the fault handler wrote: untrusted text, read as a number and names."""
    for filename, line, function in FAULT_LINE.findall(faults):
        if not os.path.isabs(filename) and "frozen" not in filename:
            return filename, int(line), function
    return None
