"""`make bench-class`: one class through `nbgrader autograde` as it comes, through the same with the kit's line in its
configuration, and through `grader class`, in one run.

Submissions of the core's twelve steps each, half of them right. nbgrader grades the notebooks that `make release`
makes, `grader class` does all that it does for an instructor. All are timed as whole commands, `grader class` before
and after nbgrader. With one notebook per step nbgrader alone takes minutes for each student, so only a few go that way.
The bounds hold on a machine that does nothing else. `--many 1000` sends as many through the kit alone and looks at
memory.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from grader.base import paths
from grader.course import steps as course
from grader.course.choice import CORE
from tools.bench_grade import descendants, worked

EXAMPLES = paths.ROOT / "examples" / "course" / "submissions"
RIGHT = ("ada", "김민서")
WRONG = ("chen", "dora", "emre", "fatima", "박서연")
LOOPS = ("박서연/step10_flash.py",)  # an endless loop costs nbgrader 30 seconds and us 10: neither is the point here
SEED = 7
SETTLED = 2.0  # seconds after which all processors are to be busy: until then torch is loaded, once
LOOK_EVERY = 3.0  # seconds: a look takes some 15 ms of a processor, and holds up what it looks at

Notebooks = Callable[[Path | None], dict[str, object]]  # of one student, by file name


def hand_in(folder: Path, count: int) -> None:
    """`count` submissions of twelve steps each: every other one right, the others with mistakes in several steps."""
    for number in range(count):
        student = folder / f"student{number:04}"
        shutil.copytree(EXAMPLES / RIGHT[number // 2 % 2], student)
        wrong = EXAMPLES / WRONG[number // 2 % len(WRONG)]
        for file in sorted(wrong.glob("*.py")) if number % 2 else ():
            if f"{wrong.name}/{file.name}" not in LOOPS:
                shutil.copyfile(file, student / file.name)
        for file in student.glob("*.py"):  # no two are the same
            file.write_text(f"# {student.name}\n{file.read_text(encoding='utf-8')}", encoding="utf-8")


def released(folder: Path | None, *, per_step: bool = False) -> dict[str, object]:
    """The notebooks that `make release` makes, one for all steps or one a step. None: their sources."""
    from grader.classes import release

    made = {}
    for steps in [[step] for step in core()] if per_step else [core()]:
        notebook = release.notebook(steps)
        there = {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells if "nbgrader" in cell.metadata}
        for step in steps if folder is not None else ():
            there[step.name].source = answered(folder, step, whole=not per_step)
        for cell in notebook.cells:  # on both sides the same draws: a step that a mistake blocks has points by chance
            cell.source = re.sub(r'^check\("(\w+)"\)', rf'check("\1", seed={SEED})', cell.source, flags=re.MULTILINE)
        made[f"{steps[0].name if per_step else 'attention'}.ipynb"] = notebook
    return made


def answered(folder: Path, step: course.Step, *, whole: bool = True) -> str:
    """A student's answer to a step; in a `whole` notebook the names of earlier steps are there without an import."""
    answer = (folder / f"{step.name}.py").read_text(encoding="utf-8")
    if whole:
        return re.sub(r"^from exercises.*\n", "", answer, flags=re.MULTILINE)
    earlier = re.findall(r"^from exercises\.(\w+) import", answer, flags=re.MULTILINE)
    steps = [other for other in core() if other.name in earlier]
    parts = [*(answered(folder, other, whole=False) for other in steps), answer]
    return re.sub(r"^from exercises.*\n", "", "\n".join(parts), flags=re.MULTILINE)


def core() -> list[course.Step]:
    """The twelve steps that are graded."""
    return [step for step in course.steps() if step.track == CORE]


