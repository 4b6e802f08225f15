"""One step of one submission: runs its checks on one device after another and collects the verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import msgspec

from grader.base.language import gettext as _
from grader.base.limits import Limits
from grader.base.paths import STEP_NAME
from grader.base.results import CheckResult, Reproduction, StepResult, leading, step_status
from grader.calls.call import Load, Raised
from grader.checks import lazy, reproduction
from grader.checks.backends import Oracle
from grader.checks.catalogue import Misconception
from grader.checks.lazy import Script
from grader.checks.learner_errors import left_out
from grader.checks.smallest import Case
from grader.checks.trial import Verdict, run_check
from grader.course import stubs
from grader.course.steps import Check, as_check
from grader.judge import points, shown
from grader.judge.follow_through import with_stock
from grader.judge.imported_names import imported_steps
from grader.judge.messages import Asking, GradeRequest, StepGraded
from grader.judge.shared_worker import SharedWorker
from grader.judge.worker_backend import WorkerBackend
from grader.oracle import probes
from grader.oracle.diagnostician import explained, name_of, nudge_of, of_step
from grader.oracle.live import Solution
from grader.oracle.witness import Question, Witness
from grader.sandbox.environment import NO_TERMINAL
from grader.sandbox.process import Launcher

AT_TOP_LEVEL = 0.5  # of the seconds that a call may take, for the lines outside of functions
MISSING = ("NotThere", "undefined")  # the responder's error for a public name that the file does not define


@dataclass(frozen=True)
class Answers:
    """The sources of a step's answers under one seed: `oracle` for the right ones, `witness` for its misconceptions."""

    seed: int
    oracle: Oracle
    witness: Witness
    scripts: dict[str, dict[str, Script]] = field(default_factory=dict)  # of each device's checks


def limits_on(device: str, limits: Limits) -> Limits:
    """The limits of a worker on this device."""
    return msgspec.structs.replace(limits, accelerator=device != "cpu")


def no_terminal() -> str:
    """The sentence printed in place of a breakpoint."""
    return _("breakpoint() does not stop here: there is no keyboard. Type: make repro")


