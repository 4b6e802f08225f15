"""Students' pages as one zip file for a learning platform, each under the name by which it finds its student."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.base.downloads import people
from grader.base.files import pack
from grader.base.language import gettext as _
from grader.classes import results
from grader.classes.results import GradedClass
from grader.classes.roster import file_name

PAGE = "feedback.html"


class NoNames(ValueError):
    """The platform knows the name of no student's page. One sentence."""


@dataclass(frozen=True)
class PackingResult:
    """The number of packed pages, and the students without one: the `ungraded` have none, and files of the `nameless`
    were not named by the platform."""

    count: int
    nameless: list[str]
    ungraded: list[str]


def build(archive: Path, graded: GradedClass, to: str, submissions: Path | None = None) -> PackingResult:
    """Writes the zip file, whole or not at all: each page under the name by which the platform `to`, moodle or canvas,
    finds its student.

    Moodle finds a participant by the number in `Full name_123_assignsubmission_file_`, Canvas a submission by the
    student's number and that of a file handed in; it shows the page under the name of that file. Canvas's names are
    read from `submissions`, if given, in place of the download that was graded. Raises NoNames if no page can be
    named, OSError; single students without a name or page are in the result.
    """
    others = _canvas(submissions or Path(graded.plan.submissions)) if to == "canvas" else {}
    own = [entry for entry in graded.entries if bool(entry.moodle_id) == (to == "moodle")]
    prefixes = {one.file: others.get(one.canvas_id) or others.get(one.file) or one.back for one in own}
    pages: list[tuple[str, Path | bytes, int]] = []
    nameless, ungraded = [], []
    for entry in graded.entries:
        page = results.path(graded.folder, results.PAGES, entry.file)
        if not page.is_file():
            ungraded.append(entry.student)
        elif prefix := prefixes.get(entry.file):
            pages.append((f"{prefix}{PAGE}", page, 0o644))
        else:
            nameless.append(entry.student)
    if not pages:
        sentence = _("No student's folder has a name given by {system}, so no page could be matched to its student.")
        raise NoNames(sentence.format(system=to.title()))
    pack(archive, pages)
    return PackingResult(len(pages), nameless, ungraded)


def _canvas(submissions: Path) -> dict[str, str]:
    """The start of each student's file names in Canvas's download, by the student's number there and by the name of the
    report; empty if it can't be read."""
    try:
        students = [person for person in people(submissions).values() if person.back and not person.moodle_id]
    except (OSError, ValueError):
        return {}
    by_name = {file_name(person.name): person.back for person in students}
    return by_name | {person.canvas_id: person.back for person in students if person.canvas_id}
