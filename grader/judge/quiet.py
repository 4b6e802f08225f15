"""What is shown of a learner's code while a reference stands beside it.

Any word or number of it could tell what stands in that reference. So nothing that the code chose is shown: only which
checks fail, which known mistake it is, and of an error its type, where that is one of Python's own, and its line in the
learner's own file.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator

from grader.base.language import gettext as _
from grader.base.results import CheckResult
from grader.calls.call import Raised
from grader.checks.trial import Verdict

TYPES = {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)}


def silence(results: list[CheckResult], verdicts: list[Verdict], own: str) -> None:
    """Takes every value out of the messages of checks that were not passed; `own` is the text of the learner's file."""
    for result, verdict in zip(results, verdicts, strict=True):
        if verdict.status == "pass":
            continue
        message = verdict.message.strip()
        named = result.message.removeprefix(verdict.message).strip() if result.misconception else ""
        verdict.message = result.message = named or _untold(verdict, own)
        result.parting = None
        if verdict.status == "error":
            result.message = message.partition("\n")[0]


def _untold(verdict: Verdict, own: str) -> str:
    if verdict.off_limits:
        text = _("A built-in that is off limits was used.")
    elif verdict.status == "timeout":
        text = _("The code did not answer in time.")
    elif verdict.status == "todo":
        text = _("It is not written yet.")
    elif verdict.raised:
        text = "\n".join([_("The code raised an error."), *_raised(verdict.raised, own)])
    else:
        text = _("The code gave another answer than expected.")
    hidden = _("Its values are not shown, since the reference of an earlier step was in its process.")
    return f"{text}\n{hidden}" if "\n" in text else f"{text} {hidden}"


def _raised(raised: Raised, own: str) -> Iterator[str]:
    """What may be told of the error: its type, and the line of the learner's own file."""
    if raised.type in TYPES:
        yield raised.type
    source = raised.source.strip()
    if source and source in map(str.strip, own.splitlines()):
        yield f"    {source}"
