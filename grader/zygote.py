"""The warm process that judges and workers are forked from: torch is imported once, and never a learner's code.

It runs on Linux, where forking torch is sound as long as one thread runs, no accelerator was touched and nothing was
differentiated. Commands arrive on sockets, one a client; a forked judge gets a socket of its own.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import random
import selectors
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from grader import isolation, layout, namespaces, preload, processor
from grader.isolation import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl
from grader.limits import Limits
from grader.scratch import Scratch
from grader.scratch import remove as remove_folder
from grader.zygote_messages import Command, Reply

MAX_COMMAND = 1 << 16
IDLE = 1.0  # seconds without a command, after which time is at hand: grading once, cold, seldom gets there
set_handler = inspect.unwrap(signal.signal)  # without the enums around it: a third of a millisecond after a fork
PROBE = (("namespaces", 1), ("landlock", 2), ("seccomp", 4))  # the exit status of the process that tries the layers


class Zygote:
    """Forks on command, reaps, and leaves no descendant of a worker behind."""

    def __init__(self, control: socket.socket, root: str, board: int, tidying: Iterator[bool]) -> None:
        self.root, self.board = root, board
        self.scratch = Scratch()
        self.readable = isolation.readable_paths(root)
        self.spaces = namespaces.make(self.scratch.path, self.readable, isolation.library_places())
        self.proven: tuple[str, ...] = ()
        self.selector = selectors.DefaultSelector()
        self.owner = control
        self.workers: dict[int, tuple[socket.socket, str]] = {}  # whose it is, and its folder
        self.judges: set[int] = set()
        self.tidying = tidying  # goes on by a step each time it is asked, until there is nothing left
        self.wake_read, self.wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.selector.register(control, selectors.EVENT_READ)
        self.selector.register(self.wake_read, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until the owner closes its socket: then everything ends."""
        signal.set_wakeup_fd(self.wake_write)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self.proven = self._try_layers()
        self._reply(self.owner, Reply("ready"))
        while True:
            for key, _events in self._events():
                if key.fileobj is self.wake_read:
                    os.read(self.wake_read, 4096)
                    self._reap()
                elif not self._obey(key.fileobj):  # type: ignore[arg-type]  # only sockets are left
                    self._kill_all()
                    return

    def _events(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Waits for something to do. While there is nothing, tidies up a piece at a time."""
        if self.scratch.tidy():
            return self.selector.select(0)
        left = True
        events = self.selector.select(IDLE)
        while left and not events:
            left = next(self.tidying, False)
            events = self.selector.select(0 if left else None)
        return events

    def _obey(self, client: socket.socket) -> bool:
        """Carries out one command; False when the owner is gone."""
        try:
            data, descriptors, _flags, _address = socket.recv_fds(client, MAX_COMMAND, 4)
        except OSError:
            data, descriptors = b"", []
        if not data:
            if client is self.owner:
                return False
            self.selector.unregister(client)
            client.close()
            for pid in [pid for pid, (whose, _folder) in self.workers.items() if whose is client]:
                _signal_group(pid, signal.SIGKILL)
            return True
        command = msgspec.msgpack.decode(data, type=Command)
        match command.kind:
            case "judge":
                self._fork_judge(client, descriptors)
            case "worker":
                self._fork_worker(client, descriptors, command)
            case "where":
                if command.pid in self.workers:
                    os.kill(command.pid, signal.SIGUSR1)
            case "kill":
                if command.pid in self.workers:
                    _signal_group(command.pid, signal.SIGKILL)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _fork_judge(self, client: socket.socket, descriptors: list[int]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def run() -> None:
            from grader import judge

            ours.detach()
            sys.path.insert(0, self.root)
            judge.main(socket.socket(fileno=os.dup(descriptors[0])), theirs, self.proven, self.board)

        pid = self._fork(run, client, keep={descriptors[0], theirs.fileno(), self.board})
        theirs.close()
        if pid is None:
            ours.close()
            return
        self.judges.add(pid)
        self.selector.register(ours, selectors.EVENT_READ)
        self._reply(client, Reply("started", pid))

    def _fork_worker(self, client: socket.socket, descriptors: list[int], command: Command) -> None:
        channel, output, faults = descriptors
        limits = command.limits or Limits()
        try:
            folder = self.scratch.folder()
        except OSError as error:
            self._reply(client, Reply("refused", reason=str(error)))
            return

        def run() -> None:
            from grader import sandbox, worker

            processor.stay(command.processors)
            os.setsid()
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (output, 1), (output, 2)):
                os.dup2(source, target)
            os.close(null)
            os.close(output)
            sys.argv[:] = sys.orig_argv[:] = [""]
            requests, answers = os.fdopen(channel, "rb"), os.fdopen(channel, "wb", closefd=False)
            layers = sandbox.restrict(limits, folder, self.readable, self.proven, self.spaces)
            answers.write(sandbox.report_set_up(layers))
            answers.flush()
            worker.serve(requests, answers, faults)

        joined = self.spaces.descriptors if self.spaces else ()
        pid = self._fork(run, client, keep={channel, output, faults, *joined})
        if pid is None:
            remove_folder(folder)
            return
        self.workers[pid] = client, folder
        self._reply(client, Reply("started", pid, folder=folder))

    def _try_layers(self) -> tuple[str, ...]:
        """The layers that hold here. Namespaces that can be made and not joined are done without."""
        proven = self._probe()
        if self.spaces and "namespaces" not in proven:
            self.spaces.close()
            self.spaces = None
            proven = self._probe()
        return proven

    def _probe(self) -> tuple[str, ...]:
        """The layers that a process forked for nothing else found to hold, by trying what they must refuse."""
        folder = self.scratch.folder()
        pid = os.fork()
        if pid == 0:
            held = 0
            with contextlib.suppress(BaseException):
                if self.spaces:
                    folder = self.spaces.join(folder)
                    held += not os.path.exists(os.path.join(self.root, "grader"))
                layers = isolation.confine(folder, self.readable)
                held += sum(bit for name, bit in PROBE if name in layers and _refuses(name))
            os._exit(held)
        _pid, status = os.waitpid(pid, 0)
        remove_folder(folder)
        held = os.waitstatus_to_exitcode(status)
        return tuple(name for name, bit in PROBE if held > 0 and held & bit)

    def _fork(self, run: Callable[[], None], client: socket.socket, keep: set[int]) -> int | None:
        """Forks a child that runs `run` with no descriptor but `keep` and never comes back here."""
        try:
            parent = os.getpid()
            pid = os.fork()
        except OSError as error:
            self._reply(client, Reply("refused", reason=str(error)))
            return None
        if pid:
            return pid
        status = 70  # the judge reads it as: the process could not be set up
        try:
            signal.set_wakeup_fd(-1)
            set_handler(signal.SIGCHLD, signal.SIG_DFL)
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(status)
            _close_all_but(keep)
            random.seed()  # nothing else does after a fork here, and children with the same numbers can be foretold
            run()
            status = 0
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else 1
        except BaseException:
            if os.environ.get("KIT_DEBUG"):
                import traceback

                traceback.print_exc()
        finally:
            os._exit(status)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.judges.discard(pid)
            if pid in self.workers:
                client, folder = self.workers.pop(pid)
                self._end_strays()
                self.scratch.discard(folder)
                self._reply(client, Reply("ended", pid, status))

    def _end_strays(self, patience: float = 1.0) -> None:
        """Kills what a worker left behind: its orphans become children of this process, which forked none of them."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            strays = [pid for pid in _children() if pid not in self.workers and pid not in self.judges]
            if not strays:
                return
            for pid in strays:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(OSError):
                    os.waitpid(pid, 0)

    def _kill_all(self) -> None:
        for pid in [*self.workers, *self.judges]:
            _signal_group(pid, signal.SIGKILL) if pid in self.workers else os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.waitpid(pid, 0)
        self.workers.clear()
        self.judges.clear()
        self._end_strays()
        self.scratch.remove()

    def _reply(self, client: socket.socket, reply: Reply) -> None:
        with contextlib.suppress(OSError):  # the client is gone: nobody is left to tell
            client.send(msgspec.msgpack.encode(reply))


def _children() -> list[int]:
    thread = threading.get_native_id()
    with open(f"/proc/self/task/{thread}/children", encoding="ascii") as listing:
        return [int(pid) for pid in listing.read().split()]


def _signal_group(pid: int, number: int) -> None:
    # The worker may not have reached setsid yet: then it has no group of its own.
    with contextlib.suppress(OSError):
        os.kill(pid, number)
    with contextlib.suppress(OSError):
        os.killpg(pid, number)


def _close_all_but(keep: set[int]) -> None:
    start = 3
    for descriptor in sorted(keep):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, 1 << 20)


