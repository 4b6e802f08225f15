"""Why a check was not passed: the exception that every refusal of the judge is."""

from __future__ import annotations

from grader.results import Parting, Status


class CheckFailed(Exception):
    """A check's verdict other than a pass: what to say, and whose fault it is.

    `status` is "fail" for a wrong answer, "timeout" past the deadline, "todo" for an untouched stub and "error" for a
    fault of ours. `by_code` says that the learner's own code raised, which `must_raise` takes for an answer.
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
