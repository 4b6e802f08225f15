"""The checks of the steps as pytest's items, graded in the sandbox as `make grade` does: `pytest solutions/core`.

Collecting reads the check files as text: it imports no torch and starts no process. When the first item of a step runs,
a warm grader grades the whole step, since a built-in that is off limits or a diagnosis concerns several checks at once;
each item then reports its own check. The root `conftest.py` loads this plug-in, here and in the learner's kit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from grader.base import language
from grader.base.language import gettext as _
from grader.base.paths import EXERCISES, SOLUTIONS
from grader.base.results import CheckResult, Report, StepResult, leading
from grader.course import choice
from grader.course.check_outline import CheckOutline, is_check_file, outline
from grader.course.submissions import NoSubmission, Submission, read
from grader.judge.grader import LazyGrader, new_seed
from grader.judge.launcher import GraderError

MAX_SEED = 2**53
SHARED_SEED = "attention_seed"  # what pytest-xdist passes to its workers


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options for the submission and the run."""
    group = parser.getgroup("attention", "attention from scratch: the checks of the steps")
    group.addoption("--submission", metavar="DIR", help="the folder of step files to check (default: exercises)")
    group.addoption("--seed", type=_seed, metavar="N", help="repeat a run with the same draws")
    group.addoption("--device", default="all", help="where the checks run: cpu, cuda, …, or all (the default)")
    group.addoption("--lang", metavar="LANG", help="en or ko")


