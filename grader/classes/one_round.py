"""One run over a class: each student graded or kept, marked, and written as it is done."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import msgspec

from grader.base.language import N_
from grader.base.language import gettext as _
from grader.base.layouts import Person
from grader.base.limited import LimitedProcess, OverBudget
from grader.base.limits import Limits
from grader.base.paths import step_folder
from grader.base.results import AssignmentMark, AttemptMark, Graded, Report, StepResult, without_open_scores
from grader.classes import pool as pools
from grader.classes.results import PAGES, REPORTS, Plan, load, path, write_student
from grader.classes.roster import Student, file_name, students
from grader.course import steps as course
from grader.course import stubs, submissions, unread
from grader.course.submissions import Submission
from grader.feedback import exports
from grader.feedback.similarity import HONEST, taken_from_the_kit
from grader.feedback.standings import Standing, standing
from grader.marks import second_look
from grader.marks.ledger import CHANGES, ChangeList, Ledger
from grader.marks.marking import Marking, counted, shown
from grader.marks.register import NONE, Register


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


Try = tuple[str, int]  # the name of the files about a student, and the number of an attempt, from 0
# Called with the result of each student as it is done, and whether it was kept from an earlier run.
OnStudent = Callable[[Graded, bool], None]


# All attempts of one student have the time that one may take; the last one is graded first.
TOO_LONG = N_("Not graded: this student's later attempts took {seconds} s, which is all that one may take.")


@dataclass
class Attempts:
    """One student while graded: the answers to the attempts, by number, the oldest 0. `key` is a digest of all that
    they depend on; `absence` says what follows from it that nothing was handed in."""

    student: Student
    key: str
    absence: str
    from_kit: tuple[str, ...] = ()
    done: dict[int, pools.Answer] = field(default_factory=dict)

    @property
    def tries(self) -> list[Student]:
        """What was handed in each time, the oldest first."""
        return [*self.student.before, self.student]

    @property
    def seconds(self) -> float:
        """The seconds that grading them has taken so far."""
        return sum(step.seconds for answer in self.done.values() if isinstance(answer, Report) for step in answer.steps)


@dataclass(frozen=True)
class Tried:
    """A graded attempt: its number, from 0, its report, or the reason why there is none, and its mark."""

    number: int
    answer: pools.Answer
    mark: AssignmentMark | None
    grader_failed: bool = False

    @property
    def rank(self) -> tuple[float, int]:
        """The place among the attempts of a student: the highest has the most points after lateness, and of equal ones
        it is the last."""
        points = self.mark.points if self.mark else None
        return -1.0 if points is None else points, self.number


@dataclass
class Round:
    """A run: who is graded and how; `files_of` gets what became of each file that was handed in, by student."""

    request: Request
    plan: Plan
    ledger: Ledger
    on_student: OnStudent
    files_of: dict[str, dict[str, str]] = field(default_factory=dict)
    seen_before: set[str] = field(default_factory=set)  # who was here in the last run
    sections: set[str] = field(default_factory=set)  # in which anyone handed in, now or in an earlier run
    given_files: dict[str, str] = field(default_factory=dict)  # the files that everyone was given
    found: dict[str, Standing] = field(default_factory=dict)
    waiting: dict[str, Attempts] = field(default_factory=dict)
    reader: LimitedProcess = field(default_factory=LimitedProcess)

    def grade(self, listed: list[Person], pool: pools.Pool) -> list[Standing]:
        """Grades what is missing or changed, or all students if that is asked for, and writes the files about each.

        Returns the standings in the order of the students. Raises NobodyGraded if no student can be graded.
        """
        out = self.request.out
        self.changes = ChangeList(out / CHANGES, exports.harmless)
        self.changes.read()
        self.sections |= {person.section for person in listed if not person.is_absent}
        for report in sorted((out / REPORTS).glob("*.json")):
            if saved := load(out, report.stem):
                self.changes.add(saved)  # a killed run wrote them with the mark only
                self.sections |= set() if saved.absence else {saved.section}
        self.ledger.read = partial(self.reader.call, submissions.read)
        with closing(self.reader), closing(pools.answers(pool, self._tasks(listed))) as answers:
            for (file, number), answer in answers:
                self._take_answer(file, number, answer)
        return [self.found[file_name(person.name)] for person in listed]

    def _tasks(self, listed: list[Person]) -> Iterator[tuple[Try, pools.Task]]:
        """The attempts to grade as tasks; finishes at once students who have none."""
        request, plan, assignment = self.request, self.plan, self.ledger.marking.assignment
        for student in students(
            request.submissions, listed, plan.assignment, request.earlier if assignment.stand_ins == "own" else None,
            attempts=assignment.attempts_read, reader=self.reader, register=request.register,
        ):  # fmt: skip
            earlier = load(request.out, student.file)
            self.files_of[student.name] = unread.files_within(student.submission, plan.steps)
            self.given_files |= student.submission.given_files
            of_another_section = student.person.is_absent and earlier and not earlier.absence
            if of_another_section or request.only and student.name not in request.only:
                self._leave(student, earlier)
                continue
            student, absence = self._by_rule(student)
            self.seen_before |= {student.file} if earlier and earlier.absence == absence else set()
            again = request.again or bool(request.only)
            for number, one in enumerate([*student.before, student]):
                facts = (one.folder, one.submission, earlier, one.handed_in)
                self.ledger.expect((student.file, number), *facts, absence, one.requests, late=one.person.late)
            key = _key(student, of_its_round(plan, None if again else earlier), request.limits)
            if student.problem and not student.before:
                self._finish(Attempts(student, key, absence), student.problem)
            elif earlier and not again and _is_valid(earlier, student, key, plan, request.out):
                self._keep(earlier, student, absence)
            else:
                started = Attempts(student, _key(student, plan, request.limits), absence)
                try:
                    started.from_kit = self.reader.call(_from_kit, student.submission, plan.steps)
                except OverBudget as over:
                    self._finish(started, str(over))
                    continue
                self.waiting[student.file] = started
                yield from self._attempt_tasks(started)

    def _attempt_tasks(self, attempts: Attempts) -> Iterator[tuple[Try, pools.Task]]:
        """The attempts of a student as tasks, the last one first; those that no time is left for get an error as
        answer."""
        plan, limits, file = self.plan, self.request.limits, attempts.student.file
        how = plan.steps, plan.device, plan.seed, plan.language, limits, plan.kit
        most = len(plan.steps) * limits.of_step(None).step_seconds
        for number, one in reversed([*enumerate(attempts.tries)]):
            if attempts.student.before and attempts.seconds > most:
                self._take_answer(file, number, _(TOO_LONG).format(seconds=f"{most:.0f}"))
            else:
                yield (file, number), pools.Task(one.submission, *how)

    def _take_answer(self, file: str, number: int, answer: pools.Answer) -> None:
        """Notes the answer to an attempt of this number, from 0; with the last one the student is finished."""
        attempts = self.waiting[file]
        attempts.done[number] = _checked(answer, self.plan.steps)
        if len(attempts.done) == len(attempts.tries):
            self._finish_best(self.waiting.pop(file))

    def _by_rule(self, student: Student) -> tuple[Student, str]:
        """The student, and the reason for what follows if only the roster names them: without a mark yet they get it as
        their problem, else they are graded as an empty submission. An empty reason for all others."""
        if not student.person.is_absent:
            return student, ""
        absence = self.ledger.absence(student.name, self.request.register, self.sections)
        return dataclasses.replace(student, problem="" if absence.is_zero else absence.why), absence.why

    def _leave(self, student: Student, earlier: Graded | None) -> None:
        """Notes the `earlier` result of a student, or its absence: this run grades others."""
        reason = _("not graded yet: that run was about others")
        result = earlier or Graded(student=student.name, file=student.file, key="", error=reason)
        self.files_of[student.name] = result.files or student.submission.files
        self.found[student.file] = standing(result)
        self.on_student(result, True)

    def _finish_best(self, attempts: Attempts) -> None:
        """Finishes a student with the attempt that counts."""
        student, tried = attempts.student, []
        for number, answer in sorted(attempts.done.items()):
            report = without_open_scores(answer) if isinstance(answer, Report) else None
            mark = self.ledger.mark((student.file, number), student.name, report)
            tried.append(Tried(number, report or answer, mark, pools.grader_failed(answer)))
        best, marks = max(tried, key=lambda one: one.rank), (one.mark for one in tried)
        tries = [AttemptMark(mark.points, mark.handed_in) if mark else AttemptMark(None) for mark in marks]
        if student.before:
            own = unread.files_within(attempts.tries[best.number].submission, self.plan.steps)
            self.files_of[student.name] = own
        self._save_new(attempts, best, tries if student.before else [])

    def _finish(self, attempts: Attempts, problem: str) -> None:
        """Finishes a student whose last attempt has a problem, so that none is graded."""
        student, number = attempts.student, len(attempts.student.before)
        mark = self.ledger.mark((student.file, number), student.name, None)
        self._save_new(attempts, Tried(number, problem, mark))

    def _save_new(self, attempts: Attempts, tried: Tried, tries: Sequence[AttemptMark] = ()) -> None:
        """Builds a student's result of the attempt that counts, writes the files about it, and notes its standing."""
        student, person = attempts.student, attempts.student.person
        report, error = (tried.answer, "") if isinstance(tried.answer, Report) else (None, tried.answer)
        with pools.held():
            changes = self.ledger.changes_with((student.file, tried.number), student.name, tried.mark)
            self._save(Graded(
                student=student.name, file=student.file, key=attempts.key, report=report, error=error,
                canvas_id=person.canvas_id, late=person.late, labs=student.labs, mark=tried.mark, changes=changes,
                login=person.login, attempt=tried.number, digest=_digest(report), moodle_id=person.moodle_id,
                unread=tuple(student.submission.unread.items()) if student.problem else (),
                from_kit=attempts.from_kit, back=person.back, section=person.section, absence=attempts.absence,
                stranger=student.stranger, tries=[*tries], files=self.files_of[student.name],
                grader_failed=tried.grader_failed,
            ))  # fmt: skip

    def _keep(self, earlier: Graded, student: Student, absence: str) -> None:
        """Keeps a student's result of an earlier run, marks it again, and notes its standing. The files about it are
        written if the mark is another one, or one of them is missing."""
        key = student.file, earlier.attempt
        with pools.held():
            mark = self.ledger.mark(key, student.name, earlier.report)
            changes = self.ledger.changes_with(key, student.name, mark)
            kept = msgspec.structs.replace(earlier, labs=student.labs, absence=absence, mark=mark, changes=changes)
            is_new = (mark, changes) != (earlier.mark, earlier.changes)
            self._save(kept, is_new=is_new or self._lacks(kept), from_ledger=True)

    def _save(self, graded: Graded, *, is_new: bool = True, from_ledger: bool = False) -> None:
        """Writes the files about a student if the result `is_new`, and notes the standing. `from_ledger`: the result is
        that of an earlier run."""
        if is_new:
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
        wanted = [
            kind for kind in self.request.also if not (exports.STUDENT_FILES[kind].needs_mark and counted(graded)[1])
        ]
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


