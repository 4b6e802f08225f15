"""One check, run: a student, a reference and a draw in, a verdict out."""

from __future__ import annotations

import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from grader.failure import CheckFailed
from grader.implementation import Backend, Exchange, Implementation, OffLimits, Oracle
from grader.language import gettext as _
from grader.results import Parting, Status

MAX_MESSAGE = 8000  # characters


@dataclass
class Verdict:
    """What one check on one device came to; `called` are the public names of the student that it called."""

    status: Status
    message: str
    called: frozenset[str]
    off_limits: str | None = None
    by_code: bool = False
    parting: Parting | None = None
    exchanges: list[Exchange] = field(default_factory=list)


class Trial:
    """One run of one check: what it is given, and what became of it."""

    def __init__(self, check: str, student: Backend, reference: Oracle, *, seed: int, device: str = "cpu") -> None:
        self.student = Implementation(student, device)
        self.reference = Implementation(reference, device)
        self.draw = reference.draws(check, seed, device)
        self._again = (check, reference, seed, device)
        random_seed = zlib.crc32(f"{seed}:{check}".encode())
        reference.begin_check(random_seed)
        student.begin_check(random_seed)

    def run(self, function: Callable[..., None], **given: Any) -> Verdict:
        """The verdict. What the student's code does becomes one, and so does a fault of ours, as `error`."""
        status: Status = "pass"
        message, off_limits = "", None
        by_code, parting = False, None
        try:
            function(**given)
            self.student._finish()
        except CheckFailed as failure:
            status = failure.status
            message = failure.message if isinstance(failure, OffLimits) else self._worded(failure)
            off_limits = failure.name if isinstance(failure, OffLimits) else None
            by_code, parting = failure.by_code, failure.parting
        except Exception:
            # An answer that nobody thought of must not earn what a fault of ours would: right answers tell them apart.
            status, message = "error", ours_failed()
            if self._runs_on_right_answers(function):
                status, message = "fail", self._worded(CheckFailed(_("The check can't work with what came back.")))
        exchanges = self.student._exchanges
        called = frozenset(exchange.name for exchange in exchanges)
        return Verdict(status, _cut(message), called, off_limits, by_code, parting, exchanges)

    def _runs_on_right_answers(self, function: Callable[..., None]) -> bool:
        check, reference, seed, device = self._again
        right = reference.again()
        if right is None:  # only a recording is here, which marks nobody but its owner: the doubt is theirs
            return False
        trial = Trial(check, right, reference, seed=seed, device=device)
        try:
            function(student=trial.student, reference=trial.reference, draw=trial.draw)
        except Exception:
            return False
        return True

    def _worded(self, failure: CheckFailed) -> str:
        exchanges = self.student._exchanges
        called = failure.called or (exchanges[-1].shown if exchanges else "")
        return (_("called    {call}").format(call=called) + "\n" if called else "") + failure.message


def run_check(
    function: Callable[..., None], student: Backend, reference: Oracle, *, seed: int, device: str = "cpu"
) -> Verdict:
    """Runs a check function on two backends."""
    trial = Trial(function.__name__, student, reference, seed=seed, device=device)
    return trial.run(function, student=trial.student, reference=trial.reference, draw=trial.draw)


def _cut(message: str) -> str:
    """A message as long as anybody reads: names and values of a learner's making have any length together."""
    return message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "…"


def ours_failed() -> str:
    """What to say of a fault of ours, with the last lines of its traceback."""
    sentence = _("The grader itself failed here; this costs you nothing. Please report it:")
    return f"{sentence}\n{traceback.format_exc(limit=-3)}"
