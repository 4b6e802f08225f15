"""The tracks in the terminal: what each needs, and the learner's progress."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.base.language import gettext as _
from grader.course.choice import numbers
from grader.course.tracks import Progress


def terminal(overview: Sequence[Progress]) -> RenderableType:
    """One line per track, and how to begin one that was not begun."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", expand=False)
    table.add_column(_("track"), no_wrap=True)
    table.add_column(_("what it is"), overflow="fold")
    table.add_column(_("steps"), no_wrap=True)
    table.add_column(_("when to take it"))
    table.add_column(_("begun"), no_wrap=True)
    for one in overview:
        track = one.track
        table.add_row(track.name, track.title, numbers(track.steps), track.after, _how_far(one))
    waiting = [one.track.name for one in overview[1:] if not one.begun]
    if not waiting:
        return table
    said = _("To begin a track, type: make begin TRACK={track}").format(track=waiting[0])
    return Group(table, Text(), Text(said))


def _how_far(one: Progress) -> str:
    if not one.begun:
        return _("not begun")
    return _("{begun} of {total}").format(begun=one.begun, total=len(one.track.steps))
