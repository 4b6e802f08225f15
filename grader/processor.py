"""Where a judge and its worker run: side by side on one processor, as they work in turns."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

from grader.isolation import libc

with suppress(ImportError):  # Windows has none, and no board
    import fcntl


@cache
def board() -> int:
    """A file without a name in which every judge that this process starts locks the byte of its processor.

    A lock ends with its process, however that ends.
    """
    if hasattr(os, "memfd_create"):
        with suppress(OSError):  # a sandbox around all of this may refuse it
            return os.memfd_create("processors")
    with tempfile.TemporaryFile() as file:  # a Python built for old systems, as conda's and uv's were until 2026
        return os.dup(file.fileno())


@contextmanager
def one_processor(board: int | None = None) -> Iterator[None]:
    """Keeps this process on one processor, where the system can: one that no other has taken on the `board`, if any is.

    A judge and its worker never work at the same time. A message from one processor to another has to wake that one up
    and finds none of its data there: on one processor a grading takes about a sixth less time. Left to the system, two
    judges are on one processor now and then while another is idle.
    """
    before = allowed()
    current = _current() if len(before) > 1 else -1
    if current not in before:
        yield
        return
    with _taken(board, [current, *sorted(before - {current})]) as free:
        stay({current if free is None else free})
        try:
            yield
        finally:
            stay(before)


@contextmanager
def _taken(board: int | None, processors: Iterable[int]) -> Iterator[int | None]:
    """Takes the first of the processors that is free; None when none is."""
    free = next((number for number in processors if _lock(board, number)), None) if board is not None else None
    try:
        yield free
    finally:
        if board is not None and free is not None:
            fcntl.lockf(board, fcntl.LOCK_UN, 1, free)


def _lock(board: int, processor: int) -> bool:
    try:
        fcntl.lockf(board, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, processor)
    except OSError:
        return False
    return True


def allowed() -> set[int]:
    """The processors that this process may run on; empty where the system does not say."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def stay(processors: set[int]) -> None:
    """Keeps this process on these processors, where the system can."""
    if processors and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):  # one of them was switched off meanwhile
            os.sched_setaffinity(0, processors)


def _current() -> int:
    with suppress(OSError, AttributeError):  # no C library that says so
        return int(libc().sched_getcpu())
    return -1
