"""Workers spawned as new interpreters, if torch can't be forked: slower, with the same results."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO

import msgspec

from grader import STARTS
from grader.base.limits import Limits
from grader.sandbox.environment import clean_environment
from grader.sandbox.process import FAULTS_KEPT, LAYERS_EVERYWHERE, Launcher, Process, await_set_up


class SpawnLauncher(Launcher):
    """Workers started as fresh processes: macOS, Windows, and wherever forking torch is unsound."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self.root = root
        self._found: tuple[str, ...] | None = None if sys.platform == "linux" else LAYERS_EVERYWHERE

    def launch(self, limits: Limits) -> Process:
        """A worker in a new interpreter, in a folder of its own."""
        process = SpawnedProcess(self.root, limits)
        self._note(process)
        return process

    def promised(self, limits: Limits) -> tuple[str, ...]:
        """The layers in force everywhere; on Linux, what a worker started once for this alone reports."""
        if limits.accelerator:
            return LAYERS_EVERYWHERE
        if self._found is None:
            process = SpawnedProcess(self.root, Limits())
            self._found = (*LAYERS_EVERYWHERE, *await_set_up(process))
            process.kill()
        return tuple(name for name in self._found if name not in limits.without)


class SpawnedProcess:
    """A worker in a fresh interpreter: its channel is a pair of pipes, read by threads since not every system can poll
    a pipe with a timeout."""

    def __init__(self, root: str, limits: Limits) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kit-", ignore_cleanup_errors=True)
        self._limits = limits
        self.layers: tuple[str, ...] = ()
        start = f"{STARTS}from grader.sandbox import worker; worker.main({root!r}, *sys.argv[1:])"
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-c", start, root, self._folder.name, msgspec.json.encode(limits).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(),
            start_new_session=True,
        )
        assert self._popen.stdin and self._popen.stdout and self._popen.stderr
        self._requests = self._popen.stdin
        self._answers: queue.Queue[bytes] = queue.Queue(maxsize=64)
        self._pending = bytearray()
        self._kept = bytearray()
        self._over = False
        self._pump(self._popen.stdout, self._answer)
        self._pump(self._popen.stderr, self._keep)

    def _pump(self, stream: IO[bytes], take: Callable[[bytes], None]) -> None:
        """Reads a stream in a thread of its own and passes each piece to `take`, empty bytes at the end."""

        def run() -> None:
            with stream:
                while piece := os.read(stream.fileno(), 1 << 16):
                    take(piece)
                take(b"")

        threading.Thread(target=run, daemon=True).start()

    def _answer(self, piece: bytes) -> None:
        """Queues a piece of an answer, and waits while the queue is full."""
        while not self._over:  # without a reader, further data is dropped
            with contextlib.suppress(queue.Full):
                self._answers.put(piece, timeout=0.1)
                return

    def _keep(self, piece: bytes) -> None:
        """Adds a piece to the worker's output, up to the limit of bytes."""
        self._kept += piece[: max(0, self._limits.output - len(self._kept))]

    def send(self, data: bytes, deadline: float) -> None:
        """Sends all of `data`, from a thread: a process that does not read must not block the judge. Raises
        TimeoutError past the deadline."""
        self._signal("SIGCONT")

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
        """Reads exactly `count` bytes of the worker's answers. Raises TimeoutError past the deadline, EOFError."""
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

    def pause(self) -> None:
        """Stops the process until the next `send`."""
        self._signal("SIGSTOP")

    def used(self) -> None:
        """None: each step gets a process of its own, since not every system tells what one has used."""

    def rest(self) -> None:
        """Stops the process, as `pause` does."""
        self.pause()

    def resume(self) -> None:
        """Does nothing: the process goes on with the next `send`."""

    def _signal(self, name: str) -> None:
        """Sends a signal that not every system has, to a process that is not waited for yet."""
        if hasattr(signal, name) and self._popen.returncode is None:
            with contextlib.suppress(OSError):
                os.kill(self._popen.pid, getattr(signal, name))

    def printed(self) -> str:
        """The worker's output so far, truncated."""
        return self._kept.decode("utf-8", errors="replace")

    def faults(self, wait: float) -> str:
        """The end of its standard error: the fault handler writes there too."""
        time.sleep(wait)
        return self.printed()[-FAULTS_KEPT:]

    def ask_where(self) -> None:
        """Makes the fault handler write the learner's line, if the system has the signal."""
        self._signal("SIGUSR1")

    def dismiss(self) -> None:
        """Kills the process with all of its session."""
        self.kill()

    def kill(self) -> int | None:
        """Kills the process with all of its session; returns its wait status, None if that is unknown."""
        self._over = True
        if hasattr(os, "killpg"):
            with contextlib.suppress(OSError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.kill()
        return self.ended()

    def ended(self) -> int | None:
        """The process's wait status, as os.waitpid would give it, and its folder is removed; None if it does not end
        within two seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._popen.wait(2.0)
            self._over = True
            with contextlib.suppress(OSError):
                self._requests.close()
            self._folder.cleanup()
            return -code if code < 0 else code << 8
        return None
