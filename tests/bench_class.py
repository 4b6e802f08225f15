"""`make bench-class`: a class through this kit, and students of it through nbgrader's own `Execute`, in one run.

Submissions of twelve steps each, half of them right. On this side `python -m grader class` does all that it does for an
instructor. On nbgrader's side `nbgrader autograde` runs the notebooks that `make release` makes as it comes, without
the kit's line in its configuration; and, for the hardest comparison, the leanest notebook that could be written: the
kit's checks in the kernel itself, with no isolation, no diagnosis and no page. All are timed as whole commands, this
kit's before and after nbgrader's. `--many 1000` sends as many through the kit alone and looks at memory meanwhile.
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
from functools import partial
from pathlib import Path

from grader.base import paths
from grader.calls.responder import Responder
from grader.checks.backends import LocalBackend
from grader.checks.trial import run_check
from grader.course import steps as course
from tests.bench_grade import descendants

EXAMPLES = paths.ROOT / "examples" / "course" / "submissions"
RIGHT = ("ada", "김민서")
WRONG = ("chen wei", "dora", "emre", "fatima", "박서연")
LOOPS = ("박서연/step10_flash.py",)  # an endless loop costs nbgrader 30 seconds and us 10: neither is the point here
SEED = 7
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


def points(name: str, namespace: dict[str, object]) -> float:
    """What a grade cell of nbgrader's computes: the points of a step, by its own checks, in the kernel."""
    step = next(step for step in course.steps() if step.name == name)
    student = LocalBackend(Responder(namespace, step.off_limits))
    reference = LocalBackend(step.responder())
    passed = (
        check.points for check in step.checks
        if run_check(check.function, student, reference, seed=SEED).status == "pass"
    )  # fmt: skip
    return float(sum(passed))


def leanest(folder: Path | None) -> dict[str, object]:
    """The leanest notebook that grades twelve steps: the kit's checks in the kernel itself. None: its source."""
    from nbformat import v4

    def cell(kind: str, step: course.Step, source: str, **flags: object) -> object:
        about = {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False, **flags}
        return v4.new_code_cell(source, metadata={"nbgrader": {"grade_id": f"{kind}_{step.name}", **about}})

    cells = [
        v4.new_code_cell(f"import sys\nsys.path.insert(0, {str(paths.ROOT)!r})\nfrom tests.bench_class import points")
    ]
    for step in course.steps():
        answer = "raise NotImplementedError" if folder is None else answered(folder, step)
        cells.append(cell("answer", step, answer, solution=True))
        cells.append(
            cell("points", step, f'points("{step.name}", globals())', grade=True, locked=True, points=step.points)
        )
    return {"attention.ipynb": v4.new_notebook(cells=cells)}


def released(folder: Path | None, *, per_step: bool = False) -> dict[str, object]:
    """The notebooks that `make release` makes, one for all steps or one a step. None: their sources."""
    from grader.instructor import release

    made = {}
    for steps in [[step] for step in course.steps()] if per_step else [course.steps()]:
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
    steps = [other for other in course.steps() if other.name in earlier]
    parts = [*(answered(folder, other, whole=False) for other in steps), answer]
    return re.sub(r"^from exercises.*\n", "", "\n".join(parts), flags=re.MULTILINE)


def nbgrader_course(folder: Path, students: list[Path], notebooks: Notebooks) -> None:
    """A course of nbgrader's with these students' submissions collected."""
    import nbformat

    source = folder / "source" / "attention"
    places = {source: None, **{folder / "submitted" / student.name / "attention": student for student in students}}
    for place, student in places.items():
        place.mkdir(parents=True)
        for name, notebook in notebooks(student).items():
            nbformat.write(notebook, place / name)
    quiet(folder, "-m", "nbgrader", "generate_assignment", "attention")


