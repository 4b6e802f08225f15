"""A lab in the terminal: the list, the question, progress, the tables."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table as Grid
from rich.text import Text

from grader.base.language import gettext as _
from grader.course import lab_log
from grader.labs import lab as labs
from grader.labs import page as lab_page
from grader.labs import parts
from grader.report import console as screen
from grader.report.terminal import visible

MOST_ROWS = 10  # of a table in the terminal
LINE_SECONDS = float(os.environ.get("KIT_PROGRESS", 10.0))  # seconds between two lines of progress without a terminal


def text_of(text: str | None) -> str | None:
    """The learner's own text: the content of the file with this path, else the words themselves; None for None. Raises
    Stop if it is blank, a folder, or a path that can't be read."""
    if text is None:
        return None
    if not text.strip():
        raise parts.Stop(_("There is no word in the text. Type: TEXT=FILE, or TEXT='some words'"))
    try:
        file = Path(text)
        is_file, is_folder = len(text) < 512 and file.is_file(), len(text) < 512 and file.is_dir()
    except (OSError, ValueError):
        is_file = is_folder = False
    if is_folder:
        raise parts.Stop(_("{file} is a folder, not a text. Type: TEXT=FILE, or TEXT='some words'", file=text))
    if not is_file:
        if re.fullmatch(r"(~|\.{0,2})/\S*|.*\.(txt|md)", text):  # a path; `1/2` and `and/or` are words
            raise parts.Stop(_("There is no file {file}. Type: TEXT=FILE, or TEXT='some words'", file=text))
        return text
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise parts.Stop(
            _("{file} can't be read as UTF-8 text ({reason}). Type: TEXT=OTHER", file=file, reason=type(error).__name__)
        ) from None


# --- labs ---


def run(args: argparse.Namespace) -> int:
    """Lists labs, switches their log, or runs one, as the command line says. The exit status is 0, or 130 if it was
    stopped with nothing measured. Raises Stop."""
    say = screen.console()
    if args.log is not None:
        say.print(_switch_log(args.submission, args.log == "on"), soft_wrap=True)
        if args.name is None:
            return 0
    if args.name is None:
        say.print(_labs_table(labs.labs(), args.out))
        say.print(_("To run one, type: {command}", command="make lab NAME=flash"))
        return 0
    lab = {lab.name: lab for lab in labs.labs()}.get(args.name)
    if lab is None:
        raise parts.Stop(_("There is no lab {name}. Type: {command}", name=args.name, command="make lab"))
    require_matplotlib()
    lesson, module = lab.lesson, lab.module
    text = text_of(args.text)
    say.print(Text(lesson.title, "bold"))
    say.print(Markdown(lesson.about))
    seconds = args.seconds or module.SECONDS
    say.print(_("It takes about {seconds:.0f} s.", seconds=seconds), style="dim")
    prediction = _ask_prediction(say, lesson, args.predict)
    own = gathered(module.NEEDS, args)
    for part in own.values():
        say.print(visible(part.said))
    with bar() as tell:
        bench = labs.Bench(own, seconds, args.seed, args.device, text, tell)
        watch = partial(lab_page.write_so_far, folder=args.out)
        outcome = labs.run(lab, bench, prediction, parts.blamed_on(args.submission), watch)
    status = _report(say, outcome, args.out)
    if lab_log.add(args.submission, lab.name, predicted=bool(prediction), stopped=outcome.stopped):
        say.print(_("It is noted in {file}.", file=args.submission / lab_log.FILE), soft_wrap=True)
    return status


def _switch_log(folder: Path, is_on: bool) -> str:
    """Starts, or removes with its content, the learner's list of labs that were run, and returns a sentence that says
    so. Raises Stop."""
    file = folder / lab_log.FILE
    try:
        if not is_on:
            lab_log.end(folder)
            return _("Your labs are not noted, and {file} is gone.", file=file)
        lab_log.begin(folder)
    except OSError as error:
        sentence = _("{file} can't be written ({reason}). Type: {command}")
        reason, again = error.strerror or error, "python -m grader lab --log on --submission OTHER"
        raise parts.Stop(sentence.format(file=file, reason=reason, command=again)) from None
    return _(
        "From now on the labs that you run are noted in {file}, which you hand in with your exercises. "
        "To end that, type: {command}"
    ).format(file=file, command="make lab LOG=off")


