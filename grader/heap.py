"""The memory of the processes that live on: what one submission's answers took is given back before the next one comes,
and what processes are forked from is laid out so that a fork is cheap."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_HOLES = 4 << 20  # bytes taken in pieces of one size, at most
HOLES = (4096, *range(1032, 8, -16))  # bytes: the large ones first, then each size of which the C library keeps a list
HUGE = 2 << 20  # bytes of a huge page
MADV_COLLAPSE = 25  # Linux 6.1
OF_ITS_OWN = re.compile(r"^(\w+)-(\w+) rw-p \S+ \S+ 0\b.*\n(?:\w+: .*\n)*?Rss: +(\d+) kB", re.MULTILINE)
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


def fill_holes() -> None:
    """Takes for good what is free between the blocks of memory in use: it is little, and it lies scattered.

    For every piece of it that a forked process is given, a page is copied there. What is left lies together, above.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "malloc_trim"):  # another C library keeps its memory in another way
        return
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.sbrk.restype, libc.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
    libc.malloc_trim(0)
    top = libc.sbrk(0) - mmap.PAGESIZE  # less than a page is free below
    for size in HOLES:
        next((None for _piece in range(MAX_HOLES // size) if (libc.malloc(size) or top) >= top), None)


def huge_pages() -> Iterator[bool]:
    """Has the system put the memory of this process into huge pages, one each time it is asked (some milliseconds).

    A fork then copies one entry in the place of 512, and a forked process drops as many fewer at its end. Where the
    system can't, nothing changes.
    """
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int
    for start, end in _in_use():
        for place in range(-(-start // HUGE) * HUGE, end - HUGE + 1, HUGE):
            if madvise(place, HUGE, MADV_COLLAPSE) and ctypes.get_errno() == errno.EINVAL:
                break  # not this mapping, or on an older system none
            yield True


def _in_use() -> list[tuple[int, int]]:
    """Where the mappings lie that belong to this process alone, behind no file, and have nearly all their pages."""
    try:
        listing = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    mappings = [
        (int(start, 16), int(end, 16), int(resident) << 10) for start, end, resident in OF_ITS_OWN.findall(listing)
    ]
    return [(start, end) for start, end, resident in mappings if resident > 0.9 * (end - start)]
