"""The limits of a learner's process: time in seconds, sizes in bytes; and how slow a machine is."""

from __future__ import annotations

import sys
import time

import msgspec

# What learners' code may import: no other package, whether it is installed on the grading machine or not. A step adds
# what it requires.
IMPORTABLE = frozenset({*sys.stdlib_module_names, "torch", "numpy", "typing_extensions"})


class Limits(msgspec.Struct, frozen=True):
    """Bounds of one worker. `memory` is on top of what the process has after importing torch.

    A step states other seconds with `DEADLINE = …` next to its checks, a check with `@deadline(…)`.
    """

    call_seconds: float = 10.0  # one call
    step_seconds: float = 60.0  # all calls of a step
    patience: float = 1.0  # multiplies all of these: for a slow machine
    memory: int = 2 << 30
    file_size: int = 16 << 20
    disk: int = 64 << 20  # all files of a worker together, checked a few times a second
    open_files: int = 64
    answers: int = 512 << 20  # all answers of a step together: they are kept until it is graded
    output: int = 64 << 10  # characters of what is printed that are kept
    accelerator: bool = False  # an accelerator maps more memory than any budget
    required: tuple[str, ...] = ()  # layers without which no code is run
    without: tuple[str, ...] = ()  # layers that are left out, to measure what each protects against

    def of_step(self, stated: float | None) -> Limits:
        """The limits of a step, with the seconds that it states (None: the default) multiplied by the patience."""
        return msgspec.structs.replace(
            self,
            call_seconds=self.call_seconds * self.patience,
            step_seconds=(stated or self.step_seconds) * self.patience,
        )


USUAL = Limits()  # of a run in which none are chosen

LOOP = 0.7e-3  # seconds that `_a_loop` takes where the limits of processor time were measured
MOST_SLOW = 4.0  # times


def slowness() -> float:
    """How many times LOOP a loop takes on this machine now, from 1 to MOST_SLOW."""
    return min(max(1.0, min(_a_loop() for _time in range(3)) / LOOP), MOST_SLOW)


def _a_loop() -> float:
    """The seconds of processor time that a loop takes. Of this thread: that of a process counts in ticks of 4 ms where
    it is limited."""
    start, total = time.thread_time(), 0
    for number in range(20_000):
        total += number * number
    return time.thread_time() - start
