"""`make bench-grade`: how long grading takes, as ratios to a cold `import torch` measured in the same run.

Each round times the import and the grading in turn, so that a slow minute of the machine slows both; the medians of the
ratios are printed. `floors`: the processor time of a warm grade, as a ratio to that of the learner's code alone
(`tools.floor`).
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from grader.base.limits import Limits
from grader.course import choice, exercises, submissions
from grader.judge import grader as grading
from grader.sandbox import kernel
from tests.watched import descendants

ROUNDS = 7
PYTHON = sys.executable
# What was measured last, and a tenth: a line in CHANGELOG.md moves them.
BOUNDS = {
    "cold, twelve steps": 1.3,
    "cold, one step": 0.82,
    "warm, the middle step": 0.096,
    "warm, the slowest step": 0.22,
    "warm, twelve steps": 0.5,
    "warm, seed seen before": 0.32,
    "the slowest, seed seen before": 0.15,
    "warm, steps 1 to 18": 0.72,
    "warm, steps 1 to 24": 1.53,
    "warm, all but Triton's": 2.05,
}
UPTO = {"warm, steps 1 to 18": 18, "warm, steps 1 to 24": 24, "warm, all but Triton's": 28}
MOST_OVERHEAD = 0.15  # of a warm grade of twelve steps
MOST_BEFORE_TORCH = 5.0  # milliseconds of processor time
# Python's own start, and what comes after it until another process is started: the one that loads torch.
BEFORE_TORCH = """
import os, runpy, sys, time
started = time.process_time()
def spent(event, _arguments):
    if event == "os.posix_spawn":
        os.write(1, str(time.process_time() - started).encode())
        os._exit(0)
sys.addaudithook(spent)
sys.argv = ["grader", "grade", "--step", "4"]
runpy.run_module("grader", run_name="__main__", alter_sys=True)
"""


def floors() -> dict[str, float]:
    """Milliseconds of the learner's code alone, by step, measured in another process: torch is not for this one, whose
    memory counts."""
    code = "import json; from tools import floor; print(json.dumps(floor.floors()))"
    found: dict[str, float] = json.loads(subprocess.check_output([PYTHON, "-c", code]))
    return found


def timed(run: Callable[[], object]) -> float:
    """Seconds that `run` takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def command(*arguments: str) -> Callable[[], object]:
    """A whole process, its output thrown away."""
    return lambda: subprocess.run([PYTHON, *arguments], check=True, stdout=subprocess.DEVNULL)


def before_torch(language: str) -> float:
    """Milliseconds of processor time that `make grade` takes before it starts the process that loads torch."""
    spoken = {**os.environ, "KIT_LANG": language}
    run = subprocess.run([PYTHON, "-c", BEFORE_TORCH], check=True, stdout=subprocess.PIPE, env=spoken)
    return float(run.stdout) * 1000


def overhead(grader: grading.Grader, read: submissions.Submission) -> float:
    """What all layers but the process itself add to a warm grade of everything, as a share of one without them."""
    times: dict[tuple[str, ...], list[float]] = {(): [], kernel.LAYERS[1:]: []}
    for without in [*times, *times, *times]:
        grader.limits = Limits(without=without)
        times[without].append(timed(lambda: grader.grade(read, choice.step_names(None, choice.CORE), seed=1)))
    bound, free = (min(taken) for taken in times.values())
    return bound / free - 1