def _is_valid(earlier: Graded, student: Student, key: str, plan: Plan, out: Path) -> bool:
    """Whether a saved result may be kept: it has its page, is unedited, and about this student, and what `key` is a
    digest of."""
    if not path(out, PAGES, earlier.file).is_file():
        return False
    if earlier.report is None or earlier.grader_failed or _could_now_be_graded(earlier.report):
        return False
    if (earlier.student, earlier.file, earlier.key) != (student.name, student.file, key):
        return False
    if earlier.digest != _digest(earlier.report):
        return False
    return sorted(step.name for step in earlier.report.steps) == sorted(set(plan.steps))


def _could_now_be_graded(report: Report) -> bool:
    """True if a step was skipped for lack of a package that is installed now."""
    skipped = {step.name for step in report.steps if step.without_score}
    return bool(skipped) and any(step.name in skipped and not step.lacking for step in course.steps())


def _digest(report: Report | None) -> str:
    """16 hexadecimal digits of a report, as it was when someone graded it."""
    return hashlib.sha256(msgspec.json.encode(report)).hexdigest()[:16]


def _key(student: Student, plan: Plan, limits: Limits) -> str:
    """A digest, 64 hexadecimal digits, of all that a student's result depends on."""
    handed_in, person = student.submission, student.person
    older = [[attempt.submission.sources, attempt.submission.problems] for attempt in student.before]
    parts: list[object] = [person.canvas_id, person.late, person.login, person.moodle_id, person.back]
    parts += [person.section, student.stranger, handed_in.name, handed_in.taken, handed_in.sources, handed_in.problems]
    parts += [handed_in.unread, handed_in.earlier, older, plan.seed, plan.steps, plan.device, plan.language]
    return hashlib.sha256(msgspec.json.encode([*parts, plan.kit, limits], order="deterministic")).hexdigest()
