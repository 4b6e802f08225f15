"""The pictures of a step's lesson: drawn from the reference, or kept as numbers where there is none.

A step may have `pictures.py` with `pictures(reference)`, which returns a picture by name. The lesson shows one in a
line of its own, with what to see in it: `![What to see](picture:name)`.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import msgspec

from grader.oracle.live import Solution
from grader.report.pictures import Picture

KEPT = "pictures.json"  # in a learner's copy of the kit


def pictures(folder: Path) -> dict[str, Picture]:
    """The pictures of the step in this folder, by name; none where it has none, or where what is kept is damaged."""
    step = Solution(folder)
    if step.is_recorded:
        try:
            return msgspec.json.decode((folder / KEPT).read_bytes(), type=dict[str, Picture])
        except (OSError, msgspec.DecodeError):
            return {}
    if not (folder / "pictures.py").is_file():
        return {}
    made: dict[str, Picture] = importlib.import_module(f"{step.package}.pictures").pictures(step.reference)
    return made


def kept(folder: Path) -> bytes:
    """The pictures of a step as JSON; empty where it has none."""
    made = pictures(folder)
    return msgspec.json.encode(made) + b"\n" if made else b""
