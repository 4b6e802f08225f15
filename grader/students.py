"""The students of a class: one subfolder each, whatever its name, found without following a link or running a line."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grader.language import gettext as _
from grader.places import step_folders
from grader.submission import Submission, read, readable

STEP_FILE = re.compile(r"step\d{2}_\w+\.py|.+\.ipynb")
KNOWN = ("exercises", "submission")  # where a learner's files stand inside what was handed in
ARCHIVE = re.compile(r".+\.(zip|7z|rar|tar|tgz|tar\.\w+)", re.IGNORECASE)
NOT_STUDENTS = ("__MACOSX", "__pycache__")
BY_NBGRADER = ("timestamp.txt", "submission_secret.txt")  # what it puts beside a submission
MAX_NAMED = 3  # of the files of a folder that holds no answer
DEEPEST = 3  # folders inside a student's own
NOT_IN_NAMES = re.compile(r'[<>:"/\\|?*%~\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]')
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # on Windows, with any ending
LONGEST = 120  # bytes of a file name before the part that tells it from others


class NoStudents(ValueError):
    """The folder holds no subfolder that could be a student's."""


@dataclass(frozen=True)
class Student:
    """One subfolder: whose it is, what the files about it are called, and what was handed in.

    `problem` says why nothing can be read there; the student is then an error, and not a zero.
    """

    name: str
    file: str
    submission: Submission = field(repr=False)
    problem: str = ""


def folders(submissions: Path) -> list[str]:
    """The names of the students' folders, links to folders included, in order. Raises NoStudents."""
    found = [name for name in os.listdir(submissions) if not name.startswith(".") and name not in NOT_STUDENTS]
    found = sorted(name for name in found if (submissions / name).is_dir())
    if not found:
        raise NoStudents(str(submissions))
    return found


def left_out(submissions: Path) -> list[str]:
    """The files beside the students' folders that somebody may have handed in, in order."""
    loose = (name for name in os.listdir(submissions) if not name.startswith("."))
    handed_in = (name for name in loose if STEP_FILE.fullmatch(name) or ARCHIVE.fullmatch(name))
    return sorted(name for name in handed_in if (submissions / name).is_file())


def students(submissions: Path, names: list[str], assignment: str) -> Iterator[Student]:
    """Each student with what was handed in, read as it is asked for."""
    for folder in names:
        name, problem = readable(folder), ""
        try:
            handed_in = _handed_in(submissions / folder, assignment)
        except OSError as error:
            handed_in = Submission(name)
            problem = _("{folder} can't be read ({reason}).").format(folder=name, reason=error.strerror)
        else:
            problem = _without_answer(submissions / folder, name, handed_in)
        handed_in.name = name  # and not that of a folder inside the student's own
        yield Student(name, file_name(folder), handed_in, problem)


def file_name(name: str) -> str:
    """A file name for a student, without its ending, that every system can write and no other student gets."""
    plain = NOT_IN_NAMES.sub("_", readable(name)).strip(". ")
    plain = plain.encode()[:LONGEST].decode("utf-8", "ignore").strip(". ")
    if RESERVED.fullmatch(plain):
        plain = f"_{plain}"
    if plain and plain == name:
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{plain or 'student'}~{digest}"


def _handed_in(folder: Path, assignment: str) -> Submission:
    if folder.is_symlink():
        raise OSError(errno.ELOOP, _("it is a link, and links are not followed"))
    return read(step_folder(folder, assignment))


def _without_answer(folder: Path, name: str, handed_in: Submission) -> str:
    """Why a folder that holds files and no answer can't be graded: they may well be everything. Else nothing."""
    if {step.name for step in step_folders()} & (handed_in.sources.keys() | handed_in.problems.keys()):
        return ""
    there = sorted(_files(folder))
    for file in there:
        if ARCHIVE.fullmatch(file):
            said = _("{folder} holds an archive and no answer: unpack {file} there.")
            return said.format(folder=name, file=readable(file))
    if not there:
        return ""
    files = ", ".join([readable(file) for file in there[:MAX_NAMED]] + ["…"] * (len(there) > MAX_NAMED))
    said = _(
        "In {folder} no answer is found, but there is {files}. Put the notebook, or the step files with names like "
        "{step}.py, straight into that folder."
    )
    return said.format(folder=name, files=files, step=step_folders()[0].name)


def _files(folder: Path) -> Iterator[str]:
    """The names of the files in a student's folder, at any depth, that a person may have put there."""
    for _place, inside, files in os.walk(folder):
        inside[:] = [name for name in inside if not name.startswith(".") and name not in NOT_STUDENTS]
        yield from (name for name in files if not name.startswith(".") and name not in BY_NBGRADER)


def step_folder(folder: Path, assignment: str) -> Path:
    """Where the step files stand: in the folder, in one of a known name inside it, or in its only subfolder."""
    for _level in range(DEEPEST):
        with os.scandir(folder) as listing:
            entries = list(listing)
        if any(STEP_FILE.fullmatch(entry.name) for entry in entries):
            break
        inside = [
            entry.name for entry in entries
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".") and entry.name not in NOT_STUDENTS
        ]  # fmt: skip
        known = [name for name in (assignment, *KNOWN) if name in inside]
        if not known and len(inside) != 1:
            break
        folder /= known[0] if known else inside[0]
    return folder
