"""A class: every student's submission graded once under one seed, kept as it comes, and everything made of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from grader.base import files, language
from grader.base.downloads import left_out
from grader.base.language import gettext as _
from grader.base.limits import Limits
from grader.base.paths import typed
from grader.base.results import Graded, Report
from grader.course import choice
from grader.course.submissions import Submission
from grader.instructor import class_page, exports, fingerprint
from grader.instructor import pool as pools
from grader.instructor.roster import Impossible, Student, class_folders, file_name, students
from grader.instructor.standings import Standing, standing
from grader.judge import grader
from grader.marks.assignments import BadTerm
from grader.marks.changes import Change
from grader.marks.ledger import Ledger
from grader.marks.marking import Marking, marked, plain
from grader.report import page as pages

REPORTS, PAGES, GRADESCOPE, JUNIT = FOLDERS = ("reports", "pages", "gradescope", "junit")
ENDINGS = {REPORTS: "json", PAGES: "html", GRADESCOPE: "json", JUNIT: "xml"}


class Stopped(RuntimeError):
    """The run was stopped. What was graded is kept. One line."""


@dataclass(frozen=True)
class Request:
    """What was asked for: who, where the results go, and how; `earlier` are folders of earlier assignments."""

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


@dataclass(frozen=True)
class Done:
    """A class that was graded: everyone's standing in the order of the folders, how many were kept from before, the
    files that are no student's, whose marks are others than before, and who is named in tables and not there."""

    standings: list[Standing]
    kept: int
    left_out: list[str]
    changes: list[Change]
    unknown: list[str]


class Plan(msgspec.Struct, kw_only=True):
    """How a class is graded: everyone in the same way, and a run that goes on in the same way too. `class.json`.

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
    earlier: list[int] = []
    complete: bool = False


# What is told of each student as it is done, and whether it was kept from before.
OnStudent = Callable[[Graded, bool], None]


def run(request: Request, progress: Callable[[int], AbstractContextManager[OnStudent]]) -> Done:
    """Grades a class and writes everything that is made of it. Raises Impossible and Stopped."""
    folders = class_folders(request.submissions, request.out, request.earlier)
    counted = Counter[bool]()
    try:
        with pools.stoppable(), _alone_in(request), progress(len(folders)) as on_student:

            def note(graded: Graded, kept: bool) -> None:
                counted[kept] += 1
                on_student(graded, kept)

            last, plan = _last(request.out), _plan(request)
            ledger = Ledger(request.marking or plain(plan.assignment, plan.steps), plan.kit)
            with _pool(request) as pool:
                standings = grade(request, folders, plan, pool, note, ledger)
            plan = _completed(plan, None if request.seed is not None or counted[False] else last)
            _write_plan(request.out, plan)
            write_class(request, plan, standings)
            ledger.write(request.out, (load(request.out, one.file) for one in standings), exports.harmless)
            if request.gradebook:
                _save(request, standings)
    except KeyboardInterrupt:
        raise Stopped(
            _("Stopped. {count} of {total} are graded and saved. Type the same command again to continue.").format(
                count=counted.total(), total=len(folders)
            )
        ) from None
    except BadTerm as bad:
        raise Impossible(_("{problem} Type: {command}").format(problem=bad, command="python -m grader term")) from None
    except OSError as error:
        raise Impossible(
            _("{file} can't be written ({reason}). Type: python -m grader class {submissions} --out FOLDER").format(
                file=error.filename or request.out,
                reason=error.strerror or error,
                submissions=typed(request.submissions),
            )
        ) from None
    return Done(standings, counted[True], left_out(request.submissions), ledger.changes,
                ledger.unknown(standing.student for standing in standings))  # fmt: skip


@contextmanager
def _alone_in(request: Request) -> Iterator[None]:
    """Holds the folder of the results, which is made if need be. Raises Impossible where another run holds it."""
    for folder in (request.out, *(request.out / name for name in FOLDERS)):
        folder.mkdir(parents=True, exist_ok=True)
    with (request.out / ".lock").open("w") as lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows has no such lock
            pass
        except BlockingIOError:
            raise Impossible(
                _("Another run is writing to {out}. Type: python -m grader class {submissions} --out OTHER").format(
                    out=request.out, submissions=typed(request.submissions)
                )
            ) from None
        yield


def _plan(request: Request) -> Plan:
    """How everyone is graded: under the seed asked for, else that of a last run here that was stopped, else a new one.
    It is kept."""
    last = _last(request.out) if request.seed is None else None
    seed = last.seed if last and not last.complete else request.seed
    plan = Plan(
        seed=grader.new_seed() if seed is None else seed, steps=request.steps or choice.step_names(None, choice.CORE),
        device=request.device, language=language.current(), kit=fingerprint.fingerprint(),
        assignment=request.assignment, title=request.marking.assignment.title if request.marking else "",
        submissions=str(request.submissions.resolve()),
        earlier=[*last.earlier, *[last.seed] * last.complete] if last else [],
    )  # fmt: skip
    _write_plan(request.out, plan)
    return plan


def _write_plan(out: Path, plan: Plan) -> None:
    files.write(out / "class.json", msgspec.json.format(msgspec.json.encode(plan), indent=2))


def _last(out: Path) -> Plan | None:
    """How the last run was made."""
    try:
        return msgspec.json.decode((out / "class.json").read_bytes(), type=Plan)
    except (OSError, msgspec.DecodeError):
        return None


@contextmanager
def _pool(request: Request) -> Iterator[pools.Pool]:
    try:
        if request.scheduler is None:
            grader.require_fitting_tapes()
            yield pools.processes(request.jobs or pools.cores(), request.limits)
            return
        with pools.cluster(request.scheduler) as pool:
            yield pool
    except (pools.Unreachable, pools.NobodyGraded, grader.UnfitCopy) as refused:
        raise Impossible(str(refused)) from None


def _save(request: Request, standings: list[Standing]) -> None:
    """Writes nbgrader's gradebook."""
    from grader.instructor import gradebook

    entries = (load(request.out, standing.file) for standing in standings)
    try:
        gradebook.save(
            request.gradebook or gradebook.DEFAULT, request.assignment,
            ((one.student, one.report, one.error, one.mark if request.marking else None) for one in entries if one),
            request.steps,
        )  # fmt: skip
    except gradebook.NoGradebook as problem:
        raise Impossible(
            _(
                "Everything is in {out}, but the gradebook can't be written ({reason}). "
                "Type: python -m grader class {submissions} --gradebook sqlite:///gradebook.db"
            ).format(out=request.out, reason=str(problem).rstrip("."), submissions=typed(request.submissions))
        ) from None


