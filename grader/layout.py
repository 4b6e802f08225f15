"""How the memory lies that processes are forked from: so that a fork is cheap, and what a forked process does then.

Linux alone forks here. Where a system, or a C library, can't do one of these things, nothing changes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import platform
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

BORN_HUGE = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}  # has what the C library hands out begin in huge pages
MAX_HOLES = 4 << 20  # bytes taken in pieces of one size, at most
HOLES = (4096, *range(1032, 8, -16))  # bytes: the large ones first, then each size of which the C library keeps a list
PAGE = mmap.PAGESIZE
HUGE = 2 << 20  # bytes of a huge page
IN_USE = 0.1  # of a huge page's worth of code: below it a copy is not worth the memory
# Of madvise, and of mremap.
MADV_DONTNEED, MADV_HUGEPAGE, MADV_COLLAPSE = 4, 14, 25  # the last one: Linux 6.1
MREMAP_MAYMOVE, MREMAP_FIXED = 1, 2
FAILED = ctypes.c_size_t(-1).value
MAPPING = re.compile(
    r"^(\w+)-(\w+) (\S{4}) \S+ \S+ (\d+).*\n(?:\w+: .*\n)*?Rss: +(\d+) kB\n(?:\w+: .*\n)*?Anonymous: +(\d+) kB",
    re.MULTILINE,
)


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
    top = libc.sbrk(0) - PAGE  # less than a page is free below
    for size in HOLES:
        next((None for _piece in range(MAX_HOLES // size) if (libc.malloc(size) or top) >= top), None)


class HugePages:
    """Puts the memory of this process into huge pages, a step at a time (some milliseconds each).

    A fork then copies one entry in the place of 512, and a forked process drops as many fewer at its end. Code, which a
    fork does not copy, is not looked up anew by every forked process.
    """

    def __init__(self) -> None:
        """To be made before the process is hidden: who is can't look any more."""
        self._code: list[int] = []  # where a huge page's worth of code begins that is in use
        self._pages: int | None = None
        if platform.machine() == "x86_64":  # others have to be told of code that was written
            with contextlib.suppress(OSError):
                self._pages = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)

    def forget_code(self) -> None:
        """Has `note_code` find what is run from here on: what only loading needed is in memory too."""
        for start, end in _code():
            _madvise(start, end - start, MADV_DONTNEED)  # it comes back from its file

    def note_code(self) -> None:
        """Looks where code was run since `forget_code`."""
        if self._pages is None:
            return
        for place in (place for start, end in _code() for place in _whole(start, end)):
            entries = os.pread(self._pages, HUGE // PAGE * 8, place // PAGE * 8)
            if sum(last >> 7 for last in entries[7::8]) > IN_USE * HUGE // PAGE:  # the highest bit: it is in memory
                self._code.append(place)
        os.close(self._pages)

    def steps(self) -> Iterator[bool]:
        """Goes on by a step each time it is asked."""
        if HUGE != PAGE * 512:  # where pages are larger, a huge one is too large
            return
        while self._code:
            if not _copy_code(self._code.pop()):
                self._code.clear()
            yield True
        for start, end in _data():
            for place in _whole(start, end):
                if _madvise(place, HUGE, MADV_COLLAPSE) == errno.EINVAL:
                    break  # not this mapping, or on an older system none
                yield True


def _copy_code(place: int) -> bool:
    """Has a copy in a huge page take the place of this code, which stays the same; False where that can't be done."""
    libc = _libc()
    room = libc.mmap(0, 2 * HUGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if room == FAILED:
        return False
    copy = _whole(room, room + 2 * HUGE)[0]
    if copy > room:
        libc.munmap(room, copy - room)
    libc.munmap(copy + HUGE, room + HUGE - copy)
    _madvise(copy, HUGE, MADV_HUGEPAGE)
    ctypes.memmove(copy, place, HUGE)
    done: bool = (
        _madvise(copy, HUGE, MADV_COLLAPSE) == 0  # it may have begun in small ones
        and libc.mprotect(copy, HUGE, mmap.PROT_READ | mmap.PROT_EXEC) == 0  # some systems refuse it
        and libc.mremap(copy, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place
    )
    if not done:
        libc.munmap(copy, HUGE)
    return done


def _whole(start: int, end: int) -> range:
    """Where huge pages can begin that lie within these bounds."""
    return range(-(-start // HUGE) * HUGE, end - HUGE + 1, HUGE)


class _Mapping(NamedTuple):
    """A part of this process's memory: what may be done to it, the number of its file or 0, and the bytes that are in
    memory, of all and of those that differ from the file."""

    start: int
    end: int
    may: str
    file: int
    resident: int
    own: int


def _code() -> list[tuple[int, int]]:
    """Where code lies as it is in its file, with what is only read beside it."""
    runs: list[list[_Mapping]] = []
    for part in _mappings():
        if part.may in ("r-xp", "r--p") and part.file and not part.own:
            if runs and (runs[-1][-1].end, runs[-1][-1].file) == (part.start, part.file):
                runs[-1].append(part)
            else:
                runs.append([part])
    return [(run[0].start, run[-1].end) for run in runs if any(part.may == "r-xp" for part in run)]


def _data() -> list[tuple[int, int]]:
    """Where the mappings lie that belong to this process alone, behind no file, and have nearly all their pages."""
    return [
        (part.start, part.end) for part in _mappings()
        if part.may == "rw-p" and not part.file and part.resident > 0.9 * (part.end - part.start)
    ]  # fmt: skip


def _mappings() -> Iterator[_Mapping]:
    try:
        listing = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for start, end, may, file, resident, own in MAPPING.findall(listing):
        yield _Mapping(int(start, 16), int(end, 16), may, int(file), int(resident) << 10, int(own) << 10)


def _madvise(start: int, length: int, advice: int) -> int:
    """0, or the error's number."""
    return ctypes.get_errno() if _libc().madvise(start, length, advice) else 0


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    size, number = ctypes.c_size_t, ctypes.c_int
    libc.madvise.argtypes = size, size, number
    libc.mprotect.argtypes = size, size, number
    libc.munmap.argtypes = size, size
    libc.mmap.argtypes, libc.mmap.restype = (size, size, number, number, number, ctypes.c_long), size
    libc.mremap.argtypes, libc.mremap.restype = (size, size, size, number, size), size
    return libc
