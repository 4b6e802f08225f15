"""The exception behind every verdict but a pass."""

from __future__ import annotations

from typing import Any

from grader.base.results import Parting, Status


class CheckFailed(Exception):
    """A verdict other than a pass: the message, and who caused it.

    `status` is "fail" for a wrong answer, "timeout" past the deadline, "todo" for an untouched stub and "error" for a
    fault of the grader. `by_code`: the learner's own code raised, which `must_raise` accepts as an answer. `due` is the
    expected answer, and `about` the exchange that gave the other one, if that is known; `blames` is the public name
    that was wrong, if another name's answer shows it. `raised`: the error of the called code, if that is why.
    `as_float32`: the numbers are as far off as those of a float64 that was a float32 before. `off_limits`: the public
    name that used what it must not.
    """

    def __init__(
        self, message: str, status: Status = "fail", *, by_code: bool = False, called: str = "",
        parting: Parting | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message = message
        self.status: Status = status
        self.by_code = by_code
        self.called = called
        self.parting = parting
        self.due: Any = None
        self.about: Any = None
        self.raised: Any = None
        self.blames = ""
        self.as_float32 = False
        self.off_limits = ""


class Refusal(Exception):
    """A refusal of what was typed into a notebook: one line says why, and a notebook shows it without a traceback."""

    def _render_traceback_(self) -> list[str]:  # IPython looks for this method
        return [str(self)]
