"""Gradescope: an autograder as one zip file, and what runs inside it.

The zip file holds the whole kit, solutions included: it goes to Gradescope's machine, where only a learner's process is
not trusted. `python -m grader.classes.gradescope SUBMISSION RESULTS` is what its `run_autograder` calls.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from grader.base import language
from grader.base.files import pack
from grader.base.language import gettext as _
from grader.base.paths import ROOT
from grader.base.results import Report
from grader.classes import roster
from grader.course import choice, submissions
from grader.feedback import exports
from grader.judge import grader as grading
from grader.judge.launcher import GraderError
from grader.marks import assignments, moments, sheets
from grader.marks import marking as marks
from grader.marks.assignments import FILE
from grader.marks.marking import Marking
from grader.report.terminal import why_open

SCRIPTS = {"setup.sh": "gradescope_setup.sh", "run_autograder": "gradescope_run.sh"}
PARTS = ("grader/**/*", "solutions/**/*", "requirements/base.lock", "LICENSE")
TEMPLATES = Path(__file__).parent / "templates"
CHOSEN = "steps.txt"  # next to them: the steps that are graded
NAMED = "assignment.txt"  # and the assignment of `assignments.toml`, if there is one
ABOUT = "submission_metadata.json"  # what Gradescope says of a submission, in its own folder
LEFT_OUT = ("__pycache__", ".safetensors", "ko.json")


class NotGraded(RuntimeError):
    """There is no score to report: Gradescope then shows that the autograder failed, and not a zero."""


def build(archive: Path, chosen: Sequence[str] = (), marking: Marking | None = None) -> None:
    """Writes the zip file that is uploaded as the autograder, whole or not at all. It grades the chosen steps, by
    default those of the core: an assignment there has a fixed number of points. With `marking` it gives the marks of an
    assignment: `assignments.toml` and the tables next to it go along."""
    added = {CHOSEN: "\n".join(choice.or_core(chosen)).encode()}
    if marking is not None:
        folder = marking.term.file.parent
        added |= {NAMED: marking.assignment.name.encode(), FILE.name: marking.term.file.read_bytes()}
        tables = (folder / name for name in sheets.TABLES)
        added |= {table.name: table.read_bytes() for table in tables if table.is_file()}
    pack(archive, [*_contents(), *((f"kit/{name}", content, 0o644) for name, content in added.items())])


def _contents() -> Iterator[tuple[str, Path, int]]:
    """Each file of the archive: its name there, its path here, its mode."""
    for name, template in SCRIPTS.items():
        yield name, TEMPLATES / template, 0o755
    for pattern in PARTS:
        for file in sorted(ROOT.glob(pattern)):
            name = file.relative_to(ROOT).as_posix()
            if file.is_file() and not any(part in name for part in LEFT_OUT):
                yield f"kit/{name}", file, 0o644


def grade(folder: Path, results: Path) -> None:
    """Grades the folder that a student has uploaded and writes the file `results`, `results.json`. Raises NotGraded,
    GraderError and OSError."""
    handed_in = submissions.read(roster.step_folder(folder, "attention"))
    with grading.Grader() as grader:
        report = grader.grade(handed_in, _chosen() or choice.by_default(handed_in.sources, handed_in.problems))
    if (ROOT / NAMED).is_file():
        report = _marked(report, folder.parent / ABOUT)
    if reason := why_open(report):
        raise NotGraded(reason)
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_bytes(msgspec.json.encode(exports.gradescope(report)))


class _Person(msgspec.Struct):
    email: str = ""
    sid: str | None = None


class _About(msgspec.Struct):
    """Gradescope's facts about a submission, as far as they are needed here."""

    created_at: str = ""
    users: list[_Person] = []


def _marked(report: Report, about: Path) -> Report:
    """The report with the points that count, from Gradescope's facts in the file `about`. Raises NotGraded without
    them: a mark without lateness or a decision would be a wrong one."""
    try:
        marking = marks.of(assignments.read(ROOT / FILE), (ROOT / NAMED).read_text(encoding="utf-8").strip())
        facts = msgspec.json.decode(about.read_bytes(), type=_About)
        handed_in = moments.moment(facts.created_at, marking.term.local) if facts.created_at else None
    except (assignments.BadTerm, moments.NoMoment, msgspec.DecodeError, OSError) as problem:
        raise NotGraded(str(problem)) from None
    names = [name for user in facts.users for name in _identities(user)]
    named = {student for student, _step in marking.overrides} | {extra.student for extra in marking.term.extras}
    student = next((name for name in names if name in named | set(marking.times)), names[0] if names else "")
    return marks.marked(report, marking.mark(student, report, handed_in, said_by="Gradescope"))


def _identities(user: _Person) -> Iterator[str]:
    """The names of a user that students can't choose: the mail address, which Gradescope has had confirmed, and the
    number in the teacher's roster. A number that looks like an address is left out, and so is the name, which students
    choose themselves."""
    if user.email:
        yield user.email
    if user.sid and "@" not in user.sid:
        yield user.sid


def _chosen() -> list[str] | None:
    """The names of the steps that this autograder was built for; None if it runs from a checkout."""
    file = ROOT / CHOSEN
    return file.read_text(encoding="utf-8").split() if file.is_file() else None


def main(arguments: list[str]) -> int:
    """Grades the folder SUBMISSION into the file RESULTS, the two arguments. Returns 0 once there are results, else 1,
    and prints the reason on standard error."""
    folder, results = arguments
    with language.use(language.choose()):
        try:
            grade(Path(folder), Path(results))
        except (NotGraded, GraderError, OSError) as reason:
            print(_("Nothing was graded, so there is no score: {reason}").format(reason=reason), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
