"""The marks of a class as they are made: each student's facts, the mark of the last run, and what has changed since."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path

import msgspec

from grader.base import files
from grader.base.language import gettext as _
from grader.base.limited import OverBudget
from grader.base.results import AssignmentMark, Graded, MarkChange, Report, StepResult
from grader.course import steps as course
from grader.course import submissions
from grader.course.submissions import Submission
from grader.marks import marking as marks
from grader.marks import moments
from grader.marks.absence import Absence, absence
from grader.marks.changes import Change, change
from grader.marks.marking import Marking
from grader.marks.register import Register
from grader.marks.second_look import Appeal

MARKS, CHANGES = "marks.csv", "changes.csv"


@dataclass(frozen=True)
class Facts:
    """Facts about a student's submission before it is graded; `late`: the learning platform says that it is."""

    handed_in: datetime | None = None
    late: bool = False
    said_by: str = ""
    work: Mapping[str, str] = field(default_factory=dict)
    before: AssignmentMark | None = None
    unclear: str = ""  # a time that can't be read
    absence: str = ""  # what follows from it that nothing was handed in
    sources: Mapping[str, str] = field(default_factory=dict)  # the text of each step
    appeals: Sequence[Appeal] = ()  # what the student wants to be looked at again
    changes: Sequence[MarkChange] = ()


@dataclass
class Ledger:
    """Marks all students of a class in one way, and notes what a regrade changes."""

    marking: Marking
    kit: str = ""
    facts: dict[Hashable, Facts] = field(default_factory=dict)  # of each attempt of a student
    changes: list[Change] = field(default_factory=list)
    read: Callable[[Path], Submission] = submissions.read

    @cached_property
    def when(self) -> str:
        """The time of this run in ISO format, which all its changes have."""
        return datetime.now(self.marking.term.local).isoformat(timespec="seconds")

    def absence(self, student: str, register: Register, sections: Collection[str]) -> Absence:
        """The consequence for a student who handed in nothing, as `absence` decides; `sections`: those with a
        hand-in."""
        term, assignment = self.marking.term, self.marking.assignment
        return absence(term, assignment.name, student, register, datetime.now(term.local), sections)

    def expect(
        self, key: Hashable, folder: Path, handed_in: Submission, earlier: Graded | None, sent: str = "",
        absence: str = "", appeals: Sequence[Appeal] = (), *, late: bool = False,
    ) -> None:  # fmt: skip
        """Notes facts about a student before grading, under a key. Adds to `handed_in` what they handed in before, if
        the assignment says so. `folder`: the student's; `earlier`: the result of the last run; `sent`: the platform's
        time of the hand-in, `late`: what it says of it; `absence`: the consequence if it is missing."""
        name, said_by = self.marking.assignment.name, _("the learning platform")
        if not folder.is_symlink():
            with contextlib.suppress(OSError, OverBudget):  # what is wrong with a folder is reported when it is read
                add_own_earlier(handed_in, folder, self.marking, self.read)
                if not sent and marks.is_nbgraders(folder / name):
                    sent, said_by = marks.stamp(folder / name), "nbgrader"
        stamp, unclear = moments.stamped(sent, self.marking.term.local)
        before, changes = (earlier.mark, earlier.changes) if earlier else (None, [])
        texts = {name: source for name, (_file, source) in handed_in.sources.items()}
        self.facts[key] = Facts(
            stamp, late, said_by, digests(handed_in), before, unclear, absence, texts, appeals, changes
        )

    def mark(self, key: Hashable, student: str, report: Report | None) -> AssignmentMark | None:
        """The mark of a student for a report, of the facts that `expect` has noted under this key; None without a
        report, if no person has decided on points. Raises BadTerm."""
        facts = self.facts.get(key, Facts())
        report = report or self._without_scores(student)
        if report is None:
            return None
        return self.marking.mark(
            student, report, facts.handed_in, said_by=facts.said_by, late=facts.late, unclear=facts.unclear,
            kit=self.kit, work=facts.work, absence=facts.absence, sources=facts.sources, appeals=facts.appeals,
        )  # fmt: skip

    def changes_with(self, key: Hashable, student: str, mark: AssignmentMark | None) -> list[MarkChange]:
        """All changes of a student's mark: those that were saved, and that to this `mark`, if it is one, which is
        noted."""
        facts = self.facts.get(key, Facts())
        reopened = bool(facts.changes) and facts.changes[-1].after is None
        if not (changed := change(student, facts.before, mark, reopened=reopened)):
            return list(facts.changes)
        self.changes.append(changed)
        why = "; ".join(changed.reasons)
        return [*facts.changes, MarkChange(self.when, changed.before, changed.after, why)]

    def _without_scores(self, student: str) -> Report | None:
        """A report without scores, for decisions by hand about a student who could not be graded; None without
        decisions."""
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

    def write(self, out: Path, entries: Iterable[Graded], clean: Callable[[str], str]) -> None:
        """Writes `marks.csv` into the folder `out`; `clean` makes a cell harmless. Raises OSError."""
        table = marks_csv(((entry.student, entry.mark) for entry in entries), clean)
        files.write(out / MARKS, table.encode("utf-8-sig"))

    def unknown(self, students: Iterable[str]) -> list[str]:
        """Names in the tables and in `assignments.toml` that the class lacks: most likely typing errors."""
        named = {student for student, _step in self.marking.overrides} | set(self.marking.times)
        about = (extra for extra in self.marking.term.extras if extra.assignment in ("", self.marking.assignment.name))
        return sorted((named | {extra.student for extra in about}) - set(students))


