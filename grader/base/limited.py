"""Processes one person's submission in a separate process with a budget of processor time and memory.

The code that runs there is ours; what it reads is anyone's, and a text can be made to keep a parser busy. Without a
budget one student could hold up a class.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from grader import STARTS
from grader.base import language
from grader.base.language import gettext as _

SECONDS = 20  # of processor time for one call: a whole submission takes a tenth of one
MEMORY = 2 << 30  # bytes beyond what the process has before its first call
LATEST = 600.0  # seconds on the clock: a disk may be slow, and a class may run at the same time
LENGTH = struct.Struct("<Q")
START = f"{STARTS}from grader.base.limited import serve; serve(*map(int, sys.argv[1:]))"


class OverBudget(Exception):
    """A call took more time or memory than one person's files may take. One sentence."""


class LimitedProcess:
    """Calls functions of ours in a process that is started at the first call, and again after one that was ended.

    Arguments and results are copied. Calls from several threads wait for each other. `close` it.
    """

    def __init__(self, seconds: int = SECONDS, memory: int = MEMORY) -> None:
        self.seconds, self.memory = seconds, memory
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()

    def start(self) -> None:
        """Starts the process without waiting for its imports."""
        if self._process is None:
            arguments = [str(Path(__file__).parents[2]), str(self.seconds), str(self.memory)]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the caller, which ends it
            )

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a module's function in that process. Raises OverBudget, and what the function raises."""
        with self._turn:
            self.start()
            assert self._process is not None and self._process.stdin and self._process.stdout
            request = function.__module__, function.__qualname__, arguments, language.current()
            try:
                _send(self._process.stdin, request)
                answer = _received(self._process.stdout, LATEST)
            except BaseException:  # Ctrl-C too: what comes later would be taken for the answer to the next call
                self._end()
                raise
            if answer is None:
                self._end()
                raise OverBudget(
                    _("Reading it took more than {seconds} s of the processor or {memory} GiB of memory.").format(
                        seconds=self.seconds, memory=self.memory >> 30
                    )
                )
        result, error = answer
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Ends the process."""
        with self._turn:
            self._end()

    def _end(self) -> None:
        """Kills the process and waits for it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:  # closes its pipes and waits
                pass


def _send(stream: IO[bytes], value: Any) -> None:
    """Writes a value as one pickled message."""
    data = pickle.dumps(value)
    with suppress(BrokenPipeError):  # its end is noticed when its answer is awaited
        stream.write(LENGTH.pack(len(data)) + data)
        stream.flush()


def _received(stream: Any, latest: float | None = None) -> Any:
    """The next value sent; None if the other side has ended, or none comes within `latest` seconds (None: waits)."""
    if latest is not None and os.name == "posix" and not select.select([stream], [], [], latest)[0]:
        return None
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    data = stream.read(LENGTH.unpack(head)[0])
    return pickle.loads(data)  # it is of a process of ours, and holds what our code has made there


# --- in that process -------------------------------------------------------------------------------------------------


def serve(seconds: int, memory: int) -> None:
    """Answers one call after another. A process that is over its budget dies, and its caller starts another one."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed by mistake is no answer
    sys.stdin = open(os.devnull)  # noqa: SIM115 - it lives as long as the process
    while (request := _received(requests)) is not None:
        module, name, arguments, spoken = request
        function = getattr(import_module(module), name)  # before the limits: imports are no one's
        limit(seconds, memory)
        answer: tuple[Any, Exception | None]
        try:
            with language.use(spoken):
                answer = function(*arguments), None
        except MemoryError:
            return
        except Exception as error:  # the caller's to handle
            answer = None, error
        _send(answers, answer)


def limit(seconds: int, memory: int) -> None:
    """Allows this process so many more seconds of processor time, and so many more bytes of memory (0: any). A second
    call sets the time again and leaves the memory as it is. Does nothing on Windows."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    global _memory_limit
    if memory and not _memory_limit and sys.platform == "linux":
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _memory_limit = size + memory
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (_memory_limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


_memory_limit = 0
