"""`make bench-class`: a class through nbgrader's own `Execute` and through this kit, side by side in one run.

The same submissions, twelve steps each, half of them right. On nbgrader's side one `nbgrader autograde` runs a notebook
for each student, whose grade cells put this kit's checks to the answers in the kernel: the same questions, no
isolation, no diagnosis, no page. On this side `python -m grader class` does all that it does for an instructor. Both
are timed as whole commands. `--many 1000` sends as many through the kit alone and looks at memory meanwhile.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from grader import course
from grader.implementation import LocalBackend
from grader.responder import Responder
from grader.verdict import run_check
from tests.bench_grade import descendants

EXAMPLES = course.ROOT / "examples" / "course" / "submissions"
RIGHT = ("ada", "김민서")
WRONG = ("chen wei", "dora", "emre", "fatima", "박서연")
LOOPS = ("박서연/step10_flash.py",)  # an endless loop costs nbgrader 30 seconds and us 10: neither is the point here
SEED = 7


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


def notebook(folder: Path | None) -> object:
    """A student's notebook, or with None the source of the assignment."""
    from nbformat import v4

    def cell(kind: str, step: course.Step, source: str, **flags: object) -> object:
        about = {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False, **flags}
        return v4.new_code_cell(source, metadata={"nbgrader": {"grade_id": f"{kind}_{step.name}", **about}})

    cells = [
        v4.new_code_cell(f"import sys\nsys.path.insert(0, {str(course.ROOT)!r})\nfrom tests.bench_class import points")
    ]
    for step in course.steps():
        answer = "raise NotImplementedError"
        if folder is not None:
            answer = (folder / f"{step.name}.py").read_text(encoding="utf-8")
            answer = re.sub(r"^from exercises.*\n", "", answer, flags=re.MULTILINE)  # one namespace for all steps
        cells.append(cell("answer", step, answer, solution=True))
        cells.append(
            cell("points", step, f'points("{step.name}", globals())', grade=True, locked=True, points=step.points)
        )
    return v4.new_notebook(cells=cells)


def nbgrader_course(folder: Path, submissions: Path) -> None:
    """A course of nbgrader's with these submissions collected."""
    import nbformat

    source = folder / "source" / "attention"
    source.mkdir(parents=True)
    nbformat.write(notebook(None), source / "attention.ipynb")
    for student in sorted(submissions.iterdir()):
        to = folder / "submitted" / student.name / "attention"
        to.mkdir(parents=True)
        nbformat.write(notebook(student), to / "attention.ipynb")
    quiet(folder, "-m", "nbgrader", "generate_assignment", "attention")


def quiet(folder: Path, *arguments: str) -> tuple[float, float]:
    """Runs Python with these arguments in a folder; the seconds it took, and those of all its processes' processors."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # nbgrader looks for alembic
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, env=os.environ | {"PATH": tools}
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu


def graded(submissions: Path, out: Path, jobs: int) -> tuple[float, float, list[float]]:
    """One class through this kit: seconds, processor seconds, and the memory of all its processes meanwhile in MiB."""
    sizes: list[float] = []
    done = threading.Event()

    def look() -> None:
        while not done.wait(1.0):
            sizes.append(proportional(os.getpid()))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        arguments = ("class", str(submissions), "--out", str(out), "--seed", str(SEED), "--device", "cpu")
        wall, cpu = quiet(course.ROOT, "-m", "grader", *arguments, "--jobs", str(jobs))
    finally:
        done.set()
        watching.join()
    return wall, cpu, sizes


def proportional(pid: int) -> float:
    """MiB of all processes below one, shared pages shared out."""
    total = 0
    for process in descendants(pid):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def same_scores(folder: Path, out: Path) -> bool:
    """Whether both gave the same scores: the same work was done."""
    from nbgrader.api import Gradebook

    from grader import classroom

    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
        theirs = {one.student.id: one.score for one in gradebook.assignment_submissions("attention")}
    reports = {path.stem: classroom.load(out, path.stem) for path in (out / "reports").glob("*.json")}
    ours = {name: entry.report.score for name, entry in reports.items() if entry and entry.report}
    for name in sorted(theirs):
        if theirs[name] != ours.get(name):
            print(f"{name}: nbgrader {theirs[name]}, this kit {ours.get(name)}")
    return theirs == ours


def compare(scratch: Path, count: int) -> None:
    """Both over the same submissions; this kit also with one process."""
    submissions = scratch / "in"
    hand_in(submissions, count)
    nbgrader_course(scratch / "nbgrader", submissions)
    rows: dict[str, tuple[float, float]] = {}
    sizes: dict[int, list[float]] = {}
    rows["nbgrader autograde"] = quiet(scratch / "nbgrader", "-m", "nbgrader", "autograde", "attention")
    for jobs in (2, 1):
        wall, cpu, sizes[jobs] = graded(submissions, scratch / f"out{jobs}", jobs)
        rows[f"this kit, --jobs {jobs}"] = wall, cpu
    print(f"{count} submissions of twelve steps, whole commands")
    print(f"{'':24} {'seconds':>9} {'a minute':>9} {'processor seconds each':>24}")
    for name, (wall, cpu) in rows.items():
        print(f"{name:24} {wall:9.1f} {60 * count / wall:9.1f} {cpu / count:24.2f}")
    (theirs, _), (two, _), (one, _) = rows.values()
    print(f"submissions a minute, to nbgrader's: {theirs / two:.1f} (bound 20)")
    print(f"two processes to one: {one / two:.2f} (bound 1.8)")
    middle = {jobs: sorted(seen)[len(seen) // 2] for jobs, seen in sizes.items() if seen}
    print(
        f"memory of an extra process: {middle[2] - middle[1]:.0f} MiB (bound 300); of all with one: {middle[1]:.0f} MiB"
    )
    print(f"the same scores: {'yes' if same_scores(scratch / 'nbgrader', scratch / 'out2') else 'NO'}")


def endure(scratch: Path, count: int) -> None:
    """Many submissions through this kit, with an eye on memory."""
    hand_in(scratch / "in", count)
    wall, cpu, sizes = graded(scratch / "in", scratch / "out", 2)
    parts = [sizes[len(sizes) * tenth // 10] for tenth in range(1, 10)]
    print(f"{count} submissions: {60 * count / wall:.0f} a minute, {cpu / count:.2f} processor seconds each")
    print("memory after each tenth, MiB: " + " ".join(f"{size:.0f}" for size in parts))


def main() -> None:
    """Measures and prints."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=20, help="submissions for the comparison")
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
