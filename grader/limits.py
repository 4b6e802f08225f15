"""What a learner's process may use, and how long it may take. Seconds and bytes."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Bounds of one worker. `memory` is on top of what the process has after importing torch."""

    call_seconds: float = 10.0
    step_seconds: float = 60.0
    memory: int = 2 << 30
    file_size: int = 16 << 20
    disk: int = 64 << 20  # all files of a worker together, looked at a few times a second
    open_files: int = 64
    output: int = 64 << 10  # characters of what is printed that are kept
    accelerator: bool = False  # an accelerator maps more memory than any budget
