"""The pytest side of the judge: fixtures for a check, and a session that runs its items once for every submission."""

from __future__ import annotations

import time
from collections import defaultdict

import msgspec
import pytest
import torch
from _pytest.runner import runtestprotocol

from grader import course, language
from grader.diagnose import Diagnostician, Question, Witness, explained, name_of, nudge_of
from grader.draws import Draw
from grader.heap import Heap
from grader.implementation import Implementation, Oracle
from grader.judge import Channel, Finished, GradeRequest, Ready, StepGraded, Unmet
from grader.language import gettext as _
from grader.limits import Limits
from grader.messages import Load
from grader.processor import one_processor
from grader.remembered import Remembered
from grader.results import CheckResult, Status, StepResult, step_status
from grader.sandbox import Launcher
from grader.student import Student
from grader.verdict import Trial, Verdict, run_check

OURS = {"student", "reference", "draw"}


class Session:
    """A pytest plug-in that answers grade requests from one collected session."""

    def __init__(self, channel: Channel, launcher: Launcher, board: int | None = None) -> None:
        self.channel, self.launcher, self.board = channel, launcher, board
        self.started = False
        self._oracles: dict[str, tuple[int, Remembered, Witness]] = {}
        self._trial: Trial | None = None
        self._verdict: Verdict | None = None
        self._heap = Heap()

    # --- what a check is given ---

    @pytest.fixture
    def student(self) -> Implementation:
        """The learner's implementation of the step."""
        return self._current().student

    @pytest.fixture
    def reference(self) -> Implementation:
        """The reference's."""
        return self._current().reference

    @pytest.fixture
    def draw(self) -> Draw:
        """Fresh inputs."""
        return self._current().draw

    def _current(self) -> Trial:
        assert self._trial is not None
        return self._trial

    # --- the session ---

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Serves requests instead of running every item once."""
        if session.testsfailed:
            raise session.Interrupted("the checks can't be collected")
        items: dict[str, list[pytest.Function]] = defaultdict(list)
        for item in session.items:
            assert isinstance(item, pytest.Function)
            items[item.path.parent.name].append(item)
        steps = {step.name: step for step in course.steps()}
        self.started = True
        self.channel.send(Ready())
        for request in self.channel:
            with language.use(request.language):
                devices = _devices(request.device)
                ran = [device for device, state in devices.items() if state == "checked"]
                if unmet := self._unmet(ran, request.limits):
                    self.channel.send(unmet)
                    continue
                self.launcher.begin_run()
                with one_processor(self.board):
                    for name in request.steps:
                        self.channel.send(self._grade_step(steps[name], items[name], ran, request))
                        self._trial = self._verdict = None  # they hold what the submission answered
                        self._heap.settle()
                recorded = any(steps[name].is_recorded for name in request.steps)
                layers = list(self.launcher.in_force(request.limits))
                self.channel.send(Finished(devices, layers, "recorded" if recorded else "live"))
        return True

    def _unmet(self, devices: list[str], limits: Limits) -> Unmet | None:
        """The first device whose workers would lack a layer that is required, before anything of a learner's runs."""
        for device in devices if limits.required else ():
            promised = self.launcher.promised(_on(device, limits))
            missing = [layer for layer in limits.required if layer not in promised]
            if missing:
                return Unmet(device, missing)
        return None

    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Runs a check as a trial, so that its outcome is a verdict and not a traceback."""
        arguments = pyfuncitem._fixtureinfo.argnames
        self._verdict = self._current().run(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in arguments})
        return True

    def _grade_step(
        self, step: course.Step, items: list[pytest.Function], devices: list[str], request: GradeRequest
    ) -> StepGraded:
        start = time.perf_counter()
        source = request.sources.get(step.name)
        if step.name in request.problems:
            return _without_running(step, items, devices, "fail", request.problems[step.name])
        if source is None or course.is_untouched(source[1]):
            message = "" if source else _("There is no file {file} in this submission.").format(file=f"{step.name}.py")
            return _without_running(step, items, devices, "todo", message)
        if not devices:
            return _without_running(
                step, items, devices, "skipped", _("{device}: not available").format(device=request.device)
            )
        limits = request.limits.of_step(step.deadline)
        load = Load(step.name, request.sources, step.off_limits)
        seed = step.seed(request.seed)
        reference, witness = self._oracle(step, seed)
        results: list[CheckResult] = []
        verdicts: list[Verdict] = []
        output: list[str] = []
        imported: set[str] = set()
        for device in devices:
            student = Student(self.launcher, load, _on(device, limits))
            try:
                for item in items:
                    last = item is items[-1]
                    student.allow(course.as_check(item.obj).deadline)
                    verdict = self._run(
                        item, last, Trial(item.originalname, student, reference, seed=seed, device=device)
                    )
                    check = course.as_check(item.obj)
                    share = check.points / len(devices)
                    results.append(
                        CheckResult(
                            name=item.name, title=_(check.title), device=device, status=verdict.status,
                            points=share if verdict.status == "pass" else 0.0, max_points=share,
                            message=verdict.message,
                            parting=verdict.parting,
                        )
                    )  # fmt: skip
                    verdicts.append(verdict)
                self._diagnose(
                    step,
                    items,
                    student,
                    reference,
                    witness,
                    results[-len(items) :],
                    verdicts[-len(items) :],
                    request,
                )
                output.append(student.printed())
                imported.update(student.imported)
            finally:
                student.close()
        _refuse_off_limits(results, verdicts)
        _need_every_device(results)
        result = StepResult(
            name=step.name,
            title=_(step.title),
            status=step_status(results),
            score=round(sum(check.points for check in results), 6),
            max_score=step.points,
            seconds=round(time.perf_counter() - start, 4),
            checks=results,
            output="".join(output),
        )
        return StepGraded(result, sorted(imported))

    def _oracle(self, step: course.Step, seed: int) -> tuple[Oracle, Witness]:
        """The step's oracle and what knows its misconceptions; their answers are remembered as long as the seed stays
        the same."""
        kept = self._oracles.get(step.name)
        if kept is None or kept[0] != seed:
            oracle = Remembered(step.oracle())
            kept = self._oracles[step.name] = (seed, oracle, step.witness(oracle))
        return kept[1], kept[2]

    def _diagnose(
        self, step: course.Step, items: list[pytest.Function], student: Student, reference: Oracle,
        witness: Witness, results: list[CheckResult], verdicts: list[Verdict], request: GradeRequest,
    ) -> None:  # fmt: skip
        """Names the misconception behind each failing check, where one gives the student's very answers."""
        by_name = {item.name: (item, result) for item, result in zip(items, results, strict=True)}
        device = results[0].device
        questions = [
            Question(item.obj, step.seed(request.seed), device, verdict.exchanges, verdict.called)
            for item, verdict in zip(items, verdicts, strict=True)
            if verdict.status == "fail" and not verdict.off_limits
        ]
        if not questions:
            return

        def ask_again(question: Question, further: int) -> Question | None:
            seed = step.seed(further)
            student.allow(course.as_check(question.check).deadline)
            verdict = run_check(question.check, student, reference, seed=seed, device=device)
            if verdict.status != "fail":
                return None
            return Question(question.check, seed, device, verdict.exchanges, verdict.called)

        diagnostician = Diagnostician(step.misconceptions, witness, step.pairs)
        for name, matching in diagnostician.diagnose(questions, ask_again).items():
            result = by_name[name][1]
            result.misconception = name_of(matching)
            result.hint = nudge_of(matching)
            result.message += "\n" + "\n".join(explained(matching))

    def _run(self, item: pytest.Function, last: bool, trial: Trial) -> Verdict:
        self._trial, self._verdict = trial, None
        if set(item.fixturenames) <= OURS and not item.own_markers:
            # Nothing for pytest to set up or tear down: its protocol would take longer than many a check.
            given = {name: getattr(trial, name) for name in item._fixtureinfo.argnames}
            return trial.run(item.obj, **given)
        # What stays set up for the next item: the module, and after the step's last item only the session.
        following = item.session if last else item.parent
        runtestprotocol(item, log=False, nextitem=following)  # type: ignore[arg-type]  # any node serves
        if self._verdict is None:
            return Verdict("error", _("The check did not run."), frozenset())
        return self._verdict


