"""A class's results: the files about each student, written and read again, and what students handed in, to compare."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from grader.base import files
from grader.base.language import gettext as _
from grader.base.names import rows
from grader.base.results import Graded
from grader.classes import class_list, roster
from grader.course import steps as course
from grader.course import stubs
from grader.feedback import exports
from grader.feedback.items import wrong_answers
from grader.feedback.similarity import Sources, Wrong, kits_own, not_comparable
from grader.feedback.table import Points
from grader.marks import marking as marks
from grader.marks import register
from grader.marks.assignments import BadTerm, Term
from grader.marks.marking import counted
from grader.marks.register import NONE, Register
from grader.report import page as pages

PLAN, REPORTS, PAGES = "class.json", "reports", "pages"
ENDINGS = {REPORTS: "json", PAGES: "html"} | {kind: each.ending for kind, each in exports.STUDENT_FILES.items()}
FOLDERS = tuple(ENDINGS)


class NoResults(ValueError):
    """There is no class to look at. One sentence."""


class Plan(msgspec.Struct, kw_only=True):
    """The plan that all students of a class are graded by, and that a resumed run keeps. `class.json`.

    Once a run is `complete`, the next one is a new round: what has changed since meets new draws, as its author may
    have read what was drawn before. What has not keeps its result, under one of the `earlier` seeds.
    """

    seed: int
    steps: list[str]
    device: str
    language: str
    kit: str
    assignment: str
    title: str = ""
    submissions: str = ""
    tables: str = ""  # the folder of the roster and the tables next to it
    sections: list[str] = []  # further folders of submissions that were graded into the same results
    earlier: list[int] = []
    complete: bool = False


@dataclass(frozen=True)
class GradedClass:
    """A class that was graded: its folder, how it was graded, and the report of each student."""

    folder: Path
    plan: Plan
    entries: list[Graded]

    @property
    def total(self) -> int:
        """The number of students that were graded."""
        return sum(entry.report is not None for entry in self.entries)

    @property
    def title(self) -> str:
        """The assignment's title; empty for a class without one."""
        return self.plan.title

    def sources(self) -> dict[str, dict[str, str]]:
        """The text of each student's written steps, by the name of the report, then by step; without students with a
        folder that is gone."""
        own = {entry.file for entry in self.entries}
        enrolled, read = _register(self.plan), dict[str, dict[str, str]]()
        for folder in (*self.plan.sections, self.plan.submissions):
            with suppress(NoResults):
                read |= _read(Path(folder), self.plan.assignment, enrolled)
        return {roster.file_name(name): files for name, files in read.items() if roster.file_name(name) in own}


def path(out: Path, kind: str, file: str) -> Path:
    """The path of a file about a student; `kind` is one of FOLDERS, `file` the student's file name without its
    ending."""
    return out / kind / f"{file}.{ENDINGS[kind]}"


def load(out: Path, file: str) -> Graded | None:
    """The saved result of a student; None without one that can be read."""
    return files.decoded(path(out, REPORTS, file), Graded)


def write_student(out: Path, graded: Graded, ask: str = "", also: Collection[str] = ()) -> None:
    """Writes the files about a student into the folders of `out`, the report last: if it is there, the others are.
    Removes those that an earlier submission had and this one lacks. `ask`: the URL behind the page's link for a second
    look; `also`: the keys of STUDENT_FILES that are to be written too."""
    report, reason = counted(graded)
    if report and (reason or ask):
        report = msgspec.structs.replace(report, notes=[*filter(None, [reason]), *report.notes], ask=ask)
    written = {PAGES: pages.html(report, every_picture=False, of_class=True).encode()} if report else {}
    for kind, each in exports.STUDENT_FILES.items():
        if kind in also and not (each.needs_mark and (reason or not report)):
            written[kind] = each.content(graded, report, reason)
    for kind in (PAGES, *exports.STUDENT_FILES):
        if kind in written:
            files.write(path(out, kind, graded.file), written[kind])
        else:  # of an earlier submission
            path(out, kind, graded.file).unlink(missing_ok=True)
    files.write(path(out, REPORTS, graded.file), msgspec.json.encode(graded))


def read(folder: Path) -> GradedClass:
    """The class in a folder of results. Raises NoResults."""
    try:
        plan = msgspec.json.decode((folder / PLAN).read_bytes(), type=Plan)
        saved = sorted((folder / REPORTS).glob("*.json"))
        entries = [msgspec.json.decode(file.read_bytes(), type=Graded) for file in saved]
    except (OSError, msgspec.DecodeError, RecursionError):
        raise NoResults(_("{folder} holds no class that was graded.").format(folder=folder)) from None
    if not any(entry.report for entry in entries):
        raise NoResults(_("No student was graded in {folder}.").format(folder=folder))
    return GradedClass(folder, plan, entries)


