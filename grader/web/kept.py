"""The last verdicts of a course, kept beside the exercises, so that a restart shows them at once.

A verdict counts as long as the files that it was about, and the kit, are the same.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import msgspec

import grader
from grader.base import files, language
from grader.base.results import StepResult
from grader.course.submissions import Submission

FILE = Path(".kit") / "verdicts.json"


class KeptVerdict(msgspec.Struct):
    """The result of a step, and when it was graded."""

    result: StepResult
    at: str


class Verdicts(msgspec.Struct):
    """All of them; `of` is a digest of what they are about."""

    of: str = ""
    steps: dict[str, KeptVerdict] = {}


def digest(read: Submission) -> str:
    """A digest of all that a verdict depends on."""
    about = [grader.__version__, language.current(), sorted(read.sources.items()), sorted(read.problems.items())]
    return hashlib.sha256(msgspec.json.encode(about)).hexdigest()


def read(folder: Path, of: str) -> dict[str, KeptVerdict]:
    """The verdicts that still count; none where the file is missing or damaged."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        kept = msgspec.json.decode((folder / FILE).read_bytes(), type=Verdicts)
        if kept.of == of:
            return kept.steps
    return {}


def write(folder: Path, of: str, steps: dict[str, KeptVerdict]) -> None:
    """Keeps them; a folder that can't be written keeps none."""
    with contextlib.suppress(OSError):
        (folder / FILE).parent.mkdir(exist_ok=True)
        files.write(folder / FILE, msgspec.json.encode(Verdicts(of, steps)))