class StepRun:
    """Runs the checks of one step on each device and collects the results."""

    def __init__(
        self, step: Solution, request: GradeRequest, launcher: Launcher, answers: Answers,
        shared: SharedWorker | None = None, tell: Callable[[Asking], None] | None = None,
    ) -> None:  # fmt: skip
        self._step, self._launcher, self._answers, self._shared = step, launcher, answers, shared
        self._limits = request.limits.of_step(step.deadline)
        self._request = request
        self._undiagnosed, self._tell = False, tell
        seconds = self._limits.call_seconds * AT_TOP_LEVEL
        packages = tuple(re.split(r"\W", name)[0] for name in step.required)
        self._load = Load(step.name, request.sources, step.off_limits, request.references, seconds, packages)
        self._results: list[CheckResult] = []
        self._verdicts: list[Verdict] = []
        self._smaller: dict[int, Verdict] = {}
        self._output: list[str] = []
        self._imported: set[str] = set()
        self._left_out: dict[str, None] = {}  # a sentence for each line
        self._odd = False

    def graded(self, devices: Sequence[str]) -> StepGraded:
        """The step's result on these devices. The caller fills in the time that it took."""
        for device in devices:
            self._run_on(device, len(devices))
        points.refuse_off_limits(self._results, self._verdicts)
        points.need_every_device(self._results)
        shown.say_where_it_does_not_parse(self._results, *self._load.sources[self._step.name])
        shown.tell_of_loops(self._results, self._load.sources[self._step.name][1])
        status = step_status(self._results)
        score = None if status == "error" else round(sum(check.points for check in self._results), 6)
        result = StepResult(
            name=self._step.name, track=self._step.track, title=_(self._step.title), status=status,
            score=score, max_score=self._step.points, seconds=0.0,
            checks=self._results, output="".join(self._output), odd=self._odd,
            left_out=list(self._left_out),
        )  # fmt: skip
        program = self._reproduction() if self._request.reproduce else None
        return StepGraded(result, sorted(self._imported), program, self._undiagnosed)

    def _reproduction(self) -> Reproduction | None:
        """The call that the leading failure is about, as a program: of the smallest case, if one was found."""
        failing = leading(self._results)
        if failing is None or failing.unwritten:
            return None
        place = next(place for place, result in enumerate(self._results) if result is failing)
        verdict = self._smaller.get(place, self._verdicts[place])
        about = verdict.last
        if about is None:
            return None
        names = stubs.arguments(stubs.original(self._step.folder))
        return reproduction.program(
            self._step.name, failing.name, verdict.message, verdict.exchanges, about, verdict.failure.due, names
        )

    def _run_on(self, device: str, devices: int) -> None:
        if self._ran_quickly(device, devices):
            return
        kernels = any(name.startswith("triton") for name in self._step.required)
        limits = limits_on(device, self._limits)
        student = WorkerBackend(self._launcher, self._load, limits, runs_kernels=kernels, shared=self._shared)
        try:
            run = DeviceRun(
                self._step, student, self._answers, device, shows_values=not self._load.public, tell=self._tell
            )
            results = run.results(devices)
            before = len(self._verdicts)
            self._verdicts += run.verdicts
            if any(result.status != "pass" for result in results):
                self._undiagnosed = self._request.in_order and bool(imported_steps(self._step.name, self._load.sources))
                if not self._undiagnosed:
                    run.diagnose(results, lambda: self._over_stock(run))
                    self._smaller |= {before + place: verdict for place, verdict in run.smaller.items()}
            if self._load.public:
                shown.silence(results, run.verdicts)
            else:
                self._output.append(student.printed().replace(NO_TERMINAL, no_terminal()))
                self._left_out |= dict.fromkeys(map(left_out, student.lines_left_out()))
            self._results += results
            self._imported.update(student.imported)
            self._odd |= student.odd
            if all(result.status == "pass" for result in results):
                student.hand_on()
        finally:
            student.close()

    def _ran_quickly(self, device: str, devices: int) -> bool:
        """Runs the checks in few messages. Returns whether all have passed: else all of them are asked again, call by
        call, and nothing of this is left."""
        if not self._request.run or self._load.public or self._request.reproduce or device != "cpu":
            return False
        student = WorkerBackend(self._launcher, self._load, self._limits, shared=self._shared, quick=True)
        try:
            run = DeviceRun(self._step, student, self._answers, device, tell=self._tell)
            results = run.quick_results(devices)
            if results is None or student.odd:
                return False
            self._verdicts += run.verdicts
            self._output.append(student.printed().replace(NO_TERMINAL, no_terminal()))
            self._results += results
            self._imported.update(student.imported)
            student.hand_on()
            return True
        finally:
            student.close()

    def _over_stock(self, run: DeviceRun) -> dict[str, list[Misconception]]:
        """The misconceptions behind the failing checks when torch's own modules replace the steps that the file
        imports: their random numbers are those of the catalogue. Empty if other checks fail then."""
        sources = with_stock(self._load.sources, run.student.imported)
        if sources is None:
            return {}
        load = msgspec.structs.replace(self._load, sources=sources)
        student = WorkerBackend(self._launcher, load, limits_on(run.device, self._limits))
        try:
            return DeviceRun(self._step, student, self._answers, run.device).diagnoses_like(run)
        finally:
            student.close()