def nbgrader_course(folder: Path, students: list[Path], notebooks: Notebooks, with_kit: bool) -> None:
    """A course of nbgrader's with these students' submissions collected; `with_kit`: with its line, `configure(c)`."""
    import nbformat

    from grader.classes import release

    source = folder / "source" / "attention"
    places = {source: None, **{folder / "submitted" / student.name / "attention": student for student in students}}
    for place, student in places.items():
        place.mkdir(parents=True)
        for name, notebook in notebooks(student).items():
            nbformat.write(notebook, place / name)
    if with_kit:
        configuration = release.CONFIG.format(kit=paths.ROOT, language="en")
        own = f'c.GradeSubmission.seed = {SEED}\nc.GradeSubmission.device = "cpu"\n'
        (folder / "nbgrader_config.py").write_text(configuration + own, encoding="utf-8")
    quiet(folder, "-m", "nbgrader", "generate_assignment", "attention")


def quiet(folder: Path, *arguments: str, shown: bool = False) -> tuple[float, float]:
    """Runs Python with these arguments in a folder; the seconds it took, and those of all its processes' processors."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # nbgrader looks for alembic
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=None if shown else subprocess.PIPE,
        text=True,
        env=os.environ | {"PATH": tools, "KIT_HOME": str(paths.ROOT)},
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{(done.stderr or '')[-3000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu


@dataclass
class Run:
    """One class through this kit: seconds, processor seconds, those of them after it has settled, as a share of all
    that its processes could have had, and the memory of each process at each look."""

    wall: float = 0.0
    cpu: float = 0.0
    busy: float = 0.0
    looks: list[dict[int, float]] = field(default_factory=list)


def graded(submissions: Path, out: Path, jobs: int, pages: str = "Pss", *, shown: bool = False) -> Run:
    """One class through this kit, looked at while it runs; `shown`: with the command's own bar and time left."""
    run, settled = Run(), [0.0]
    done = threading.Event()

    def look() -> None:
        if not done.wait(SETTLED):
            settled[0] = worked(os.getpid())
        while not done.wait(LOOK_EVERY):
            run.looks.append(memory(os.getpid(), pages))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        arguments = ("class", str(submissions), "--out", str(out), "--seed", str(SEED), "--device", "cpu")
        run.wall, run.cpu = quiet(paths.ROOT, "-m", "grader", *arguments, "--jobs", str(jobs), shown=shown)
    finally:
        done.set()
        watching.join()
    if run.wall > SETTLED:
        run.busy = (run.cpu - settled[0]) / (jobs * (run.wall - SETTLED))
    return run


def memory(pid: int, pages: str) -> dict[int, float]:
    """MiB of each process below one: `Pss`, with shared pages shared out, or `Anonymous`, the pages behind no file."""
    found = {}
    for process in descendants(pid):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
        except OSError:
            continue
        found[process] = next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{pages}:")), 0.0)
    return found


def same_scores(folder: Path, out: Path) -> bool:
    """Whether both gave the same scores to those whom nbgrader graded: the same work was done."""
    from nbgrader.api import Gradebook

    from grader.classes import results

    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
        theirs = {one.student.id: one.score for one in gradebook.assignment_submissions("attention")}
    reports = {name: results.load(out, name) for name in theirs}
    ours = {name: entry.report.score for name, entry in reports.items() if entry and entry.report}
    for name in sorted(theirs):
        if theirs[name] != ours.get(name):
            print(f"{name}: nbgrader {theirs[name]}, this kit {ours.get(name)}")
    return bool(theirs) and theirs == ours


def compare(scratch: Path, count: int) -> None:
    """The class through all three, `grader class` first and last: meanwhile the machine may get slower or faster."""
    submissions = scratch / "in"
    hand_in(submissions, count)
    print(f"{count} submissions of twelve steps, whole commands")
    print(f"{'':50} {'seconds':>9} {'a minute':>9} {'processor seconds each':>24}")
    runs: dict[int, list[Run]] = {2: [], 1: []}

    def grade_class(jobs: int) -> Path:
        out = scratch / f"out{jobs}-{len(runs[jobs])}"
        run = graded(submissions, out, jobs)
        runs[jobs].append(run)
        row(f"grader class --jobs {jobs}", run.wall, run.cpu, count)
        return out

    out = grade_class(2)
    grade_class(1)
    theirs: dict[str, tuple[float, bool]] = {}
    for name, (notebooks, with_kit) in FORMS.items():
        few = per_step_students(count) if name == ALONE_PER_STEP else count
        folder = scratch / re.sub(r"\W+", "-", name)
        nbgrader_course(folder, sorted(submissions.iterdir())[:few], notebooks, with_kit)
        wall, cpu = quiet(folder, "-m", "nbgrader", "autograde", "attention")
        row(name, wall, cpu, few)
        theirs[name] = wall / few, same_scores(folder, out)
    grade_class(1)
    grade_class(2)
    conclude(runs, theirs, count)


