"""Where a judge and its worker run: side by side on one processor, as they work in turns."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def one_processor() -> Iterator[None]:
    """Keeps this process on the processor that it is on, where the system can.

    A judge and its worker never work at the same time. A message from one processor to another has to wake that one up
    and finds none of its data there: on one processor a grading takes about a sixth less time. The system chooses the
    processor anew for each step, so that judges keep out of each other's way.
    """
    before = allowed()
    current = _current() if len(before) > 1 else -1
    if current not in before:
        yield
        return
    stay({current})
    try:
        yield
    finally:
        stay(before)


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
        return int(ctypes.CDLL(None).sched_getcpu())
    return -1
