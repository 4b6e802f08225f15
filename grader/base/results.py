"""The result of a run: one report, its steps, their checks.

Every output (terminal, JSON, page, …) is made from a `Report`. This module imports nothing of ours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

Status = Literal["pass", "fail", "error", "timeout", "skipped", "todo"]

VERSION = 1  # of the report's form; `SCHEMA` counts further: a new key its second number, a corrected text its third
SCHEMA = "1.4.0"
# What a terminal obeys or does not show: C1 controls, marks of direction, letters without a width.
OBEYED = re.compile(
    r"[\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]"
)


class Parting(msgspec.Struct, kw_only=True):
    """The place where an answer differs from the expected one: two matrices of one shape, row by row, NaN and
    infinities as null.

    `differs` marks the entries outside the check's tolerance; `slice` is the index of the matrices in a larger answer,
    `place` the row and column of the first difference. `drawn_as`: what the numbers are, if the check says so: pairs of
    columns that are `arrows`, or columns that are `curves`.
    """

    expected: list[list[float | bool | None]]
    got: list[list[float | bool | None]] = msgspec.field(name="came")  # the name in every report so far
    differs: list[list[bool]]
    slice: list[int]
    place: list[int]
    drawn_as: Literal["", "arrows", "curves"] = ""


class CheckResult(msgspec.Struct, kw_only=True, frozen=True):
    """One check on one device.

    `points` and `max_points` are this device's share: a check that ran on two devices appears twice, and either both
    shares are given or none. `off_limits`: it is refused for a built-in that was used; `unwritten`: for what is not
    written yet, and `waits_for` the other step in which that is; `about` is the public name that it is about, `called`
    are all those that it called, and `refused` is the one whose answer failed it. `words` complete the sentence about
    the misconception, where it has places for them.
    """

    name: str
    title: str
    device: str
    status: Status
    points: float
    max_points: float
    message: str = ""
    misconception: str | None = None
    words: dict[str, str] = {}
    hint: str | None = None
    parting: Parting | None = None
    off_limits: bool = False
    unwritten: bool = False
    about: str = ""
    called: list[str] = []
    refused: str = ""
    waits_for: str = ""


class LineRemark(msgspec.Struct, kw_only=True):
    """A person's remark on one line of a student's code, with the line as it was handed in."""

    line: int
    code: str
    text: str


class StepResult(msgspec.Struct, kw_only=True, frozen=True):
    """One step; `output` is what the learner's code printed, truncated; `blocked_by` names an earlier step, and `note`
    says what the points mean then, or that a reference took the place of a step that was not handed in. `references`:
    the earlier steps that references stood in for. `odd`: its process ended by itself, sent something other than an
    answer, or did something that the sandbox forbids. `left_out`: a sentence on each top-level line that raised.

    If the grader itself failed (`error`), what was handed in can't be read (`fail`), or a package is missing that the
    step needs (`skipped`), there is no score: it neither costs nor earns points. In the first two a person must look.
    """

    name: str
    track: str = "core"
    title: str
    status: Status
    score: float | None
    max_score: float
    seconds: float
    checks: list[CheckResult]
    message: str = ""
    output: str = ""
    blocked_by: str | None = None
    note: str = ""
    references: list[str] = []
    odd: bool = False
    remarks: list[LineRemark] = []
    left_out: list[str] = []

    @property
    def without_score(self) -> bool:
        """Whether its points don't count because a package is missing here, which is no fault of the student's."""
        return self.score is None and self.status == "skipped"

    @property
    def is_settled(self) -> bool:
        """Whether the student has nothing to do here: it passes, or could not be graded for no fault of theirs."""
        return self.status in ("pass", "error") or self.without_score

    @property
    def unusable(self) -> str:
        """The reason why the submitted file can't be read, and has no score: damaged, two answers, …; empty if it
        can."""
        return self.message if self.status == "fail" else ""

    @property
    def stuck(self) -> bool:
        """Whether every check failed in the same way, before it asked for anything: at the import. A check may add a
        line about its inputs to what all of them say."""
        if self.unusable or self.odd or len(self.checks) < 2:
            return False
        message = min((check.message for check in self.checks), key=len)
        same = all(check.message == message or check.message.startswith(f"{message}\n") for check in self.checks)
        same = same and not any(check.parting for check in self.checks)  # an answer was compared
        return bool(message) and same and all(check.status == "fail" and not check.off_limits for check in self.checks)


class Reproduction(msgspec.Struct):
    """The first call of a step that fails, as a program; its large tensors by name, as safetensors."""

    check: str
    text: str
    tensors: bytes = b""


class TrackResult(msgspec.Struct, kw_only=True):
    """The points of one track, over its steps that were graded; None in a class while one of them is open."""

    name: str
    title: str
    score: float | None
    max_score: float


class Report(msgspec.Struct, kw_only=True):
    """One submission's report, the contract of `--json`; `score` and `max_score` are totals over what was graded. In a
    class `score` is None while the mark is open; `open` says why, if it isn't for a step. `ask` is the address to
    which a student writes for a second look.

    `unread` names the files that were handed in and not read, each with the reason; `notes` are sentences about the
    mark: late, changed by hand.
    """

    version: int = VERSION
    submission: str
    seed: int
    oracle: Literal["live", "recorded"] = "live"
    isolation: list[str]
    devices: dict[str, str]
    score: float | None
    max_score: float
    tracks: list[TrackResult] = []
    steps: list[StepResult]
    unread: dict[str, str] = {}
    notes: list[str] = []
    open: str = ""
    ask: str = ""


class StepMark(msgspec.Struct, kw_only=True, frozen=True):
    """A step's points in an assignment: `graded` is the grader's share of its `worth` (None if it gave none), `points`
    what counts; they differ if a person has decided, for a `reason`. `extra`: on top of the total.

    Of electives only the best count, the others are `dropped`. `remark` is what a person says of it, `work` a digest of
    what was graded.
    """

    step: str
    worth: float
    graded: float | None
    points: float | None
    extra: bool = False
    reason: str = ""
    work: str = ""
    elective: bool = False
    dropped: bool = False
    remark: str = ""
    lines: list[LineRemark] = []


class AssignmentMark(msgspec.Struct, kw_only=True):
    """A student's mark in an assignment: `earned` of `out_of`, less the share `late` of it; None if it is open.

    `handed_in` and `until` are moments in ISO 8601, empty if they are not known; `extended` says why `until` is not the
    assignment's. `kit` and `seed`: what graded. `unsure`: a system says that it is late, and not how much; `unclear` is
    a time of hand-in that can't be read, and on which the mark depends. `remarks` are a person's, about all of it,
    `requests` the student's unanswered requests for a second look. `said_by`: the source of `handed_in`. Of the
    `late_days`, each of which counts once it has started, `free_days` came out of the budget of the term, which has
    `days_left`.
    """

    assignment: str
    points: float | None
    earned: float | None
    out_of: float
    late: float = 0.0
    late_days: int = 0
    free_days: int = 0
    days_left: int = 0
    handed_in: str = ""
    said_by: str = ""
    until: str = ""
    extended: str = ""
    unsure: bool = False
    unclear: str = ""
    remarks: list[str] = []
    requests: list[str] = []
    kit: str = ""
    seed: int = 0
    steps: list[StepMark] = []


class AttemptMark(msgspec.Struct):
    """One of several attempts: its points, None if it is open, and when it was handed in."""

    points: float | None
    handed_in: str = ""


class MarkChange(msgspec.Struct):
    """A mark that is another one since `when`: before, after, and why; None is an open one."""

    when: str
    before: float | None
    after: float | None
    why: str


class Graded(msgspec.Struct, kw_only=True, frozen=True):
    """The result of one student of a class: a report, or one sentence that says why it is missing.

    `key` says what was graded, by what and under which seed; `file` is what the files about the student are called;
    `canvas_id`, `late` and `login` are what a learning platform says, `labs` what the student's own list names.
    `report` has the points of the kit, `mark` what they count in the assignment, and `changes` all that regrades have
    changed in it: they are written with the mark, whole or not at all. `digest` is that of the report: one that was
    edited is graded anew.
    """

    student: str
    file: str
    key: str
    report: Report | None = None
    error: str = ""
    canvas_id: str = ""
    late: bool = False
    labs: tuple[str, ...] = ()
    mark: AssignmentMark | None = None
    changes: list[MarkChange] = []
    login: str = ""
    attempt: int = 0  # which of several counts, from 0
    unread: tuple[tuple[str, str], ...] = ()  # if there is no report that would say so
    from_kit: tuple[str, ...] = ()  # steps of which much is word for word in the kit's own files
    digest: str = ""
    moodle_id: str = ""
    back: str = ""  # the start of a platform's own names, by which it finds the student of a page
    section: str = ""
    absence: str = ""  # nothing was handed in, and only the roster names them: what follows from it
    stranger: bool = False  # they handed in, and are not on the roster
    tries: list[AttemptMark] = []  # every attempt that was graded, the oldest first
    files: dict[str, str] = {}  # what became of each file
    grader_failed: bool = False  # as a whole, without a report, or in a step: it may be otherwise next time


def is_open(step: StepResult) -> bool:
    """Whether a step has no mark yet: what was handed in can't be read, or the grader failed. A person must look."""
    return step.score is None and step.status in ("fail", "error")


