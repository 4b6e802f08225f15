"""The list of labs that a learner has run, kept with the exercises if the learner wants one.

It is there from `make lab LOG=on` on and goes with the exercises when they are handed in: the class page counts it. It
comes from a learner, and anyone may edit it: what can't be read counts as nothing.
"""

from __future__ import annotations

import contextlib
import re
from datetime import datetime
from pathlib import Path

import msgspec

from grader.base import files
from grader.base.paths import SOLUTIONS
from grader.base.untrusted import Unusable, content

FILE = "labs.json"
MOST_BYTES, MOST_RUNS = 200_000, 1000
# In a lab's lesson, before a point that is shown if the figures of a run bear it out.
CONDITION = re.compile(r"<!-- if (\w+) -->\s*")


class LabNote(msgspec.Struct):
    """One run of a lab: when it was, whether its outcome was predicted, whether it was stopped early."""

    lab: str
    when: str
    predicted: bool = False
    stopped: bool = False


def is_kept(folder: Path) -> bool:
    """Whether a list is kept in this folder."""
    return (folder / FILE).is_file()


def begin(folder: Path) -> None:
    """Starts a list; one that is there stays. Raises OSError."""
    if not is_kept(folder):
        files.write(folder / FILE, b"[]\n")


def end(folder: Path) -> None:
    """Removes the list. Raises OSError."""
    (folder / FILE).unlink(missing_ok=True)


def add(folder: Path, lab: str, *, predicted: bool, stopped: bool) -> bool:
    """Adds a run of a lab to the list in a folder; returns whether it was added: not without a list, or if it can't be
    written."""
    if not is_kept(folder):
        return False
    when = datetime.now().isoformat(timespec="seconds")
    runs = [*read(folder), LabNote(lab, when, predicted, stopped)][-MOST_RUNS:]
    try:
        files.write(folder / FILE, msgspec.json.format(msgspec.json.encode(runs), indent=1) + b"\n")
    except OSError:
        return False
    return True


def read(folder: Path) -> list[LabNote]:
    """The runs in a folder's list, oldest first; none if it is missing, damaged, too large, or a link."""
    with contextlib.suppress(Unusable, OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(content(folder / FILE, FILE, MOST_BYTES), type=list[LabNote])[:MOST_RUNS]
    return []


def folders() -> list[Path]:
    """The folders of all labs, in the order of their names."""
    return sorted((path.parent for path in SOLUTIONS.glob("*/lab_*/lab.py")), key=lambda folder: folder.name)


def known() -> list[str]:
    """The names of all labs."""
    return [folder.name.removeprefix("lab_") for folder in folders()]


def names(folder: Path) -> tuple[str, ...]:
    """The names of the labs in a folder's list, each once; names that no lab has are left out."""
    ran = {run.lab for run in read(folder)}
    return tuple(name for name in known() if name in ran)