def grade(
    request: Request, names: list[str], plan: Plan, pool: pools.Pool, on_student: OnStudent, ledger: Ledger
) -> list[Standing]:  # fmt: skip
    """Grades what is missing or changed, or everyone when that is asked for, and writes the files about each student.

    Gives everyone's standing in the order of the folders. Raises NobodyGraded when nobody can be graded so.
    """
    found: dict[str, Standing] = {}
    waiting: dict[str, Graded] = {}

    def done(graded: Graded, kept: bool = False, page: str = "") -> None:
        if ledger.mark(graded) or not kept:
            _write_student(request.out, graded, page)
        found[graded.file] = standing(graded)
        on_student(graded, kept)

    def tasks() -> Iterator[tuple[str, pools.Task]]:
        for student in students(request.submissions, names, plan.assignment, request.earlier):
            known = load(request.out, student.file)
            before = known.mark if known else None
            ledger.expect(student.file, student.folder, student.submission, before, student.handed_in)
            key = _key(student, _of_its_round(plan, None if request.again else known), request.limits)
            graded = _ungraded(student, key)
            if student.problem:
                done(graded)
            elif known and not request.again and _stands(known, graded, plan, request.out):
                known.labs = student.labs
                done(known, kept=True)
            else:
                graded.key = _key(student, plan, request.limits)
                waiting[student.file] = graded
                yield student.file, _task(student.submission, plan, request.limits)

    with closing(pools.answers(pool, tasks())) as answers:
        for file, answer in answers:
            graded = waiting.pop(file)
            graded.error = answer.error
            graded.report = msgspec.json.decode(answer.report, type=Report) if answer.report else None
            done(graded, page=answer.page)
    return [found[file_name(name)] for name in names]


def _completed(plan: Plan, last: Plan | None) -> Plan:
    """The plan of a run that is complete; with the seeds of the `last` one where nobody has met the new draws."""
    return msgspec.structs.replace(plan, seed=(last or plan).seed, earlier=(last or plan).earlier, complete=True)