@dataclass
class DeviceRun:
    """The checks of a step on one device: their verdicts, the misconceptions behind those that fail, and, if values may
    be shown, a smaller case for inputs too large to show."""

    step: Solution
    student: WorkerBackend
    answers: Answers
    device: str
    shows_values: bool = True
    tell: Callable[[Asking], None] | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    smaller: dict[int, Verdict] = field(default_factory=dict)  # by the place of the check that it is a small case of
    _again: dict[tuple[str, int], Question | None] = field(default_factory=dict)

    def results(self, devices: int) -> list[CheckResult]:
        """Runs every check. `devices` share the points of each."""
        for check in self.step.checks:
            self._announce(check)
            self.verdicts.append(self._verdict(check, self.answers.seed))
        return self._results(devices)

    def quick_results(self, devices: int) -> list[CheckResult] | None:
        """The results of every check, asked in few messages; None unless all pass in this way."""
        scripts = self.answers.scripts.setdefault(self.device, {})
        classes = stubs.classes(stubs.original(self.step.folder))
        for check in self.step.checks:
            self._announce(check)
            self.student.allow(check.deadline)
            found = lazy.passed(
                check.function, self.student, classes.__contains__, self.answers.oracle, seed=self.answers.seed,
                scripts=scripts,
            )  # fmt: skip
            if found is None:
                return None
            self.verdicts.append(found[0])
            self.student.imported |= found[1]
        results = self._results(devices)
        return results if all(result.status == "pass" for result in results) else None

    def _results(self, devices: int) -> list[CheckResult]:
        results = [
            self._result(check, verdict, check.points / devices)
            for check, verdict in zip(self.step.checks, self.verdicts, strict=True)
        ]
        points.count_hand_cases(results, self.verdicts)
        return results

    def diagnose(
        self, results: list[CheckResult], otherwise: Callable[[], dict[str, list[Misconception]]] = dict
    ) -> None:
        """Adds to the results which misconceptions are behind those that fail, and smaller cases. If a failing check is
        left without a diagnosis, `otherwise` is called for more."""
        by_name = {result.name: result for result in results}
        found = self._diagnoses()
        if any(result.status == "fail" and not result.unwritten and result.name not in found for result in results):
            found |= otherwise()
        found |= self._probed(found)
        for name, matching in found.items():
            by_name[name].misconception, by_name[name].words = name_of(matching), dict(matching[0].words)
            by_name[name].hint = nudge_of(matching)
            if len(replaced := self._own_names & matching[0].replaced.keys()) == 1:
                by_name[name].about = replaced.pop()
            by_name[name].message += "\n" + "\n".join(explained(matching))
        for place, text, small in (
            shown.smaller_cases(self.step, self.verdicts, self._small) if self.shows_values else ()
        ):
            results[place].message += "\n" + text
            results[place].parting = small.failure.parting  # the numbers of the other case are too many to be looked at
            self.smaller[place] = small

    def _probed(self, found: Collection[str]) -> dict[str, list[Misconception]]:
        """The probes' diagnoses, from the answers alone, of failing checks without one."""
        failing = [
            probes.Failing(_refused(verdict), check.function, verdict)
            for check, verdict in zip(self.step.checks, self.verdicts, strict=True)
            if verdict.status == "fail" and not verdict.failure.off_limits and not self._is_unwritten(verdict)
            if check.name not in found and not self.student.could_not_start
        ]
        self.student.allow(None)
        seeds = self.answers.seed, self.step.seed(self.answers.seed + 1)
        return probes.diagnoses(failing, self.student, self.answers.oracle, seeds, self.device, self.shows_values)

    def diagnoses_like(self, other: DeviceRun) -> dict[str, list[Misconception]]:
        """The misconceptions behind each failing check, if the same checks fail as in the other run; else empty."""
        self.verdicts = [self._verdict(check, self.answers.seed) for check in self.step.checks]
        alike = [verdict.status for verdict in self.verdicts] == [verdict.status for verdict in other.verdicts]
        return self._diagnoses() if alike else {}

    def _verdict(self, check: Check, seed: int) -> Verdict:
        self.student.allow(check.deadline)
        return run_check(check.function, self.student, self.answers.oracle, seed=seed, device=self.device)

    def _announce(self, check: Check) -> None:
        if self.tell is not None:
            failed = next((verdict.message for verdict in self.verdicts if verdict.status in ("fail", "timeout")), "")
            self.tell(Asking(self.step.name, _(check.title), failed if self.shows_values else ""))

    def _small(self, case: Case) -> Verdict:
        """The verdict on a small case."""
        self.student.allow(None)
        return run_check(case, self.student, self.answers.oracle, seed=self.answers.seed, device=self.device)

    def _result(self, check: Check, verdict: Verdict, share: float) -> CheckResult:
        return CheckResult(
            name=check.name, title=_(check.title), device=self.device, status=verdict.status,
            points=share if verdict.status == "pass" else 0.0, max_points=share, message=verdict.message,
            parting=verdict.failure.parting, unwritten=self._is_unwritten(verdict), about=self._about(verdict),
            called=sorted(verdict.called), refused=_refused(verdict), waits_for=_waits_for(verdict, self.step.name),
        )  # fmt: skip

    def _diagnoses(self) -> dict[str, list[Misconception]]:
        """The misconceptions behind each failing check: those that give exactly the student's answers."""
        questions = [
            self._question(check, verdict, self.answers.seed)
            for check, verdict in zip(self.step.checks, self.verdicts, strict=True)
            if verdict.status == "fail" and not verdict.failure.off_limits and not self._is_unwritten(verdict)
        ]
        unwritten = {
            check.name
            for check, verdict in zip(self.step.checks, self.verdicts, strict=True)
            if self._is_unwritten(verdict)
        }
        if not questions or self.student.could_not_start:  # nothing was answered that could be a mistake's
            return {}
        return of_step(self.step, self.answers.witness).diagnose(questions, self._ask_again, unwritten)

    @cached_property
    def _own_names(self) -> set[str]:
        """The public names that the step asks for, without those that its file imports."""
        return {name.partition(".")[0] for name in stubs.arguments(stubs.original(self.step.folder))}

    def _is_unwritten(self, verdict: Verdict) -> bool:
        """True if a check fails only because what it calls is not written yet, or is missing from the file."""
        if verdict.status == "todo":
            return True
        raised = _raised(verdict)
        missing = raised is not None and (raised.type, raised.message) == MISSING and raised.left_out is None
        return verdict.status == "fail" and missing and verdict.exchanges[-1].name in self._own_names

    def _about(self, verdict: Verdict) -> str:
        """The public name of the step that a check is about: the one that is not written yet, that was wrong, or that
        it called last. Another one may only be used next to it."""
        raised, own = _raised(verdict), self._own_names
        if self._is_unwritten(verdict):
            return raised.function if raised and raised.function in own else verdict.exchanges[-1].name
        if verdict.status != "pass" and (refused := _refused(verdict)) in own:
            return refused
        called = [exchange.name for exchange in verdict.exchanges if exchange.is_asked and exchange.name in own]
        return called[-1] if called else ""

    def _ask_again(self, question: Question, further: int) -> Question | None:
        """Runs a failing check under another seed; None if it does not fail there."""
        if (question.name, further) not in self._again:
            check = as_check(question.check)
            seed = self.step.seed(further)
            verdict = self._verdict(check, seed)
            asked = self._question(check, verdict, seed) if verdict.status == "fail" else None
            self._again[question.name, further] = asked
        return self._again[question.name, further]

    def _question(self, check: Check, verdict: Verdict, seed: int) -> Question:
        return Question.of(check.function, seed, self.device, verdict)


def _raised(verdict: Verdict) -> Raised | None:
    outcome = verdict.exchanges[-1].outcome if verdict.exchanges else None
    return outcome.raised if outcome else None


def _waits_for(verdict: Verdict, step: str) -> str:
    """The other, unwritten step of the submission that a check ran into; empty if there is none."""
    raised = _raised(verdict)
    other = Path(raised.file).stem if raised and verdict.status == "todo" else ""
    return other if other != step and STEP_NAME.fullmatch(other) else ""


def _refused(verdict: Verdict) -> str:
    """The public name with the answer that failed the check: of the call that was refused, or of the last one."""
    return "" if verdict.status == "pass" else verdict.blamed
