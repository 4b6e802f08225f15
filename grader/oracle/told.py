"""What a report tells of a diagnosis: its name, its sentences and its question, in the language in use."""

from __future__ import annotations

from grader.base.language import gettext as _
from grader.checks.catalogue import Misconception


def name_of(matching: list[Misconception]) -> str:
    """A diagnosis as reports name it: `a | b` for one of two that can't be distinguished, `a + b` for both at once."""
    return " | ".join(wrong.called for wrong in matching)


def explained(matching: list[Misconception]) -> list[str]:
    """The lines of text of a diagnosis: what was done and why it is wrong; what each did, of several that can't be
    distinguished."""
    if len(matching) > 1:
        return [
            _("One of these is the cause:"),
            *(f"- {' '.join(_what(part) for part in _parts(wrong))}" for wrong in matching),
        ]
    parts = _parts(matching[0])
    if len(parts) == 1:
        return [_("diagnosis  {what} {why}").format(what=_what(parts[0]), why=_(parts[0].why, **parts[0].words))]
    return [_("Two mistakes were made:"), *(f"- {_what(part)} {_(part.why, **part.words)}" for part in parts)]


def nudge_of(matching: list[Misconception]) -> str:
    """The question of a diagnosis that helps without telling, in the language in use: that of its first
    misconception."""
    return _(matching[0].nudge, **matching[0].words)


def _what(wrong: Misconception) -> str:
    """A sentence on what was done, in the language in use."""
    return _(wrong.what, **wrong.words)


def _parts(wrong: Misconception) -> tuple[Misconception, ...]:
    """The two misconceptions of a pair; another one alone."""
    return wrong.parts or (wrong,)
