"""Each check as an item of a test: the share that passes it, and whether it tells strong work from weak. And wrong
answers without a name, grouped by equal answers."""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from grader.base import files
from grader.base.language import gettext as _
from grader.base.results import CheckResult, Graded, Report, StepResult, leading
from grader.feedback.exports import harmless

ENOUGH = 5  # who started a step, for a share or a correlation to say anything
LOW = 0.1  # discrimination below which a check hardly tells strong work from weak
FILE = re.compile(r"\bat line \d+ of \S.{0,200}?\.py|(?<!\S)\S+/step\d\d_\w+\.py(?::\d+)?|\bline \d+\b")
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


@dataclass(frozen=True)
class Item:
    """One check: how many started its step and how many pass it.

    `discrimination` is the correlation of passing it with the points of all other checks (point-biserial, from -1 to
    1); None if everyone does the same, or too few started.
    """

    step: str
    check: str
    title: str
    begun: int
    passed: int
    discrimination: float | None

    @property
    def share(self) -> float | None:
        """The share that pass, of those who started the step."""
        return self.passed / self.begun if self.begun else None

    @property
    def nobody_fails(self) -> bool:
        """True if no student fails it in a class large enough to make mistakes."""
        return self.begun >= ENOUGH and self.passed == self.begun

    @property
    def remarks(self) -> list[str]:
        """Sentences for the author of the check, such as that no student fails it; empty if it is fine, or few
        started."""
        if self.begun < ENOUGH:
            return []
        if self.passed == self.begun:
            return [_("No student fails it.")]
        if self.passed == 0:
            return [_("No student passes it.")]
        if self.discrimination is not None and self.discrimination < 0:
            return [_("Stronger students fail it more often: is it fair?")]
        if self.discrimination is not None and self.discrimination < LOW:
            return [_("It hardly tells strong work from weak.")]
        return []


@dataclass
class Cluster:
    """Students with the same wrong answers in a step, which no known mistake gives; `result` is the smallest case."""

    step: str
    checks: tuple[str, ...]
    result: CheckResult
    students: list[str] = field(default_factory=list)


def items(entries: Iterable[Graded]) -> list[Item]:
    """Every check of the class as an item, in the order of the steps."""
    reports = [entry.report for entry in entries if entry.report]
    by_check: dict[tuple[str, str], list[tuple[bool, float]]] = defaultdict(list)
    titles: dict[tuple[str, str], str] = {}
    for report in reports:
        total = sum(step.score or 0.0 for step in report.steps)
        for step in report.steps:
            for name, checks in _by_name(step).items():
                titles.setdefault((step.name, name), checks[0].title)
                outcomes = by_check[step.name, name]
                if _begun(step) and all(check.status not in ("error", "skipped") for check in checks):
                    passed = all(check.status == "pass" for check in checks)
                    outcomes.append((passed, total - sum(check.points for check in checks)))
    return [
        Item(step, name, titles[step, name], len(outcomes), sum(passed for passed, _rest in outcomes),
             _discrimination(outcomes))
        for (step, name), outcomes in by_check.items()
    ]  # fmt: skip


def clusters(entries: Iterable[Graded]) -> list[Cluster]:
    """The wrong answers that no known mistake explains, the most frequent first; students with equal answers to all
    failing checks of a step are one cluster."""
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], Cluster] = {}
    for entry in entries:
        for step in entry.report.steps if entry.report else ():
            unknown = unrecognised(step)
            failing = leading(unknown)
            if failing is None:
                continue
            key = tuple((check.name, _answer(check)) for check in unknown)
            names = tuple(check.name for check in unknown)
            groups.setdefault((step.name, key), Cluster(step.name, names, failing)).students.append(entry.student)
    return sorted(groups.values(), key=lambda cluster: (-len(cluster.students), cluster.step, cluster.checks))


def unrecognised(step: StepResult) -> list[CheckResult]:
    """The failing checks of a step that no known mistake explains; nothing if its code never ran, or was refused."""
    if step.unusable or step.odd or step.stuck or any(check.off_limits for check in step.checks):
        return []  # it can't be imported, or is refused
    failing = [check for check in step.checks if check.status == "fail" and not check.unwritten]
    return [] if any(check.misconception for check in failing) else failing  # nothing if it is explained in part


def wrong_answers(report: Report) -> frozenset[str]:
    """Each step's wrong answers that no known mistake gives, as one text, the same for equal answers under one seed."""
    answers = set()
    for step in report.steps:
        unknown = [check for check in unrecognised(step) if check.parting]
        if unknown:
            digest = hashlib.sha256("\n".join(f"{check.name} {_answer(check)}" for check in unknown).encode())
            answers.add(f"{step.name}: {unknown[0].title} [{digest.hexdigest()[:8]}]")
    return frozenset(answers)


def _answer(check: CheckResult) -> str:
    """A check's message without file names, lines and addresses, which differ between students with the same answer."""
    return ADDRESS.sub("0x", FILE.sub("…", check.message))


def _begun(step: StepResult) -> bool:
    """Whether a step's file is more than an untouched stub, can be read, and met no fault of ours; a step that was
    skipped counts too."""
    return step.status not in ("todo", "error") and not step.unusable


def _by_name(step: StepResult) -> dict[str, list[CheckResult]]:
    """The results of each check, one for each device, by the check's name."""
    by_name: dict[str, list[CheckResult]] = {}
    for check in step.checks:
        by_name.setdefault(check.name, []).append(check)
    return by_name


def _discrimination(outcomes: Sequence[tuple[bool, float]]) -> float | None:
    """The correlation, from -1 to 1, of passing a check with the points of all others; None if too few started it, or
    all did the same. `outcomes` has both for each student."""
    count, passed = len(outcomes), sum(has_passed for has_passed, _rest in outcomes)
    if count < ENOUGH or passed in (0, count):
        return None
    mean = sum(rest for _one, rest in outcomes) / count
    spread = math.sqrt(sum((rest - mean) ** 2 for _one, rest in outcomes) / count)
    if spread == 0:
        return None
    above = sum(rest for has_passed, rest in outcomes if has_passed) / passed
    below = sum(rest for has_passed, rest in outcomes if not has_passed) / (count - passed)
    share = passed / count
    return (above - below) / spread * math.sqrt(share * (1 - share))


def items_csv(analysis: Iterable[Item]) -> str:
    """CSV text with a row for each check: how many started and passed it, how well it discriminates."""
    rows: list[list[object]] = [["step", "check", "title", "began", "passed", "share", "discrimination", "remarks"]]
    for item in analysis:
        share = "" if item.share is None else f"{item.share:.4f}"
        tells = "" if item.discrimination is None else f"{item.discrimination:.4f}"
        remarks = " ".join(item.remarks)
        rows.append([item.step, item.check, harmless(item.title), item.begun, item.passed, share, tells, remarks])
    return files.table(rows)