def without_open_scores(report: Report) -> Report:
    """The report as it is handed on: of an open step there are no checks, as nothing is known of them, and no total
    counts what has no mark yet. Every output of a class is made from such a report."""
    if not report.open and not any(map(is_open, report.steps)):
        return report
    steps = [_emptied(step) if is_open(step) else step for step in report.steps]
    waiting = {step.track for step in steps if report.open or is_open(step)}
    tracks = [
        msgspec.structs.replace(track, score=None if track.name in waiting else track.score) for track in report.tracks
    ]
    return msgspec.structs.replace(report, steps=steps, tracks=tracks, score=None)


def _emptied(step: StepResult) -> StepResult:
    """The step without its checks, with the message of the first failing one."""
    first = leading(step.checks)
    return msgspec.structs.replace(step, checks=[], message=step.message or (first.message if first else ""))


def failed_steps(report: Report) -> list[str]:
    """The steps in which the grader itself failed, which may be otherwise next time."""
    return [step.name for step in report.steps if is_open(step) and not step.unusable]


def total(steps: Iterable[StepResult]) -> tuple[float, float]:
    """The points earned and the points possible, over the steps that could be graded."""
    graded = [(step.score, step.max_score) for step in steps if step.score is not None]
    return round(sum(score for score, _most in graded), 6), round(sum(most for _score, most in graded), 6)


