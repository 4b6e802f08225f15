"""What a computation takes: its time, and the most bytes that were allocated at once above what was there before."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

from grader.calls import devices

Answer = TypeVar("Answer")


def peak_bytes(compute: Callable[[], object], device: str = "cpu") -> int:
    """The peak of what PyTorch's allocator hands out while `compute` runs, its result included.

    On the CPU each allocation is counted, so the figure is exact and the same each time; the process's own peak would
    hold what the allocator keeps for later.
    """
    if devices.counts_memory(device):
        accelerator = torch.get_device_module(device)
        accelerator.synchronize()
        accelerator.reset_peak_memory_stats()
        before = accelerator.memory_allocated()
        compute()
        accelerator.synchronize()
        return int(accelerator.max_memory_allocated() - before)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with _silent(), torch.profiler.profile(activities=activities, profile_memory=True) as recorded:
        result = compute()
    changes = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    del result
    now = most = 0
    for event in sorted(changes, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def timed(compute: Callable[[], Answer], device: str) -> tuple[float, Answer]:
    """Seconds, and what was computed. On the CPU those of one processor, of one thread: several threads that wait for
    each other beside other programs take time that is no work. On a GPU the time until it is done."""
    if device == "cpu":
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            began = time.process_time()
            answer = compute()
            return time.process_time() - began, answer
        finally:
            torch.set_num_threads(threads)
    devices.synchronise(device)
    began = time.perf_counter()
    answer = compute()
    devices.synchronise(device)
    return time.perf_counter() - began, answer


def warm_up() -> None:
    """Loads the profiler, which takes seconds the first time."""
    peak_bytes(lambda: torch.zeros(1))


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """The profiler writes a line on standard error, past Python, whenever it starts and stops."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
