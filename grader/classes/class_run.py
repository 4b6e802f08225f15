"""Grades every submission of a class under one seed, saves each result as it arrives, and writes everything made of
them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from grader.base import files, language
from grader.base.downloads import left_out
from grader.base.language import gettext as _
from grader.base.layouts import Person
from grader.base.names import Roll
from grader.base.paths import typed
from grader.base.results import Graded
from grader.classes import class_list, kit_version
from grader.classes import pool as pools
from grader.classes.class_list import Impossible
from grader.classes.one_round import OnStudent, Request, Round
from grader.classes.results import PLAN, REPORTS, Plan, load
from grader.course import choice
from grader.course.submissions import readable
from grader.feedback import class_page, exports
from grader.feedback.standings import Standing
from grader.judge import grader
from grader.marks.assignments import BadTerm
from grader.marks.changes import Change
from grader.marks.ledger import Ledger
from grader.marks.marking import Marking, plain


class Stopped(RuntimeError):
    """The run was stopped; results and changed marks so far are saved. One line."""

    def __init__(self, said: str, changes: Sequence[Change]) -> None:
        super().__init__(said)
        self.changes = changes


@dataclass(frozen=True)
class Done:
    """A class that was graded: the results in the order of the folders, the number kept from before, the files of no
    student, the marks that changed, the names in tables that are not in the class or may mean several, and the people
    with names that look alike."""

    standings: list[Standing]
    kept: int
    left_out: list[str]
    changes: list[Change]
    unknown: list[str]
    not_applied: list[str]
    alike: list[str]


def run(request: Request, progress: Callable[[int], AbstractContextManager[OnStudent]]) -> Done:
    """Grades a class and writes everything that is made of it. `progress` opens what shows it, from the number of
    students: a function to call with each result. Raises Impossible and Stopped."""
    request = dataclasses.replace(request, steps=choice.or_core(request.steps))
    listed = class_list.required(
        request.submissions, request.out, request.earlier, request.register, request.assignment
    )
    roll, nobodys = class_list.roll(listed, request.register), left_out(request.submissions)
    request = _with_full_names(request, roll, listed)
    marking = request.marking or plain(request.assignment, request.steps)
    marking = marking.for_class(roll).for_groups(class_list.shared(listed))
    marking = dataclasses.replace(marking, days_used=_days_used(request.out, marking))
    ledger = Ledger(marking, kit_version.kit_version())
    reused: dict[str, bool] = {}
    try:
        with _locked(request), progress(len(listed)) as on_student:
            standings = _grade_all(request, listed, nobodys, ledger, reused, on_student)
    except KeyboardInterrupt:
        sentence = _("Stopped. {count} of {total} are graded and saved. Type the same command again to continue.")
        raise Stopped(sentence.format(count=len(reused), total=len(listed)), ledger.changes) from None
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
    unchanged = sum(reused.get(standing.student, False) for standing in standings if standing.score is not None)
    return Done(standings, unchanged, nobodys, ledger.changes,
                ledger.unknown(standing.student for standing in standings), list(ledger.marking.not_applied),
                [roll.shown(group) for group in roll.ambiguous()])  # fmt: skip


def _days_used(out: Path, marking: Marking) -> dict[str, int]:
    """The free late days of the term that each student has used in earlier assignments, as their results say, which are
    in folders of their names next to `out`."""
    used = Counter[str]()
    if marking.term.late_days.free:
        for earlier in marking.term.before(marking.assignment.name):
            for file in (out.parent / earlier.name / REPORTS).glob("*.json"):
                if (graded := files.decoded(file, Graded)) and graded.mark:
                    used[graded.student] += graded.mark.free_days
    return dict(used)


def _grade_all(
    request: Request, listed: list[Person], nobodys: list[str], ledger: Ledger, reused: dict[str, bool],
    on_student: OnStudent,
) -> list[Standing]:  # fmt: skip
    """Grades the students, writes everything that is made of the results, and returns these in the order of `listed`.
    `nobodys` are files of no student; `reused` gets, by student, whether the result was kept from an earlier run."""

    def note(graded: Graded, from_ledger: bool) -> None:
        reused[graded.student] = from_ledger
        on_student(graded, from_ledger)

    last = files.decoded(request.out / PLAN, Plan)
    plan = _plan(request, last)
    this = Round(request, plan, ledger, note)
    with _pool(request) as pool:
        standings = this.grade(listed, pool)
    if not request.only or (last and last.complete):
        plan = _completed(plan, None if request.seed is not None or not all(reused.values()) else last)
    _write_plan(request.out, plan)
    write_class(request, plan, standings, this, nobodys)
    ledger.write(request.out, (standing for standing in standings if standing.key), exports.harmless)
    if request.gradebook:
        _save(request, standings)
    return standings


def _with_full_names(request: Request, roll: Roll, listed: list[Person]) -> Request:
    """The request, with the names of the class for the students of `only`. Raises Impossible if one is unknown or may
    be several."""
    names = {readable(person.name) for person in listed}
    for name in filter(roll.is_ambiguous, request.only):
        sentence = _("By {name} several people may be meant: {people}. Type: python -m grader class {folder}")
        people = roll.shown(roll.meant(name))
        raise Impossible(sentence.format(name=name, people=people, folder=typed(request.submissions)))
    only = tuple(roll.own(name) for name in request.only)
    for name in only:
        if name not in names:
            sentence = _("There is no student {name} in {folder}. Type: python -m grader class {folder}")
            raise Impossible(sentence.format(name=name, folder=typed(request.submissions)))
    return dataclasses.replace(request, only=only)


@contextmanager
def _locked(request: Request) -> Iterator[None]:
    """Locks the folder of the results, which is made if need be. Raises Impossible if another run has locked it."""
    for folder in (request.out, *(request.out / name for name in request.kinds)):
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


def _plan(request: Request, before: Plan | None) -> Plan:
    """Saves and returns the plan of the run after that of `before`. Its seed is the one asked for, else that of a
    stopped run here, else new."""
    last = before if request.seed is None else None
    seed = last.seed if last and not last.complete else request.seed
    plan = Plan(
        seed=grader.new_seed() if seed is None else seed, steps=request.steps,
        device=request.device, language=language.current(), kit=kit_version.kit_version(),
        assignment=request.assignment, title=request.marking.assignment.title if request.marking else "",
        submissions=str(request.submissions.resolve()), sections=_sections(request, before),
        tables=_tables(request),
        earlier=[*last.earlier, *[last.seed] * last.complete] if last else [],
    )  # fmt: skip
    _write_plan(request.out, plan)
    return plan


def _tables(request: Request) -> str:
    """The folder of the roster; empty without one."""
    if not request.register.people:
        return ""
    return str(request.marking.term.file.parent.resolve() if request.marking else Path.cwd())


def _sections(request: Request, last: Plan | None) -> list[str]:
    """The other folders of submissions that were graded into the same results: sections of the same roster; empty
    without a roster."""
    here = str(request.submissions.resolve())
    before = [last.submissions, *last.sections] if last and request.register.people else []
    return [folder for folder in dict.fromkeys(before) if folder != here]


def _write_plan(out: Path, plan: Plan) -> None:
    files.write(out / PLAN, msgspec.json.format(msgspec.json.encode(plan), indent=2))


@contextmanager
def _pool(request: Request) -> Iterator[pools.Pool]:
    """The processes, or the cluster, that grade. Raises Impossible."""
    try:
        if request.scheduler is None:
            grader.require_fitting_tapes(request.steps)
            yield pools.processes(request.jobs or pools.cores(), request.limits)
            return
        with pools.cluster(request.scheduler) as pool:
            yield pool
    except (pools.Unreachable, pools.NobodyGraded, grader.UnfitCopy) as refused:
        raise Impossible(str(refused)) from None


def _save(request: Request, standings: list[Standing]) -> None:
    """Writes the class's marks into nbgrader's gradebook. Raises Impossible."""
    from grader.classes import gradebook

    entries = filter(None, (load(request.out, standing.file) for standing in standings))
    rows = ((entry.student, entry.report, entry.error, entry.mark if request.marking else None) for entry in entries)
    try:
        gradebook.save(request.gradebook or gradebook.DEFAULT, request.assignment, rows, request.steps)
    except gradebook.NoGradebook as problem:
        raise Impossible(
            _(
                "Everything is in {out}, but the gradebook can't be written ({reason}). "
                "Type: python -m grader class {submissions} --gradebook sqlite:///gradebook.db"
            ).format(out=request.out, reason=str(problem).rstrip("."), submissions=typed(request.submissions))
        ) from None


def _completed(plan: Plan, last: Plan | None) -> Plan:
    """The plan marked as complete, with the seeds of the plan `last` if there is one: no student was graded under the
    new seed."""
    return msgspec.structs.replace(plan, seed=(last or plan).seed, earlier=(last or plan).earlier, complete=True)


def write_class(request: Request, plan: Plan, standings: list[Standing], this: Round, nobodys: list[str]) -> None:
    """Writes what is made of the whole class: its page, and a table for each system that takes one. `nobodys` are files
    of no student."""
    shown = list(map(readable, nobodys))
    page = class_page.html(standings, seed=plan.seed, submissions=_arguments(request), nobodys=shown)
    column = request.register.canvas_column(plan.assignment, plan.title)
    whole = exports.WholeClass(standings, plan.steps, plan.assignment, column, this.files_of, shown, this.given_files)
    for name, content in ({"index.html": page.encode()} | exports.tables(whole)).items():
        files.write(request.out / name, content)


def _arguments(request: Request) -> str:
    """The arguments, in one line, that grade these submissions in the same way."""
    steps = [f"--step {step}" for step in request.steps if request.steps != choice.or_core(())]
    if request.marking:
        steps = [f"--assignments {typed(request.marking.term.file)} --assignment {request.assignment}"]
    earlier = [f"--earlier {typed(folder)}" for folder in request.earlier]
    return " ".join([typed(request.submissions), f"--out {typed(request.out)}", *steps, *earlier])
