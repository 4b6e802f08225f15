"""The warm process from which judges and workers are forked. It imports torch once, and never a learner's code.

It runs on Linux, where forking torch is sound as long as one thread runs, no accelerator was touched and no backward
pass was run. Commands arrive on sockets, one per client; a forked judge gets its own.
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
from collections.abc import Callable

import msgspec

from grader import holds_a_kit, put_on_path
from grader.base.limits import Limits
from grader.judge import fork_memory, process
from grader.sandbox import cpus, kernel, namespaces, preload
from grader.sandbox.bounds import restrict
from grader.sandbox.kernel import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl
from grader.sandbox.process import Command, Reply, report_set_up
from grader.sandbox.scratch import Scratch
from grader.sandbox.scratch import remove as remove_folder

MAX_COMMAND = 1 << 16
set_handler = inspect.unwrap(signal.signal)  # without the enum wrappers: saves a third of a millisecond after a fork
PROBE = (("namespaces", 1), ("landlock", 2), ("seccomp", 4))  # the exit status of the process that tests the layers


class Zygote:
    """Forks on command, reaps children, and leaves no descendant of a worker behind."""

    def __init__(self, control: socket.socket, root: str, cpu_claims: int) -> None:
        """`control` is the socket of the process that started this one, `cpu_claims` a file with a byte for each
        CPU."""
        self.root, self.cpu_claims = root, cpu_claims
        self.scratch = Scratch()
        self.readable = kernel.readable_paths(root)
        self.spaces = namespaces.make(self.scratch.path, self.readable, kernel.library_places())
        self.proven: tuple[str, ...] = ()
        self.selector = selectors.DefaultSelector()
        self.owner = control
        self.workers: dict[int, tuple[socket.socket, str]] = {}  # its client, and its folder
        self.judges: set[int] = set()
        self.wake_read, self.wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.selector.register(control, selectors.EVENT_READ)
        self.selector.register(self.wake_read, selectors.EVENT_READ)

    def serve(self) -> None:
        """Serves until the owner closes its socket, then kills everything."""
        signal.set_wakeup_fd(self.wake_write)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        kernel.ignore_stopped_children()
        self.proven = self._try_layers()
        self._reply(self.owner, Reply("ready"))
        while True:
            for key, _events in self.selector.select(0 if self.scratch.tidy() else None):
                if key.fileobj is self.wake_read:
                    os.read(self.wake_read, 4096)
                    self._reap()
                elif not self._carry_out(key.fileobj):  # type: ignore[arg-type]  # only sockets are left
                    self._kill_all()
                    return

    def _carry_out(self, client: socket.socket) -> bool:
        """Receives one command of a client and carries it out; a client that is gone is forgotten, and its workers are
        killed. False when the owner is gone."""
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
                elif command.pid in self.judges and client is self.owner:  # its workers end with it
                    os.kill(command.pid, signal.SIGKILL)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _fork_judge(self, client: socket.socket, descriptors: list[int]) -> None:
        """Forks a judge that serves this channel, and replies with its process id."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def run() -> None:
            """Serves the channel, in the judge."""
            ours.detach()
            put_on_path()
            process.main(socket.socket(fileno=os.dup(descriptors[0])), theirs, self.proven, self.cpu_claims)

        pid = self._fork(run, client, keep={descriptors[0], theirs.fileno(), self.cpu_claims})
        theirs.close()
        if pid is None:
            ours.close()
            return
        self.judges.add(pid)
        self.selector.register(ours, selectors.EVENT_READ)
        self._reply(client, Reply("started", pid))

    def _fork_worker(self, client: socket.socket, descriptors: list[int], command: Command) -> None:
        """Forks a worker on the client's channel and pipes, confined before it reads any code; replies with its process
        id, or why there is no folder for it."""
        channel, output, faults = descriptors
        limits = command.limits or Limits()
        inside = self.spaces is not None and not limits.accelerator and "namespaces" not in limits.without
        try:
            folder = "" if inside else self.scratch.folder()  # inside it has a file system of its own
        except OSError as error:
            self._reply(client, Reply("refused", reason=str(error)))
            return

        def run() -> None:
            """Confines the worker, and serves calls on its channel."""
            from grader.sandbox import worker

            cpus.pin(command.cpus)
            os.setsid()
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (output, 1), (output, 2)):
                os.dup2(source, target)
            os.close(null)
            os.close(output)
            sys.argv[:] = sys.orig_argv[:] = [""]
            requests, answers = os.fdopen(channel, "rb"), os.fdopen(channel, "wb", closefd=False)
            layers = restrict(limits, folder, self.readable, self.proven, self.spaces)
            answers.write(report_set_up(layers))
            answers.flush()
            worker.serve(requests, answers, faults)

        joined = self.spaces.descriptors if self.spaces else ()
        pid = self._fork(run, client, keep={channel, output, faults, *joined})
        if pid is None:
            if folder:
                remove_folder(folder)
            return
        self.workers[pid] = client, folder
        self._reply(client, Reply("started", pid, folder=folder))

    def _try_layers(self) -> tuple[str, ...]:
        """The names of the isolation layers in force on this machine. Namespaces that can be created but not joined are
        given up."""
        proven = self._probe()
        if self.spaces and "namespaces" not in proven:
            self.spaces.close()
            self.spaces = None
            proven = self._probe()
        return proven

    def _probe(self) -> tuple[str, ...]:
        """The names of the layers in force, found by a process forked only to try what they must refuse."""
        folder = self.scratch.folder()
        pid = os.fork()
        if pid == 0:
            held = 0
            with contextlib.suppress(BaseException):
                if self.spaces:
                    folder = self.spaces.join(1 << 20)
                    held += not os.path.exists(os.path.join(self.root, "grader"))
                layers = kernel.confine(folder, self.readable)
                held += sum(bit for name, bit in PROBE if name in layers and _refuses(name))
            os._exit(held)
        _pid, status = os.waitpid(pid, 0)
        remove_folder(folder)
        held = os.waitstatus_to_exitcode(status)
        return tuple(name for name, bit in PROBE if held > 0 and held & bit)

    def _fork(self, run: Callable[[], None], client: socket.socket, keep: set[int]) -> int | None:
        """Forks a child that calls `run` with no descriptors but those in `keep`, and never returns here. Returns its
        process id; None if the fork fails: then the client is told."""
        try:
            parent = os.getpid()
            pid = os.fork()
        except OSError as error:
            self._reply(client, Reply("refused", reason=str(error)))
            return None
        if pid:
            return pid
        status = 70  # tells the judge that the process could not be set up
        try:
            signal.set_wakeup_fd(-1)
            set_handler(signal.SIGCHLD, signal.SIG_DFL)
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(status)
            _close_all_but(keep)
            random.seed()  # nothing else reseeds after a fork: equal random states would be predictable
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
        """Collects all children that have ended, and tells the client of a worker its wait status."""
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
                if folder:
                    self.scratch.discard(folder)
                self._reply(client, Reply("ended", pid, status))

    def _end_strays(self, patience: float = 1.0) -> None:
        """Kills what workers left behind, for at most `patience` seconds: their orphans become children of this
        process, which did not fork them."""
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
        """Kills all judges and workers with what they started, and removes their folders."""
        for pid in [*self.workers, *self.judges]:
            _signal_group(pid, signal.SIGKILL) if pid in self.workers else os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.waitpid(pid, 0)
        self.workers.clear()
        self.judges.clear()
        self._end_strays()
        self.scratch.remove()

    def _reply(self, client: socket.socket, reply: Reply) -> None:
        """Sends a reply to a client, if it is still there."""
        with contextlib.suppress(OSError):  # the client is gone
            client.send(msgspec.msgpack.encode(reply))


