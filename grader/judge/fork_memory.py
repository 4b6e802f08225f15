"""Fills the zygote's heap so that forking it is cheap, and trims a judge's heap.

Only on Linux are processes forked. If the system or the C library lacks one of these features, nothing changes.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import sys
from pathlib import Path

MAX_HOLES = 4 << 20  # bytes allocated in chunks of one size, at most
HOLES = (4096, *range(1032, 8, -16))  # bytes: large chunks first, then each size class that glibc keeps a free list of
PAGE = mmap.PAGESIZE
GROWTH = 4 << 20  # bytes by which a judge may grow before its heap is trimmed
UNCOLLECTED = 4 * GROWTH  # and before that looks through all its objects, which takes longer than many a check


def fill_holes() -> None:
    """Allocates, for good, the small free chunks of the heap: a child that reused one would copy its whole page. Does
    nothing without glibc."""
    libc = ctypes.CDLL(None)  # a separate handle: argument types are set on it
    if not hasattr(libc, "malloc_trim"):  # not glibc
        return
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.sbrk.restype, libc.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
    libc.malloc_trim(0)
    top = libc.sbrk(0) - PAGE  # less than a page is free below
    for size in HOLES:
        next((None for _chunk in range(MAX_HOLES // size) if (libc.malloc(size) or top) >= top), None)


class HeapTrimmer:
    """Returns freed heap to the system between submissions (glibc `malloc_trim`): glibc keeps it, so that one answer of
    thousands of tensors would cost memory until the process ends."""

    def __init__(self) -> None:
        self._settled = self._collected = _resident()

    def trim(self) -> None:
        """Returns free heap to the system if the process has grown by GROWTH since the last time: each page costs a
        page fault when used again. If it has grown by much more, garbage is collected first: an error that was raised
        holds its frames, and they hold their values. Only on Linux, with glibc."""
        if sys.platform != "linux" or (resident := _resident()) < self._settled + GROWTH:
            return
        if resident > self._collected + UNCOLLECTED:
            gc.collect()
        with contextlib.suppress(AttributeError):  # not glibc
            ctypes.CDLL(None).malloc_trim(0)
        self._settled = _resident()
        if resident > self._collected + UNCOLLECTED:
            self._collected = self._settled


def _resident() -> int:
    """Resident bytes of this process; 0 if the system does not tell."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
