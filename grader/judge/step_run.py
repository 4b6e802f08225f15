"""One step of one submission: runs its checks on one device after another and collects the verdicts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from grader.base.language import gettext as _
from grader.base.limits import Limits
from grader.base.results import CheckResult, Reproduction, StepResult, leading, step_status
from grader.calls.call import Load
from grader.checks import lazy, reproduction
from grader.checks.backends import Oracle
from grader.checks.catalogue import Misconception
from grader.checks.lazy import Script
from grader.checks.learner_errors import left_out
from grader.checks.smallest import Case
from grader.checks.trial import Verdict, run_check
from grader.course.steps import Check, as_check
from grader.judge import outcome, routes
from grader.judge.messages import Asking, GradeRequest, Route, StepGraded
from grader.judge.outcome import Ending
from grader.judge.shared_worker import SharedWorker
from grader.judge.worker_backend import WorkerBackend
from grader.oracle.diagnostician import of_step
from grader.oracle.live import Solution
from grader.oracle.witness import Question, Witness
from grader.sandbox.environment import NO_TERMINAL
from grader.sandbox.process import Launcher

AT_TOP_LEVEL = 0.5  # of the seconds that a call may take, for the lines outside of functions


@dataclass(frozen=True)
class Answers:
    """The sources of a step's answers under one seed: `oracle` for the right ones, `witness` for its misconceptions."""

    seed: int
    oracle: Oracle
    witness: Witness
    scripts: dict[str, dict[str, Script]] = field(default_factory=dict)  # of each device's checks


def limits_on(device: str, limits: Limits) -> Limits:
    """The limits of a worker for checks on this device."""
    return msgspec.structs.replace(limits, accelerator=device != "cpu")


def no_terminal() -> str:
    """The sentence, in the language in use, printed in place of a breakpoint."""
    return _("breakpoint() does not stop here: there is no keyboard. Type: make repro")


