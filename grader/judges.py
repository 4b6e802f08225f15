"""Where judges come from: forked from one warm process, or started as programs of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Protocol

import msgspec

from grader import layout, processor
from grader.judge import Channel
from grader.language import gettext as _
from grader.places import ROOT
from grader.sandbox import ForkLauncher, SandboxError, clean_environment
from grader.zygote_messages import Command


class GraderError(RuntimeError):
    """The grader itself could not work: never the learner's fault."""


class Judges(Protocol):
    """Where judges come from. Several threads may ask for one."""

    def new(self) -> Channel:
        """A channel to a new judge, which ends when the channel is closed. Raises GraderError."""

    @property
    def alive(self) -> bool:
        """Whether there are more to be had."""

    def stop(self) -> None:
        """Has all judges end, without waiting for it. May be called from any thread."""

    def close(self) -> None:
        """Ends everything that was started."""


def start(*, fork: bool | None = None, many: bool = False) -> Judges:
    """A source of judges: forked ones where that is sound, if not told otherwise.

    With `many` submissions to come, it takes a third of a second longer to start, and less time for each.
    """
    fork = sys.platform == "linux" if fork is None else fork
    return Forked(many) if fork else Spawned()


class Forked:
    """Judges forked from one zygote, which is started at once and warms up while the caller goes on."""

    def __init__(self, many: bool) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # What Python does after each fork is for programs with threads: locks and loggers. In a process forked from one
        # with a single thread it mends nothing, and is the first thing to copy memory: a millisecond. Random numbers
        # are the exception: the zygote's children seed them.
        start = (
            "import os, sys; root, control, board, many = sys.argv[1:]; sys.path.insert(0, root)\n"
            "os.register_at_fork = lambda **calls: None\n"
            "from grader import zygote; zygote.main(int(control), root, int(board), many == 'many')"
        )
        board = processor.board()
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", start, str(ROOT), str(theirs.fileno()), str(board), "many" if many else ""],
            pass_fds=[theirs.fileno(), board], env=clean_environment() | layout.BORN_HUGE, cwd="/",
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=None if os.environ.get("KIT_DEBUG") else subprocess.DEVNULL,
        )  # fmt: skip
        theirs.close()
        self.launcher = ForkLauncher(ours)
        self.ready = False
        self.asking = threading.Lock()

    def new(self) -> Channel:
        """A judge forked from the zygote."""
        ours, theirs = socket.socketpair()
        try:
            with self.asking:
                if not self.ready:
                    self.launcher.await_reply("ready", seconds=120.0)
                    self.ready = True
                socket.send_fds(self.launcher.control, [msgspec.msgpack.encode(Command("judge"))], [theirs.fileno()])
                self.launcher.await_reply("started")
        except (SandboxError, OSError) as error:
            ours.close()
            raise GraderError(_("The judge could not be started: {reason}").format(reason=error)) from error
        finally:
            theirs.close()
        return Channel(ours)

    @property
    def alive(self) -> bool:
        """Whether the zygote still runs."""
        return self.process.poll() is None

    def stop(self) -> None:
        """The zygote hears that nobody is left to work for, and ends everything it forked."""
        with contextlib.suppress(OSError):
            self.launcher.control.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the zygote, and with it everything it forked."""
        self.launcher.control.close()
        if not self.ready:  # it is still importing torch, has forked nothing and would not hear
            self.process.kill()
        try:
            self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Spawned:
    """Judges started as programs of their own."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.stopped = False
        self.starting = threading.Lock()

    def new(self) -> Channel:
        """A judge in a new interpreter."""
        ours, theirs = socket.socketpair()
        start = (
            "import sys; descriptor, root = sys.argv[1:]; sys.path.insert(0, root)\n"
            "import socket; from grader import judge; judge.main(socket.socket(fileno=int(descriptor)), None)"
        )
        debugging = os.environ.get("KIT_DEBUG")
        with self.starting, theirs:
            if self.stopped:
                ours.close()
                raise GraderError(_("The judge could not be started: {reason}").format(reason="stopped"))
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-c", start, str(theirs.fileno()), str(ROOT)], pass_fds=[theirs.fileno()],
                    env=os.environ | clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=None if debugging else subprocess.DEVNULL,
                )
            )  # fmt: skip
        return Channel(ours)

    @property
    def alive(self) -> bool:
        """A program can always be started."""
        return True

    def stop(self) -> None:
        """Ends the judges, without waiting for it; until `close` there are no new ones."""
        with self.starting:
            self.stopped = True
            for process in self.processes:
                with contextlib.suppress(OSError):
                    process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Ends the judges."""
        self.stop()
        for process in self.processes:
            process.wait()
        self.processes.clear()
        self.stopped = False
