"""One run over a class: each student graded or kept, marked, and written as it is done."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path

import msgspec

from grader.base import files
from grader.base.language import N_
from grader.base.language import gettext as _
from grader.base.limited import LimitedProcess, OverBudget
from grader.base.limits import Limits
from grader.base.paths import step_folder
from grader.base.results import AttemptMark, Graded, Report, StepResult, without_open_scores
from grader.classes import class_list
from grader.classes import pool as pools
from grader.classes.roster import Student, file_name, students
from grader.course import steps as course
from grader.course import stubs, submissions, unread
from grader.course.submissions import Submission
from grader.feedback import exports
from grader.feedback.similarity import HONEST, taken_from_the_kit
from grader.feedback.standings import Standing, standing
from grader.marks import second_look
from grader.marks.ledger import CHANGES, ChangeList, Ledger
from grader.marks.marking import Marking, as_counted, shown, why_no_mark
from grader.marks.register import NONE, Register
from grader.report import page as pages

REPORTS, PAGES = "reports", "pages"
ENDINGS = {REPORTS: "json", PAGES: "html"} | {kind: each.ending for kind, each in exports.STUDENT_FILES.items()}
FOLDERS = tuple(ENDINGS)


@dataclass(frozen=True)
class Request:
    """A request to grade a class: students, the folder of the results, options; `earlier` are folders of earlier
    assignments, `only` the students who are graded again."""

    submissions: Path
    out: Path
    steps: list[str]
    device: str
    seed: int | None
    limits: Limits
    assignment: str = "attention"
    again: bool = False
    jobs: int | None = None
    scheduler: str | None = None
    gradebook: str | None = None
    marking: Marking | None = None
    earlier: tuple[Path, ...] = ()
    only: tuple[str, ...] = ()
    register: Register = NONE
    also: tuple[str, ...] = ()  # of `exports.STUDENT_FILES`

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the folders of `out` with a file about each student."""
        return (REPORTS, PAGES, *self.also)


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


# Called with the result of each student as it is done, and whether it was kept from an earlier run.
OnStudent = Callable[[Graded, bool], None]


# All attempts of one student have the time that one may take; the last one is graded first.
TOO_LONG = N_("Not graded: this student's later attempts took {seconds} s, which is all that one may take.")


