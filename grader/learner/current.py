"""The current step: the first that does not pass, which is meant where a command names none."""

from __future__ import annotations

from pathlib import Path

from grader.course import choice, submissions
from grader.course.stubs import is_untouched
from grader.judge.grader import Grader


def step_in(folder: Path) -> str | None:
    """The current step of a folder of step files; None where every step passes. Raises GraderError."""
    read = submissions.read(folder)
    begun = _begun(read)
    if begun:
        with Grader(None if len(begun) > 1 else 1) as grader:
            return step(grader, read)
    return next(iter(choice.by_default(read.sources, read.problems)), None)


def step(grader: Grader, read: submissions.Submission) -> str | None:
    """The same, graded by a grader that is there. Only what comes before the first untouched step is graded."""
    names, begun = choice.by_default(read.sources, read.problems), _begun(read)
    results = grader.grade(read, begun, device="cpu").steps if begun else []
    failing = next((result.name for result in results if not result.is_settled), None)
    return failing or next((name for name in names if name not in begun), None)


def _begun(read: submissions.Submission) -> list[str]:
    """The steps that come before the first untouched one."""
    begun = []
    for name in choice.by_default(read.sources, read.problems):
        if name not in read.problems and (name not in read.sources or is_untouched(read.sources[name][1])):
            break
        begun.append(name)
    return begun
