"""The zygote's process: started, watched and ended.

`python -m grader grade` calls `started_early` before it imports anything else, so that torch loads meanwhile. Therefore
this module imports next to nothing.
"""

from __future__ import annotations

import os
import sys
import time

from grader import STARTS
from grader.sandbox.environment import clean_environment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BORN_HUGE = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}  # glibc then starts its heap in huge pages
SIGKILL = 9
# Python's after-fork handlers (locks, loggers) are for programs with threads. After forking a process with a single
# thread they are useless, and the first to dirty pages: a millisecond. Random numbers are the exception: the zygote's
# children reseed them. Descriptors that a shell left open are closed first.
START = f"""
import os, sys
root, control, claims, once = sys.argv[1:]
for low, high in ((3, int(control)), (int(claims) + 1, 1 << 20)): os.closerange(low, high)
os.chdir("/")
{STARTS}
os.register_at_fork = lambda **calls: None
from grader.judge import zygote
zygote.main(int(control), root, int(claims), once=once == "once")
"""

_claims: list[int] = []


class ZygoteProcess:
    """One process that loads torch and then serves on the other end of `control`, a descriptor of a socket. `once`: for
    one grading, so that starting counts for more than what follows."""

    def __init__(self, *, once: bool = False) -> None:
        """Starts the process with posix_spawn; `once` as the zygote's own option."""
        from _socket import AF_UNIX, SOCK_SEQPACKET, socketpair  # `socket` takes longer to import than this takes

        ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        claims = cpu_claims()
        there = max(theirs.fileno(), claims) + 1  # the first number of the child's: duplicates are inherited
        null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
        shown = 2 if os.environ.get("KIT_DEBUG") else 3
        self.pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-c", START, ROOT, str(there), str(there + 1), "once" if once else ""],
            clean_environment() | BORN_HUGE,
            file_actions=[
                *null[:shown],
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), there),
                (os.POSIX_SPAWN_DUP2, claims, there + 1),
            ],
        )
        theirs.close()
        self.control: int = ours.detach()
        self._ended = False

    def poll(self) -> bool:
        """Whether the process has ended; collects its status."""
        if not self._ended:
            try:
                self._ended = os.waitpid(self.pid, os.WNOHANG)[0] != 0
            except ChildProcessError:  # someone else has waited for it
                self._ended = True
        return self._ended

    def kill(self) -> None:
        """Kills the process, unless it has ended."""
        if not self.poll():
            os.kill(self.pid, SIGKILL)

    def wait(self, seconds: float) -> None:
        """Waits until the process has ended, and kills it after so many seconds."""
        deadline = time.monotonic() + seconds
        while not self.poll() and time.monotonic() < deadline:
            time.sleep(0.005)
        self.kill()
        while not self.poll():
            time.sleep(0.005)


def started_early() -> ZygoteProcess | None:
    """A zygote's process for `launcher.start`, starting in the background; None if it can't be forked or torch is not
    there."""
    if sys.platform == "linux" and any(os.path.isdir(os.path.join(folder, "torch")) for folder in sys.path):
        return ZygoteProcess(once=True)
    return None


def cpu_claims() -> int:
    """The descriptor of an anonymous file in which each judge that this process starts locks the byte at its CPU's
    number."""
    if not _claims:
        _claims.append(_anonymous_file())
    return _claims[0]


def _anonymous_file() -> int:
    """A descriptor of an empty file without a name, in memory if the system has that."""
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create("cpu_claims")
        except OSError:  # a sandbox around the grader may refuse it
            pass
    import tempfile

    with tempfile.TemporaryFile() as file:  # a Python built for old systems, as conda's and uv's were until 2026
        return os.dup(file.fileno())