def digests(submission: Submission) -> dict[str, str]:
    """A short digest of the text of each file of a submission, by module name."""
    return {name: marks.digest(source) for name, (_file, source) in submission.sources.items()}


def add_own_earlier(
    submission: Submission, folder: Path, marking: Marking, read: Callable[[Path], Submission] = submissions.read
) -> None:
    """Adds, as `submission.earlier`, what the student handed in with earlier assignments of the term: the folders of
    their names in the student's `folder`, which `read` turns into submissions. If two hold a step, the later one
    counts.

    Nothing unless the assignment says `stand_ins = "own"`. Raises what `read` raises.
    """
    if marking.assignment.stand_ins != "own":
        return
    for earlier in marking.term.before(marking.assignment.name):
        place = folder / earlier.name
        if place.is_dir() and not place.is_symlink():
            submission.add_earlier(read(place), earlier.title)


def marks_csv(students: Iterable[tuple[str, AssignmentMark | None]], clean: Callable[[str], str] = str) -> str:
    """CSV text with a row per student: points earned, late deduction, points that count, and each decision by hand; of
    a student without a mark the name alone. `clean` makes a cell harmless."""
    rows = [
        ["student", "points", "out_of", "earned", "late_percent", "handed_in", "until", "why", "overrides", "decided"]
    ]
    for student, mark in students:
        if mark is None:
            rows.append([clean(student), *[""] * 9])
            continue
        late = "" if mark.points is None else f"{100 * mark.late:g}"
        decided = "; ".join(f"{step.step}: {_cell(step.points)} ({step.reason})" for step in mark.steps if step.reason)
        rows.append([
            clean(student), _cell(mark.points), _cell(mark.out_of), _cell(mark.earned), late,
            mark.handed_in, mark.until, clean(mark.extended), clean(decided), clean(marks.lateness(mark)),
        ])  # fmt: skip
    return files.table(rows)


@dataclass
class ChangeList:
    """`changes.csv`: every change that the reports name, each once. Older rows are kept."""

    file: Path
    clean: Callable[[str], str] = str
    rows: dict[tuple[str, ...], None] = field(default_factory=dict)

    def read(self) -> None:
        """Reads the list, if there is one. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            text = self.file.read_text(encoding="utf-8-sig", errors="replace")
            self.rows = dict.fromkeys(map(tuple, list(csv.reader(io.StringIO(text, newline="")))[1:]))

    def add(self, graded: Graded) -> None:
        """Adds those of a student's changes that are new, after the report has been written. Raises OSError."""
        student = self.clean(graded.student)
        rows: list[tuple[str, ...]] = [
            (change.when, student, _cell(change.before), _cell(change.after), self.clean(change.why))
            for change in graded.changes
        ]
        new = dict.fromkeys(row for row in rows if row not in self.rows)
        if new:
            self.rows |= new
            table = files.table([["when", "student", "from", "to", "why"], *self.rows])
            files.write(self.file, table.encode("utf-8-sig"))


def load(file: Path) -> AssignmentMark | None:
    """The mark saved in a file; None without one that can be read."""
    return files.decoded(file, AssignmentMark)


def with_days_used(marking: Marking, folder: Path, student: str) -> Marking:
    """The marking, with the late days that a student has used in earlier assignments, read from the saved marks:
    `folder/ASSIGNMENT/STUDENT.json`."""
    before = marking.term.before(marking.assignment.name)
    earlier = (load(folder / one.name / f"{student}.json") for one in before)
    return dataclasses.replace(marking, days_used={student: sum(mark.free_days for mark in earlier if mark)})


def save(file: Path, mark: AssignmentMark) -> None:
    """Saves a mark in a file, and makes its folder if need be. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    files.write(file, msgspec.json.encode(mark))


def _cell(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"
