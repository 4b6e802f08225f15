"""The students whose work a person should look at, by reason; each sentence is true of all that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from grader.base.language import gettext as _
from grader.base.names import alike, told_apart
from grader.feedback.standings import Standing, StepStanding


@dataclass
class Concern:
    """One reason, and its students, each with details: steps or files."""

    reason: str
    students: list[tuple[Standing, str]] = field(default_factory=list)


def concerns(standings: Sequence[Standing]) -> list[Concern]:
    """The reasons that apply to a student, the gravest first, each with its students in order."""
    listed = [Concern(reason, list(_named(standings, about))) for reason, about in [*_reasons(), _alike(standings)]]
    return [concern for concern in listed if concern.students]


def _named(standings: Sequence[Standing], about: Callable[[Standing], str | None]) -> Iterable[tuple[Standing, str]]:
    """The students to whom a reason applies, with details; `about` gives these, None if it doesn't apply."""
    reasons = ((standing, about(standing)) for standing in standings)
    return ((standing, what) for standing, what in reasons if what is not None)


def _reasons() -> list[tuple[str, Callable[[Standing], str | None]]]:
    """The reasons: a sentence, and a function that gives a student's details, None if it doesn't apply."""
    return [
        (_("No mark yet: a person must look"), lambda standing: standing.error if standing.is_open else None),
        (_("A second look was asked for, and is not answered yet"),
         lambda standing: "; ".join(standing.requests) or None),
        (_("On the roster, and nothing was handed in"), lambda standing: standing.absence or None),
        (_("Handed in, and not on the roster"), lambda standing: standing.login if standing.stranger else None),
        (_("No step was started"), _unstarted),
        (_("Files that were not read"), _unread),
        (_("Files that can't be read, and for which a person decided"), _unusable),
        (_("Files graded as a step by what they define"), lambda standing: " ".join(standing.taken) or None),
        (_("The file is not valid Python, so nothing of it was graded"), _steps(lambda step: step.invalid)),
        (_("The file can't be imported, so nothing of it was graded"), _steps(lambda step: step.not_imported)),
        (_("A built-in that is off limits was used"), _steps(lambda step: step.off_limits)),
        (
            _("The code ended its own process, sent something that is no answer, or did what the sandbox forbids, by "
              "mistake or on purpose"),
            _steps(lambda step: step.odd),
        ),
        (_("Graded with the reference in place of an earlier step that was wrong or not handed in"),
         lambda standing: ", ".join(step.resting for step in standing.steps if step.resting) or None),
        (_("Much of it is word for word in the kit's own files, its labs"),
         lambda standing: ", ".join(standing.from_kit) or None),
        (_("The code timed out"), _steps(lambda step: step.status == "timeout")),
    ]  # fmt: skip


def _alike(standings: Sequence[Standing]) -> tuple[str, Callable[[Standing], str | None]]:
    """The reason for names that look like another student's: a sentence, and a function as in `_reasons`."""
    logins = {standing.student: standing.login for standing in standings}
    groups = {name: group for group in alike(logins) for name in group}
    return (
        _("The name looks like another one: in a table, the login or address says who is meant"),
        lambda standing: ", ".join(told_apart(name, logins[name]) for name in groups.get(standing.student, ())) or None,
    )


def _unstarted(standing: Standing) -> str | None:
    """No details if a student handed something in and started no step; None otherwise."""
    return "" if standing.nothing_handed_in and not standing.absence else None


def _steps(is_meant: Callable[[StepStanding], bool]) -> Callable[[Standing], str | None]:
    """A function that lists a student's steps for which `is_meant` holds; None without any."""
    return lambda standing: ", ".join(step.name for step in standing.steps if is_meant(step)) or None


def _unread(standing: Standing) -> str | None:
    return "; ".join(f"{file} ({reason})" for file, reason in standing.unread) or None


def _unusable(standing: Standing) -> str | None:
    """The reasons why files could not be run of steps that a person has given points; None without any."""
    reasons = dict.fromkeys(step.unusable for step in standing.steps if step.unusable and step.score is not None)
    return " ".join(reasons) or None
