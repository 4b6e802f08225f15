"""The reasons for failing checks: their lines in the learner's file, and the checks that share a reason."""

from __future__ import annotations

import re

from grader.base.language import gettext as _
from grader.base.results import CheckResult


def same(first: CheckResult, second: CheckResult) -> bool:
    """Whether two checks fail for one reason: the same line raised or never ended, or the same mistake was recognised
    in the same name."""
    if first.misconception and second.misconception:
        return (first.misconception, first.refused) == (second.misconception, second.refused)
    return first.status == second.status and raised_at(first) == raised_at(second) != 0


def raised_at(check: CheckResult) -> int:
    """The line of the learner's file that the check's message names; 0 if it names none."""
    found = named_line(check.message)
    return int(found["line"]) if found else 0


def named_line(text: str) -> re.Match[str] | None:
    """The match for the line of code that a message names, with the groups `line` and `file`; None if it names none."""
    anywhere, at_the_end = (
        _("at line {line} of {file}: {source}"),
        _("the code was at line {line} of {file}, in {function}"),
    )
    for sentence in (_("at line {line} of {file}, in {function}: {source}"), anywhere, at_the_end):
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(sentence)).replace("(?P<line>.+)", r"(?P<line>\d+)")
        if found := re.search(pattern.replace("(?P<file>.+)", r"(?P<file>.+?)"), text):
            return found
    return None


def more(count: int, *, alike: bool = False) -> str:
    """A sentence that says that `count` other checks of the step fail; with `alike`, for the same reason."""
    if alike:
        several = _("{count} more checks fail for the same reason.", count=count)
        return _("1 more check fails for the same reason.") if count == 1 else several
    return (
        _("1 more check of this step fails.")
        if count == 1
        else _("{count} more checks of this step fail.", count=count)
    )