def worked(pid: int) -> float:
    """The processor seconds of the processes below one, with those of their children that have ended."""
    ticks = 0
    for process in descendants(pid):
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def busy(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds that a grading takes, and those of a processor, of all its processes."""
    before = worked(os.getpid()) + time.process_time()
    seconds = timed(run)
    return seconds, worked(os.getpid()) + time.process_time() - before


def of_plain(read: submissions.Submission) -> None:
    """Prints the processor time of a warm grade by one judge, beside one that does nothing to be fast.

    A ratio of two gradings in turn, which holds on a busy machine as well.
    """
    with grading.Grader(1) as fast, grading.Grader(1, plain=True) as plain:
        for count, seeds in itertools.product((12, 28), ("new", "seen")):
            steps = choice.step_names()[:count]
            took: dict[grading.Grader, list[float]] = {fast: [], plain: []}
            for number in range(ROUNDS):
                seed = number + 2 if seeds == "new" else 1
                for grader, times in took.items():
                    spent = busy(lambda grader=grader: grader.grade(read, steps, device="cpu", seed=seed))[1]  # noqa: B023
                    times += [spent] if number else []  # the first warms up
            own, theirs = (statistics.median(times) for times in took.values())
            print(f"one judge, steps 1 to {count}, seed {seeds}: {own:.2f} s of processor, {own / theirs:.2f} of plain")


def resident(pid: int) -> tuple[int, int]:
    """(resident, proportional) MiB of a process and all its descendants."""
    sizes = [0, 0]
    for process in [pid, *descendants(pid)]:
        try:
            fields = dict(
                line.split(":", 1) for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
            )
        except OSError:
            continue
        for index, name in enumerate(("Rss", "Pss")):
            sizes[index] += int(fields[name].split()[0]) // 1024
    return sizes[0], sizes[1]


def say(name: str, values: list[float], bound: float, of_floor: list[float] | None = None) -> bool:
    """One line of the table; whether the median is within the bound."""
    median = statistics.median(values)
    over = "" if median <= bound else "   over"
    floor = f"{statistics.median(of_floor):7.1f}" if of_floor else " " * 7
    print(f"{name:33} {median:7.3f} {min(values):7.3f} {max(values):7.3f} {bound:7.3f} {floor}{over}")
    return not over


def main() -> int:
    """Measures and prints one line for each figure; 1 where one exceeds its bound, on a quiet machine."""
    with tempfile.TemporaryDirectory() as folder:
        solved = Path(folder) / "solved"
        exercises.write_solved(solved)
        read = submissions.read(solved)
        every, core = choice.step_names(), choice.step_names(None, choice.CORE)
        ratios: dict[str, list[float]] = {name: [] for name in BOUNDS}
        milliseconds, of_floor = list(floors().values()), dict[str, list[float]]()

        def note(figure: str, count: int, torch: float, run: Callable[[], object]) -> None:
            seconds, processor = busy(run)
            ratios[figure].append(seconds / torch)
            of_floor.setdefault(figure, []).append(1000 * processor / sum(milliseconds[:count]))

        with grading.Grader() as grader:
            grader.grade(read, choice.step_names(None, choice.CORE))
            # The judges are idle while the cold runs are timed.
            for _round in range(ROUNDS):
                torch = timed(command("-c", "import torch"))
                grade = ("-m", "grader", "grade", "--submission", str(solved), "--track", choice.CORE)
                ratios["cold, twelve steps"].append(timed(command(*grade)) / torch)
                ratios["cold, one step"].append(timed(command(*grade[:-2], "--step", "4")) / torch)
                ones = [timed(lambda name=name: grader.grade(read, [name])) for name in core]
                ratios["warm, the middle step"].append(statistics.median(ones) / torch)
                ratios["warm, the slowest step"].append(max(ones) / torch)
                note("warm, twelve steps", 12, torch, lambda: grader.grade(read, core))
                grader.grade(read, core, seed=1)
                note("warm, seed seen before", 12, torch, lambda: grader.grade(read, core, seed=1))
                # One step is always the first judge's work: it has to have seen all of them under this seed.
                for _time in range(2):
                    ones = [timed(lambda name=name: grader.grade(read, [name], seed=1)) for name in core]
                ratios["the slowest, seed seen before"].append(max(ones) / torch)
                for figure, count in UPTO.items():
                    note(figure, count, torch, lambda count=count: grader.grade(read, every[:count]))
            rss, pss = resident(os.getpid())
            overheads = [overhead(grader, read) for _round in range(ROUNDS)]
    heads = "".join(f" {head:>7}" for head in ("median", "best", "worst", "bound", "floors"))
    print(f"{'figure':33}{heads}   (cold torch imports, {ROUNDS} rounds)")
    held = [say(name, ratios[name], bound, of_floor.get(name)) for name, bound in BOUNDS.items()]
    held.append(say("layers, share they add", overheads, MOST_OVERHEAD))
    for language in ("en", "ko"):
        before = [before_torch(language) for _round in range(3 * ROUNDS)]
        held.append(say(f"before torch, {language}, ms of processor", before, MOST_BEFORE_TORCH))
    of_plain(read)
    print(f"memory of all processes after: {rss} MiB resident (shared pages counted in each), {pss} MiB proportional")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
