"""Restricts the messages of failing checks: a smaller case than the check's own, and hardly anything if a reference was
in the process.

In a process with a reference, any word or number of the learner's code could tell what that reference holds. So nothing
that the code chose is shown: only which checks fail, in which of five ways, and which known mistake it is. A line, or
the type of an error, would be the code's choice as well: some bits of what it has read for each check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from grader.base.language import gettext as _
from grader.base.results import CheckResult
from grader.base.syntax import invalid, loops
from grader.checks import smallest
from grader.checks.trial import Verdict
from grader.course.stubs import MAX_STUB
from grader.oracle.live import Solution

Run = Callable[[smallest.Case], Verdict]

NO_PYTHON = re.compile(r"\b(SyntaxError|IndentationError|TabError)\b")


def say_where_it_does_not_parse(results: list[CheckResult], file: str, source: str) -> None:
    """Replaces the messages of all checks by one about the syntax error in the file, as watch mode does."""
    if len(source) > MAX_STUB or any(result.status != "fail" for result in results):
        return
    if sentence := invalid(source, file):
        for result in results:
            lines = result.message.splitlines()
            error = next((index for index, line in enumerate(lines) if NO_PYTHON.search(line)), len(lines))
            result.message = "\n".join([sentence, *lines[error + 2 :]])  # behind the error and its line: a likely cause


def silence(results: list[CheckResult], verdicts: list[Verdict]) -> None:
    """Removes every value from the messages of checks that did not pass."""
    for result, verdict in zip(results, verdicts, strict=True):
        if verdict.status == "pass":
            continue
        message = verdict.message.strip()
        named = result.message.removeprefix(verdict.message).strip() if result.misconception else ""
        verdict.message = result.message = named or _untold(verdict)
        result.parting = None
        if verdict.status == "error":
            result.message = message.partition("\n")[0]


def _untold(verdict: Verdict) -> str:
    """A failing check's message without anything that the learner's code chose."""
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


def smaller_cases(step: Solution, verdicts: list[Verdict], run: Run) -> Iterator[tuple[int, str, Verdict]]:
    """For the first failing check of each public name, by its place, a smaller case that fails as well, as text.

    None if a screen shows the check's own inputs, if there was no answer (the code raised, or a module could not be
    made), and if no smaller case fails in the same way.
    """
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


def tell_of_loops(results: list[CheckResult], source: str) -> None:
    """Adds to the first failing check of each function a sentence about a loop in it that returns in its first round,
    or never ends."""
    said = {""}
    for result in results:
        if result.status in ("fail", "timeout") and result.about not in said and not result.misconception:
            said.add(result.about)
            result.message = "\n".join([result.message, *loops(source, result.about, MAX_STUB)])