def conclude(runs: dict[int, list[Run]], theirs: dict[str, tuple[float, bool]], count: int) -> None:
    """The figures that have a bound."""
    two, one = runs[2], runs[1]
    each = statistics.mean(run.cpu for run in two) / count
    print(f"\nprocessor seconds per submission: {each:.2f} (at most 0.5)")
    busy = statistics.mean(run.busy for run in two)
    print(f"share of both processors that is busy from second {SETTLED:.0f} on: {100 * busy:.0f} % (at least 95 %)")
    sizes = [statistics.median([sum(look.values()) for run in of for look in run.looks] or [0.0]) for of in (two, one)]
    print(f"memory of a second judge: {sizes[0] - sizes[1]:.0f} MiB (below 60); of all with one: {sizes[1]:.0f} MiB")
    seconds = {name: each for name, (each, _same) in theirs.items()}
    ours = statistics.mean(run.wall for run in two) / count
    ratios = (
        ("nbgrader with the kit's line, to nbgrader alone", seconds[ALONE] / seconds[WITH_KIT], 8),
        ("grader class to nbgrader alone, one notebook for all", seconds[ALONE] / ours, 15),
        ("grader class to nbgrader alone, one notebook per step", seconds[ALONE_PER_STEP] / ours, 100),
    )
    for name, ratio, bound in ratios:
        print(f"{name}: {ratio:.1f} times the submissions a minute (at least {bound})")
    for name, (_seconds, same) in theirs.items():
        print(f"the same scores as {name}: {'yes' if same else 'NO'}")


def per_step_students(count: int) -> int:
    """How many go through nbgrader alone with one notebook per step: a kernel is started twelve times for each."""
    return max(1, count // 12)


def row(name: str, wall: float, cpu: float, count: int) -> None:
    """One line of the table."""
    print(f"{name:50} {wall:9.1f} {60 * count / wall:9.1f} {cpu / count:24.2f}", flush=True)


LASTING = ("command", "zygote", "judge")
ALONE, ALONE_PER_STEP = "nbgrader alone, one notebook for all", "nbgrader alone, one notebook per step"
WITH_KIT = "nbgrader with the kit's line"
FORMS: dict[str, tuple[Notebooks, bool]] = {
    WITH_KIT: (released, True),
    ALONE: (released, False),
    ALONE_PER_STEP: (partial(released, per_step=True), False),
}


def endure(scratch: Path, count: int) -> None:
    """Many submissions through this kit, with an eye on the memory of the processes that last: all but the workers."""
    hand_in(scratch / "in", count)
    run = graded(scratch / "in", scratch / "out", 2, "Anonymous", shown=True)
    looks = run.looks
    print(f"{count} submissions: {60 * count / run.wall:.0f} a minute, {run.cpu / count:.2f} processor seconds each")
    print("memory behind no file in each tenth of the run, the median, MiB")
    lasting = sorted(pid for pid in {*itertools.chain(*looks)} if sum(pid in look for look in looks) > len(looks) / 2)
    bounds = [len(looks) * tenth // 10 for tenth in range(11)]
    for place, pid in enumerate(lasting):  # in the order in which they were started
        sizes = [
            statistics.median([look[pid] for look in looks[start:end] if pid in look] or [0.0])
            for start, end in itertools.pairwise(bounds)
        ]
        print(f"{LASTING[min(place, 2)]:10}" + "".join(f"{size:7.0f}" for size in sizes))


def main() -> None:
    """Measures and prints."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=40, help="how many students")
    arguments.add_argument("--many", type=int, default=0, help="instead, as many through the kit alone")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        if asked.many:
            endure(scratch, asked.many)
        else:
            compare(scratch, asked.count)


if __name__ == "__main__":
    main()
