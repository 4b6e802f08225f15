"""Looks for the smallest case that shows what a check refused on inputs too large for a screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grader.checks import smallest
from grader.checks.trial import Verdict
from grader.oracle.live import Solution

Run = Callable[[smallest.Case], Verdict]


def told(step: Solution, verdicts: list[Verdict], run: Run) -> Iterator[tuple[int, str, Verdict]]:
    """For the first failing check of each public name, by its place, a smaller case that fails as well, as text.

    None where a screen shows what the check gave it, where there was no answer (the code raised, or a module could not
    be made), and where no smaller case fails in the same way.
    """
    names: set[str] = set()
    for place, verdict in enumerate(verdicts):
        about = verdict.about or next(reversed(verdict.exchanges), None)
        if verdict.status != "fail" or verdict.off_limits or about is None or about.name in names:
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
            shown = small.about or next(reversed(small.exchanges), None)
            if small.status == "fail" and small.by_code == verdict.by_code and shown is not None:
                yield place, smallest.said(small.message, shown), small
                break
