"""Paths on disk. Needs no torch."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from grader import STARTS

ROOT = Path(__file__).resolve().parents[2]
# The folders in it are the tracks, and the folders in those the steps. A learner's copy of the kit has the checks and
# the lessons of each step in `steps/`, and no solutions.
SOLUTIONS = ROOT / "solutions" if (ROOT / "solutions").is_dir() else ROOT / "steps"
EXERCISES = ROOT / "exercises"
TAPE = "tape.safetensors"

STEP_NAME = re.compile(r"step\d{2}_[a-z0-9_]+")


START = f"{STARTS}import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"


def program(module: str, *words: str) -> list[str]:
    """The command that runs a module of the kit in a process of its own, with these arguments."""
    return [sys.executable, "-P", "-c", START, str(ROOT), module, *words]


def step_folders(solutions: Path = SOLUTIONS) -> list[Path]:
    """The folder of every step of every track, in order of their numbers."""
    folders = [path for path in solutions.glob("*/step*") if path.is_dir() and STEP_NAME.fullmatch(path.name)]
    return sorted(folders, key=lambda path: path.name)


def step_folder(name: str, solutions: Path = SOLUTIONS) -> Path:
    """The folder of one step, in whichever track it is. Raises FileNotFoundError."""
    for folder in solutions.glob(f"*/{name}"):
        return folder
    raise FileNotFoundError(f"no step {name} in {solutions}")


def shown(path: Path) -> str:
    """A path for messages: relative to the root of the repository if it is inside."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def typed(path: Path) -> str:
    """A path quoted for a shell."""
    return shlex.quote(str(path))


def is_recorded(folder: Path) -> bool:
    """Whether the step in this folder has only recorded answers, its tape, because its reference is absent."""
    return not (folder / "reference.py").is_file()


def tape_version(tape: Path) -> str:
    """The version of the kit that recorded a tape, the file of a step's answers; empty when that is damaged. Raises
    OSError without a file."""
    import json  # needed only in a learner's kit

    with tape.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")

        try:
            table = json.loads(file.read(min(length, 1 << 24)))
            return str(table["__metadata__"]["kit"])
        except (ValueError, KeyError, TypeError):
            return ""