def quiet(folder: Path, *arguments: str) -> tuple[float, float]:
    """Runs Python with these arguments in a folder; the seconds it took, and those of all its processes' processors."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # nbgrader looks for alembic
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": tools, "KIT_HOME": str(paths.ROOT)},
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu


def graded(submissions: Path, out: Path, jobs: int, pages: str = "Pss") -> tuple[float, float, list[dict[int, float]]]:
    """One class through this kit: seconds, processor seconds, and the memory of each of its processes at each look."""
    looks: list[dict[int, float]] = []
    done = threading.Event()

    def look() -> None:
        while not done.wait(LOOK_EVERY):
            looks.append(memory(os.getpid(), pages))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        arguments = ("class", str(submissions), "--out", str(out), "--seed", str(SEED), "--device", "cpu")
        wall, cpu = quiet(paths.ROOT, "-m", "grader", *arguments, "--jobs", str(jobs))
    finally:
        done.set()
        watching.join()
    return wall, cpu, looks


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

    from grader.instructor import class_run

    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
        theirs = {one.student.id: one.score for one in gradebook.assignment_submissions("attention")}
    reports = {name: class_run.load(out, name) for name in theirs}
    ours = {name: entry.report.score for name, entry in reports.items() if entry and entry.report}
    for name in sorted(theirs):
        if theirs[name] != ours.get(name):
            print(f"{name}: nbgrader {theirs[name]}, this kit {ours.get(name)}")
    return bool(theirs) and theirs == ours


def compare(scratch: Path, count: int, few: int) -> None:
    """The kit over a class with two processes and with one, nbgrader over the first `few` of the same students, and the
    kit again, the other way round: while all of it runs the machine itself gets slower or faster."""
    submissions = scratch / "in"
    hand_in(submissions, count)
    print(f"{count} submissions of twelve steps through this kit, whole commands")
    print(f"{'':50} {'seconds':>9} {'a minute':>9} {'processor seconds each':>24}")
    walls: dict[int, list[float]] = {2: [], 1: []}
    sizes: dict[int, list[float]] = {2: [], 1: []}

    def grade_class(jobs: int) -> Path:
        out = scratch / f"out{jobs}-{len(walls[jobs])}"
        wall, cpu, looks = graded(submissions, out, jobs)
        walls[jobs].append(wall)
        sizes[jobs].append(statistics.median(sum(look.values()) for look in looks))
        row(f"grader class --jobs {jobs}", wall, cpu, count)
        return out

    out = grade_class(2)
    grade_class(1)
    theirs: dict[str, tuple[float, bool]] = {}
    for name, notebooks in FORMS.items():
        students = sorted(submissions.iterdir())[: max(1, few // 6) if "a step" in name else few]
        folder = scratch / name.replace(" ", "-")
        nbgrader_course(folder, students, notebooks)
        wall, cpu = quiet(folder, "-m", "nbgrader", "autograde", "attention")
        row(f"nbgrader, {name}", wall, cpu, len(students))
        theirs[name] = wall / len(students), same_scores(folder, out)
    grade_class(1)
    grade_class(2)
    ours, alone = statistics.mean(walls[2]), statistics.mean(walls[1])
    print(f"\ntwo processes to one: {alone / ours:.2f} (bound 1.8)")
    extra, of_one = statistics.mean(sizes[2]) - statistics.mean(sizes[1]), statistics.mean(sizes[1])
    print(f"memory of an extra process: {extra:.0f} MiB (bound 300); of all with one: {of_one:.0f} MiB")
    print(f"times the submissions a minute of nbgrader over the first {few} (bound 20; with a notebook a step a sixth)")
    for name, (seconds, same) in theirs.items():
        print(f"    {name:44} {seconds * count / ours:6.1f}; the same scores: {'yes' if same else 'NO'}")


def row(name: str, wall: float, cpu: float, count: int) -> None:
    """One line of the table."""
    print(f"{name:50} {wall:9.1f} {60 * count / wall:9.1f} {cpu / count:24.2f}", flush=True)


LASTING = ("command", "zygote", "judge")
FORMS: dict[str, Notebooks] = {
    "released, one notebook for all": released,
    "released, one notebook a step": partial(released, per_step=True),
    "leanest notebook, checks in the kernel": leanest,
}


def endure(scratch: Path, count: int) -> None:
    """Many submissions through this kit, with an eye on the memory of the processes that last: all but the workers."""
    hand_in(scratch / "in", count)
    wall, cpu, looks = graded(scratch / "in", scratch / "out", 2, "Anonymous")
    print(f"{count} submissions: {60 * count / wall:.0f} a minute, {cpu / count:.2f} processor seconds each")
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
    arguments.add_argument("--count", type=int, default=100, help="submissions through the kit")
    arguments.add_argument("--few", type=int, default=12, help="how many of them go through nbgrader")
    arguments.add_argument("--many", type=int, default=0, help="instead, as many through the kit alone")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        if asked.many:
            endure(scratch, asked.many)
        else:
            compare(scratch, asked.count, asked.few)


if __name__ == "__main__":
    main()
