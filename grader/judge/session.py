"""A judge's session: grade requests in, graded steps out, with caches that last from one request to the next."""

from __future__ import annotations

import itertools
import time

from grader.base import language
from grader.base.limited import limit
from grader.base.limits import Limits
from grader.calls import devices as known_devices
from grader.checks import lazy
from grader.checks.backends import LocalBackend
from grader.checks.trial import run_check
from grader.course.steps import Check
from grader.judge.fork_memory import HeapTrimmer
from grader.judge.messages import Channel, Finished, GradeRequest, StepGraded, Unmet
from grader.judge.routes import without_running
from grader.judge.shared_worker import SharedWorker
from grader.judge.step_run import Answers, StepRun, limits_on
from grader.oracle.cache import CachedOracle
from grader.oracle.live import Solution, solutions
from grader.oracle.scripts import SharedScripts
from grader.sandbox.cpus import pinned_to_one_cpu
from grader.sandbox.process import Launcher

# Of a judge's own for one request, whatever was handed in: it compares, draws and parses, and then ends.
SECONDS, MEMORY = 900, 8 << 30


class Session:
    """Answers grade requests until the other side closes. A step's checks are imported lazily."""

    def __init__(self, channel: Channel, launcher: Launcher, cpu_claims: int | None = None) -> None:
        """`launcher` starts the workers; `cpu_claims` is the descriptor of the file in which judges claim a CPU, if
        there are several."""
        self.channel, self.launcher, self.cpu_claims = channel, launcher, cpu_claims
        self._steps = {step.name: step for step in solutions()}
        self._answers: dict[str, Answers] = {}
        self._heap = HeapTrimmer()
        self._shared, self._scripts = SharedWorker(), SharedScripts(cpu_claims)

    def serve(self) -> None:
        """Grades one request after another until the channel closes."""
        for request in self.channel:
            self._shared.belongs_to(0 if request.is_over else request.run)
            if request.is_over:
                continue
            with language.use(request.language):
                self._answer(request)

    def _answer(self, request: GradeRequest) -> None:
        """Grades the steps of one request and sends each result as it is done."""
        try:
            devices = known_devices.states(request.device)
        except RuntimeError:
            self.channel.send(Unmet(request.device, []))
            return
        ran = [device for device, state in devices.items() if state == "checked"]
        if unmet := self._unmet(ran, request.limits):
            self.channel.send(unmet)
            return
        if request.prepare:
            self._prepare(request, ran)
            self.channel.send(Finished(devices, [], "live"))
            return
        limit(int(SECONDS * request.limits.patience), MEMORY if ran == ["cpu"] else 0)
        self.launcher.begin_run()
        with pinned_to_one_cpu(self.cpu_claims):
            for name in request.steps:
                self.channel.send(self._graded(self._steps[name], ran, request))
                self._heap.trim()
        recorded = any(self._steps[name].is_recorded for name in request.steps)
        layers = list(self.launcher.in_force(request.limits))
        self.channel.send(Finished(devices, layers, "recorded" if recorded else "live"))

    def _unmet(self, devices: list[str], limits: Limits) -> Unmet | None:
        """The first of the devices on which workers would lack a required layer, with these layers; None if there is
        none. Asked before any learner's code runs."""
        for device in devices if limits.required else ():
            promised = self.launcher.promised(limits_on(device, limits))
            missing = [layer for layer in limits.required if layer not in promised]
            if missing:
                return Unmet(device, missing)
        return None

    def _prepare(self, request: GradeRequest, devices: list[str]) -> None:
        """Draws the inputs of the steps and caches the reference's answers, with the reference as the student."""
        for step in (self._steps[name] for name in request.steps):
            answers = self._answers_of(step, request.seed)
            if not step.is_recorded and not step.lacking:
                for device, check in itertools.product(devices, step.checks):
                    _prepare(step, check, answers, device)

    def _graded(self, step: Solution, devices: list[str], request: GradeRequest) -> StepGraded:
        """The result of one step, which is run unless it can be graded without; publishes its messages to other judges
        if other submissions are asked under the same seed."""
        start = time.perf_counter()
        graded = without_running(step, devices, request)
        if graded is None:
            answers = self._answers_of(step, request.seed)
            tell = self.channel.send if request.tells else None
            graded = StepRun(step, request, self.launcher, answers, self._shared, tell).graded(devices, start)
            if request.repeats:
                self._scripts.publish(step.name)
        return graded

    def _answers_of(self, step: Solution, wanted: int) -> Answers:
        """The step's sources of answers under the `wanted` seed, or the recorded one that replaces it; they are cached
        as long as that seed stays the same."""
        self._scripts.refresh()
        seed = step.seed(wanted)
        answers = self._answers.get(step.name)
        if answers is None or answers.seed != seed:
            oracle = CachedOracle(step.oracle())
            scripts = self._scripts.of(step.name, seed)
            answers = self._answers[step.name] = Answers(seed, oracle, step.witness(oracle), scripts)
        return answers


def _prepare(step: Solution, check: Check, answers: Answers, device: str) -> None:
    """Draws the inputs of a check, caches the reference's answers, and learns the check's messages with the reference
    as student."""
    student = LocalBackend(step.responder())
    if device == "cpu":
        makes = step.classes.__contains__
        scripts = answers.scripts.setdefault(device, {})
        if lazy.passed(check.function, lazy.Here(student), makes, answers.oracle, seed=answers.seed, scripts=scripts):
            return
    run_check(check.function, student, answers.oracle, seed=answers.seed, device=device)