@dataclass
class Attempts:
    """One student while graded: what is known, the attempts that are graded, oldest first, and their results."""

    graded: Graded
    tries: list[Student]
    done: dict[int, pools.Answer] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The seconds that grading them has taken so far."""
        return sum(step.seconds for answer in self.done.values() if isinstance(answer, Report) for step in answer.steps)


@dataclass
class Round:
    """A run: who is graded and how; `files_of` gets what became of each file that was handed in, by student."""

    request: Request
    plan: Plan
    ledger: Ledger
    on_student: OnStudent
    files_of: dict[str, dict[str, str]] = field(default_factory=dict)
    seen_before: set[str] = field(default_factory=set)  # who was here in the last run
    given_files: dict[str, str] = field(default_factory=dict)  # the files that everyone was given
    found: dict[str, Standing] = field(default_factory=dict)
    waiting: dict[str, Attempts] = field(default_factory=dict)
    reader: LimitedProcess = field(default_factory=LimitedProcess)

    def grade(self, names: list[str], pool: pools.Pool) -> list[Standing]:
        """Grades what is missing or changed, or all students if that is asked for, and writes the files about each.

        Returns the standings in the order of `names`. Raises NobodyGraded if no student can be graded.
        """
        out = self.request.out
        self.changes = ChangeList(out / CHANGES, exports.harmless)
        self.changes.begin(load(out, file.stem) for file in sorted((out / REPORTS).glob("*.json")))
        self.ledger.read = partial(self.reader.call, submissions.read)
        with closing(self.reader), closing(pools.answers(pool, self._tasks(names))) as answers:
            for name, answer in answers:
                file, _number, number = name.rpartition("#")
                self._take_answer(file, int(number), answer)
        return [self.found[file_name(name)] for name in names]

    @cached_property
    def _sections(self) -> set[str]:
        """The sections in which anyone handed in, now or in an earlier run into the same results."""
        if not (register := self.request.register).people:
            return set()
        here = class_list.people(self.request.submissions, register).values()
        before = (load(self.request.out, file.stem) for file in (self.request.out / REPORTS).glob("*.json"))
        return {one.section for one in here if not one.is_absent} | {
            entry.section for entry in before if entry and not entry.absence
        }

    def _tasks(self, names: list[str]) -> Iterator[tuple[str, pools.Task]]:
        """The attempts to grade as tasks, named `file#number`; finishes at once students who have none."""
        request, plan = self.request, self.plan
        attempts = self.ledger.marking.assignment.attempts_read
        for student in students(
            request.submissions, names, plan.assignment, request.earlier, attempts=attempts, reader=self.reader,
            register=request.register,
        ):  # fmt: skip
            earlier = load(request.out, student.file)
            self.files_of[student.name] = unread.files_within(student.submission, plan.steps)
            self.given_files |= student.submission.given_files
            of_another_section = student.is_absent and earlier and not earlier.absence
            if of_another_section or request.only and student.name not in request.only:
                self._leave(student, earlier)
                continue
            student, absence = self._by_rule(student)
            self.seen_before |= {student.file} if earlier and earlier.absence == absence else set()
            again = request.again or bool(request.only)
            tries = [*student.before, student]
            for number, one in enumerate(tries):
                facts = (one.folder, one.submission, earlier, one.handed_in)
                self.ledger.expect(f"{student.file}#{number}", *facts, absence, one.requests)
            key = _key(student, of_its_round(plan, None if again else earlier), request.limits)
            graded = _ungraded(student, key, absence, self.files_of[student.name])
            if student.problem and not student.before:
                self._finish(graded, len(tries) - 1)
            elif earlier and not again and _is_valid(earlier, graded, plan, request.out):
                earlier.labs, earlier.absence = student.labs, graded.absence
                self._finish(earlier, earlier.attempt or len(tries) - 1, from_ledger=True)
            else:
                graded.key = _key(student, plan, request.limits)
                try:
                    graded.from_kit = self.reader.call(_from_kit, student.submission, plan.steps)
                except OverBudget as over:
                    graded.error = str(over)
                    self._finish(graded, len(tries) - 1)
                    continue
                self.waiting[student.file] = Attempts(graded, tries)
                yield from self._attempt_tasks(student.file, tries)

    def _attempt_tasks(self, file: str, tries: list[Student]) -> Iterator[tuple[str, pools.Task]]:
        """The attempts of a student as tasks, the last one first; those that no time is left for get an error as
        answer."""
        plan, limits = self.plan, self.request.limits
        how = plan.steps, plan.device, plan.seed, plan.language, limits, plan.kit
        most = len(plan.steps) * limits.step_seconds
        for number, one in reversed([*enumerate(tries)]):
            if len(tries) > 1 and self.waiting[file].seconds > most:
                self._take_answer(file, number, _(TOO_LONG).format(seconds=f"{most:.0f}"))
            else:
                yield f"{file}#{number}", pools.Task(one.submission, *how)

    def _take_answer(self, file: str, number: int, answer: pools.Answer) -> None:
        """Notes the answer to an attempt of this number, from 0; with the last one the student is finished."""
        attempts = self.waiting[file]
        attempts.done[number] = _checked(answer, self.plan.steps)
        if len(attempts.done) == len(attempts.tries):
            self._finish_best(self.waiting.pop(file))

    def _by_rule(self, student: Student) -> tuple[Student, str]:
        """The student, and the reason for what follows if only the roster names them: without a mark yet they get it as
        their problem, else they are graded as an empty submission. An empty reason for all others."""
        if not student.is_absent:
            return student, ""
        absence = self.ledger.absence(student.name, self.request.register, self._sections)
        return dataclasses.replace(student, problem="" if absence.is_zero else absence.why), absence.why

    def _leave(self, student: Student, earlier: Graded | None) -> None:
        """Notes the `earlier` result of a student, or its absence: this run grades others."""
        reason = _("not graded yet: that run was about others")
        result = earlier or Graded(student=student.name, file=student.file, key="", error=reason)
        self.files_of[student.name] = result.files or student.submission.files
        self.found[student.file] = standing(result)
        self.on_student(result, True)

    def _finish_best(self, attempts: Attempts) -> None:
        """Finishes a student with the attempt that counts: the most points after lateness, and of equal ones the
        last."""
        graded, best = attempts.graded, -1.0
        tries: list[AttemptMark] = []
        for number, answer in sorted(attempts.done.items()):
            report, error = (answer, "") if isinstance(answer, Report) else (None, answer)
            tried = msgspec.structs.replace(
                graded, report=report and without_open_scores(report), error=error, attempt=number,
                grader_failed=pools.grader_failed(answer),
            )  # fmt: skip
            mark = self.ledger.mark_of(f"{graded.file}#{number}", tried)
            points = mark.points if mark and mark.points is not None else -1.0
            tries.append(AttemptMark(mark.points if mark else None, mark.handed_in if mark else ""))
            if points >= best:
                best, chosen = points, tried
        if len(attempts.tries) > 1:
            chosen.tries = tries
            own = unread.files_within(attempts.tries[chosen.attempt].submission, self.plan.steps)
            chosen.files = self.files_of[graded.student] = own
        self._finish(chosen, chosen.attempt)

    def _finish(self, graded: Graded, attempt: int, from_ledger: bool = False) -> None:
        """Marks a student's result, writes the files about it if they have changed, and notes its standing. `attempt`:
        its number, from 0; `from_ledger`: the result is that of an earlier run."""
        graded.attempt = attempt
        with pools.held():
            if self.ledger.mark(f"{graded.file}#{attempt}", graded) or not from_ledger or self._lacks(graded):
                write_student(self.request.out, graded, self._appeal_link(graded), self.request.also)
                self.changes.add(graded)
            self.found[graded.file] = standing(graded, self._changed(graded, from_ledger))
            self.on_student(graded, from_ledger)

    def _changed(self, graded: Graded, from_ledger: bool) -> str:
        """What this run has changed for a student as text: `new`, or the points before and after; empty for nothing."""
        change = graded.changes[-1] if graded.changes and graded.changes[-1].when == self.ledger.when else None
        if change:
            return f"{shown(change.before)} → {shown(change.after)}"
        return "" if from_ledger or graded.file in self.seen_before else _("new")

    def _lacks(self, graded: Graded) -> bool:
        """Whether a file about a student that `also` asks for is missing."""
        has_mark = not why_no_mark(graded)
        wanted = [kind for kind in self.request.also if has_mark or not exports.STUDENT_FILES[kind].needs_mark]
        return any(not path(self.request.out, kind, graded.file).is_file() for kind in wanted)

    def _appeal_link(self, graded: Graded) -> str:
        """The URL behind the link for a second look; empty without a contact."""
        term, assignment = self.ledger.marking.term, self.ledger.marking.assignment
        return second_look.link(term.contact, assignment.title or assignment.name, graded.student)


def _checked(answer: pools.Answer, steps: Collection[str]) -> pools.Answer:
    """The answer, or an error in its place if it is a report of other steps, or has impossible points: a worker may be
    on a machine of others."""
    odd = [step.name for step in answer.steps if not _possible(step, steps)] if isinstance(answer, Report) else []
    return _("The grader failed: {reason}", reason=odd[0]) if odd else answer


def _possible(step: StepResult, steps: Collection[str]) -> bool:
    """Whether a result is of one of these steps, with points within bounds."""
    points = [step.score or 0.0, *(check.points for check in step.checks)]
    return step.name in steps and all(0.0 <= each <= step.max_score for each in points)


def _ungraded(student: Student, key: str, absence: str, files_of: dict[str, str]) -> Graded:
    """The record of a student before grading: the problem as its error, no report."""
    return Graded(
        student=student.name, file=student.file, key=key, error=student.problem, canvas_id=student.canvas_id,
        late=student.late, labs=student.labs, login=student.login, moodle_id=student.moodle_id, back=student.back,
        section=student.section, absence=absence, stranger=student.stranger, files=files_of,
        unread=tuple(student.submission.unread.items()) if student.problem else (),
    )  # fmt: skip


def _from_kit(submission: Submission, steps: list[str]) -> tuple[str, ...]:
    """The steps of a submission that share more with the kit's own files, its labs, than independent work ever does."""
    written = {step: submission.sources[step][1] for step in steps if step in submission.sources}
    shares = {step: taken_from_the_kit(text, _stub(step)) for step, text in written.items()}
    return tuple(step for step, share in shares.items() if share > HONEST)


