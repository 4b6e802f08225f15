"""The results of a step's checks: each is built once, of all that was found out about a check.

In a process with a reference, any word or number of the learner's code could tell what that reference holds. So nothing
that the code chose is shown: only which checks fail, in which of five ways, and which known mistake it is. A line, or
the type of an error, would be the code's choice as well: some bits of what it has read for each check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from grader.base.language import gettext as _
from grader.base.paths import STEP_NAME
from grader.base.results import CheckResult, Status
from grader.base.syntax import invalid, loops
from grader.calls.call import Raised
from grader.checks import smallest
from grader.checks.catalogue import Misconception
from grader.checks.trial import Verdict
from grader.course.steps import Check
from grader.course.stubs import MAX_STUB
from grader.oracle.live import Solution
from grader.oracle.told import explained, name_of, nudge_of

Run = Callable[[smallest.Case], Verdict]

MISSING = ("NotThere", "undefined")  # the responder's error for a public name that the file does not define
NO_PYTHON = re.compile(r"\b(SyntaxError|IndentationError|TabError)\b")


@dataclass
class Ending:
    """The end of one check on one device, and what was found out about it: the misconceptions that `matching` names, a
    `smaller` case with its text, and the names that it calls which no check with drawn inputs has shown to work.

    `share`: its points on this device. `own_names`: those that the step asks for. `silent`: nothing is shown of it that
    the learner's code chose.
    """

    step: str
    check: Check
    device: str
    verdict: Verdict
    share: float = 0.0
    own_names: Set[str] = frozenset()
    silent: bool = False
    unproven: Collection[str] = ()
    matching: list[Misconception] = field(default_factory=list)
    smaller: tuple[str, Verdict] | None = None

    @property
    def passes(self) -> bool:
        """Whether the check passes, and counts."""
        return self.verdict.status == "pass" and not self.unproven

    @property
    def is_diagnosed(self) -> bool:
        """Whether a misconception may be the cause: only of a wrong answer."""
        return self.verdict.status == "fail" and not self.verdict.failure.off_limits and not self.is_unwritten

    @property
    def is_unwritten(self) -> bool:
        """Whether the check fails only because a name that it calls is not written yet, or is not in the file."""
        if self.verdict.status == "todo":
            return True
        raised = self._raised
        missing = raised is not None and (raised.type, raised.message) == MISSING and raised.left_out is None
        return self.verdict.status == "fail" and missing and self.verdict.exchanges[-1].name in self.own_names

    @property
    def refused(self) -> str:
        """The public name with the answer that failed the check (the refused or last one); empty if it passes."""
        return "" if self.verdict.status == "pass" else self.verdict.blamed

    @property
    def about(self) -> str:
        """The public name of the step that it is about: the one that a mistake replaces, that is not written yet, that
        was wrong, or that it called last. Another one may only be used next to it."""
        replaced = self.own_names & self.matching[0].replaced.keys() if self.matching else set()
        if len(replaced) == 1:
            return next(iter(replaced))
        raised, own = self._raised, self.own_names
        if self.is_unwritten:
            return raised.function if raised and raised.function in own else self.verdict.exchanges[-1].name
        if self.refused in own:
            return self.refused
        called = [exchange.name for exchange in self.verdict.exchanges if exchange.is_asked and exchange.name in own]
        return called[-1] if called else ""

    @property
    def _raised(self) -> Raised | None:
        """The error of the last call; None if it had an answer, or nothing was called."""
        outcome = self.verdict.exchanges[-1].outcome if self.verdict.exchanges else None
        return outcome.raised if outcome else None

    @property
    def _waits_for(self) -> str:
        """The name of another step of the submission that is not written, if the check met that; else empty."""
        raised = self._raised
        other = Path(raised.file).stem if raised and self.verdict.status == "todo" else ""
        return other if other != self.step and STEP_NAME.fullmatch(other) else ""

    def refusal(self, refused: Mapping[str, str]) -> str:
        """The reason why the check earns nothing although its answers may be right: a name that it calls used a
        built-in that is off limits. `refused` has the reasons by public name; empty if it calls none of them."""
        names = sorted(self.verdict.called & refused.keys())
        return refused[names[0]] if names and self.verdict.status != "error" else ""

    def status(self, refusal: str) -> Status:
        """The status of the check, failed if there is a `refusal`. A check that draws nothing asks what anyone can look
        up: it counts only if drawn inputs show that the functions it calls work."""
        return "fail" if refusal else "skipped" if self.unproven else self.verdict.status

    def message(self) -> str:
        """The message of the check, without the parts that are said once for several checks."""
        verdict = self.verdict
        found = explained(self.matching) if self.matching and not verdict.failure.off_limits else []
        if self.unproven:
            return _(
                "This is right, but its numbers are the same in every run and can be copied. It counts as soon as a "
                "check with drawn inputs passes for {names}."
            ).format(names=", ".join(f"`{name}`" for name in sorted(self.unproven)))
        if self.silent and verdict.status == "error":
            return verdict.message.strip().partition("\n")[0]
        if self.silent and verdict.status != "pass":
            return "\n".join(found).strip() or _untold(verdict)
        return "\n".join([verdict.message, *found, *([self.smaller[0]] if self.smaller else [])])

    def result(self, refusal: str, message: str, counts: bool) -> CheckResult:
        """The result of the check, with this message; it `counts` if the check passes on every device."""
        verdict, status = self.verdict, self.status(refusal)
        shown = self.smaller[1] if self.smaller else verdict  # the numbers of a large case are too many to be looked at
        return CheckResult(
            name=self.check.name, title=_(self.check.title), device=self.device, status=status,
            points=self.share if counts else 0.0, max_points=self.share, message=message,
            misconception=name_of(self.matching) if self.matching else None,
            words=dict(self.matching[0].words) if self.matching else {},
            hint=nudge_of(self.matching) if self.matching else None,
            parting=None if self.silent and verdict.status != "pass" else shown.failure.parting,
            off_limits=bool(refusal), unwritten=self.is_unwritten, about=self.about, called=sorted(verdict.called),
            refused=self.refused, waits_for=self._waits_for,
        )  # fmt: skip


def results(endings: Sequence[Ending], file: str, source: str) -> list[CheckResult]:
    """The result of each check of a step with this file, in the order of the endings, once all have ended on every
    device.

    A function that uses an off-limits built-in in any check loses the points of all its checks, and a check has points
    only if it passes on every device."""
    used = {name: ending.message() for ending in endings if (name := ending.verdict.failure.off_limits)}
    refusals = [ending.refusal(used) for ending in endings]
    statuses = [ending.status(refusal) for ending, refusal in zip(endings, refusals, strict=True)]
    lost = {ending.check.name for ending, status in zip(endings, statuses, strict=True) if status != "pass"}
    messages = [refusal or ending.message() for ending, refusal in zip(endings, refusals, strict=True)]
    if set(statuses) == {"fail"}:
        messages = _where_it_does_not_parse(messages, file, source)
    messages = _with_loops(endings, statuses, messages, source)
    return [
        ending.result(refusal, message, ending.check.name not in lost)
        for ending, refusal, message in zip(endings, refusals, messages, strict=True)
    ]


def _where_it_does_not_parse(messages: list[str], file: str, source: str) -> list[str]:
    """The messages; if the file does not parse, each is the sentence that names the line, and then only what followed
    Python's own error and its line in the message, a likely cause."""
    sentence = invalid(source, file) if len(source) <= MAX_STUB else ""
    if not sentence:
        return messages
    shown = []
    for lines in map(str.splitlines, messages):
        error = next((index for index, line in enumerate(lines) if NO_PYTHON.search(line)), len(lines))
        shown.append("\n".join([sentence, *lines[error + 2 :]]))  # behind the error and its line: a likely cause
    return shown


