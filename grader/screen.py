"""What the terminal shows: a bar while it works, the report at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from grader import report as reports
from grader.language import gettext as _
from grader.results import Report, StepResult


@contextmanager
def progress(total: int) -> Iterator[Callable[[StepResult], None]]:
    """A bar on standard error while steps are graded, gone when they are; nothing where that is not a terminal."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(_("loading torch"), total=total)

        def advance(result: StepResult) -> None:
            bar.update(task, advance=1, description=result.name)

        yield advance


def show(report: Report) -> None:
    """Prints the report on standard output."""
    Console(file=sys.stdout, highlight=False, soft_wrap=False).print(reports.terminal(report))