def pytest_configure(config: pytest.Config) -> None:
    """Reads the options into the state that all items share. Raises UsageError if they are invalid."""
    config.addinivalue_line("markers", "points(number): what a check of a step is worth")
    config.stash[GRADING] = Grading(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the warm grader, if one was started."""
    if grading := config.stash.get(GRADING, None):
        grading.close()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.File | None:
    """Makes a CheckFile of a step's check file, which is read and not imported; None leaves every other module to
    pytest."""
    return CheckFile.from_parent(parent, path=module_path) if is_check_file(module_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the electives that were not started, as `make grade` does, unless the command line names them."""
    checks = [item for item in items if isinstance(item, CheckItem)]
    if not checks:
        return
    default = config.stash[GRADING].default_steps()
    named = [path for path in map(partial(_path, config), config.args) if SOLUTIONS in path.parents]
    left_out = [
        item
        for item in checks
        if item.step not in default and not any(item.path.resolve().is_relative_to(path) for path in named)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Gives every worker of pytest-xdist the same seed."""
    node.workerinput[SHARED_SEED] = node.config.stash[GRADING].seed


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A scheduler that keeps the checks of a step on one worker, which grades them together; None, for pytest-xdist's
    own, unless only steps run."""
    if config.getoption("dist") != "load" or not all(
        _path(config, name).is_relative_to(SOLUTIONS) for name in config.args
    ):
        return None
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints the points, and how to repeat the run, below pytest's own summary."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    graded = {
        report.nodeid: dict(report.user_properties)
        for report in reports
        if any(name == "max_points" for name, _value in getattr(report, "user_properties", ()))
    }
    if not graded:
        return
    grading, properties = config.stash[GRADING], list(graded.values())
    with language.use(grading.language):
        line = _("{score} of {total} points · seed {seed} · isolation: {layers}").format(
            score=_sum(properties, "points"),
            total=_sum(properties, "max_points"),
            seed=grading.seed,
            layers=properties[0]["isolation"],
        )
        terminalreporter.section(_("Attention from scratch"))
    terminalreporter.line(line)


def _sum(properties: list[dict[str, Any]], name: str) -> str:
    """The sum of the property `name` over all checks, as text."""
    return f"{round(sum(each[name] for each in properties), 6):g}"


class Grading:
    """The state that the items of one run share: the submission, the seed, and a grader that is started lazily."""

    def __init__(self, config: pytest.Config) -> None:
        """Reads the options. Raises UsageError for an unknown language, device or folder."""
        submission = config.getoption("submission", None)
        self.folder = config.invocation_params.dir / submission if submission else EXERCISES
        self.device: str = config.getoption("device", "all")
        requested: int | None = config.getoption("seed", None)
        own = new_seed() if requested is None else requested
        self.seed: int = getattr(config, "workerinput", {}).get(SHARED_SEED, own)
        try:
            self.language = language.choose(config.getoption("lang", None))
        except language.UnknownLanguage as unknown:
            names = ", ".join(language.LANGUAGES)
            raise pytest.UsageError(
                f"There is no language {unknown} here, only {names}. Type: pytest --lang en"
            ) from None
        if not language.DEVICE.fullmatch(self.device):
            raise pytest.UsageError(_("a device is named as torch names it: cpu, cuda, mps, xpu, or all"))
        if submission and not self.folder.is_dir():
            with language.use(self.language):
                raise pytest.UsageError(_no_folder(submission))
        self._grader = LazyGrader(1)
        self.close = self._grader.close
        self._submission: Submission | None = None
        self._reports: dict[str, Report | str] = {}

    def report(self, step: str) -> Report:
        """The report of one step, which is graded the first time. Raises Fault if the grader failed."""
        if step not in self._reports:
            with language.use(self.language):
                self._reports[step] = self._grade(step)
        report = self._reports[step]
        if isinstance(report, str):
            raise Fault(report)
        return report

    def default_steps(self) -> list[str]:
        """The names of the steps that are graded by default: the core, and every elective with work in it."""
        try:
            self._submission = self._submission or read(self.folder)
        except NoSubmission:
            return choice.by_default({}, {})
        return choice.by_default(self._submission.sources, self._submission.problems)

    def _grade(self, step: str) -> Report | str:
        """Grades a step. Returns the report, or a sentence with the reason if that fails."""
        try:
            self._submission = self._submission or read(self.folder)
            return self._grader.grade(self._submission, [step], device=self.device, seed=self.seed)
        except NoSubmission:
            return _no_folder(self.folder)
        except GraderError as error:
            return str(error)


GRADING = pytest.StashKey[Grading]()


class Fault(Exception):
    """The grader could not grade. One sentence."""


class Refused(Exception):
    """A check failed: its message."""


class CheckFile(pytest.File):
    """The checks of one step."""

    def collect(self) -> Iterator[CheckItem]:
        """One item for each check, in the order they are written. Raises CollectError if the file does not parse."""
        try:
            checks = outline(self.path)
        except SyntaxError as error:
            raise self.CollectError(f"{self.path}:{error.lineno}: {error.msg}") from None
        for check in checks:
            yield CheckItem.from_parent(self, name=check.name, check=check)


class CheckItem(pytest.Item):
    """One check of a step on every device that runs."""

    def __init__(self, *, check: CheckOutline, **given: Any) -> None:
        super().__init__(**given)
        self.check = check
        self.step = self.path.parent.name
        self.results: list[CheckResult] = []
        if check.points is not None:
            self.add_marker(pytest.mark.points(check.points))

    def setup(self) -> None:
        """Grades the step, unless it was graded before, and keeps this check's results. Raises pytest's own exceptions:
        Skipped if the check did not run or its step is not written, Failed for a fault of the grader, which pytest then
        calls an ERROR."""
        grading = self.config.stash[GRADING]
        try:
            report = grading.report(self.step)
        except Fault as fault:
            raise pytest.fail.Exception(str(fault), pytrace=False) from None
        (step,) = report.steps
        self.results = [result for result in step.checks if result.name == self.name]
        self.user_properties += _properties(self.results, step, report)
        with language.use(grading.language):
            text = _text(self.results, step)
        first = leading(step.checks)
        if step.output and (first is None or first.name == self.name):
            from grader.report.terminal import quoted

            self.add_report_section("call", "stdout", quoted(step.output))
        statuses = {result.status for result in self.results}
        if "error" in statuses or not statuses:
            raise pytest.fail.Exception(text, pytrace=False)
        if statuses <= {"pass", "todo", "skipped"} and statuses != {"pass"}:
            raise pytest.skip.Exception(text, _use_item_location=True)

    def runtest(self) -> None:
        """Raises Refused if the check fails in the step's report."""
        if any(result.status not in ("pass", "skipped") for result in self.results):
            with language.use(self.config.stash[GRADING].language):
                (step,) = self.config.stash[GRADING].report(self.step).steps
                raise Refused(_text(self.results, step))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The message of `make grade`, without a traceback, which would show the engine's code."""
        return str(excinfo.value) if isinstance(excinfo.value, Refused) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The file and line of the check."""
        return self.path, self.check.line, self.name


def _properties(results: list[CheckResult], step: StepResult, report: Report) -> list[tuple[str, object]]:
    """The properties of a check in `--junitxml`. A step in which the grader itself failed neither costs nor earns
    points."""
    points: list[tuple[str, object]] = [
        ("points", round(sum(result.points for result in results), 6)),
        ("max_points", round(sum(result.max_points for result in results), 6)),
    ]
    properties: list[tuple[str, object]] = [
        *(points if step.score is not None else []),
        ("status", ", ".join(dict.fromkeys(result.status for result in results))),
        ("title", results[0].title if results else ""),
        ("seed", report.seed),
        ("isolation", ", ".join(report.isolation)),
    ]
    named = dict.fromkeys(result.misconception for result in results if result.misconception)
    return properties + [("misconception", ", ".join(named))] * bool(named)


def _text(results: list[CheckResult], step: StepResult) -> str:
    """The title of a check, and below it the message of each device on which it fails."""
    from grader.report.terminal import plain, quoted  # rich is imported only when something is shown

    lines = [results[0].title] if results else [_("The check did not run.")]
    todo = _("{name} is not written yet.", name=step.name) if step.status == "todo" else ""
    for result in results:
        if result.status == "pass":
            continue
        lines += [f"({result.device})"] * (result.device != "cpu")
        lines.append(quoted(result.message) or plain(step.message) or todo)
        lines += [f"→ {result.hint}"] * bool(result.hint)
    return "\n".join(lines)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_SEED:
        raise argparse.ArgumentTypeError(f"{text} is not an integer from 0 to {MAX_SEED}")
    return int(text)


def _no_folder(folder: object) -> str:
    return _("There is no folder {folder}. Type: pytest --submission FOLDER").format(folder=folder)


def _path(config: pytest.Config, argument: str) -> Path:
    """The absolute path of the file or folder that an argument of the command line names, as in `FILE::TEST`."""
    return (config.invocation_params.dir / argument.partition("::")[0]).resolve()
