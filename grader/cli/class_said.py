"""The lines on the screen after a class was graded, and the exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from grader.base.language import gettext as _
from grader.classes.class_run import Done
from grader.cli import common
from grader.course.submissions import readable
from grader.feedback import class_page, class_table
from grader.marks import changes
from grader.report import console
from grader.report.terminal import plain

SHOWN = 40  # students whom a line names
FEW = 8  # of the files of each


def say(done: Done, out: Path) -> None:
    """Prints the scores of a graded class, what has changed, and the cases for a person to look at; `out` is the folder
    of its results."""
    console.say(class_table.terminal(done.standings, done.kept))
    print(_("The class page is {file}, the scores are in {table}.", file=out / "index.html", table=out / "class.csv"))
    for table, where in class_page.imports(done.standings, own=True):
        print(f"{out / table}: {where}")
    for line in [*changes.lines(done.changes), *_of_the_roster(done)]:
        print(plain(line))
    for line in [*_of_tables(done), *_of_files(done, out)]:
        print(plain(line), file=sys.stderr)


def outcome(done: Done, *, strict: bool) -> int:
    """The exit code: 1 if the grader failed, or, if `strict`, if a student has no mark yet; else 0. Prints what to
    do."""
    open_cases = sum(standing.is_open for standing in done.standings)
    if open_cases:
        sentence = _("A person must look at {count}: they have no mark yet, and the class page has them first.")
        print(sentence.format(count=open_cases), file=sys.stderr)
    failed = any(standing.grader_failed for standing in done.standings)
    if failed and not common.report_faulty_steps():
        print(_("Type the same command again to retry those that could not be graded."), file=sys.stderr)
    return int(failed or bool(strict and open_cases))


def _of_the_roster(done: Done) -> Iterator[str]:
    """Lines on students who handed in nothing, and on those not on the roster."""
    absent = [standing.student for standing in done.standings if standing.absence]
    if absent:
        yield _("On the roster, and nothing was handed in: {names}.", names=_few(absent))
    strangers = [standing.student for standing in done.standings if standing.stranger]
    if strangers:
        yield _("Handed in, and not on the roster: {names}.", names=_few(strangers))


def _of_tables(done: Done) -> Iterator[str]:
    """Lines on rows of the instructor's tables that were not applied, and on students who asked for a second look."""
    if done.unknown:
        sentence = _("Named in assignments.toml or the tables next to it, but not in the class: {names}.")
        yield sentence.format(names=", ".join(done.unknown))
    if done.alike:
        sentence = _("Names that look alike: {names}. In a table, the login or address says who is meant.")
        yield sentence.format(names="; ".join(done.alike))
    if done.not_applied:
        sentence = _("Not applied, because several people may be meant: what the tables say of {names}.")
        yield sentence.format(names=", ".join(done.not_applied))
    if unsure := [standing.student for standing in done.standings if standing.unsure]:
        sentence = _(
            "Late as the download says, but not how late, so that nothing was taken off: {names}. handed_in.csv can "
            "say when."
        )
        yield sentence.format(names=_few(unsure))
    if waiting := [standing.student for standing in done.standings if standing.requests]:
        yield _("A second look was asked for, and is not answered yet: {names}.", names=_few(waiting))


def _of_files(done: Done, out: Path) -> Iterator[str]:
    """Lines on files that were not read, and those outside of a student's folder."""
    unread = [standing for standing in done.standings if standing.unread and standing.score is not None]
    if unread:
        sentence = _(
            "Students with files that were not read: {count}. The class page and {table} name each, with the reason."
        )
        yield sentence.format(count=len(unread), table=out / "files.csv")
        for standing in unread[:SHOWN]:
            files = "; ".join([f"{file} ({reason})" for file, reason in standing.unread[:FEW]])
            yield f"  {standing.student}: {files}" + ("; …" if len(standing.unread) > FEW else "")
    if done.left_out:
        sentence = _("Not graded, because each student needs a folder: {files}. Put each, unpacked, into one.")
        yield sentence.format(files=", ".join(map(readable, done.left_out)))


def _few(names: Iterable[str]) -> str:
    """The first SHOWN names, with commas, and how many more there are."""
    every = list(names)
    more = _(" and {count} more, on the class page", count=len(every) - SHOWN) if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more
