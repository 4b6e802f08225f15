"""A student's files from other assignments of the course, which replace steps that this one lacks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from grader.course.submissions import NoSubmission, Submission, read, readable

DIGITS = re.compile(r"(\d+)")


def add_siblings(submission: Submission, folder: Path) -> None:
    """Adds, as `submission.earlier`, the steps that the same person handed in with other assignments.

    `folder` is this assignment's; theirs are next to it, as in nbgrader's `submitted/STUDENT/ASSIGNMENT`. If two hold a
    step, the last one before this assignment counts, in the order of their names; else the last one. A folder that
    can't be read is left out.
    """
    for other in _siblings(folder):
        with suppress(NoSubmission, OSError):  # what can't be read is no answer
            submission.add_earlier(read(other), readable(other.name))


def with_siblings(submission: Submission, folder: Path) -> Submission:
    """Does what `add_siblings` does, and returns the same submission."""
    add_siblings(submission, folder)
    return submission


def _siblings(folder: Path) -> Iterator[Path]:
    """The folders next to this one, first those with names after its own, then those before; links are left out."""
    with os.scandir(folder.parent) as listing:
        names = [entry.name for entry in listing if entry.is_dir(follow_symlinks=False) and entry.name[0] not in "._"]
    this = _natural(folder.name)
    others = sorted((name for name in names if name != folder.name), key=_natural)
    for before in (False, True):
        yield from (folder.parent / name for name in others if (_natural(name) < this) is before)


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A sort key by which week2 comes before week10."""
    return [(not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in DIGITS.split(name)]
