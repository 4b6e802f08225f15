"""`make soak`: hundreds of submissions, right, wrong and hostile, through one warm grader under one seed.

Every verdict must be right, nothing may be left behind, and the memory of the processes that live on must not grow.

`make soak FULL=1` does it where the temporary folder is nearly full, and workers have no file system of their own.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from grader.course.submissions import Submission
from grader.judge.grader import Grader
from grader.oracle.live import Solution, solutions
from grader.oracle.wrong_ways import WrongWays
from tests import hostile

SEED = 11  # of the run and of all draws
COUNT = 500
ROOM = 16  # MiB that a process may have grown by, from the first third of the run to the last
LIMITS = msgspec.structs.replace(hostile.LIMITS, call_seconds=1.0, step_seconds=4.0)
ON_DISK = ("namespaces",)  # without which a worker's files are in the temporary folder
SMALL, LEFT = 64, 6  # MiB of a temporary folder that is nearly full, and what is left of it
# In a mount namespace of its own: nobody else's temporary folder is filled.
NEARLY_FULL = """
mount -t tmpfs -o size="$1"m kit "$3" && head -c "$2"M /dev/zero > "$3/full" && export TMPDIR="$3" && shift 3 && "$@"
"""


@dataclass
class SoakCase:
    """One submission: what kind it is, and how it is graded, which says what was wrong with the verdict."""

    kind: str
    name: str
    graded: Callable[[Grader], list[str]]


@dataclass
class SoakReport:
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


Without = tuple[str, ...]  # layers that are left out


def right(step: Solution, without: Without = ()) -> SoakCase:
    """The reference."""
    return SoakCase("right", step.name, lambda grader: _status(grader, step.name, step.solved(), "pass", without))


def wrong(step: Solution, name: str, source: str, without: Without = ()) -> SoakCase:
    """The reference with one function in a way that is known to be wrong."""
    return SoakCase("wrong", f"{step.name}:{name}", lambda grader: _status(grader, step.name, source, "fail", without))


def attacking(attack: hostile.Attack, without: Without = ()) -> SoakCase:
    """A hostile one, or an honest one with unusual needs."""
    limits = msgspec.structs.replace(hostile.PATIENT if attack.is_honest else LIMITS, without=without)
    return SoakCase("hostile", attack.name, lambda grader: hostile.tried_in_short(attack, grader, limits))


def mixed(count: int, seed: int = SEED, without: Without = ()) -> list[SoakCase]:
    """So many submissions, a third of each kind, in an order drawn by the seed."""
    draw = random.Random(seed)
    steps = [step for step in solutions() if not step.lacking]
    user = "root" if os.geteuid() == 0 else "ordinary"
    attacks = [attacking(attack, without) for attack in hostile.attacks() if attack.holds(without, user)]
    # Few wrong ways, each many times: the judge keeps a tenth of a MiB of each that it has compared with, by design.
    ways = list(itertools.islice(_drawn_wrong(draw, steps, without), max(1, count // 12)))
    kinds = (
        lambda: right(draw.choice(steps), without),
        lambda: draw.choice(ways),
        lambda: draw.choice(attacks),
    )
    submitted = [kinds[number % 3]() for number in range(count)]
    draw.shuffle(submitted)
    return submitted


def soak(
    count: int, on_graded: Callable[[int, SoakReport], None] = lambda number, soaked: None, without: Without = ()
) -> SoakReport:
    """Grades them one after another, and looks at the processes after each."""
    soaked = SoakReport()
    begin = time.monotonic()
    with Grader(1, LIMITS) as grader:
        # Warms up: the judge remembers the reference's answers, by design.
        for step in (step for step in solutions() if not step.lacking):
            soaked.wrong += right(step, without).graded(grader)
        for number, submitted in enumerate(mixed(count, without=without), 1):
            said = [*submitted.graded(grader), *hostile.left_behind(grader)]
            soaked.wrong += [f"{submitted.name}: {what}" for what in said]
            soaked.kinds[submitted.kind] += 1
            _look(grader, soaked)
            on_graded(number, soaked)
    soaked.seconds = time.monotonic() - begin
    return soaked


def _status(grader: Grader, step: str, source: str, expected: str, without: Without) -> list[str]:
    grader.limits = msgspec.structs.replace(hostile.PATIENT, without=without)
    sources = {other.name: other.solved() for other in solutions()} | {step: source}
    submitted = Submission("soak", {name: (f"soak/{name}.py", text) for name, text in sources.items()})
    (result,) = grader.grade(submitted, [step], device="cpu", seed=SEED).steps
    if result.status == expected and "error" not in {check.status for check in result.checks}:
        return []
    return [f"{step} is {result.status}, not {expected}"]


def _drawn_wrong(draw: random.Random, steps: list[Solution], without: Without) -> Iterator[SoakCase]:
    """Misconceptions of one step after another, without end, each one function or class that needs no name that a
    submission does not have."""
    for step in itertools.cycle(draw.sample(steps, len(steps))):
        for misconception in draw.sample(step.misconceptions, len(step.misconceptions)):
            name, made = next(iter(misconception.replaced.items()))
            if step.wrong_ways is not None:
                written = edited(step.wrong_ways, misconception.name)
            else:
                written = written_as(made, name, vars(step.reference)) if len(misconception.replaced) == 1 else None
            if written:
                yield wrong(step, misconception.name, f"{step.solved()}\n\n{written}\n", without)
                break


def edited(ways: WrongWays, name: str) -> str | None:
    """The text of a misconception that needs nothing else."""
    way = next(way for entry in ways.document.entries.values() for way in entry.ways if way.name == name)
    return ways.text(way) if way.language == "diff" and len(way.facts.names) == 1 else None


def written_as(made: Any, name: str, there: dict[str, Any]) -> str | None:
    """The source of a function or class under this name; None where it uses what is not `there`."""
    names = vars(sys.modules[made.__module__])
    if names.get(getattr(made, "__name__", "")) is not made:  # an object, or made inside another function
        return None
    try:
        source = inspect.getsource(made)
    except OSError:  # a class made by a call
        return None
    definition = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(definition, ast.FunctionDef | ast.ClassDef)
    definition.decorator_list, definition.name = [], name
    used = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    if any(there.get(known) is not names[known] for known in used & names.keys()):
        return None
    return ast.unparse(definition)


def _look(grader: Grader, soaked: SoakReport) -> None:
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


def nearly_full(count: int) -> int:
    """Soaks, in a process of its own, where little is left of the temporary folder; its exit status."""
    namespaces = ["--mount", "--propagation", "private", *(["--user", "--map-root-user"] if os.geteuid() else [])]
    with tempfile.TemporaryDirectory() as folder:
        given = [str(SMALL), str(SMALL - LEFT), folder, sys.executable, "-m", "tools.soak", str(count), "--on-disk"]
        return subprocess.run(["unshare", *namespaces, "sh", "-c", NEARLY_FULL, "sh", *given], check=False).returncode


def main() -> int:
    """Soaks and prints what came of it."""
    asked = argparse.ArgumentParser(prog="python -m tools.soak", description="Grade hundreds of submissions.")
    asked.add_argument("count", type=int, nargs="?", default=COUNT)
    asked.add_argument("--nearly-full", action="store_true", help="where the temporary folder is nearly full")
    asked.add_argument("--on-disk", action="store_true", help="with the files of workers in the temporary folder")
    given = asked.parse_args()
    count = given.count
    if given.nearly_full:
        return nearly_full(count)

    def say(number: int, soaked: SoakReport) -> None:
        if number % 50 == 0:
            memory = ", ".join(f"{name} {values[-1]:.0f} MiB" for name, values in soaked.memory.items())
            print(f"{number:5} graded, {len(soaked.wrong)} wrong, {memory}", flush=True)

    soaked = soak(count, say, ON_DISK if given.on_disk else ())
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
