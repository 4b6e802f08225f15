"""The learner's files: generated from the references, and never written over a learner's work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader import course


@dataclass
class Written:
    """What became of the stubs: written anew, already right, or left alone because a learner has worked on them."""

    written: list[str]
    fresh: list[str]
    kept: list[str]


def write(folder: Path = course.EXERCISES) -> Written:
    """Writes every stub that is missing or stale and still untouched."""
    folder.mkdir(parents=True, exist_ok=True)
    result = Written([], [], [])
    for step in course.steps():
        path, stub = folder / f"{step.name}.py", step.stub()
        present = path.read_text(encoding="utf-8") if path.is_file() else None
        if present == stub:
            result.fresh.append(step.name)
        elif present is None or course.is_untouched(present):
            path.write_text(stub, encoding="utf-8")
            result.written.append(step.name)
        else:
            result.kept.append(step.name)
    return result


def write_solved(folder: Path) -> None:
    """Writes the references as a submission: what a course's own tests grade."""
    folder.mkdir(parents=True, exist_ok=True)
    for step in course.steps():
        (folder / f"{step.name}.py").write_text(step.solved(), encoding="utf-8")


def stale(folder: Path = course.EXERCISES) -> list[str]:
    """The steps whose stub in `folder` is not what the reference gives."""
    return [
        step.name
        for step in course.steps()
        if not (path := folder / f"{step.name}.py").is_file() or path.read_text(encoding="utf-8") != step.stub()
    ]