class StepRun:
    """Runs the checks of one step on each device and collects the results."""

    def __init__(
        self, step: Solution, request: GradeRequest, launcher: Launcher, answers: Answers,
        shared: SharedWorker | None = None, tell: Callable[[Asking], None] | None = None,
    ) -> None:  # fmt: skip
        """Grades the request's file of this step; runs nothing yet. `shared` may hold a worker to go on with, `tell` is
        called before each check."""
        self._step, self._launcher, self._answers, self._shared = step, launcher, answers, shared
        self._limits = request.limits.of_step(step.deadline)
        self._request = request
        self._routes, self._tell = {Route.NOT_RUN}, tell
        seconds = self._limits.call_seconds * AT_TOP_LEVEL
        packages = tuple(re.split(r"\W", name)[0] for name in step.required)
        self._load = Load(step.name, request.sources, step.off_limits, request.references, seconds, packages)
        self._endings: list[Ending] = []
        self._output: list[str] = []
        self._imported: set[str] = set()
        self._left_out: dict[str, None] = {}  # a sentence for each line
        self._odd = False

    def graded(self, devices: Sequence[str], since: float) -> StepGraded:
        """Runs the checks on these devices; the step's result, with the seconds since `since` (of
        `time.perf_counter`)."""
        for device in devices:
            self._run_on(device, len(devices))
        checks = outcome.results(self._endings, *self._load.sources[self._step.name])
        status = step_status(checks)
        score = None if status == "error" else round(sum(check.points for check in checks), 6)
        program = self._reproduction(checks) if self._request.reproduce else None
        result = StepResult(
            name=self._step.name, track=self._step.track, title=_(self._step.title), status=status,
            score=score, max_score=self._step.points, seconds=round(time.perf_counter() - since, 4),
            checks=checks, output="".join(self._output), odd=self._odd,
            left_out=list(self._left_out),
        )  # fmt: skip
        route = max(self._routes, key=list(Route).index)  # of several devices
        return StepGraded(result, sorted(self._imported), route, program)

    def _reproduction(self, checks: list[CheckResult]) -> Reproduction | None:
        """A program that repeats the call of the check that the report shows first among the failing ones; of its
        smallest case, if one was found. None if no check fails, or that one failed by no call."""
        failing = leading(checks)
        if failing is None or failing.unwritten:
            return None
        ending = next(ending for check, ending in zip(checks, self._endings, strict=True) if check is failing)
        verdict = ending.smaller[1] if ending.smaller else ending.verdict
        about = verdict.last
        if about is None:
            return None
        return reproduction.program(
            self._step.name,
            failing.name,
            verdict.message,
            verdict.exchanges,
            about,
            verdict.failure.due,
            self._step.arguments,
        )

    def _run_on(self, device: str, devices: int) -> None:
        """Runs the checks on one of `devices` devices, in few messages if possible, and diagnoses those that fail."""
        route = routes.first(self._request, device)
        if route is Route.FEW_MESSAGES and self._run_quickly(device, devices):
            self._routes.add(route)
            return
        kernels = any(name.startswith("triton") for name in self._step.required)
        limits = limits_on(device, self._limits)
        student = WorkerBackend(self._launcher, self._load, limits, runs_kernels=kernels, shared=self._shared)
        try:
            run = self._device_run(student, device, devices)
            run.ask()
            passes = all(ending.passes for ending in run.endings)
            route = Route.CALL_BY_CALL if passes else routes.of_failing(self._request, self._step.name)
            self._routes.add(route)
            if not passes and route is not Route.WITHOUT_DIAGNOSIS:
                run.diagnose(lambda: self._over_stock(run))
            if not self._load.public:
                self._left_out |= dict.fromkeys(map(left_out, student.lines_left_out()))
            self._note(run)
            self._odd |= student.odd
            if passes:
                student.hand_on()
        finally:
            student.close()

    def _run_quickly(self, device: str, devices: int) -> bool:
        """Runs the checks in few messages. Returns whether all have passed: else all of them must be asked again, call
        by call, and nothing of this is left."""
        student = WorkerBackend(self._launcher, self._load, self._limits, shared=self._shared, quick=True)
        try:
            run = self._device_run(student, device, devices)
            if not run.ask_quickly() or student.odd:
                return False
            self._note(run)
            student.hand_on()
            return True
        finally:
            student.close()

    def _device_run(self, student: WorkerBackend, device: str, devices: int) -> DeviceRun:
        """The run of the checks on a device, one of so many, not started yet."""
        shows_values, patience = not self._load.public, self._limits.patience
        return DeviceRun(self._step, student, self._answers, device, devices, shows_values, self._tell, patience)

    def _note(self, run: DeviceRun) -> None:
        """Adds the results of one device, with the worker's output unless a reference ran in its process."""
        if not self._load.public:
            self._output.append(run.student.printed().replace(NO_TERMINAL, no_terminal()))
        self._endings += run.endings
        self._imported.update(run.student.imported)

    def _over_stock(self, run: DeviceRun) -> dict[str, list[Misconception]]:
        """The misconceptions behind the failing checks when torch's own modules replace the steps that the file
        imports: their random numbers are those of the catalogue. Empty if other checks fail then."""
        from grader.judge.follow_through import with_stock  # imports what reads submissions

        sources = with_stock(self._load.sources, run.student.imported)
        if sources is None:
            return {}
        load = msgspec.structs.replace(self._load, sources=sources)
        student = WorkerBackend(self._launcher, load, limits_on(run.device, self._limits))
        try:
            return DeviceRun(self._step, student, self._answers, run.device, patience=run.patience).diagnoses_like(run)
        finally:
            student.close()


