"""Students' pages as one zip file for a learning platform, each under the name by which it finds its student."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.base.downloads import CANVAS_FILE, MOODLE_FOLDER, people
from grader.base.files import pack
from grader.base.language import gettext as _
from grader.classes import one_round, roster
from grader.classes.results import GradedClass

PAGE = "feedback.html"


class NoNames(ValueError):
    """Nobody's page has a name that the platform knows. One sentence."""


@dataclass(frozen=True)
class Packed:
    """How many pages were packed, and of whom none was: of the `ungraded` there is none, and what the `nameless` handed
    in was not named by the platform."""

    count: int
    nameless: list[str]
    ungraded: list[str]


def build(archive: Path, graded: GradedClass, to: str, submissions: Path | None = None) -> Packed:
    """Writes the zip file, whole or not at all. `submissions` is where the platform's own names are read from; by
    default where the class was graded from. Raises NoNames, OSError."""
    prefixes = _canvas(submissions or Path(graded.plan.submissions)) if to == "canvas" else _moodle(graded)
    pages: list[tuple[str, Path | bytes, int]] = []
    nameless, ungraded = [], []
    for entry in graded.entries:
        page = one_round.path(graded.folder, one_round.PAGES, entry.file)
        if not page.is_file():
            ungraded.append(entry.student)
        elif entry.file in prefixes:
            pages.append((f"{prefixes[entry.file]}{PAGE}", page, 0o644))
        else:
            nameless.append(entry.student)
    if not pages:
        sentence = _("No student's folder has a name given by {system}, so no page could be matched to its student.")
        raise NoNames(sentence.format(system=to.title()))
    pack(archive, pages)
    return Packed(len(pages), nameless, ungraded)


def _moodle(graded: GradedClass) -> dict[str, str]:
    """Moodle finds a participant by `Full name_123_assignsubmission_file_` in front of the file's own name."""
    folders = {}
    for entry in graded.entries:
        if named := MOODLE_FOLDER.fullmatch(entry.student):
            folders[entry.file] = f"{named['name']}_{named['number']}_assignsubmission_file_"
    return folders


def _canvas(submissions: Path) -> dict[str, str]:
    """Canvas finds a submission by the two numbers in the names of its download, the student's and the file's, and
    takes none whose second number is not that of a file handed in. It shows the page under the name of that file."""
    try:
        everybody = people(submissions).values()
    except (OSError, ValueError):
        return {}
    files: dict[str, str] = {}
    for person in everybody:
        for name in person.files.values():
            match = CANVAS_FILE.fullmatch(name)
            if match and match["file"]:  # a text entry has no file, and no place for one
                files.setdefault(roster.file_name(person.name), name[: match.start("file")])
    return files
