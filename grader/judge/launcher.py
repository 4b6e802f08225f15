"""Starts judges: forked from one warm process, or spawned as new interpreters.

A process that loads torch is started first, and everything not needed for that is imported in functions.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from grader import STARTS
from grader.base.language import gettext as _
from grader.base.paths import ROOT
from grader.judge import zygote_process
from grader.sandbox.environment import clean_environment

if TYPE_CHECKING:
    from grader.judge.messages import Channel


class GraderError(RuntimeError):
    """The grader itself failed: never the learner's fault."""


def start(early: zygote_process.ZygoteProcess | None = None, *, fork: bool | None = None) -> Judges:
    """A source of judges: forked ones if that is sound, unless `fork` says otherwise. `early` is a zygote's process
    that was started before; forked ones use it."""
    fork = sys.platform == "linux" if fork is None else fork
    return ForkingLauncher(early) if fork else SpawningLauncher()


class ForkingLauncher:
    """Judges forked from one zygote, which is started at once and warms up in the background."""

    def __init__(self, early: zygote_process.ZygoteProcess | None = None) -> None:
        """Takes the zygote's process that was started `early`, or starts one; does not wait for it."""
        self.process = early or zygote_process.ZygoteProcess()
        control = socket.socket(fileno=self.process.control)
        from grader.sandbox.forked import ForkLauncher

        self.launcher = ForkLauncher(control)
        self.ready = False
        self.asking = threading.Lock()
        self.instead: SpawningLauncher | None = None  # if the zygote turns out not to be forkable

    def new(self) -> Channel:
        """A channel to a judge forked from the zygote, which ends when the channel is closed. Raises GraderError."""
        from grader.sandbox.forked import Unforkable

        try:
            return self.instead.new() if self.instead else self._forked()
        except Unforkable:
            self.instead = SpawningLauncher()
            return self.instead.new()

    def _forked(self) -> Channel:
        """Forks a judge. Raises Unforkable if torch can't be forked here, GraderError if the fork fails."""
        import msgspec

        from grader.judge.messages import Channel
        from grader.sandbox.forked import Unforkable
        from grader.sandbox.process import Command, SandboxError

        ours, theirs = socket.socketpair()
        try:
            with self.asking:
                if not self.ready:
                    self.launcher.await_reply("ready", seconds=120.0)
                    self.ready = True
                socket.send_fds(self.launcher.control, [msgspec.msgpack.encode(Command("judge"))], [theirs.fileno()])
                pid = self.launcher.await_reply("started").pid
        except Unforkable:
            ours.close()
            raise
        except (SandboxError, OSError) as error:
            ours.close()
            raise GraderError(_("The judge could not be started: {reason}").format(reason=error)) from error
        finally:
            theirs.close()
        return Channel(ours, pid)

    def end(self, judge: Channel) -> None:
        """Kills one judge and its workers; the zygote stays. Another thread may be waiting for the judge's answer."""
        import msgspec

        from grader.sandbox.process import Command

        if self.instead:
            self.instead.end(judge)
            return
        with self.asking, contextlib.suppress(OSError):
            self.launcher.control.send(msgspec.msgpack.encode(Command("kill", pid=judge.pid)))

    @property
    def alive(self) -> bool:
        """Whether judges can still be started: the zygote runs, or new interpreters are spawned."""
        return self.instead is not None or not self.process.poll()

    def stop(self) -> None:
        """Tells the zygote that its owner is gone: it kills everything it forked. Does not wait."""
        if self.instead:
            self.instead.stop()
        with contextlib.suppress(OSError):
            self.launcher.control.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the zygote and everything it forked."""
        if self.instead:
            self.instead.close()
        self.launcher.control.close()
        if not self.ready:  # it is still importing torch: it has forked nothing and does not listen yet
            self.process.kill()
        self.process.wait(5.0)


class SpawningLauncher:
    """Judges spawned as new interpreters."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.stopped = False
        self.starting = threading.Lock()

    def new(self) -> Channel:
        """A channel to a judge in a new interpreter. Raises GraderError."""
        from grader.judge.messages import Channel

        ours, theirs = socket.socketpair()
        start = f"{STARTS}import socket; from grader.judge import process; " + (
            "process.main(socket.socket(fileno=int(sys.argv[1])), None)"
        )
        debugging = os.environ.get("KIT_DEBUG")
        with self.starting, theirs:
            if self.stopped:
                ours.close()
                raise GraderError(_("The judge could not be started: {reason}").format(reason="stopped"))
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", start, str(ROOT), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=os.environ | clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if debugging else subprocess.DEVNULL,
            )
            self.processes.append(process)
        return Channel(ours, process.pid)

    def end(self, judge: Channel) -> None:
        """Ends one judge without waiting."""
        with self.starting:
            for process in self.processes:
                if process.pid == judge.pid:
                    process.send_signal(signal.SIGTERM)

    @property
    def alive(self) -> bool:
        """True: a new interpreter can be started at any time."""
        return True

    def stop(self) -> None:
        """Ends the judges without waiting; none can be started until `close`."""
        with self.starting:
            self.stopped = True
            for process in self.processes:
                with contextlib.suppress(OSError):
                    process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Ends the judges, and waits for that; new ones can be started then."""
        self.stop()
        for process in self.processes:
            process.wait()
        self.processes.clear()
        self.stopped = False


Judges = ForkingLauncher | SpawningLauncher  # several threads may share one
