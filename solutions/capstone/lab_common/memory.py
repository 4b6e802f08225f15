"""How much memory a computation takes: the most bytes that were allocated at once, above what was there before it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

import torch

from grader.calls import devices


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
