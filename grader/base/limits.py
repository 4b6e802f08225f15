"""The limits of a learner's process: time in seconds, sizes in bytes."""

from __future__ import annotations

import sys

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
