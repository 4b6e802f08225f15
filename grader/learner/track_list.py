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
    for one in overview:
        track = one.track
        table.add_row(track.name, track.title, numbers(track.steps), track.after, _how_far(one))
    shown: list[RenderableType] = [table]
    for one in overview:
        if one.present:
            shown += [Text(), Text(one.track.title, "bold"), _steps(one)]
    waiting = [one.track.name for one in overview[1:] if not one.present]
    if waiting:
        said = _("To begin a track, type: make begin TRACK={track}").format(track=waiting[0])
        shown += [Text(), Text(said)]
    return Group(*shown)


def _steps(one: Progress) -> Table:
    """Each step: its number and title, what it takes, and its state in a sign and a word."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), expand=False)
    titles = {step.name: step.title for step in steps.steps()}
    for name in one.track.steps:
        state = f"✓ {_('passes')}" if name in one.passed else f"· {_('begun')}" if name in one.edited else ""
        table.add_row(str(int(name[4:6])), _(titles[name]), str(lessons.effort(name)), state)
    return table


def _how_far(one: Progress) -> str:
    if not one.present:
        return _("not begun")
    return _("{passed} of {total}").format(passed=len(one.passed), total=len(one.track.steps))
