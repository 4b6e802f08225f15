"""`make soak`: hundreds of submissions, right, wrong and hostile, through one warm grader under one seed.

Every verdict must be right, nothing may be left behind, and the memory of the processes that live on must not grow.
"""

from __future__ import annotations

import ast
import inspect
import os
import random
import statistics
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from grader.course.submissions import Submission
from grader.judge.grader import Grader
from grader.oracle.live import Solution, solutions
from tests import hostile

SEED = 11  # of the run and of all draws
COUNT = 500
ROOM = 16  # MiB that a process may have grown by, from the first third of the run to the last
LIMITS = msgspec.structs.replace(hostile.LIMITS, call_seconds=1.0, step_seconds=4.0)


@dataclass
class Submitted:
    """One submission: what kind it is, and how it is graded, which says what was wrong with the verdict."""

    kind: str
    name: str
    graded: Callable[[Grader], list[str]]


@dataclass
class Soaked:
    """What a run came to. `memory` has a list of MiB for each process that lives on."""

    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    memory: dict[str, list[float]] = field(default_factory=dict)
    descriptors: dict[str, list[int]] = field(default_factory=dict)
    seconds: float = 0.0

    def growth(self, process: str) -> float:
        """MiB from the first third of the run to the last.

        Before the first, every step was graded once: the judge has the reference's answers by then. Those of the
        misconceptions come as they are asked for, and must find room in the bound.
        """
        values = self.memory[process]
        third = max(1, len(values) // 3)
        return statistics.median(values[-third:]) - statistics.median(values[:third])


def right(step: Solution) -> Submitted:
    """The reference."""
    return Submitted("right", step.name, lambda grader: _status(grader, step.name, step.solved(), "pass"))


def wrong(step: Solution, name: str, source: str) -> Submitted:
    """The reference with one function in a way that is known to be wrong."""
    return Submitted("wrong", f"{step.name}:{name}", lambda grader: _status(grader, step.name, source, "fail"))


def attacking(attack: hostile.Attack) -> Submitted:
    """A hostile one, or an honest one with unusual needs."""
    limits = hostile.PATIENT if attack.is_honest else LIMITS
    return Submitted("hostile", attack.name, lambda grader: hostile.tried_in_short(attack, grader, limits))


def mixed(count: int, seed: int = SEED) -> list[Submitted]:
    """So many submissions, a third of each kind, in an order drawn by the seed."""
    draw = random.Random(seed)
    steps = [step for step in solutions() if not step.lacking]
    wrongs = [[wrong(step, name, source) for name, source in _wrong_sources(step)] for step in steps]
    wrongs = [some for some in wrongs if some]
    attacks = [attacking(attack) for attack in hostile.attacks()]
    kinds = (
        lambda: right(draw.choice(steps)),
        lambda: draw.choice(draw.choice(wrongs)),
        lambda: draw.choice(attacks),
    )
    submitted = [kinds[number % 3]() for number in range(count)]
    draw.shuffle(submitted)
    return submitted


def soak(count: int, on_graded: Callable[[int, Soaked], None] = lambda number, soaked: None) -> Soaked:
    """Grades them one after another, and looks at the processes after each."""
    soaked = Soaked()
    begin = time.monotonic()
    with Grader(1, LIMITS) as grader:
        for step in (
            step for step in solutions() if not step.lacking
        ):  # warms up: the judge remembers the reference's answers, by design
            soaked.wrong += right(step).graded(grader)
        for number, submitted in enumerate(mixed(count), 1):
            said = [*submitted.graded(grader), *hostile.left_behind(grader)]
            soaked.wrong += [f"{submitted.name}: {what}" for what in said]
            soaked.kinds[submitted.kind] += 1
            _look(grader, soaked)
            on_graded(number, soaked)
    soaked.seconds = time.monotonic() - begin
    return soaked


def _status(grader: Grader, step: str, source: str, expected: str) -> list[str]:
    grader.limits = hostile.PATIENT
    sources = {other.name: other.solved() for other in solutions()} | {step: source}
    submitted = Submission("soak", {name: (f"soak/{name}.py", text) for name, text in sources.items()})
    (result,) = grader.grade(submitted, [step], device="cpu", seed=SEED).steps
    if result.status == expected and "error" not in {check.status for check in result.checks}:
        return []
    return [f"{step} is {result.status}, not {expected}"]


def _wrong_sources(step: Solution) -> list[tuple[str, str]]:
    """The misconceptions that are one function or class and need no name that a submission does not have."""
    found = []
    for misconception in step.misconceptions:
        for name, made in misconception.replaced.items():
            written = _written(made, name, vars(step.reference))
            if written and len(misconception.replaced) == 1:
                found.append((misconception.name, f"{step.solved()}\n\n{written}\n"))
    return found


def _written(made: Any, name: str, there: dict[str, Any]) -> str | None:
    """The source of a function or class under this name; None where it uses what is not `there`."""
    names = vars(sys.modules[made.__module__])
    if names.get(made.__name__) is not made:  # it was made inside another function
        return None
    definition = ast.parse(textwrap.dedent(inspect.getsource(made))).body[0]
    assert isinstance(definition, ast.FunctionDef | ast.ClassDef)
    definition.decorator_list, definition.name = [], name
    used = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    if any(there.get(known) is not names[known] for known in used & names.keys()):
        return None
    return ast.unparse(definition)


def _look(grader: Grader, soaked: Soaked) -> None:
    zygote = hostile.zygote_pid(grader)
    judges = hostile.descendants(zygote)
    for name, pid in {"grader": os.getpid(), "zygote": zygote, "judge": judges[0] if judges else zygote}.items():
        memory, descriptors = held(pid)
        soaked.memory.setdefault(name, []).append(memory)
        soaked.descriptors.setdefault(name, []).append(descriptors)


def held(pid: int) -> tuple[float, int]:
    """MiB of its own and open descriptors of a process; of one that hides itself only root is told, others read 0.

    Its own are the pages that lie behind no file: with how many processes they are shared makes no difference.
    """
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        anonymous = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Anonymous:"))
        return anonymous / 1024, len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE") / 2**20, 0


def main() -> int:
    """Soaks and prints what came of it."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT

    def say(number: int, soaked: Soaked) -> None:
        if number % 50 == 0:
            memory = ", ".join(f"{name} {values[-1]:.0f} MiB" for name, values in soaked.memory.items())
            print(f"{number:5} graded, {len(soaked.wrong)} wrong, {memory}", flush=True)

    soaked = soak(count, say)
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(soaked.kinds.items()))
    print(f"{kinds}: {soaked.seconds:.0f} s, {len(soaked.wrong)} wrong verdicts or things left behind")
    for process, values in soaked.memory.items():
        first, last = soaked.descriptors[process][0], soaked.descriptors[process][-1]
        print(
            f"{process:7} {values[0]:6.1f} MiB at first, {values[-1]:6.1f} at last, {max(values):6.1f} at most; "
            f"grown by {soaked.growth(process):+.1f} (bound {ROOM}); descriptors {first} at first, {last} at last"
        )
    print("\n".join(soaked.wrong))
    grown = any(soaked.growth(process) > ROOM for process in soaked.memory)
    return 1 if soaked.wrong or grown else 0


if __name__ == "__main__":
    sys.exit(main())
