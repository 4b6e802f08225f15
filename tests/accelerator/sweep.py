"""Runs the course's checks on the simulated accelerator: `python -m tests.accelerator.sweep right 1-12`.

`right`: references and variants, each of which has to pass every check there. `left_behind`: the misconceptions that
leave a tensor on the CPU, as their failure on `meta` says; each has to be refused here too. `loosened`: the variants
that fail where float32 products are rounded to TF32. Prints one line of JSON for each that is otherwise.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import torch

LOOSE = torch._C._set_cudnn_allow_tf32, torch._C._set_cublas_allow_tf32  # before our own processes take them away

from grader.calls import devices  # noqa: E402
from grader.checks.backends import LocalBackend  # noqa: E402
from grader.checks.trial import Verdict, run_check  # noqa: E402
from grader.course import choice  # noqa: E402
from grader.oracle.cache import Remembered  # noqa: E402
from grader.oracle.live import Solution, solutions  # noqa: E402
from grader.sandbox import preload  # noqa: E402
from tests.accelerator import simulated  # noqa: E402

SEED = 3
ELSEWHERE = ("Expected all tensors to be on the same device", "device meta", "device cpu", "indices should be either")


def verdicts(step: Solution, replaced: dict[str, object] | None, device: str) -> Iterator[tuple[str, Verdict]]:
    """Every check of the step in turn, asked of the reference with some of its names replaced."""
    student, reference = LocalBackend(step.responder(replaced, watched=True)), Remembered(step.oracle())
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
    names = choice.chosen([chosen])
    for step in solutions():
        if step.name in names and not step.lacking:
            for found in {"right": right, "left_behind": left_behind, "loosened": loosened}[what](
                step, *map(int, more)
            ):
                print(json.dumps(found), flush=True)
    sys.stdout.flush()
    os._exit(0)  # torch ends a Python backend by freeing what Python has freed before


if __name__ == "__main__":
    main(*sys.argv[1:])