def _children() -> list[int]:
    """The process ids of this process's children."""
    thread = threading.get_native_id()
    with open(f"/proc/self/task/{thread}/children", encoding="ascii") as listing:
        return [int(pid) for pid in listing.read().split()]


def _signal_group(pid: int, number: int) -> None:
    """Sends a signal to a process and its group; does nothing if they have ended."""
    # The worker may not have called setsid yet: then it has no process group of its own.
    with contextlib.suppress(OSError):
        os.kill(pid, number)
    with contextlib.suppress(OSError):
        os.killpg(pid, number)


def _close_all_but(keep: set[int]) -> None:
    """Closes every descriptor from 3 on, except these."""
    start = 3
    for descriptor in sorted(keep):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, 1 << 20)


def _refuses(layer: str) -> bool:
    """Whether the kernel refuses this process what a layer (landlock or seccomp) must refuse."""
    try:
        if layer == "landlock":
            os.listdir("/")
        else:
            socket.socket()
    except PermissionError:
        return True
    return False


def main(control: int, root: str, cpu_claims: int, *, once: bool = False) -> None:
    """Runs the zygote: loads torch, and serves on the socket with the descriptor `control`, unless forking is unsound
    here, which it replies. Never returns. Judges claim their CPU in the file with the descriptor `cpu_claims`; `once`:
    for one grading."""
    # Detached from the terminal: an interrupt is for the owner, and its exit ends everything here.
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    gc.disable()  # collecting the garbage of loading takes a third of a second, and freeing it this late leaves holes
    kernel.hide()
    preload.load_torch(once=once)
    preload.warm_up()
    from grader.sandbox import conceal, worker  # before its path is removed; it needs torch

    worker.rehearse()
    conceal.own_builtins()
    sys.path[:] = [entry for entry in sys.path if not holds_a_kit(entry)]
    if kernel.can_filter():
        kernel.allowed_calls()
    if problems := _unsound():
        socket.socket(fileno=control).send(msgspec.msgpack.encode(Reply("unforkable", reason=", ".join(problems))))
        os._exit(1)
    zygote = Zygote(socket.socket(fileno=control), root, cpu_claims)
    gc.freeze()
    gc.enable()
    fork_memory.fill_holes()
    zygote.serve()
    os._exit(0)  # there is nothing to clean up, and torch would take its time


def _unsound() -> list[str]:
    """The reason why this process can't be forked safely; empty if it can."""
    from grader.calls import devices

    threads = os.listdir("/proc/self/task")
    problems: list[str] = []
    if len(threads) != 1:
        problems.append(f"{len(threads)} threads")
    if devices.is_in_use():
        problems.append("an accelerator is initialised")
    return problems
