"""Runs the course's checks on the simulated accelerator: `python -m tests.accelerator.sweep right 1-12`.

`right`: references and variants, each of which has to pass every check there. `left_behind`: the misconceptions that
leave a tensor on the CPU, as their failure on `meta` says; each has to be refused here too. `loosened`: the variants
that fail where float32 products are rounded to TF32. `outside_torch`: what takes memory of Python's. Prints one line
of JSON for each that is otherwise, or each that was looked at.
"""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

TRACED, RESET_PEAK = tracemalloc.get_traced_memory, tracemalloc.reset_peak  # our processes watch who calls them
LOOSE = torch._C._set_cudnn_allow_tf32, torch._C._set_cublas_allow_tf32  # before our own processes take them away

from grader.calls import counters, devices, modes  # noqa: E402
from grader.calls.modes import PeakMemory  # noqa: E402
from grader.checks.backends import LocalBackend  # noqa: E402
from grader.checks.trial import Verdict, run_check  # noqa: E402
from grader.course import choice  # noqa: E402
from grader.oracle.cache import CachedOracle  # noqa: E402
from grader.oracle.live import Solution, solutions  # noqa: E402
from grader.sandbox import preload  # noqa: E402
from tests.accelerator import simulated  # noqa: E402

SEED = 3
OUTSIDE_TORCH = "Outside of torch"
ELSEWHERE = ("Expected all tensors to be on the same device", "device meta", "device cpu", "indices should be either")


class OwnPeak(PeakMemory):
    """The peak of Python's memory without what the simulation itself takes for each of its tensors. Between two changes
    of their number it is the same."""

    each = 0  # bytes that a tensor there takes beyond those of a plain one

    def note(self) -> None:
        """The peak since the last change."""
        if tracemalloc.is_tracing():
            simulations = self.each * simulated.MODULE.memory.tensors
            self._own = max(self._own, TRACED()[1] - simulations)
            RESET_PEAK()

    def __enter__(self) -> OwnPeak:
        super().__enter__()
        self._own = 0
        self._held = self._before - self.each * simulated.MODULE.memory.tensors
        simulated.MODULE.memory.changes = self.note
        return self

    def __exit__(self, *exception: object) -> None:
        simulated.MODULE.memory.changes = lambda: None
        self.note()
        super().__exit__(*exception)
        if self.measured is not None:
            self.measured = max(self._own - self._held, 0) + PeakMemory.mapped

    @classmethod
    def weigh(cls) -> None:
        """Finds out what a tensor there takes."""

        def taken(device: str) -> int:
            before = TRACED()[0]
            held = [torch.ones(1, device=device) for _time in range(100)]
            return (TRACED()[0] - before) // len(held)

        tracemalloc.start()
        taken(simulated.NAME)  # what Python makes once
        cls.each = taken(simulated.NAME) - taken("cpu")
        tracemalloc.stop()


def verdicts(step: Solution, replaced: dict[str, object] | None, device: str) -> Iterator[tuple[str, Verdict]]:
    """Every check of the step in turn, asked of the reference with some of its names replaced."""
    student, reference = LocalBackend(step.responder(replaced, watched=True)), CachedOracle(step.oracle())
    for check in step.checks:
        yield check.name, run_check(check.function, student, reference, seed=SEED, device=device)


def right(step: Solution, most: int = 1000) -> Iterator[dict[str, str]]:
    """Right solutions that a check refuses on the device: the reference, and at `most` so many variants."""
    for name, replaced in [("reference", None), *((other.name, other.replaced) for other in step.variants[:most])]:
        for check, verdict in verdicts(step, replaced, simulated.NAME):
            if verdict.status != "pass":
                yield {"step": step.name, "who": name, "check": check, "says": verdict.message}


def left_behind(step: Solution) -> Iterator[dict[str, str]]:
    """Misconceptions about devices that pass every check there."""
    for wrong in step.misconceptions:
        if not any(word in f"{wrong.what} {wrong.why}" for word in ("device", "CPU", "moves", "buffer", "meta")):
            continue
        check = next(check for check in step.checks if check.name == wrong.caught_by)
        reference = LocalBackend(step.responder())
        on_cpu = run_check(
            check.function, LocalBackend(step.responder(wrong.replaced, watched=True)), reference, seed=SEED
        )
        if not any(words in on_cpu.message for words in ELSEWHERE):
            continue
        refused = any(verdict.status != "pass" for _name, verdict in verdicts(step, wrong.replaced, simulated.NAME))
        yield {"step": step.name, "who": wrong.name, "refused": str(refused), "says": on_cpu.message}


def outside_torch(step: Solution) -> Iterator[dict[str, str]]:
    """Right variants that hold an array as large as the matrix of scores beside torch, and whether that is refused."""
    for other in (one for one in step.variants if "flash_attention" in one.replaced):
        attend = other.replaced["flash_attention"]

        def beside(query: torch.Tensor, key: torch.Tensor, *more: object, attend: Any = attend) -> torch.Tensor:
            held = np.zeros((query.shape[-2], key.shape[-2]), dtype=np.float32)
            context: torch.Tensor = attend(query, key, *more)
            return context + float(held[0, 0])

        found = dict(verdicts(step, {"flash_attention": beside}, simulated.NAME))["test_memory"]
        yield {"step": step.name, "who": other.name, "refused": str(OUTSIDE_TORCH in found.message)}


def loosened(step: Solution) -> Iterator[dict[str, str]]:
    """Right solutions that are refused where products are rounded to TF32."""
    for allow in LOOSE:
        allow(True)
    torch._C._get_cublas_allow_tf32 = lambda: True  # type: ignore[assignment]
    setattr(type(torch.backends.cudnn), "allow_tf32", property(lambda module: True))  # noqa: B010
    yield from right(step)


def main(what: str, chosen: str, *more: str) -> None:
    """Prints what one sweep found in the chosen steps."""
    simulated.install()
    devices.accelerator.cache_clear()
    preload.load_torch()
    counters.storage_of = lambda tensor: tensor.untyped_storage()  # what torch's C class has is empty for a stand-in
    OwnPeak.weigh()
    modes.PeakMemory = OwnPeak  # type: ignore[misc]
    sweeps = {"right": right, "left_behind": left_behind, "outside_torch": outside_torch, "loosened": loosened}
    names = choice.chosen([chosen])
    for step in solutions():
        if step.name in names and not step.lacking:
            for found in sweeps[what](step, *map(int, more)):
                print(json.dumps(found), flush=True)
    sys.stdout.flush()
    os._exit(0)  # torch ends a Python backend by freeing what Python has freed before


if __name__ == "__main__":
    main(*sys.argv[1:])
