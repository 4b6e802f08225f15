"""The changes of a regrade: a mark before and after, with reasons. Pure functions over two marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.base.language import gettext as _
from grader.base.results import AssignmentMark, StepMark
from grader.marks.marking import shown
from grader.report.terminal import plain


@dataclass(frozen=True)
class Change:
    """A changed mark: the points before and after, and one sentence for each reason."""

    student: str
    before: float | None
    after: float | None
    reasons: list[str]


def change(
    student: str, before: AssignmentMark | None, after: AssignmentMark | None, *, reopened: bool = False
) -> Change | None:
    """The change of a student's mark; None if the points and their reasons are the same, or it is the first mark.
    `reopened`: the last change took a mark away, so that a mark is a change too."""
    if before is None:
        return Change(student, None, after.points, [_("it could be graded now")]) if reopened and after else None
    if after is None:
        return Change(student, before.points, None, [_("it could not be graded now")])
    reasons = list(_reasons(before, after))
    if before.points == after.points and not _differ(before, after):
        return None
    return Change(student, before.points, after.points, reasons or [_("graded again")])


SHOWN = 40  # changes up to which each has a line


def lines(changes: Sequence[Change]) -> Iterator[str]:
    """The number of changed marks, and a line with the reasons for each of the first SHOWN; nothing without any."""
    if not changes:
        return
    yield _("Marks that changed: {count}").format(count=len(changes))
    yield from (f"  {said(change)}" for change in changes[:SHOWN])
    if len(changes) > SHOWN:
        yield _("  … and {count} more, in changes.csv").format(count=len(changes) - SHOWN)


def said(one: Change) -> str:
    """A change in one line, even if a name or a reason contains line breaks."""
    student, reasons = (plain(" ".join(text.split())) for text in (one.student, "; ".join(one.reasons)))
    return _("{student}: {before} → {after}: {reasons}").format(
        student=student, before=shown(one.before), after=shown(one.after), reasons=reasons
    )


def _differ(before: AssignmentMark, after: AssignmentMark) -> bool:
    """True if two marks with the same total arose differently."""
    counted = [{step.step: (step.points, step.worth, step.reason) for step in mark.steps} for mark in (before, after)]
    return counted[0] != counted[1] or before.late != after.late


def _reasons(before: AssignmentMark, after: AssignmentMark) -> Iterator[str]:
    """A sentence on each difference between two marks: steps, their points, lateness."""
    earlier = {step.step: step for step in before.steps}
    for step in after.steps:
        if step.step in earlier:
            yield from _of_step(earlier[step.step], step, before, after)
        else:
            yield _("{step}: it is part of the assignment now").format(step=step.step)
    for name in sorted(earlier.keys() - {step.step for step in after.steps}):
        yield _("{step}: it is no longer part of the assignment").format(step=name)
    if before.late != after.late:
        yield _("late: {before} % were taken off, now {after} % ({why})").format(
            before=f"{100 * before.late:g}", after=f"{100 * after.late:g}", why=_why_late(before, after)
        )


def _of_step(old: StepMark, new: StepMark, before: AssignmentMark, after: AssignmentMark) -> Iterator[str]:
    """Sentences on each difference between two marks of one step."""
    if old.worth != new.worth or old.extra != new.extra:
        sentence = _("{step}: it is worth {after} points instead of {before}")
        yield sentence.format(step=new.step, before=f"{old.worth:g}", after=f"{new.worth:g}")
    if _share(old) != _share(new):
        sentence = _("{step}: graded {after} instead of {before} ({why})")
        yield sentence.format(
            step=new.step, before=shown(old.graded), after=shown(new.graded), why=_why(old, new, before, after)
        )
    if (old.reason, old.points if old.reason else None) == (new.reason, new.points if new.reason else None):
        return
    if new.reason:
        sentence = _("{step}: {points} points decided by the staff ({reason})")
        yield sentence.format(step=new.step, points=shown(new.points), reason=new.reason)
    else:
        sentence = _("{step}: a decision of the staff was withdrawn ({reason})")
        yield sentence.format(step=new.step, reason=old.reason)


def _why(old: StepMark, new: StepMark, before: AssignmentMark, after: AssignmentMark) -> str:
    """The reason why a step's points changed: the first thing that differs."""
    if old.work != new.work:
        return _("the file was handed in again")
    if before.kit != after.kit:
        return _("the kit has changed")
    if before.seed != after.seed:
        return _("other random draws: the seed has changed")
    return _("an earlier step that it imports has changed, or the machine failed last time")


def _why_late(before: AssignmentMark, after: AssignmentMark) -> str:
    """The reason why the penalty for lateness has changed."""
    if before.handed_in != after.handed_in:
        return _("handed in at another time")
    if before.until != after.until:
        return after.extended or _("another date")
    return _("another penalty")


def _share(step: StepMark) -> float | None:
    """The graded share of a step's points; None without a score."""
    return None if step.graded is None else round(step.graded / step.worth if step.worth else 0.0, 6)
