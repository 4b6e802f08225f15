"""The memory of a process that lives on: what one submission's answers took is given back before the next one comes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path

ROOM = 4 << 20  # bytes by which the process may grow before it is worth a look: ordinary grading stays below it


class Heap:
    """Gives back to the system what is free between the blocks in use. The C library keeps it by itself, so that one
    answer of thousands of tensors would be paid for until the process ends."""

    def __init__(self) -> None:
        self._settled = _resident()

    def settle(self) -> None:
        """Gives back where the process has grown since the last time: every page has its price when it is needed again.

        On systems without glibc nothing is done.
        """
        if sys.platform != "linux" or _resident() < self._settled + ROOM:
            return
        with contextlib.suppress(AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
        self._settled = _resident()


def _resident() -> int:
    """Bytes of this process that are in memory; 0 where the system does not say."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