def _on(device: str, limits: Limits) -> Limits:
    return msgspec.structs.replace(limits, accelerator=device != "cpu")


def _devices(wanted: str) -> dict[str, str]:
    """What becomes of each device: "checked", "not available" or "not asked for"."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    states = {}
    for device, available in there.items():
        if wanted not in ("all", device):
            states[device] = "not asked for"
        else:
            states[device] = "checked" if available else "not available"
    if not there["mps"] and wanted != "mps":
        del states["mps"]  # of interest on one system only
    return states


def _without_running(
    step: course.Step, items: list[pytest.Function], devices: list[str], status: Status, message: str
) -> StepGraded:
    checks = [
        CheckResult(
            name=item.name, title=_(check.title), device=device, status=status, points=0.0,
            max_points=check.points / max(len(devices), 1), message=message if index == 0 else "",
        )
        for device in devices or ["cpu"]
        for index, item in enumerate(items)
        for check in [course.as_check(item.obj)]
    ]  # fmt: skip
    result = StepResult(
        name=step.name, title=_(step.title), status=status, score=0.0, max_score=step.points, seconds=0.0,
        checks=checks, message=message,
    )  # fmt: skip
    return StepGraded(result, [])


def _refuse_off_limits(results: list[CheckResult], verdicts: list[Verdict]) -> None:
    """A function that used a built-in which is off limits, in whichever check, loses the points of all its checks."""
    reasons = {verdict.off_limits: verdict.message for verdict in verdicts if verdict.off_limits}
    for result, verdict in zip(results, verdicts, strict=True):
        names = sorted(verdict.called & reasons.keys())
        if names and result.status != "error":
            result.status, result.points, result.off_limits = "fail", 0.0, True
            result.message = reasons[names[0]]


def _need_every_device(results: list[CheckResult]) -> None:
    """A check gives points only when it passed on every device it ran on; `error` is ours and takes none."""
    lost = {result.name for result in results if result.status not in ("pass", "error")}
    for result in results:
        if result.name in lost:
            result.points = 0.0
        elif result.status == "error":
            result.points = result.max_points
