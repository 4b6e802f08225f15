"""The regimes that each public name of a step is asked in, with the reasons for those left out: `make prove` prints
it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grader.checks.regimes import REGIMES, AskedFunction, AskedModule
from grader.course.choice import match_step
from grader.oracle.live import Solution, solutions


def table(calls: Mapping[str, AskedFunction | AskedModule]) -> Iterator[str]:
    """A table in lines of text: for each name that a step's checks call, a ✓ below each regime (kind of inputs or
    device) that they call it in, or the number of the reason why not; then a line for each reason. The head has the
    regimes' names."""
    reasons: dict[str, int] = {}
    width = max(map(len, calls), default=0)
    yield " ".join([" " * width, *REGIMES])
    for name, how in calls.items():
        cells = []
        for regime in REGIMES:
            reason = how.gaps.get(regime)
            mark = "✓" if reason is None else str(reasons.setdefault(reason, len(reasons) + 1))
            cells.append(f"{mark:^{len(regime)}}")
        yield " ".join([f"{name:{width}}", *cells]).rstrip()
    yield from (f"  {number} {reason}" for reason, number in reasons.items())


def lines(step: Solution) -> list[str]:
    """The lines of a step's table, below its name, with an empty line at the end."""
    return [step.name, *table(getattr(step.checks_module, "CALLS", {})), ""]


def show(wanted: str) -> None:
    """Prints the table of the step that `wanted` names by number or name, or of all steps if it is empty."""
    every = [step for step in solutions() if not step.lacking]
    chosen = match_step(wanted, [step.name for step in every]) if wanted else ""
    for step in every:
        if not wanted or step.name == chosen:
            print("\n".join(lines(step)))
