"""What a run of the grader gives: one report, its steps, their checks.

Every output (terminal, JSON, and whatever else is made of a run) is made from a `Report`. This module imports nothing
of ours.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["pass", "fail", "error", "timeout", "skipped", "todo"]

VERSION = 1


class Parting(msgspec.Struct, kw_only=True):
    """Where an answer and the expected one part: two matrices of one shape, rows first, NaN and infinities as null.

    `differs` says of each place whether it lies outside the check's tolerance; `slice` is the place of the matrices in
    a larger answer, `place` the row and column of the first difference.
    """

    expected: list[list[float | bool | None]]
    came: list[list[float | bool | None]]
    differs: list[list[bool]]
    slice: list[int]
    place: list[int]


class CheckResult(msgspec.Struct, kw_only=True):
    """One check on one device.

    `points` and `max_points` are this device's share: a check that ran on two devices appears twice, and either both
    shares are given or none. `off_limits`: it is refused for a built-in that was used.
    """

    name: str
    title: str
    device: str
    status: Status
    points: float
    max_points: float
    message: str = ""
    misconception: str | None = None
    hint: str | None = None
    parting: Parting | None = None
    off_limits: bool = False


class StepResult(msgspec.Struct, kw_only=True):
    """One step; `output` is what the learner's code printed, cut at a bound; `blocked_by` names an earlier step."""

    name: str
    title: str
    status: Status
    score: float
    max_score: float
    seconds: float
    checks: list[CheckResult]
    message: str = ""
    output: str = ""
    blocked_by: str | None = None

    @property
    def unusable(self) -> str:
        """Why what was handed in could not be run: a damaged file, two answers, …; empty where it could."""
        return self.message if self.status == "fail" else ""


class Report(msgspec.Struct, kw_only=True):
    """One submission's report, the contract of `--json`."""

    version: int = VERSION
    submission: str
    seed: int
    oracle: Literal["live", "recorded"] = "live"
    isolation: list[str]
    devices: dict[str, str]
    score: float
    max_score: float
    steps: list[StepResult]


class Graded(msgspec.Struct, kw_only=True):
    """What became of one student of a class: a report, or the sentence that says why there is none.

    `key` says what was graded, by what and under which seed; `file` is what the files about the student are called.
    """

    student: str
    file: str
    key: str
    report: Report | None = None
    error: str = ""


def step_status(checks: list[CheckResult]) -> Status:
    """The status of a step from its checks: the worst that needs a look first."""
    statuses = {check.status for check in checks}
    if not statuses or statuses == {"todo"}:
        return "todo"
    order: tuple[Status, ...] = ("error", "fail", "timeout", "skipped", "todo")
    return next((status for status in order if status in statuses), "pass")


def as_json(report: Report) -> str:
    """The report as JSON text, indented, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
