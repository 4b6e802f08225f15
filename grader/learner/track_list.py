"""The tracks in the terminal: what each needs, and the learner's progress."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.base.language import gettext as _
from grader.base.results import Report
from grader.course.choice import numbers
from grader.course.submissions import Submission
from grader.learner.progress import Progress, StepProgress, TrackProgress
from grader.learner.progress import of as progress_of
from grader.report import terminal as reports


def terminal(progress: Progress) -> RenderableType:
    """Each track with its steps, progress and when to take it, then the steps of those that were started, and how to
    start one that was not."""
    shown: list[RenderableType] = []
    for found in progress.tracks:
        track = found.track
        facts = [_("steps {numbers}", numbers=numbers(track.steps)), str(found), track.after]
        shown.append(Text(f"{track.name}  ", "bold").append(track.title, "not bold"))
        shown.append(Padding(Text(" · ".join(filter(None, facts)), "dim"), (0, 0, 0, 4)))
    for found in progress.tracks:
        if any(step.has_file for step in found.steps):
            shown += [Text(), Text(found.track.title, "bold"), _steps(found)]
    shown += [Text(), summary(progress)]
    waiting = [found.track.name for found in progress.tracks if not found.is_started]
    if waiting:
        sentence = _("To start a track, type: make begin TRACK={track}").format(track=waiting[0])
        shown += [Text(sentence)]
    return Group(*shown)


def summary(progress: Progress) -> Text:
    """The points of the core, those of the electives that were started, and the next step."""
    line = Text(points(progress), "bold")
    if following := progress.next_step():
        line.append("\n" + _("next is {step}", step=following), "not bold")
    return line


def further(submission: Submission, report: Report) -> str:
    """The lines to print below a report on the steps of a submission with work: the points of core and electives apart,
    a step to do in a track of untouched stubs, and the number of tracks that were not started; empty if none
    applies."""
    progress = progress_of(submission, {result.name: result for result in report.steps})
    lines = [points(progress)] if progress.electives else []
    following = progress.next_step()
    if following and reports.next_step(report) is None:
        lines.append(_("next is {step}", step=following))
    count = sum(not found.is_started for found in progress.tracks)
    if count:
        sentence = _("One more track: make tracks") if count == 1 else _("{count} more tracks: make tracks")
        lines.append(sentence.format(count=count))
    return "\n".join(lines)


def points(progress: Progress) -> str:
    """The points so far, the core and the electives apart: they are never added up, so starting a track takes nothing
    away."""
    core, electives = progress.core, progress.electives
    parts = [(_("core"), core.score, core.most)]
    if electives:
        parts.append((_("electives"), sum(one.score for one in electives), sum(one.most for one in electives)))
    sentence = _("{name}: {score} of {total} points")
    return " · ".join(
        sentence.format(name=name, score=reports.number(score), total=reports.number(most))
        for name, score, most in parts
    )


def _steps(found: TrackProgress) -> Table:
    """Each step: its number and title, what it takes, and its state in a sign and a word."""
    from grader.course import lessons, steps  # rich's Markdown, which a report needs not

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), expand=False)
    titles = {step.name: step.title for step in steps.steps()}
    for step in found.steps:
        table.add_row(str(int(step.name[4:6])), _(titles[step.name]), str(lessons.effort(step.name)), _state(step))
    return table


def _state(step: StepProgress) -> str:
    """The last column of a step: passes, not valid, begun, or empty."""
    if step.passes:
        return "✓ " + _("passes")
    if step.is_broken:
        return "· " + _("not valid Python yet")
    return "· " + _("begun") if step.is_written else ""