@cache
def _stub(step: str) -> str:
    return stubs.original(step_folder(step))


def of_its_round(plan: Plan, earlier: Graded | None) -> Plan:
    """The plan, with the seed of the student's `earlier` result if that is one of the plan's earlier seeds."""
    seed = earlier.report.seed if earlier and earlier.report else plan.seed
    return msgspec.structs.replace(plan, seed=seed) if seed in plan.earlier else plan


def _is_valid(earlier: Graded, graded: Graded, plan: Plan, out: Path) -> bool:
    """Whether a saved result may be kept: it has its page, is unedited, and about this student, submission and plan."""
    if not path(out, PAGES, earlier.file).is_file():
        return False
    if earlier.report is None or earlier.grader_failed or _could_now_be_graded(earlier.report):
        return False
    if (earlier.student, earlier.file, earlier.key) != (graded.student, graded.file, graded.key):
        return False
    if earlier.digest != _digest(earlier):
        return False
    return sorted(step.name for step in earlier.report.steps) == sorted(set(plan.steps))


def _could_now_be_graded(report: Report) -> bool:
    """True if a step was skipped for lack of a package that is installed now."""
    skipped = {step.name for step in report.steps if step.without_score}
    return bool(skipped) and any(step.name in skipped and not step.lacking for step in course.steps())


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
    report, reason = as_counted(graded), why_no_mark(graded)
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
    sealed = msgspec.structs.replace(graded, digest=_digest(graded))
    files.write(path(out, REPORTS, graded.file), msgspec.json.encode(sealed))


def _digest(graded: Graded) -> str:
    """16 hexadecimal digits of a report, as it was when someone graded it."""
    return hashlib.sha256(msgspec.json.encode(graded.report)).hexdigest()[:16]


def _key(student: Student, plan: Plan, limits: Limits) -> str:
    """A digest, 64 hexadecimal digits, of all that a student's result depends on."""
    handed_in = student.submission
    older = [[attempt.submission.sources, attempt.submission.problems] for attempt in student.before]
    parts: list[object] = [student.canvas_id, student.late, student.login, student.moodle_id, student.back]
    parts += [student.section, student.stranger, handed_in.name, handed_in.taken, handed_in.sources, handed_in.problems]
    parts += [handed_in.unread, handed_in.earlier, older, plan.seed, plan.steps, plan.device, plan.language]
    return hashlib.sha256(msgspec.json.encode([*parts, plan.kit, limits], order="deterministic")).hexdigest()