RANDOM = "random_answer"  # a probe's name


def leading(checks: Iterable[CheckResult]) -> CheckResult | None:
    """The failing check to report first; None if every check passes."""
    return next(iter(failing_in_order(checks)), None)


def failing_in_order(checks: Iterable[CheckResult]) -> list[CheckResult]:
    """The failing checks in the order in which they are reported: first those with an answer that must not be random,
    since it spoils what others compare, then those with the mistake that explains the most. What is skipped comes
    later, and what is not written yet last, since that is known."""
    failing = [check for check in checks if check.status != "pass"]
    explained = Counter(check.misconception for check in failing if check.misconception and not check.off_limits)
    return sorted(
        failing,
        key=lambda check: (
            check.unwritten,
            check.status == "skipped",
            not check.off_limits,
            check.misconception != RANDOM,
            -explained[check.misconception or ""],
        ),
    )


def step_status(checks: list[CheckResult]) -> Status:
    """The status of a step: the most serious one of its checks, "todo" without any; "pass" if all pass."""
    statuses = {check.status for check in checks}
    if not statuses or statuses == {"todo"}:
        return "todo"
    order: tuple[Status, ...] = ("error", "fail", "timeout", "skipped", "todo")
    return next((status for status in order if status in statuses), "pass")


def as_json(report: Report) -> str:
    """The report as JSON text, indented, ending in a newline.

    What a terminal would obey, or not show, is escaped: JSON means the same by it.
    """
    text = msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
    return OBEYED.sub(lambda match: _escaped(match[0]), text) + "\n"


def schema() -> str:
    """The JSON schema of a report, as text. Python 3.13 takes the indentation out of docstrings, which are in it."""
    import inspect  # not needed for a report

    described = msgspec.json.schema(Report) | {"$id": f"attention-from-scratch/report/{SCHEMA}", "title": "Report"}
    for definition in described["$defs"].values():
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])
    return msgspec.json.format(msgspec.json.encode(described, order="deterministic"), indent=2).decode() + "\n"


def _escaped(letter: str) -> str:
    """A letter as JSON escapes it, in one or two units of four hexadecimal digits."""
    units = letter.encode("utf-16-be").hex()
    return "".join(f"\\u{units[index : index + 4]}" for index in range(0, len(units), 4))
