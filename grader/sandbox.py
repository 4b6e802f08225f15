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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Protocol

import msgspec

from grader import isolation, namespaces, scratch
from grader.frames import PREFIX, BadMessage, frame, frame_sizes
from grader.limits import Limits
from grader.processor import allowed
from grader.zygote_messages import Command, Reply

FAULT_LINE = re.compile(r'File "([^"\n]{1,200})", line (\d{1,7}) in ([\w<>.]{1,100})')
FAULTS_KEPT = 16 << 10
LAYERS_EVERYWHERE = ("process", "limits")
SET_UP_SECONDS = 60.0  # for a worker to be ready: never counted against a learner's code
GRACE = 2  # times the seconds of a call: how much longer a process may take that waits for a processor
LOOK_EVERY = 0.25  # seconds between looks at how much a worker has written


class NoAnswer(Exception):
    """A worker did not answer. `why` is "late", "ended" or "full" (it wrote too much).

    `place` is (file, line, function) in the submission, if known: the worker says so, and may say anything.
    """

    def __init__(self, why: str, status: int | None = None, place: tuple[str, int, str] | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.status = status
        self.place = place


class SandboxError(RuntimeError):
    """A worker could not be started: our fault, or the machine's."""


class TooMuchWritten(Exception):
    """A worker has filled its folder."""


class Process(Protocol):
    """A started worker, however it was started."""

    def send(self, data: bytes, deadline: float) -> None:
        """Sends all of `data`.

        Raises TimeoutError past the deadline (time.monotonic), EOFError or OSError at its end, TooMuchWritten, and
        BadMessage when it has said something that nothing asked for.
        """

    def receive(self, count: int, deadline: float) -> bytes:
        """Exactly `count` bytes of its answers. Raises as `send` does."""

    def printed(self) -> str:
        """What it has printed so far, cut at a bound."""

    def faults(self, wait: float) -> str:
        """What its fault handler has written, after waiting up to `wait` seconds for something."""

    def ask_where(self) -> None:
        """Asks the process to write where it is to its faults, if it can."""

    def kill(self) -> int | None:
        """Ends it with every descendant. Its wait status (os.waitpid), None when unknown."""

    def dismiss(self) -> None:
        """Ends it like `kill`, without waiting."""

    def ended(self) -> int | None:
        """Waits for a process whose channel has closed. Its wait status, None when unknown."""


class Launcher(Protocol):
    """Starts workers."""

    def launch(self, limits: Limits) -> Process:
        """A new worker. Raises SandboxError when none can be had."""

    def promised(self, limits: Limits) -> tuple[str, ...]:
        """The layers that a worker with these limits will have, found out without anything of a learner's."""

    def begin_run(self) -> None:
        """From here on `in_force` is about the workers that are started."""

    def in_force(self, limits: Limits) -> tuple[str, ...]:
        """The layers that every worker of the run had; those promised when there was none."""


class _Run:
    """Which layers the workers of one run had."""

    def __init__(self) -> None:
        self._had: list[tuple[str, ...]] = []

    def begin_run(self) -> None:
        """Forgets the workers so far."""
        self._had.clear()

    def in_force(self, limits: Limits) -> tuple[str, ...]:
        """What all of them had, or would have had."""
        return tuple(name for name in self.promised(limits) if all(name in layers for layers in self._had))

    def promised(self, limits: Limits) -> tuple[str, ...]:
        """What a launcher says of itself."""
        raise NotImplementedError

    def _set_up(self, process: Process) -> None:
        self._had.append((*LAYERS_EVERYWHERE, *_set_up(process)))


class Worker:
    """One worker: frames in, frames out, each within its deadline."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def exchange(self, data: bytes, seconds: float) -> tuple[bytes, bytes]:
        """Sends a frame and waits for the answer's header and payload.

        Raises NoAnswer when none came in time or the process ended, BadMessage when the answer's sizes are absurd. The
        worker is dead after either.
        """
        deadline = time.monotonic() + seconds
        try:
            self.process.send(data, deadline)
            header, payload = frame_sizes(self.process.receive(PREFIX.size, deadline))
            return self.process.receive(header, deadline), self.process.receive(payload, deadline)
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

    def close(self) -> None:
        """Ends the process, and does not wait for its end."""
        self.process.dismiss()


def restrict(
    limits: Limits, folder: str, readable: Sequence[str] = (), proven: Sequence[str] = (),
    spaces: namespaces.Namespaces | None = None,
) -> tuple[str, ...]:  # fmt: skip
    """Bounds the process that calls it, for good: the last thing a worker does before it sees a learner's code.

    Names the layers in force beyond process and limits. Raises NotIsolated when one is not that was `proven` on this
    machine or that the limits require. With an accelerator there are none: its driver needs device files, threads and
    calls that they refuse.
    """
    _first_to_go()
    if "limits" not in limits.without:
        _limit_resources(limits)
    confined = sys.platform == "linux" and not limits.accelerator
    layers: tuple[str, ...] = ()
    if spaces is not None and confined and "namespaces" not in limits.without:
        folder = spaces.join(folder)
        layers = ("namespaces",)
    elif spaces is not None:
        spaces.close()
    os.chdir(folder)
    for name, value in (("HOME", folder), ("TMPDIR", folder), ("USER", "learner")):
        os.environ[name] = value
    tempfile.tempdir = folder
    if confined:
        layers += isolation.confine(folder, readable, limits.without)
    needed = {*limits.required} | ({*proven} - {*limits.without} if confined else set())
    if missing := needed.difference(layers, LAYERS_EVERYWHERE):
        raise isolation.NotIsolated(", ".join(sorted(missing)))
    return layers


def _first_to_go() -> None:
    """Where memory runs out the kernel ends this process before any other."""
    if sys.platform == "linux":
        isolation.prctl(isolation.PR_SET_DUMPABLE, 1)  # else the file is root's
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as score:
            score.write(b"1000")
        isolation.hide()


def _limit_resources(limits: Limits) -> None:
    try:
        import resource
    except ImportError:  # Windows has none; deadlines still hold
        return
    bounds = {
        resource.RLIMIT_CPU: int(limits.step_seconds) + 5,
        resource.RLIMIT_FSIZE: limits.file_size,
        resource.RLIMIT_NOFILE: 1024 if limits.accelerator else limits.open_files,  # a driver opens many
        resource.RLIMIT_CORE: 0,
    }
    if not limits.accelerator:
        bounds[resource.RLIMIT_NPROC] = 0  # no new process or thread; root is not bound by it
        if sys.platform == "linux":
            with open("/proc/self/statm", "rb", buffering=0) as sizes:
                pages = int(sizes.read().split()[0])
            bounds[resource.RLIMIT_AS] = pages * resource.getpagesize() + limits.memory
    for kind, bound in bounds.items():
        _soft, hard = resource.getrlimit(kind)
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        with contextlib.suppress(ValueError, OSError):  # not every system knows every limit
            resource.setrlimit(kind, (bound, bound))


# --- forked from the zygote ------------------------------------------------------------------------------------------


class ForkLauncher(_Run):
    """Workers forked from the warm zygote, asked for over `control`. `proven` are the layers it has found to hold."""

    def __init__(self, control: socket.socket, proven: Sequence[str] = ()) -> None:
        super().__init__()
        self.control = control
        self.proven = tuple(proven)
        self.ended: dict[int, int] = {}
        self.dismissed: set[int] = set()  # whose end interests nobody

    def launch(self, limits: Limits) -> Process:
        """A worker forked from the zygote, in a folder of its own."""
        ours, theirs = socket.socketpair()
        output, output_end = os.pipe()
        faults, faults_end = os.pipe()
        command = Command("worker", limits=limits, processors=allowed())
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
        self._set_up(process)
        return process

    def promised(self, limits: Limits) -> tuple[str, ...]:
        """What the zygote has proven, and on an accelerator what holds everywhere."""
        layers = (*LAYERS_EVERYWHERE, *(() if limits.accelerator else self.proven))
        return tuple(name for name in layers if name not in limits.without)

    def await_reply(self, kind: str, pid: int = 0, seconds: float = 20.0) -> Reply:
        """The next reply of this kind (for this process); what ended meanwhile is noted. Raises SandboxError."""
        deadline = time.monotonic() + seconds
        while True:
            data = b""
            if _ready(self.control.fileno(), max(0.0, deadline - time.monotonic())):
                with contextlib.suppress(OSError):
                    data = self.control.recv(1 << 16)
            if not data:
                raise SandboxError("no answer")
            reply = msgspec.msgpack.decode(data, type=Reply)
            if reply.kind == "ended" and reply.pid in self.dismissed:
                self.dismissed.remove(reply.pid)
            elif reply.kind == "ended":
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

    def tell(self, command: Command) -> None:
        """Has the zygote do something to a worker: it alone knows that the number is still that worker's."""
        with contextlib.suppress(OSError):
            self.control.send(msgspec.msgpack.encode(command))


class ForkedProcess:
    """A worker that the zygote forked: its channel is a socket, read without blocking."""

    def __init__(
        self, launcher: ForkLauncher, pid: int, channel: socket.socket, output: int, faults: int, folder: str,
        limits: Limits,
    ) -> None:  # fmt: skip
        self._launcher, self._pid, self._channel, self._folder = launcher, pid, channel, folder
        self._output, self._faults, self._limits = output, faults, limits
        self._kept = bytearray()
        self._unread = bytearray()
        self._said = ""
        self._looked = time.monotonic()
        self._grace = 0.0
        self._allowed = limits.call_seconds
        self._over: int | None = None
        self._closed = False
        channel.setblocking(False)
        os.set_blocking(output, False)
        os.set_blocking(faults, False)

    def send(self, data: bytes, deadline: float) -> None:
        """Sends all of `data` while draining what is printed: a call begins."""
        self._allowed = deadline - time.monotonic()
        with contextlib.suppress(BlockingIOError):
            if self._unread or self._channel.recv(1, socket.MSG_PEEK):
                raise BadMessage("more answers than calls")
            raise EOFError
        rest = memoryview(data)
        while rest:
            with contextlib.suppress(BlockingIOError):
                rest = rest[self._channel.send(rest) :]
                continue
            self._wait(deadline, writing=True)

    def receive(self, count: int, deadline: float) -> bytes:
        """Exactly `count` bytes while draining what is printed."""
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

    def _left(self, deadline: float) -> float:
        """Seconds left. Time that the process stood ready and got no processor is the machine's, up to a bound."""
        left = deadline + self._grace - time.monotonic()
        if left <= 0:
            self._grace = min(self._starved(), GRACE * self._allowed)
            left = deadline + self._grace - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _starved(self) -> float:
        try:
            _ran, waited, _times = Path(f"/proc/{self._pid}/schedstat").read_text(encoding="ascii").split()
        except (OSError, ValueError):  # not every kernel counts
            return 0.0
        return int(waited) / 1e9

    def _wait(self, deadline: float, writing: bool = False) -> None:
        left = self._left(deadline)
        poll = select.poll()
        poll.register(self._channel, select.POLLOUT if writing else select.POLLIN)
        if self._output >= 0:
            poll.register(self._output, select.POLLIN)
        events = poll.poll(min(left, LOOK_EVERY) * 1000)
        if any(descriptor == self._output for descriptor, _event in events):
            self._drain()
        if time.monotonic() > self._looked + LOOK_EVERY:
            self._looked = time.monotonic()
            if scratch.size(self._folder, self._limits.disk) > self._limits.disk:
                raise TooMuchWritten

    def _drain(self) -> None:
        try:
            piece = os.read(self._output, 1 << 16)
        except OSError:
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
        """What the fault handler wrote: it comes in pieces, after the zygote has passed on the question."""
        deadline = time.monotonic() + wait
        while not self._closed and len(self._said) < FAULTS_KEPT and _ready(self._faults, wait):
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
        """Has the fault handler write the learner's line."""
        self._launcher.tell(Command("where", pid=self._pid))

    def dismiss(self) -> None:
        """Has the zygote end it with every descendant and remove its folder, while this process goes on."""
        if not self._closed and self._over is None:
            self._launcher.dismissed.add(self._pid)
            self._launcher.tell(Command("kill", pid=self._pid))
        self._close()

    def kill(self) -> int | None:
        """Ends it with every descendant and removes its folder."""
        if not self._closed and self._over is None:
            self._launcher.tell(Command("kill", pid=self._pid))
            self._over = self._launcher.wait(self._pid, 5.0)
        self._close()
        return self._over

    def ended(self) -> int | None:
        """Its wait status, once its channel has closed; it is killed if it lives on without one."""
        self._over = self._launcher.wait(self._pid, 1.0)
        return self.kill()

    def _close(self) -> None:
        if self._closed:
            return
        self.printed()
        self.faults(wait=0.0)
        self._closed = True
        self._channel.close()
        os.close(self._faults)
        if self._output >= 0:
            os.close(self._output)
            self._output = -1


def _ready(descriptor: int, seconds: float) -> bool:
    """Whether there is something to read, after waiting up to `seconds`."""
    poll = select.poll()  # select knows only the first 1024 descriptors
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def report_set_up(layers: Sequence[str]) -> bytes:
    """The first frame of a worker, sent before it has seen anything of a learner's: it is bounded, by these layers."""
    return frame(msgspec.msgpack.encode(list(layers)), b"")


def _set_up(process: Process) -> list[str]:
    """Waits until a new worker is bounded and names its layers.

    Raises SandboxError when that fails: nothing of a learner's has run yet, so that it is never their fault.
    """
    deadline = time.monotonic() + SET_UP_SECONDS
    try:
        header, _payload = frame_sizes(process.receive(PREFIX.size, deadline))
        return msgspec.msgpack.decode(process.receive(header, deadline), type=list[str])
    except (TimeoutError, EOFError, OSError, ValueError, TooMuchWritten) as error:
        process.kill()
        said = process.printed().strip()[-300:]
        raise SandboxError(said or f"it was not set up ({type(error).__name__})") from error


# --- spawned ---------------------------------------------------------------------------------------------------------


class SpawnLauncher(_Run):
    """Workers started as fresh processes: macOS, Windows, and wherever forking torch is unsound."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self.root = root
        self._found: tuple[str, ...] | None = None if sys.platform == "linux" else LAYERS_EVERYWHERE

    def launch(self, limits: Limits) -> Process:
        """A worker in a new interpreter, in a folder of its own."""
        process = SpawnedProcess(self.root, limits)
        self._set_up(process)
        return process

    def promised(self, limits: Limits) -> tuple[str, ...]:
        """What holds everywhere; on Linux what a worker says that is started, once, and ended for nothing else."""
        if limits.accelerator:
            return LAYERS_EVERYWHERE
        if self._found is None:
            process = SpawnedProcess(self.root, Limits())
            self._found = (*LAYERS_EVERYWHERE, *_set_up(process))
            process.kill()
        return tuple(name for name in self._found if name not in limits.without)


class SpawnedProcess:
    """A worker in a fresh interpreter: its channel is a pair of pipes, read by threads since not every system can
    wait for a pipe with a deadline."""

    def __init__(self, root: str, limits: Limits) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kit-", ignore_cleanup_errors=True)
        self._limits = limits
        start = (
            "import sys; root, folder, limits = sys.argv[1:]; sys.path.insert(0, root)\n"
            "from grader import worker; worker.main(root, folder, limits)"
        )
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-c", start, root, self._folder.name, msgspec.json.encode(limits).decode()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(),
            start_new_session=True,
        )  # fmt: skip
        assert self._popen.stdin and self._popen.stdout and self._popen.stderr
        self._requests = self._popen.stdin
        self._answers: queue.Queue[bytes] = queue.Queue(maxsize=64)
        self._pending = bytearray()
        self._kept = bytearray()
        self._over = False
        self._pump(self._popen.stdout, self._answer)
        self._pump(self._popen.stderr, self._keep)

    def _pump(self, stream: IO[bytes], take: Callable[[bytes], None]) -> None:
        def run() -> None:
            with stream:
                while piece := os.read(stream.fileno(), 1 << 16):
                    take(piece)
                take(b"")

        threading.Thread(target=run, daemon=True).start()

    def _answer(self, piece: bytes) -> None:
        while not self._over:  # once nobody reads any more, what still comes is dropped
            with contextlib.suppress(queue.Full):
                self._answers.put(piece, timeout=0.1)
                return

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

    def dismiss(self) -> None:
        """Ends its whole session."""
        self.kill()

    def kill(self) -> int | None:
        """Ends its whole session."""
        self._over = True
        if hasattr(os, "killpg"):
            with contextlib.suppress(OSError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.kill()
        return self.ended()

    def ended(self) -> int | None:
        """Its end as os.waitpid would give it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._popen.wait(2.0)
            self._over = True
            with contextlib.suppress(OSError):
                self._requests.close()
            self._folder.cleanup()
            return -code if code < 0 else code << 8
        return None


def clean_environment() -> dict[str, str]:
    """The environment of everything that comes near a learner's code: nothing of the user's but where libraries are."""
    kept = ("LD_LIBRARY_PATH", "DYLD_", "CUDA_", "NVIDIA_", "SYSTEMROOT", "TZ", "KIT_DEBUG")
    environment = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    one_thread = dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_THREAD_LIMIT", "VECLIB_MAXIMUM_THREADS"),
        "1",
    )
    return environment | one_thread | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "LANG": "C.UTF-8", "PATH": os.defpath}


def _place(faults: str) -> tuple[str, int, str] | None:
    """The innermost line of the submission in what the fault handler wrote: text that is not trusted."""
    for filename, line, function in FAULT_LINE.findall(faults):
        if not os.path.isabs(filename) and not filename.startswith("<"):
            return filename, int(line), function
    return None
