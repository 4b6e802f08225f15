"""What is shown of a learner's code while a reference stands beside it.

Any word or number of it could tell what stands in that reference. So nothing that the code chose is shown: only which
checks fail, in which of five ways, and which known mistake it is. A line or the type of an error would be the code's
choice as well, some bits of what it reads for each check.
"""

from __future__ import annotations

from grader.base.language import gettext as _
from grader.base.results import CheckResult
from grader.checks.trial import Verdict


def silence(results: list[CheckResult], verdicts: list[Verdict]) -> None:
    """Takes every value out of the messages of checks that were not passed."""
    for result, verdict in zip(results, verdicts, strict=True):
        if verdict.status == "pass":
            continue
        message = verdict.message.strip()
        named = result.message.removeprefix(verdict.message).strip() if result.misconception else ""
        verdict.message = result.message = named or _untold(verdict)
        result.parting = None
        if verdict.status == "error":
            result.message = message.partition("\n")[0]


def _untold(verdict: Verdict) -> str:
    if verdict.off_limits:
        text = _("A built-in that is off limits was used.")
    elif verdict.status == "timeout":
        text = _("The code did not answer in time.")
    elif verdict.status == "todo":
        text = _("It is not written yet.")
    elif verdict.raised:
        text = _("The code raised an error.")
    else:
        text = _("The code gave another answer than expected.")
    hidden = _("Its values are not shown, since the reference of an earlier step was in its process.")
    return f"{text} {hidden}"
