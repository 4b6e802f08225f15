"""The screen of watch mode: a state, and pure functions from it to what rich prints."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.segment import Segment, Segments
from rich.text import Text

from grader.base.language import gettext as _
from grader.base.results import Report, StepResult, total
from grader.course import lessons, tracks
from grader.course.submissions import Submission
from grader.course.unread import notes
from grader.learner import progress as progress_module
from grader.learner import track_list
from grader.learner.background import LIMITS
from grader.learner.progress import Progress
from grader.report import terminal as reports

BAR = 24  # columns
FRAME = 8  # lines that a page of a lesson leaves free for the footer

View = Literal["verdict", "hints", "all", "lesson"]


@dataclass
class InProgress:
    """The step that is being graded: since when, the check that is asked now and since when, and what the first failing
    one says."""

    step: str
    since: float
    check: str = ""
    asked: float = 0.0
    failed: str = ""

    @property
    def seconds(self) -> int:
        """Whole seconds so far."""
        return int(time.monotonic() - self.since)

    @property
    def says(self) -> str:
        """Text on what is known so far: a check that has failed, or one that does not answer in time; empty without
        either."""
        if self.asked and time.monotonic() - self.asked > LIMITS.call_seconds:
            sentence = _(
                "No answer within {seconds} s. Is it a loop that never ends? On a busy machine it gets longer."
            )
            return sentence.format(seconds=round(LIMITS.call_seconds))
        return reports.quoted(" · ".join(self.failed.splitlines()[:2]))

    def __str__(self) -> str:
        said = _("grading {step}: {seconds} s", step=self.step, seconds=self.seconds)
        return f"{said} · {self.check}" if self.check else said


@dataclass
class Board:
    """The state: the last result of each step, the step that is shown, and the messages about it.

    `calm` says why a file is not graded yet, `notice` answers a key, `busy` names a step that takes long to grade;
    `keys` tells whether keys can be read, `address` the URL of the session's page; `read` are the files as last read,
    `grading` what is being graded, `stopped` a step that was stopped while graded, `at_of` when each verdict was given.
    """

    folder: Path
    names: list[str]
    keys: bool = False
    results: dict[str, StepResult] = field(default_factory=dict)
    current: str | None = None
    view: View = "verdict"
    calm: str = ""
    notice: str = ""
    busy: str = ""
    at: str = ""
    seed: int = 0
    page: int = 0
    hints: lessons.Hints | None = None
    address: str = ""
    read: Submission = field(default_factory=lambda: Submission(""))
    grading: InProgress | None = None
    stopped: str = ""
    at_of: dict[str, str] = field(default_factory=dict)

    def file(self, name: str) -> str:
        """The path of a step's file for messages."""
        return reports.plain(str(self.folder / f"{name}.py"))

    @property
    def progress(self) -> Progress:
        """The learner's progress, from the files and results of this board."""
        return progress_module.of(self.read, self.results, self.names)

    def passes(self, name: str) -> bool:
        """Whether the step passed when last graded."""
        return name in self.results and self.results[name].status == "pass"

    def notes(self, name: str) -> list[str]:
        """The notes on a step's file, as `make grade` lists them; empty if the step was not graded."""
        return notes(self.read, [self.results[name]]) if name in self.results else []

    def following(self) -> str | None:
        """The step that blocks the current one, else the next that does not pass, after the current one and then from
        the start; None if all pass, or some are not graded yet."""
        return self.progress.next_step(self.current)


def screen(board: Board, console: Console) -> RenderableType:
    """A whole screen: the current view, then the progress and the keys, which stay visible."""
    below: list[RenderableType] = [Text()]
    if board.busy and board.grading:
        below.append(Text(str(board.grading), "bold cyan").append("  " + _("s stops it"), "not bold dim"))
    if board.notice:
        below.append(Text(board.notice, "bold"))
    below += [Rule(style="dim", characters="─"), progress(board), *([keys(board)] if board.keys else [])]
    if board.address:
        below.insert(-2 if board.keys else -1, Text(board.address, "dim"))
    for above in _versions(board, console):
        whole = Group(above, *below)
        if len(console.render_lines(whole)) < console.height:
            break
    return whole


def verdict(board: Board, *, detail: bool = True) -> RenderableType:
    """The last result of the current step, and what to do next."""
    name = board.current
    if board.calm:
        return Text(board.calm, "yellow")
    result = board.results.get(name or "")
    if name and board.stopped == name:
        return Text(_("Stopped. Save {file} or press r to grade it again.", file=board.file(name)), "yellow")
    if name is None or result is None:
        state = _("Looking at every step …") if board.results else _("Loading torch, once …")
        return Group(*([Text(name, "bold")] if name else []), Text(state, "dim"))
    if board.busy == name and board.grading:  # what was said before is about other code
        waiting = [Text(str(board.grading), "bold cyan")]
        if said := board.grading.says:
            waiting += [Text(said, "red")]
        return Group(*waiting, Text(), Text(headline(result, board.at).plain, "dim"))
    parts: list[RenderableType] = [headline(result, board.at)]
    if lines := board.notes(name):
        parts += [Text(), Text("\n".join(map(reports.plain, lines)), "yellow")]
    if result.status == "todo":
        parts += [Text(line) for line in [result.message] if line]
        parts.append(Text(_("Edit {file}: it is checked as you save it.").format(file=board.file(name))))
    elif detail and (result.status != "pass" or result.output):
        parts += [Text(), reports.detail(result)]
    if result.status == "pass" or result.blocked_by:
        parts.append(_what_next(board))
    return Group(*parts)


