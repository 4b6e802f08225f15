"""The tracks in the terminal: what each needs, and the learner's progress."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.base.language import gettext as _
from grader.course import lessons, steps
from grader.course.choice import numbers
from grader.course.tracks import Progress


def terminal(overview: Sequence[Progress]) -> RenderableType:
    """One line per track and below it the steps of those that were begun, then how to begin one that was not."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", expand=False)
    table.add_column(_("track"), no_wrap=True)
    table.add_column(_("what it is"), overflow="fold")
    table.add_column(_("steps"), no_wrap=True)
    table.add_column(_("when to take it"))
    table.add_column(_("passed"), no_wrap=True)
    for progress in overview:
        track = progress.track
        table.add_row(track.name, track.title, numbers(track.steps), track.after, _how_far(progress))
    shown: list[RenderableType] = [table]
    for progress in overview:
        if progress.present:
            shown += [Text(), Text(progress.track.title, "bold"), _steps(progress)]
    waiting = [progress.track.name for progress in overview[1:] if not progress.present]
    if waiting:
        sentence = _("To begin a track, type: make begin TRACK={track}").format(track=waiting[0])
        shown += [Text(), Text(sentence)]
    return Group(*shown)


def _steps(progress: Progress) -> Table:
    """Each step: its number and title, what it takes, and its state in a sign and a word."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), expand=False)
    titles = {step.name: step.title for step in steps.steps()}
    for name in progress.track.steps:
        state = f"✓ {_('passes')}" if name in progress.passed else f"· {_('begun')}" if name in progress.edited else ""
        table.add_row(str(int(name[4:6])), _(titles[name]), str(lessons.effort(name)), state)
    return table


def _how_far(progress: Progress) -> str:
    if not progress.present:
        return _("not begun")
    return _("{passed} of {total}").format(passed=len(progress.passed), total=len(progress.track.steps))
