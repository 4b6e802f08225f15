"""The students in a folder of submissions, named as the learning platform that made it names them, and their files."""

from __future__ import annotations

import os
from pathlib import Path

from grader.base import layouts
from grader.base.layouts import GRADESCOPE, NOT_STUDENTS, Person, may_be_folder

OF_BRIGHTSPACE = "index.html"  # next to the folders: a list of what is in the download


def people(submissions: Path) -> dict[str, Person]:
    """Every student in a folder of submissions, by the name of their row in a class's tables, in order. Raises
    BadDownload, OSError."""
    listing = sorted(os.listdir(submissions))
    named = [
        *layouts.from_gradescope(submissions, listing),
        *layouts.from_moodle(submissions, listing),
        *layouts.from_blackboard(submissions, listing),
        *layouts.from_brightspace(submissions, listing),
        *layouts.from_canvas(submissions, listing),
    ]
    students = {person.name: person for person in named}
    taken = {place for person in named for place in (person.folder, *person.texts)}
    taken |= {attempt.folder for person in named for attempt in person.attempts}
    left = [
        name
        for name in listing
        if name not in taken and name not in NOT_STUDENTS and name[0] != "." and may_be_folder(submissions / name)
    ]
    students |= {person.name: person for person in layouts.from_folders(submissions, left)}
    if not students:
        students = {person.name: person for person in layouts.from_files(listing)}
    return {name: students[name] for name in sorted(students)}


def left_out(submissions: Path) -> list[str]:
    """The names of files next to the students' folders that belong to no student, and of hidden folders, with a `/`
    behind them, in order. Raises BadDownload, OSError."""
    students = people(submissions).values()
    theirs = {file for person in students for file in person.files.values()}
    theirs |= {file for person in students for attempt in person.attempts for file in attempt.files.values()}
    names = {name for name in os.listdir(submissions) if name not in NOT_STUDENTS and not name.startswith("._")}
    loose = {name for name in names - theirs if not may_be_folder(submissions / name)} - {GRADESCOPE}
    hidden = {f"{name}/" for name in names if name.startswith(".") and may_be_folder(submissions / name)}
    if any(layouts.BRIGHTSPACE_FOLDER.fullmatch(name) for name in names):
        loose.discard(OF_BRIGHTSPACE)
    return sorted(loose | hidden)
