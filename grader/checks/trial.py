"""One run of one check: a student, a reference and a draw in, a verdict out."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from grader.base.errors import CheckFailed
from grader.base.language import gettext as _
from grader.base.results import Status
from grader.checks.backends import Backend, Exchange, Oracle
from grader.checks.bounded import BoundedArithmetic
from grader.checks.draws import stream_seed
from grader.checks.implementation import Implementation

MAX_MESSAGE = 8000  # characters


@dataclass
class Verdict:
    """The result of one check on one device; `called` are the student's public names that it called, `drawn` says
    whether it drew any of its inputs. `failure`: why it did not pass; empty if it did."""

    status: Status
    message: str
    called: frozenset[str]
    exchanges: list[Exchange] = field(default_factory=list)
    drawn: bool = True
    failure: CheckFailed = field(default_factory=lambda: CheckFailed(""))

    @property
    def last(self) -> Exchange | None:
        """The exchange that was refused, if the failure says which; else the last one."""
        about: Exchange | None = self.failure.about
        return about or next(reversed(self.exchanges), None)

    @property
    def blamed(self) -> str:
        """The public name with the answer that failed the check; empty if nothing was called."""
        return self.failure.off_limits or self.failure.blames or (self.last.name if self.last else "")


class Trial:
    """One run of one check: its arguments and its result."""

    def __init__(self, check: str, student: Backend, reference: Oracle, *, seed: int, device: str = "cpu") -> None:
        """Prepares the check of this name under a seed: its three arguments, `student`, `reference` and `draw`; both
        backends are told the seed of torch that the check starts with."""
        self.student = Implementation(student, device)
        self.reference = Implementation(reference, device)
        self.draw = reference.draws(check, seed, device)
        self._again = (check, reference, seed, device)
        random_seed = stream_seed(seed, check, stream="torch")
        reference.begin_check(random_seed)
        student.begin_check(random_seed)

    def run(self, function: Callable[..., None], **arguments: Any) -> Verdict:
        """Runs the check. Whatever the student's code does becomes a verdict, and so does a fault of the grader, as
        `error`."""
        status: Status = "pass"
        message, failure = "", CheckFailed("")
        try:
            with BoundedArithmetic():
                function(**arguments)
                self.student._finish()
        except CheckFailed as failed:
            status, failure = failed.status, failed.with_traceback(None)
            failure.__cause__ = failure.__context__ = None  # their frames hold tensors
            message = failed.message if failed.off_limits else self._worded(failed)
        except Exception:
            # An unforeseen answer must not count as a fault of the grader: the check is tried on right answers to tell.
            status, message = "error", ours_failed()
            if self._runs_on_right_answers(function):
                status, message = "fail", self._worded(CheckFailed(_("The check can't work with what was returned.")))
        if failure.parting is not None:
            failure.parting.drawn_as = getattr(function, "drawn_as", "")
        exchanges = self.student._exchanges
        called = frozenset(exchange.name for exchange in exchanges)
        return Verdict(status, _cut(message), called, exchanges, self.draw.taken, failure)

    def _runs_on_right_answers(self, function: Callable[..., None]) -> bool:
        """True if the check passes with the reference as student: then its error is not a fault of the check."""
        check, reference, seed, device = self._again
        right = reference.again()
        if right is None:  # a recording grades only its owner, who gets no benefit of the doubt
            return False
        trial = Trial(check, right, reference, seed=seed, device=device)
        try:
            function(student=trial.student, reference=trial.reference, draw=trial.draw)
        except Exception:
            return False
        return True

    def _worded(self, failure: CheckFailed) -> str:
        """The failure's message below a line with the call that it is about, if there was one."""
        exchanges = self.student._exchanges
        called = failure.called or (exchanges[-1].shown if exchanges else "")
        return (_("called    {call}").format(call=called) + "\n" if called else "") + failure.message


def run_check(
    function: Callable[..., None], student: Backend, reference: Oracle, *, seed: int, device: str = "cpu"
) -> Verdict:
    """The verdict of a check function on two backends, under a seed."""
    trial = Trial(function.__name__, student, reference, seed=seed, device=device)
    return trial.run(function, student=trial.student, reference=trial.reference, draw=trial.draw)


def _cut(message: str) -> str:
    """Truncates a message: names and values from a learner's code may have any length."""
    return message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "…"


def ours_failed() -> str:
    """The message for a fault of the grader that is being handled, with the last lines of its traceback."""
    sentence = _("The grader itself failed here; this is not your fault. Please report it:")
    return f"{sentence}\n{traceback.format_exc(limit=-3)}"
