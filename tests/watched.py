"""`python -m grader watch`, or `course`, as a process, in a pseudo-terminal or in a pipe."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from functools import cache
from pathlib import Path
from typing import Self

from grader.base import paths
from grader.course import steps

PATIENCE = 120.0  # seconds: a machine that does much else at the same time
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CLEARED = "\x1b[2J\x1b[H"  # what every screen begins with


@cache
def core_points() -> str:
    """What a screen shows where no elective was begun. A function: to count them torch is imported, which a program
    that measures must not have in its own memory."""
    return f"{sum(step.points for step in steps.steps() if step.track == 'core'):g}"


class Session:
    """One session, and what it has shown: `shown` without control sequences, `raw` with them."""

    def __init__(
        self, folder: Path | str, *arguments: str, command: str = "watch", terminal: bool = True,
        root: Path = paths.ROOT, **environment: str,
    ) -> None:  # fmt: skip
        words = [sys.executable, "-m", "grader", command, *arguments, "--submission", str(folder)]
        left_out = ("COLUMNS", "LINES", "KIT_LANG", "NO_COLOR", "PYTHONPATH")
        inherited = {name: value for name, value in os.environ.items() if name not in left_out}
        surroundings = inherited | {"TERM": "xterm", "KIT_LANG": "en", **environment}
        self.shown = self.raw = ""
        if terminal:
            self.read_from, self.end = pty.openpty()
            termios.tcsetwinsize(self.end, (24, 80))
            self.before = termios.tcgetattr(self.end)
            self.process = subprocess.Popen(
                words, stdin=self.end, stdout=self.end, stderr=self.end, cwd=root, env=surroundings,
                start_new_session=True,
            )  # fmt: skip
        else:
            self.read_from, writing = os.pipe()
            self.process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=writing, stderr=writing, cwd=root, env=surroundings
            )
            os.close(writing)

    def until(self, *words: str, after: int = 0) -> str:
        """What is shown from position `after` on, once all the words are in it."""
        deadline = time.monotonic() + PATIENCE
        while not all(word in self.shown[after:] for word in words):
            ready, _writing, _error = select.select([self.read_from], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {words} in: {self.shown[after:]}"
            data = os.read(self.read_from, 1 << 16)
            assert data, f"it ended without {words}: {self.shown[after:]}"
            self._take(data)
        return self.shown[after:]

    def screen(self) -> str:
        """The last whole screen, with the sequences that colour it. Call it when the last line of one was shown."""
        return self.raw.rpartition(CLEARED)[2].replace("\r\n", "\n").rstrip()

    def press(self, key: str) -> int:
        """Presses a key; the position from which its effect is shown."""
        os.write(self.read_from, key.encode())
        return len(self.shown)

    def ended(self) -> int:
        """Its exit status, once it has ended and its output is read."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            if select.select([self.read_from], [], [], 0.05)[0]:
                self._take(os.read(self.read_from, 1 << 16))
        return self.process.wait(1.0)

    def close(self) -> None:
        """Ends what is left of it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        os.close(self.read_from)
        if hasattr(self, "end"):
            os.close(self.end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _take(self, data: bytes) -> None:
        text = data.decode("utf-8", errors="ignore")
        self.raw += text
        # A line of a terminal may be folded anywhere between words.
        self.shown += CONTROL.sub("", text).replace("\r", "")


def descendants(pid: int) -> list[int]:
    """Every process below `pid`."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
    parents = {int(child): int(parent) for child, parent in (line.split() for line in listing.splitlines())}
    found, level = [], [pid]
    while level := [child for child, parent in parents.items() if parent in level]:
        found += level
    return found
