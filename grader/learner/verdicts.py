"""The last verdict on each step, saved next to the exercises: a restart shows it at once, and every screen counts it.

A verdict holds as long as what it is about is the same: the step's file, the files that it imports, and the kit. It is
signed with the user's key, since what passes may be run outside the sandbox: a folder that came from elsewhere can't
bring verdicts along.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

import grader
from grader.base import files, language, user_key
from grader.base.paths import STEP_NAME
from grader.base.results import StepResult
from grader.course.renamed import imported
from grader.course.submissions import Submission

FILE = Path(".kit") / "verdicts.json"


class SavedVerdict(msgspec.Struct):
    """The result of a step, when it was graded, a digest of what it is about, and the user's signature under that."""

    result: StepResult
    at: str
    about: str
    signature: str | None


def uses(submission: Submission, step: str) -> set[str]:
    """The names of a step and of all files of the learner that its file imports, directly or not."""
    needed: set[str] = set()
    waiting = [step]
    read = submission.sources.keys() | submission.problems.keys()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            source = submission.sources.get(name, ("", ""))[1]
            waiting += [other for other in imported(source) if other in read or STEP_NAME.fullmatch(other)]
    return needed


def digest(submission: Submission, step: str) -> str:
    """A digest of all that a step's verdict depends on."""
    texts = [
        (name, submission.sources.get(name), submission.problems.get(name)) for name in sorted(uses(submission, step))
    ]
    content = msgspec.json.encode([grader.__version__, language.current(), texts])
    return hashlib.sha256(content).hexdigest()


def read(folder: Path, submission: Submission) -> dict[str, SavedVerdict]:
    """The saved verdicts that still hold, by step; none if the file is missing or damaged."""
    saved = files.decoded(folder / FILE, dict[str, SavedVerdict]) or {}
    return {
        name: verdict
        for name, verdict in saved.items()
        if verdict.about == digest(submission, name) and is_ours(name, verdict)
    }


def is_ours(name: str, verdict: SavedVerdict) -> bool:
    """Whether this user saved the verdict, for this step."""
    signature = _signature(name, verdict.result, verdict.about)
    return bool(signature and verdict.signature) and hmac.compare_digest(signature or "", verdict.signature or "")


def _signature(name: str, result: StepResult, about: str) -> str | None:
    """The user's signature under a verdict on a step; None if there is no key to sign with."""
    return user_key.signed("verdict", msgspec.json.encode([name, result, about]))


def write(folder: Path, submission: Submission, results: Iterable[StepResult]) -> None:
    """Saves these verdicts, and the others that still hold, in the folder; nothing if it can't be written. A fault of
    the grader is no verdict."""
    saved = read(folder, submission)
    now = time.strftime("%H:%M:%S")
    for result in results:
        if result.status != "error":  # a fault of the grader, not a verdict
            about = digest(submission, result.name)
            saved[result.name] = SavedVerdict(result, now, about, _signature(result.name, result, about))
    with contextlib.suppress(OSError):
        (folder / FILE).parent.mkdir(exist_ok=True)
        files.write(folder / FILE, msgspec.json.encode(saved))