def _register(plan: Plan) -> Register:
    """The roster with which the class was graded; an empty one if it is no longer there."""
    with suppress(BadTerm):
        return register.read(Path(plan.tables), assignment=plan.assignment) if plan.tables else NONE
    return NONE


def marks_of(folder: Path, term: Term, enrolled: Register = NONE) -> dict[str, dict[str, Points]]:
    """The points of all who handed in, and out of how many, by assignment, then by student; of the assignments graded
    into folders of their names in this one."""
    by_assignment, called = _entries(folder, term, enrolled)
    return {
        name: {
            called[entry.student, entry.login]: (entry.mark.points, entry.mark.out_of) if entry.mark else (None, 0.0)
            for entry in entries
        }
        for name, entries in by_assignment.items()
    }


def of_each(folder: Path, term: Term, enrolled: Register = NONE) -> dict[str, dict[str, Graded]]:
    """The results by student, under the name in the term's table, then by assignment."""
    found: dict[str, dict[str, Graded]] = {}
    entries, called = _entries(folder, term, enrolled)
    for name, own in entries.items():
        for entry in own:
            found.setdefault(called[entry.student, entry.login], {})[name] = entry
    return found


def _entries(
    folder: Path, term: Term, enrolled: Register
) -> tuple[dict[str, list[Graded]], dict[tuple[str, str], str]]:
    """All students with a submission, by assignment; and the name in the term's table of each (name, login)."""
    by_assignment: dict[str, list[Graded]] = {}
    for name in term.assignments:
        with suppress(NoResults):
            by_assignment[name] = [entry for entry in read(folder / name).entries if not entry.absence]
    named = {name: [(entry.student, entry.login) for entry in entries] for name, entries in by_assignment.items()}
    return by_assignment, rows(named) | _on_roster({pair for pairs in named.values() for pair in pairs}, enrolled)


def _on_roster(pairs: Iterable[tuple[str, str]], enrolled: Register) -> dict[tuple[str, str], str]:
    """The names on the roster, by (name, login), of the people that it lists."""
    roll, called = enrolled.roll, {}
    for name, login in pairs if enrolled.people else ():
        meant = [name] if name in enrolled.people else (login and roll.meant(login)) or roll.meant(name)
        if len(meant) == 1:
            called[name, login] = meant[0]
    return called


def totals(term: Term) -> dict[str, Points]:
    """The points for full marks in each assignment, as (None, points)."""
    points = {step.name: step.points for step in course.steps()}
    by_assignment: dict[str, Points] = {}
    for name, assignment in term.assignments.items():
        marking = marks.Marking(term, assignment)
        own = sum(marking.worth(step, points[step]) for step in assignment.steps)
        by_assignment[name] = (None, float(own + assignment.electives.count * assignment.electives.points))
    return by_assignment


# --- what is compared ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """The submissions to compare: the class's and the known ones, what was released, the unusual wrong answers, and
    which files can't be compared."""

    students: Sources
    known: Sources
    stubs: Mapping[str, str]
    wrong: Wrong
    left_out: list[str] = field(default_factory=list)


def compared(
    submissions: Path, known_sources: Iterable[Path], steps: Sequence[str] = (), results: Path | None = None
) -> Comparison:
    """Reads the class in the folder `submissions` and the known sources, each a folder of a class, of these steps or of
    all; and the wrong answers in the folder `results`, if there is one. Raises NoResults."""
    students = _chosen(_read(submissions, ""), steps)
    others = {
        f"{folder.name}/{name}": files
        for folder in known_sources
        for name, files in _chosen(_read(folder, ""), steps).items()
    }
    wanted = {step for files in students.values() for step in files}
    others |= {f"kit/{file}": dict.fromkeys(wanted, text) for file, text in kits_own().items()}
    wrong = {}
    if results is not None:
        entries = read(results).entries
        wrong = {
            entry.student: wrong_answers(entry.report)
            for entry in entries
            if entry.report and entry.student in students
        }
    damaged = [f"{name}/{step}" for name, files in students.items() for step in not_comparable(files)]
    return Comparison(students, others, {step.name: step.stub() for step in course.steps()}, wrong, damaged)


def _chosen(read: Sources, steps: Sequence[str]) -> dict[str, dict[str, str]]:
    """The texts of these steps alone; of all without any."""
    return {
        name: {step: text for step, text in files.items() if not steps or step in steps} for name, files in read.items()
    }


def _read(folder: Path, assignment: str, register: Register = NONE) -> dict[str, dict[str, str]]:
    """The text of each student's written steps in the folder of a class, by student, then by step. Raises NoResults."""
    try:
        listed = class_list.read(folder, register)
        steps = {step.name for step in course.steps()}
        return {
            student.name: {
                step: text
                for step, (_file, text) in student.submission.sources.items()
                if step in steps and not stubs.is_untouched(text)
            }
            for student in roster.students(folder, listed, assignment, None, register=register)
        }
    except (class_list.NoStudents, OSError):
        raise NoResults(_("{folder} contains no student folders.").format(folder=folder)) from None
