"""The terminal output: a progress bar, then the report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.text import Text
from rich.theme import Theme

from grader.base.language import gettext as _
from grader.base.results import Graded, Report, StepResult
from grader.report import terminal as reports

LINE_SECONDS = 10.0  # between two lines in a pipe


def _rstrip_end(text: Text, size: int) -> None:
    """Removes in place the spaces at the end of `text` that lie beyond `size` columns."""
    spaces = len(text.plain) - len(text.plain.rstrip())
    beyond = min(spaces, text.cell_len - size)
    if beyond > 0:
        text.right_crop(beyond)


# rich's own method counts characters and not columns, so that a space remains after Hangul that fills its line, and the
# last syllable becomes "…" in a table.
Text.rstrip_end = _rstrip_end  # type: ignore[method-assign,assignment]


@contextmanager
def progress(total: int) -> Iterator[Callable[[StepResult], None]]:
    """Shows a progress bar on standard error while `total` steps are graded, removed at the end; nothing unless it is a
    terminal. Yields the function to call with each graded step."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(_("loading torch"), total=total)

        def advance(result: StepResult) -> None:
            bar.update(task, advance=1, description=result.name)

        yield advance


@contextmanager
def class_progress(total: int) -> Iterator[Callable[[Graded, bool], None]]:
    """Shows a bar with the time left on standard error while `total` students are graded; in a pipe, an occasional
    line. Yields the function to call for each student, with the result and whether it was taken from an earlier run."""
    console = Console(stderr=True)
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    began = shown = time.monotonic()
    done, here, failed = 0, 0, 0

    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def advance(graded: Graded, reused: bool) -> None:
            """Counts a student; without a terminal, prints a line every LINE_SECONDS and at the end."""
            nonlocal done, here, failed, shown
            done, here = done + 1, here + (not reused)
            failed += graded.grader_failed or graded.report is None and not graded.absence
            trouble = _("{count} could not be graded").format(count=failed) if failed else ""
            bar.update(task, advance=1, description=trouble)
            now = time.monotonic()
            if not console.is_terminal and (now - shown > LINE_SECONDS or done == total):
                shown, left = now, (now - began) / max(here, 1) * (total - done)
                line = _("{done} of {total} done, {failed} of them could not be graded; {left} s left")
                print(line.format(done=done, total=total, failed=failed, left=round(left)), file=sys.stderr, flush=True)

        yield advance


@contextmanager
def reading_progress(total: int) -> Iterator[Callable[[], None]]:
    """Shows a bar with the time left on standard error while `total` submissions are read, removed at the end; in a
    pipe, an occasional line. Yields the function to call after each."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    began = shown = time.monotonic()
    done = 0
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def advance() -> None:
            """Counts one more; without a terminal, prints a line every LINE_SECONDS."""
            nonlocal done, shown
            done += 1
            bar.update(task, advance=1)
            now = time.monotonic()
            if not console.is_terminal and now - shown > LINE_SECONDS:
                shown, left = now, round((now - began) / done * (total - done))
                line = _("{done} of {total} read; {left} s left").format(done=done, total=total, left=left)
                print(line, file=sys.stderr, flush=True)

        yield advance


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """Shows a status line on standard error, removed at the end; nothing unless it is a terminal. Yields the function
    that sets its text."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    disable = not console.is_terminal
    # The doctor examines standard output too, which must not be redirected.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, disable=disable) as line:
        task = line.add_task("")
        yield lambda what: line.update(task, description=what)


def show(report: Report, command: str, note: str = "", *, every_check: bool = False) -> None:
    """Prints the report on standard output, then `note`, a sentence. `command` is the command line that it tells the
    reader to type to grade again; `every_check` lists all checks with their points."""
    say(reports.terminal(report, command, note, every_check=every_check))


def say(what: RenderableType, *, whole_lines: bool = False) -> None:
    """Prints text, or what else rich can show, on standard output. With `whole_lines`, rich does not break long lines:
    the terminal folds code that may be copied."""
    console().print(what, soft_wrap=whole_lines)


def console() -> Console:
    """A console on standard output; names have a colour that is readable on dark and light terminals. Emoji codes stay
    text."""
    return Console(
        file=sys.stdout, highlight=False, markup=False, emoji=False, theme=Theme({"markdown.code": "bold cyan"})
    )
