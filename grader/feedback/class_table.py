"""A class's results for the terminal: pure functions from standings to what rich prints."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.base.language import gettext as _
from grader.feedback.standings import Standing
from grader.report.terminal import MARKS, number, plain

ROWS = 40  # students up to which each has a line


def terminal(standings: Sequence[Standing], reused: int) -> RenderableType:
    """The table of students with scores (in a large class only of those without a score), and counts, median and mean;
    `reused` is the number of those with a score who were not graded again."""
    failed = [standing for standing in standings if standing.score is None]
    scores = [standing.score for standing in standings if standing.score is not None]
    others = [standing for standing in standings if standing.score is not None]
    shown = [*failed, *others] if len(standings) <= ROWS else failed
    lines = [
        _(
            "Students: {count}, of whom {graded} were graded ({kept} of them in an earlier run), and {failed} could "
            "not be graded."
        ).format(count=len(standings), graded=len(scores), kept=reused, failed=sum(one.is_open for one in failed))
    ]
    if by_rule := sum(not one.is_open for one in failed):
        lines.append(_("Without a hand-in and without a mark: {count}; each row says by which rule.", count=by_rule))
    if scores:
        lines.append(
            _("Median {median}, mean {mean}, highest {highest}.").format(
                median=number(statistics.median(scores)),
                mean=number(statistics.fmean(scores)),
                highest=number(max(scores)),
            )
        )
    if resting := sum(any(step.references for step in standing.steps) for standing in standings):
        lines.append(_("Students with a step graded on the reference of an earlier one: {count}.", count=resting))
    closing = Text("\n".join(lines), "bold")
    return Group(_table(shown), Text(), closing) if shown else closing


def _table(standings: Sequence[Standing]) -> Table:
    """A table with a row for each student: name, score, a sign for each step, the share lost by lateness; the reason in
    place of these without a score."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", expand=False)
    table.add_column(_("student"))
    table.add_column(_("score"), justify="right", no_wrap=True)
    table.add_column(_("steps"))
    for standing in standings:
        if standing.score is None:
            mark, style = MARKS["skipped" if standing.absence else "error"]
            table.add_row(plain(standing.student), Text(mark, style), Text(plain(standing.error), style))
            continue
        marks = Text()
        for step in standing.steps:
            marks.append(*MARKS[step.status])
        marks.append(f" {standing.lateness}" if standing.lateness else "", MARKS["skipped"][1])
        table.add_row(plain(standing.student), f"{number(standing.score)} / {number(standing.max_score)}", marks)
    return table