@dataclass
class DeviceRun:
    """The checks of a step on one device: how each ended, the misconceptions behind those that fail, and, if values
    may be shown, a smaller case of what is too large to show. `devices` share the points of each; `patience` multiplies
    the time of the diagnosis."""

    step: Solution
    student: WorkerBackend
    answers: Answers
    device: str
    devices: int = 1
    shows_values: bool = True
    tell: Callable[[Asking], None] | None = None
    patience: float = 1.0
    endings: list[Ending] = field(default_factory=list)
    _again: dict[tuple[str, int], Question | None] = field(default_factory=dict)

    def ask(self) -> None:
        """Runs every check, call by call, and sets `endings`."""
        verdicts: list[Verdict] = []
        for check in self.step.checks:
            self._announce(check, verdicts)
            verdicts.append(self._verdict(check, self.answers.seed))
        self._end(verdicts)

    def ask_quickly(self) -> bool:
        """Runs every check in few messages, and sets `endings`. False at the first check that does not pass in this
        way."""
        scripts = self.answers.scripts.setdefault(self.device, {})
        verdicts: list[Verdict] = []
        for check in self.step.checks:
            self._announce(check, verdicts)
            self.student.allow(check.deadline)
            found = lazy.passed(
                check.function, self.student, self.step.classes.__contains__, self.answers.oracle,
                seed=self.answers.seed, scripts=scripts,
            )  # fmt: skip
            if found is None:
                return False
            verdicts.append(found[0])
            self.student.imported |= found[1]
        self._end(verdicts)
        return all(ending.passes for ending in self.endings)

    def _end(self, verdicts: list[Verdict]) -> None:
        """Sets `endings`: one for each check, with its verdict and its share of the points."""
        each = zip(self.step.checks, verdicts, outcome.unproven(verdicts), strict=True)
        self.endings = [
            Ending(
                self.step.name, check, self.device, verdict, check.points / self.devices, self._own_names,
                not self.shows_values, unproven,
            )
            for check, verdict, unproven in each
        ]  # fmt: skip

    def diagnose(self, otherwise: Callable[[], dict[str, list[Misconception]]] = dict) -> None:
        """Adds to `endings` the misconceptions behind the checks that fail, and smaller cases. If a failing check is
        left without a diagnosis, `otherwise` is called for more."""
        found = self._diagnoses()
        failing = [ending for ending in self.endings if ending.verdict.status == "fail" and not ending.is_unwritten]
        if any(ending.check.name not in found for ending in failing):
            found |= otherwise()
        found |= self._probed(found)
        for ending in self.endings:
            ending.matching = found.get(ending.check.name, [])
        verdicts = [ending.verdict for ending in self.endings]
        for number, text, small in outcome.smaller_cases(self.step, verdicts, self._small) if self.shows_values else ():
            self.endings[number].smaller = text, small

    def _probed(self, found: Collection[str]) -> dict[str, list[Misconception]]:
        """The probes' diagnoses, from the answers alone, of failing checks that are not in `found`, by the check's
        name."""
        from grader.oracle import probes

        failing = [
            probes.Failing(ending.refused, ending.check.function, ending.verdict)
            for ending in self.endings
            if ending.is_diagnosed and ending.check.name not in found and not self.student.could_not_start
        ]
        self.student.allow(None)
        seeds = self.answers.seed, self.step.seed(self.answers.seed + 1)
        return probes.diagnoses(
            failing, self.student, self.answers.oracle, seeds, self.device, self.shows_values, self.step.arguments
        )

    def diagnoses_like(self, other: DeviceRun) -> dict[str, list[Misconception]]:
        """The misconceptions behind each failing check, by its name, if the same checks fail as in another run; else
        empty."""
        self._end([self._verdict(check, self.answers.seed) for check in self.step.checks])
        each = zip(self.endings, other.endings, strict=True)
        return self._diagnoses() if all(own.verdict.status == its.verdict.status for own, its in each) else {}

    def _verdict(self, check: Check, seed: int) -> Verdict:
        """Runs a check on the student under this seed, within its deadline."""
        self.student.allow(check.deadline)
        return run_check(check.function, self.student, self.answers.oracle, seed=seed, device=self.device)

    def _announce(self, check: Check, verdicts: list[Verdict]) -> None:
        """Tells the grader that this check comes next, with the message of the first check that has failed."""
        if self.tell is not None:
            failed = next((verdict.message for verdict in verdicts if verdict.status in ("fail", "timeout")), "")
            self.tell(Asking(self.step.name, _(check.title), failed if self.shows_values else ""))

    def _small(self, case: Case) -> Verdict:
        """The verdict on a small case."""
        self.student.allow(None)
        return run_check(case, self.student, self.answers.oracle, seed=self.answers.seed, device=self.device)

    def _diagnoses(self) -> dict[str, list[Misconception]]:
        """The misconceptions behind each failing check, by its name: those that give exactly the student's answers."""
        questions = [
            self._question(ending.check, ending.verdict, self.answers.seed)
            for ending in self.endings
            if ending.is_diagnosed
        ]
        unwritten = {ending.check.name for ending in self.endings if ending.is_unwritten}
        if not questions or self.student.could_not_start:  # nothing was answered that could be a mistake's
            return {}
        for ending in self.endings:
            if ending.verdict.status == "pass":
                self.answers.witness.note_passed(ending.check.name, ending.verdict.called)
        diagnostician = of_step(self.step, self.answers.witness, self.patience)
        return diagnostician.diagnose(questions, self._ask_again, unwritten)

    @cached_property
    def _own_names(self) -> set[str]:
        """The public names that the step asks for, without those that its file imports."""
        return {name.partition(".")[0] for name in self.step.arguments}

    def _ask_again(self, question: Question, further: int) -> Question | None:
        """Runs a failing check under the seed `further`, or the recorded one in its place; None if it does not fail
        there."""
        if (question.name, further) not in self._again:
            check = as_check(question.check)
            seed = self.step.seed(further)
            verdict = self._verdict(check, seed)
            repeated = self._question(check, verdict, seed) if verdict.status == "fail" else None
            self._again[question.name, further] = repeated
        return self._again[question.name, further]

    def _question(self, check: Check, verdict: Verdict, seed: int) -> Question:
        """A check's verdict under this seed, as the diagnosis asks about it."""
        return Question(check.function, seed, self.device, verdict)