def _report(say: Console, outcome: labs.LabRun, folder: Path) -> int:
    """Prints the results, and writes the page into the folder. Returns the exit status: 130 if it was stopped with
    nothing measured, else 0."""
    results, module = outcome.bench.results, outcome.lab.module
    if not results.rows:
        say.print(_("Nothing was measured before it was stopped."))
        return 130 if outcome.stopped else 0
    for table in module.tables(results):
        say.print()
        say.print(grid(table))
    say.print()
    for finding in module.findings(results):
        say.print("·", visible(finding))
    if outcome.prediction:
        say.print()
        say.print(_("Your prediction: {prediction}", prediction=outcome.prediction), style="bold")
    if outcome.lesson.answers:
        for sentence in outcome.answered():
            say.print(visible(sentence), style="bold")
    if outcome.stopped:
        say.print(_("It was stopped early: this is what was measured until then."))
    say.print()
    page = lab_page.write(outcome, folder)
    say.print(_("The page is {file}", file=page.resolve()), soft_wrap=True)
    return 0


def gathered(needs: tuple[parts.Need, ...], args: argparse.Namespace) -> dict[str, parts.StepCode]:
    """The code of each needed step, by step; written steps are graded first. Before importing any of them it prints
    that they run outside the sandbox. Raises Stop, as `parts.gather` does."""
    folder = args.submission
    screen.console().print(warning(), style="dim")
    grade = parts.grading(folder)

    def said(steps: list[str]) -> parts.Statuses:
        """Prints which steps are graded, and grades them."""
        print(_("Grading first what it needs: {steps}", steps=", ".join(steps)), file=sys.stderr)
        return grade(steps)

    return parts.gather(needs, folder, args.model, said, getattr(args, "device", "cpu"))


def warning() -> str:
    """The warning that a learner's code runs outside the sandbox."""
    return _("It runs your code in your own process, outside the sandbox, and gives no mark.")


def _ask_prediction(say: Console, lesson: labs.LabLesson, prediction: str | None) -> str:
    """Asks for the learner's prediction, unless the command line has it, and returns it; empty without a terminal, or
    if the learner skips it. Raises Stop if the command line gives something that is no prediction."""
    say.print()
    say.print(Markdown(lesson.question))
    for number, answer in enumerate(lesson.answers, 1):
        say.print(f"  {number}. {answer}")
    say.print()
    if prediction is not None or not sys.stdin.isatty():
        return labs.predicted(prediction or "", lesson)
    while True:
        try:
            return labs.predicted(input(_("What do you expect? A number or your own words, Enter to skip: ")), lesson)
        except parts.Stop as stop:
            say.print(visible(str(stop)))
        except EOFError:
            return ""


def _labs_table(found: list[labs.Lab], out: Path) -> Grid:
    """A table of labs: name, needed steps, duration, and a mark if the folder `out` has a run of it."""
    table = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in (_("lab"), "", _("after step"), _("time"), ""):
        table.add_column(title)
    for lab in found:
        table.add_row(
            Text(lab.name, "bold"),
            lab.lesson.title,
            ", ".join(map(str, lab.steps)),
            Text(f"{lab.module.SECONDS:.0f} s", "dim"),
            _("✓ done") if (out / f"{lab.name}.json").is_file() else "",
        )
    return table


def grid(table: labs.Table) -> Grid:
    """A lab's table as rich prints it, at most MOST_ROWS rows of it."""
    shown = Grid(title=table.title, title_justify="left", show_edge=False)
    for index, column in enumerate(table.columns):
        shown.add_column(column, justify="right" if table.is_figure(index) else "left", overflow="fold")
    for row in table.rows[:MOST_ROWS]:
        shown.add_row(*(Text(visible(cell)) for cell in row))
    if len(table.rows) > MOST_ROWS:
        shown.caption = _("{count} more rows are on the page.", count=len(table.rows) - MOST_ROWS)
    return shown


@contextmanager
def bar() -> Iterator[Callable[[float, str], None]]:
    """Shows a bar with the time left on standard error; an occasional line if that is not a terminal. Yields the
    function to call with the part that is done, 0 to 1, and a sentence."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.percentage:>3.0f} %"), BarColumn(24), TextColumn("{task.fields[left]}"),
               TextColumn("{task.description}"))  # fmt: skip
    began = shown = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=1.0, left="")

        def tell(done: float, what: str) -> None:
            """Shows progress, `done` from 0 to 1; without a terminal, prints a line every LINE_SECONDS."""
            nonlocal shown
            now = time.monotonic()
            left = (now - began) * (1 - done) / done if done > 0.01 else 0.0
            words = _("{seconds:.0f} s left", seconds=left) if done > 0.01 else ""
            progress.update(task, completed=done, description=what, left=words)
            if not console.is_terminal and now - shown > LINE_SECONDS:
                shown = now
                print(f"{done:.0%} · {words} · {what}", file=sys.stderr, flush=True)

        yield tell


def require_matplotlib() -> None:
    """Raises Stop with the command that installs matplotlib if it is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise parts.Stop(
            _("Labs draw with matplotlib, which is not here. Type: {command}").format(
                command=f"{sys.executable} -m pip install -r requirements/lab.lock"
            )
        ) from None