def _with_loops(
    endings: Sequence[Ending], statuses: Sequence[Status], messages: Sequence[str], source: str
) -> list[str]:
    """The messages; for each function once, with a sentence on a loop in it that returns in its first round, or that
    nothing ends, if that explains what fails."""
    said, texts = {""}, []
    for ending, status, message in zip(endings, statuses, messages, strict=True):
        explains = status in ("fail", "timeout") and ending.about not in said and not ending.matching
        said |= {ending.about} if explains else set()
        texts.append("\n".join([message, *loops(source, ending.about, MAX_STUB)]) if explains else message)
    return texts


def _untold(verdict: Verdict) -> str:
    """The message without values, for a check that ran with a reference in the learner's process."""
    if verdict.failure.off_limits:
        text = _("A built-in that is off limits was used.")
    elif verdict.status == "timeout":
        text = _("The code did not answer in time.")
    elif verdict.status == "todo":
        text = _("It is not written yet.")
    elif verdict.failure.raised:
        text = _("The code raised an error.")
    else:
        text = _("The code gave another answer than expected.")
    hidden = _("Its values are not shown, since the reference of an earlier step was in its process.")
    return f"{text} {hidden}"


def unproven(verdicts: Sequence[Verdict]) -> list[Collection[str]]:
    """For each check of a device, the names it calls that no check with drawn inputs shows to work, if it passes but
    draws nothing; else none."""
    shown = {name for verdict in verdicts if verdict.drawn and verdict.status == "pass" for name in verdict.called}
    return [verdict.called - shown if verdict.status == "pass" and not verdict.drawn else () for verdict in verdicts]


def smaller_cases(step: Solution, verdicts: list[Verdict], run: Run) -> Iterator[tuple[int, str, Verdict]]:
    """Yields, for the first failing check of each public name, its index, the text of a smaller case that fails as
    well, and the verdict on that case.

    Nothing if a screen shows what the check gave it, if there was no answer (the code raised, or a module could not be
    made), or if no smaller case fails in the same way."""
    names: set[str] = set()
    for index, verdict in enumerate(verdicts):
        about = verdict.last
        if verdict.status != "fail" or verdict.failure.off_limits or about is None or about.name in names:
            continue
        names.add(about.name)
        if not verdict.drawn or smallest.is_shown(about):
            continue  # the lesson works the case that is not drawn
        if about.outcome is None or about.outcome.raised or about.outcome.of is not None:
            continue
        for case in step.small_cases.get(about.name, ()):
            small = run(case)
            if small.status == "timeout":
                return
            shown = small.last
            if small.status == "fail" and small.failure.by_code == verdict.failure.by_code and shown is not None:
                yield index, smallest.said(small.message, shown), small
                break
