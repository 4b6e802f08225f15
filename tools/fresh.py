"""`make fresh`: nothing generated is stale, and nothing of a reference stands outside `solutions/`.

Each line it prints names what is wrong and the command that fixes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from grader.author import lint, pages, translations
from grader.base import paths
from grader.course import exercises, stubs
from grader.course import steps as course
from tools import floors

ROOT = paths.ROOT
TELLING = 24  # characters from which a line of a solution is told from everyday Python
SHIPPED = ("exercises", "grader", "docs", "examples", "README.md", "README.ko.md", ".github", "CHANGELOG.md")


def solution_lines(step: course.Step) -> set[str]:
    """The telling lines inside the solution regions of a step, without comments and surrounding space."""
    source = (step.folder / "reference.py").read_text(encoding="utf-8")
    inside = (line.partition("#")[0].strip() for line, solution in stubs.regions(source) if solution)
    return {line for line in inside if len(line) >= TELLING and not line.startswith(("raise ", "class ", "def ", "@"))}


def leaks() -> Iterator[str]:
    """Every place outside the references where a line of one stands."""
    own = {line: step.name for step in course.steps() for line in solution_lines(step)}
    lessons = [lesson for step in course.steps() for lesson in step.folder.glob("lesson.*.md")]
    for path in [*shipped_files(), *lessons]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            step = own.get(line.partition("#")[0].strip())
            if step:
                yield f"{path.relative_to(ROOT)}:{number} holds a line of the reference of {step}: take it out"


def shipped_files() -> Iterator[Path]:
    """The text files outside `solutions/` that reach a learner."""
    for name in SHIPPED:
        path = ROOT / name
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (file for file in found if file.suffix in (".py", ".md", ".po", ".ipynb", ".html"))


def left_behind() -> list[str]:
    """Stubs of steps that were renamed or removed."""
    names = {step.name for step in course.steps()}
    left = [path.name for path in sorted(paths.EXERCISES.glob("step*.py")) if path.stem not in names]
    return [f"exercises/{name} belongs to no step: remove it, or give the step its old name" for name in left]


def undrawn() -> list[str]:
    """The picture of the engine's floors, where it is not what the import contracts say."""
    if floors.PICTURE.is_file() and floors.PICTURE.read_text(encoding="utf-8") == floors.picture():
        return []
    return [f"{floors.PICTURE.relative_to(ROOT)} is stale: run `make readme`"]


def problems() -> list[str]:
    """Everything that is stale or out of place; of a step that is not whole, only what it lacks."""
    if found := lint.problems():
        return found
    stale = [f"exercises/{name}.py is stale: run `make exercises`" for name in exercises.stale()]
    tables = [f"{file.name} is stale: run `make readme`" for file in pages.stale()]
    return [*stale, *left_behind(), *tables, *undrawn(), *translations.problems(), *leaks()]


if __name__ == "__main__":
    found = problems()
    print("\n".join(found) or "everything generated is fresh; nothing of a reference stands outside solutions/")
    sys.exit(1 if found else 0)
