"""The current step: the first that does not pass, which is meant if a command names none."""

from __future__ import annotations

from pathlib import Path

from grader.course.submissions import Submission
from grader.judge.grader import Grader
from grader.learner import progress, verdicts
from grader.learner.progress import Progress


def step_in(folder: Path) -> str | None:
    """The current step of a folder of step files; None if every step passes. Raises GraderError."""
    submission, so_far = progress.in_folder(folder)
    waiting = before_next(so_far)
    if not waiting:
        return so_far.next_step()
    with Grader(None if len(waiting) > 1 else 1) as grader:
        return graded(grader, folder, submission, so_far, waiting).next_step()


def step(grader: Grader, folder: Path) -> str | None:
    """The current step, as `step_in` finds it, graded by this grader; None if every step passes. Raises GraderError."""
    submission, so_far = progress.in_folder(folder)
    return graded(grader, folder, submission, so_far, before_next(so_far)).next_step()


def before_next(so_far: Progress) -> list[str]:
    """The names of the steps with ungraded work before the first that is known to need more: they decide which is
    next."""
    left = next((name for name in so_far.names if _is_left(so_far, name)), None)
    return [name for name in so_far.ungraded if left is None or name < left]


def graded(grader: Grader, folder: Path, submission: Submission, so_far: Progress, names: list[str]) -> Progress:
    """Grades these steps on the CPU, saves their verdicts in the folder, and returns the progress with them. Raises
    GraderError."""
    if not names:
        return so_far
    results = grader.grade(submission, names, device="cpu").steps
    verdicts.write(folder, submission, results)
    return progress.with_results(so_far, submission, results)


def _is_left(so_far: Progress, name: str) -> bool:
    found = so_far.steps[name]
    return not found.is_settled and not found.is_ungraded