def hints(board: Board) -> RenderableType:
    """The hints given for the current step; empty without any."""
    return lessons.shown(board.current, board.hints) if board.current and board.hints else Text()


def headline(result: StepResult, at: str = "") -> Text:
    """A result in two lines: its mark in a word, the step, its checks and points, and the time `at` which it was
    graded."""
    mark, style = reports.MARKS[result.status]
    names = dict.fromkeys(check.name for check in result.checks)
    passed = sum(all(check.status == "pass" for check in result.checks if check.name == name) for name in names)
    score, total = reports.number(result.score), reports.number(result.max_score)
    facts = [
        _("{passed} of {total} checks pass").format(passed=passed, total=len(names)),
        _("{score} of {total} points").format(score=score, total=total),
        *([at] if at else []),
    ]
    line = Text(f"{mark} {reports.status_word(result.status, result.blocked_by)}  {result.name}", f"bold {style}")
    line.append(f"  {result.title}", "bold default")
    return line.append("\n" + " · ".join(facts), "not bold dim")


def progress(board: Board) -> Text:
    """The course in one line: a bar over the core, or the steps that were chosen, and the points."""
    found = board.progress
    shown = [name for name in found.names if found.steps[name] in found.core.steps] or found.names
    passed = sum(found.steps[name].passes for name in shown)
    full = BAR * passed // max(len(shown), 1)
    line = Text("█" * full, "green").append("░" * (BAR - full), "dim")
    line.append("  " + _("{passed} of {total} steps pass").format(passed=passed, total=len(shown)), "default")
    core, _dot, electives = track_list.points(found).partition(" · ")
    line.append(f" · {core}", "default")
    return line.append(f"\n{electives}", "dim") if electives else line


def keys(board: Board) -> Text:
    """The keys and their meanings, in one line."""
    numbers = f"{int(board.names[0][4:6])}–{int(board.names[-1][4:6])}" if board.names else "1"
    meanings = [
        ("n", _("next step")), ("h", _("hint")), ("l", _("lesson")), ("r", _("run again")), ("a", _("all")),
        (numbers, _("step")), ("x", _("reset")), ("q", _("quit")),
    ]  # fmt: skip
    line = Text(style="dim")
    for key, meaning in meanings:
        line.append("  " if line else "").append(key, "bold not dim").append(f" {meaning}")
    return line


def pages(board: Board, console: Console) -> list[list[list[Segment]]]:
    """The lesson of the current step in pages that fit the terminal: each a list of lines, each a list of segments.
    Raises NoLesson."""
    assert board.current is not None
    lines = console.render_lines(lessons.Lesson(lessons.reading(board.current)), pad=False, new_lines=True)
    height = max(console.height - FRAME, 5)
    return [lines[start : start + height] for start in range(0, len(lines), height)]


def _versions(board: Board, console: Console) -> Iterator[RenderableType]:
    """The current view: in full, then in shorter and shorter versions for small terminals."""
    if board.view == "all":
        yield all_steps(board)
    elif board.view == "lesson":
        everything = pages(board, console)
        page = min(board.page, len(everything) - 1)
        where = _("page {page} of {total}; Space: next page, b: back").format(page=page + 1, total=len(everything))
        yield Group(Segments([part for line in everything[page] for part in line]), Text(where, "dim"))
    else:
        if board.hints is not None:
            yield Group(verdict(board), Text(), hints(board))
        if board.view == "hints":
            yield Group(verdict(board, detail=False), Text(), hints(board))
            yield hints(board)
        else:
            yield verdict(board)


def all_steps(board: Board) -> RenderableType:
    """A table of every step that was graded."""
    results = [board.results[name] for name in board.names if name in board.results]
    return reports.steps_table(
        Report(
            submission=str(board.folder), seed=board.seed, isolation=[], devices={}, steps=results,
            score=total(results)[0], max_score=total(results)[1], tracks=tracks.totals(results),
        )
    )  # fmt: skip


def _what_next(board: Board) -> Text:
    """The line about the next step to do, or that all pass."""
    following = board.following()
    if following is None and board.progress.ungraded:
        return Text(_("Looking at every step …"), "dim")
    if following is None:
        return Text(_("Every step passes. Well done."), "bold green")
    return Text(_("Next is {step}: edit {file}").format(step=following, file=board.file(following)), "bold")
