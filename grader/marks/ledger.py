"""The marks of a class as they are made: each student's facts, the mark of the last run, and what has changed since."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec

from grader.base import files
from grader.base.language import gettext as _
from grader.base.results import AssignmentMark, Graded, Report, StepResult
from grader.course import steps as course
from grader.course import submissions
from grader.course.submissions import Submission
from grader.marks import marking as marks
from grader.marks import moments
from grader.marks.changes import Change, change
from grader.marks.marking import Marking

MARKS, CHANGES = "marks.csv", "changes.csv"


@dataclass(frozen=True)
class Facts:
    """What is known of a student's submission before it is graded."""

    handed_in: datetime | None = None
    said_by: str = ""
    work: Mapping[str, str] = field(default_factory=dict)
    before: AssignmentMark | None = None


@dataclass
class Ledger:
    """Marks everybody of a class in one way, and notes what a regrade changes."""

    marking: Marking
    kit: str = ""
    facts: dict[str, Facts] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def expect(
        self, file: str, folder: Path, handed_in: Submission, before: AssignmentMark | None, said: str = ""
    ) -> None:
        """Notes a student before grading: `file` is what the files about them are called, `said` is when the learning
        platform says that they handed in. Earlier hand-ins of their own are added to the submission where the
        assignment says so."""
        name, stamp, said_by = self.marking.assignment.name, _moment(said, self.marking), _("the learning platform")
        if self.marking.assignment.stand_ins != "own":
            handed_in.earlier.clear()
        if not folder.is_symlink():
            with contextlib.suppress(OSError):  # what is wrong with a folder is said where it is read
                if stamp is None and marks.is_nbgraders(folder / name):
                    stamp, said_by = marks.stamp(folder / name, self.marking.term), "nbgrader"
                with_own_earlier(handed_in, folder, self.marking)
        self.facts[file] = Facts(stamp, said_by, digests(handed_in), before)

    def mark(self, graded: Graded) -> bool:
        """Gives a graded student their mark; whether it is another one than what is written of them. Raises BadTerm."""
        facts = self.facts.get(graded.file, Facts())
        written, graded.mark = graded.mark, None
        report = graded.report or self._without_scores(graded.student)
        if report is not None:
            graded.mark = self.marking.mark(
                graded.student,
                report,
                facts.handed_in,
                said_by=facts.said_by,
                late=graded.late,
                kit=self.kit,
                work=facts.work,
            )
        found = change(graded.student, facts.before, graded.mark)
        if found:
            self.changes.append(found)
        return graded.mark != written

    def _without_scores(self, student: str) -> Report | None:
        """What the decisions of a person are added to, where a submission could not be graded and there are some."""
        if not any(name == student for name, _step in self.marking.overrides):
            return None
        steps = [
            StepResult(
                name=step.name, track=step.track, title=step.title, status="error", score=None,
                max_score=step.points, seconds=0.0, checks=[],
            )
            for step in course.steps() if step.name in self.marking.assignment.everything
        ]  # fmt: skip
        return Report(submission=student, seed=0, isolation=[], devices={}, score=0.0, max_score=0.0, steps=steps)

    def write(self, out: Path, entries: Iterable[Graded | None], clean: Callable[[str], str]) -> None:
        """Writes the table of marks, and adds to the list of all changes. Raises OSError."""
        table = marks_csv(((entry.student, entry.mark) for entry in entries if entry), clean)
        files.write(out / MARKS, table.encode("utf-8-sig"))
        append_changes(out / CHANGES, datetime.now(self.marking.term.local), self.changes, clean)

    def unknown(self, students: Iterable[str]) -> list[str]:
        """Whom the tables and the file name, and the class has not: most likely a slip of the pen."""
        named = {student for student, _step in self.marking.overrides} | set(self.marking.times)
        about = (extra for extra in self.marking.term.extras if extra.assignment in ("", self.marking.assignment.name))
        return sorted((named | {extra.student for extra in about}) - set(students))


def _moment(said: str, marking: Marking) -> datetime | None:
    with contextlib.suppress(moments.NoMoment):
        return moments.moment(said, marking.term.local) if said else None
    return None


def digests(submission: Submission) -> dict[str, str]:
    """A digest of the text of each module of a submission."""
    return {name: marks.digest(source) for name, (_file, source) in submission.sources.items()}


def with_own_earlier(submission: Submission, folder: Path, marking: Marking) -> None:
    """Adds what the student handed in with earlier assignments, which lie beside this one in their folder.

    Only where the assignment says `stand_ins = "own"`; where two hold a step, the later one counts.
    """
    if marking.assignment.stand_ins != "own":
        return
    for earlier in marking.term.before(marking.assignment.name):
        place = folder / earlier.name
        if place.is_dir() and not place.is_symlink():
            submission.add_earlier(submissions.read(place), earlier.title)


def marks_csv(students: Iterable[tuple[str, AssignmentMark | None]], clean: Callable[[str], str] = str) -> str:
    """A row a student: what was earned, what lateness took, what counts, and every decision of a person."""
    rows = [["student", "points", "out_of", "earned", "late_percent", "handed_in", "until", "why", "overrides"]]
    for student, mark in students:
        if mark is None:
            rows.append([clean(student), *[""] * 8])
            continue
        decided = "; ".join(f"{step.step}: {_cell(step.points)} ({step.reason})" for step in mark.steps if step.reason)
        rows.append([
            clean(student), _cell(mark.points), _cell(mark.out_of), _cell(mark.earned), f"{100 * mark.late:g}",
            mark.handed_in, mark.until, clean(mark.extended), clean(decided),
        ])  # fmt: skip
    return _table(rows)


def append_changes(file: Path, now: datetime, changes: Iterable[Change], clean: Callable[[str], str] = str) -> None:
    """Adds what a regrade has changed to the list of all changes. Raises OSError."""
    rows = [
        [now.isoformat(timespec="seconds"), clean(one.student), _cell(one.before), _cell(one.after),
         clean("; ".join(one.reasons))] for one in changes
    ]  # fmt: skip
    if not rows:
        return
    there = file.read_text(encoding="utf-8") if file.is_file() else _table([["when", "student", "from", "to", "why"]])
    files.write(file, there + _table(rows))


def load(file: Path) -> AssignmentMark | None:
    """A mark that was saved; None without one that can be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=AssignmentMark)
    except (OSError, msgspec.DecodeError):
        return None


def save(file: Path, mark: AssignmentMark) -> None:
    """Saves a mark. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    files.write(file, msgspec.json.encode(mark))


def _cell(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def _table(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()
