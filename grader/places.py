"""Where things stand on disk. Needs no torch."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
# A learner's copy of the kit has the checks and the lessons of each step in `steps/`, and no solutions.
SOLUTIONS = ROOT / "solutions" if (ROOT / "solutions").is_dir() else ROOT / "steps"
EXERCISES = ROOT / "exercises"
TAPE = "tape.safetensors"

STEP_NAME = re.compile(r"step\d{2}_[a-z0-9_]+")


def step_folders(solutions: Path = SOLUTIONS) -> list[Path]:
    """The folder of every step, in order."""
    return sorted(path for path in solutions.iterdir() if path.is_dir() and STEP_NAME.fullmatch(path.name))


def typed(path: Path) -> str:
    """A path as it is typed in a shell."""
    return shlex.quote(str(path))


def is_recorded(folder: Path) -> bool:
    """Whether the step in this folder is answered by its tape: its reference is not there."""
    return not (folder / "reference.py").is_file()


def tape_version(tape: Path) -> str:
    """The version of the kit that recorded a tape; empty when the file is damaged. Raises OSError without a file."""
    with tape.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            table = msgspec.json.decode(file.read(min(length, 1 << 24)))
            return str(table["__metadata__"]["kit"])
        except (msgspec.DecodeError, KeyError, TypeError):
            return ""