def _ungraded(student: Student, key: str) -> Graded:
    return Graded(
        student=student.name, file=student.file, key=key, error=student.problem, canvas_id=student.canvas_id,
        late=student.late, labs=student.labs,
    )  # fmt: skip


def _of_its_round(plan: Plan, known: Graded | None) -> Plan:
    """The plan, with the seed of the earlier round in which somebody was graded."""
    seed = known.report.seed if known and known.report else plan.seed
    return msgspec.structs.replace(plan, seed=seed) if seed in plan.earlier else plan


def _task(submission: Submission, plan: Plan, limits: Limits) -> pools.Task:
    return pools.Task(submission, plan.steps, plan.device, plan.seed, plan.language, limits, plan.kit)


def write_class(request: Request, plan: Plan, standings: list[Standing]) -> None:
    """Writes what is made of the whole class: its page, and a table for each system that takes one."""
    points = next((one.max_score for one in standings if one.score is not None), 0.0)
    page = class_page.html(standings, seed=plan.seed, submissions=_arguments(request))
    made = {
        "index.html": page.encode(),
        "class.csv": exports.class_csv(standings, plan.steps).encode("utf-8-sig"),  # a spreadsheet needs the mark
        "canvas.csv": exports.canvas_csv(standings, plan.assignment, points).encode(),
        "moodle.csv": exports.moodle_csv(standings).encode(),
    }
    for name, content in made.items():
        files.write(request.out / name, content)


def _arguments(request: Request) -> str:
    """What is typed after the name of the command to have these submissions graded in the same way, in one line."""
    steps = [f"--step {step}" for step in request.steps]
    if request.marking:
        steps = [f"--assignments {typed(request.marking.term.file)} --assignment {request.assignment}"]
    earlier = [f"--earlier {typed(folder)}" for folder in request.earlier]
    return " ".join([typed(request.submissions), f"--out {typed(request.out)}", *steps, *earlier])


def _stands(known: Graded, graded: Graded, plan: Plan, out: Path) -> bool:
    """Whether what is kept is about this student, what was handed in and all of the steps: anyone may edit a file."""
    if not path(out, PAGES, known.file).is_file():
        return False
    if (known.student, known.file, known.key) != (graded.student, graded.file, graded.key) or known.report is None:
        return False
    return sorted(step.name for step in known.report.steps) == sorted(set(plan.steps))


def path(out: Path, kind: str, file: str) -> Path:
    """Where a file about a student stands; `kind` is one of FOLDERS."""
    return out / kind / f"{file}.{ENDINGS[kind]}"


def load(out: Path, file: str) -> Graded | None:
    """What is kept of a student; None when there is nothing, or nothing that can be read."""
    try:
        return msgspec.json.decode(path(out, REPORTS, file).read_bytes(), type=Graded)
    except (OSError, msgspec.DecodeError):
        return None


def _write_student(out: Path, graded: Graded, page: str = "") -> None:
    """Writes the files about a student, the report last: where it is, the others are."""
    report = marked(graded.report, graded.mark) if graded.report and graded.mark else graded.report
    files.write(path(out, JUNIT, graded.file), exports.junit_xml(graded))
    if report:
        if report != graded.report or not page:
            page = pages.html(report, every_picture=False, of_class=True)
        files.write(path(out, PAGES, graded.file), page.encode())
        files.write(path(out, GRADESCOPE, graded.file), msgspec.json.encode(exports.gradescope(report)))
    else:
        for kind in (PAGES, GRADESCOPE):  # of an earlier submission
            path(out, kind, graded.file).unlink(missing_ok=True)
    files.write(path(out, REPORTS, graded.file), msgspec.json.encode(graded))


def _key(student: Student, plan: Plan, limits: Limits) -> str:
    """A digest of all that a report depends on."""
    handed_in = student.submission
    parts: list[object] = [
        student.canvas_id,
        student.late,
        handed_in.name,
        handed_in.sources,
        handed_in.problems,
        handed_in.unread,
        handed_in.earlier,
        plan.seed,
        plan.steps,
        plan.device,
        plan.language,
    ]
    return hashlib.sha256(msgspec.json.encode([*parts, plan.kit, limits], order="deterministic")).hexdigest()