def _refuses(layer: str) -> bool:
    try:
        if layer == "landlock":
            os.listdir("/")
        else:
            socket.socket()
    except PermissionError:
        return True
    return False


def main(control: int, root: str, board: int, many: bool) -> None:
    """Loads torch, proves that forking is sound, and serves on the socket `control`.

    On the `board`, a file, judges note where they run. `many`: enough is to come that it pays to lay out the memory
    before anything is forked.
    """
    # Out of reach of the terminal: an interrupt is for the owner, whose end ends everything here.
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    gc.disable()  # looking for what loading leaves takes a third of a second, and what is freed so late leaves holes
    pages = layout.HugePages()
    isolation.hide()
    preload.load_torch()
    pages.forget_code()
    preload.warm_up()
    from grader import judge, sandbox, worker  # noqa: F401  # imported before the path to them goes

    worker.rehearse()
    pages.note_code()
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != os.path.realpath(root)]
    if isolation.can_filter():
        isolation.allowed_calls()
    _assert_forkable()
    zygote = Zygote(socket.socket(fileno=control), root, board, pages.steps())
    gc.freeze()
    gc.enable()
    layout.fill_holes()
    if many:
        deque(zygote.tidying, maxlen=0)
    zygote.serve()
    os._exit(0)  # nothing is left to tidy, and torch takes its time over it


def _assert_forkable() -> None:
    import torch

    threads = os.listdir("/proc/self/task")
    problems: list[Any] = []
    if len(threads) != 1:
        problems.append(f"{len(threads)} threads")
    if torch.cuda.is_initialized():
        problems.append("CUDA is initialised")
    if problems:
        raise RuntimeError(f"this process can't be forked safely: {problems}")
