"""`make fresh`: nothing generated is stale, and nothing of a reference stands outside `solutions/`.

Each line it prints names what is wrong and the command that mends it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from grader import authoring, course, exercises, translations
from tests import misconceptions_page, security_page

ROOT = course.ROOT
TELLING = 24  # characters from which a line of a solution is told from everyday Python
LISTED = re.compile(r"^\| `(step\w+)` \|.*\| ([\d.]+) \|$", re.MULTILINE)  # a step and its points in a README's table
SHIPPED = ("exercises", "grader", "docs", "examples", "README.md", "README.ko.md", "CONTRIBUTING.md", "CHANGELOG.md")


def solution_lines(step: course.Step) -> set[str]:
    """The telling lines inside the solution regions of a step, without comments and surrounding space."""
    source = (step.folder / "reference.py").read_text(encoding="utf-8")
    inside = (line.partition("#")[0].strip() for line, solution in course.regions(source) if solution)
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
    left = [path.name for path in sorted(course.EXERCISES.glob("step*.py")) if path.stem not in names]
    return [f"exercises/{name} belongs to no step: remove it, or give the step its old name" for name in left]


def unlisted() -> list[str]:
    """Steps that the table of a README does not list with their points, and what it lists that is no step."""
    found = []
    steps = {step.name: f"{step.points:g}" for step in course.steps()}
    for name in ("README.md", "README.ko.md"):
        listed = dict(LISTED.findall((ROOT / name).read_text(encoding="utf-8")))
        found += [
            f"{name}: give `{step}` a line with its {points} points in the table of steps"
            for step, points in steps.items()
            if listed.get(step) != points
        ]
        found += [f"{name}: take `{step}` out of the table of steps" for step in listed if step not in steps]
    return found


def problems() -> list[str]:
    """Everything that is stale or out of place; of a step that is not whole, only what it lacks."""
    if found := authoring.problems():
        return found
    stale = [f"exercises/{name}.py is stale: run `make exercises`" for name in exercises.stale()]
    pages = [f"{path.relative_to(ROOT)} is stale: run `make misconceptions`" for path in misconceptions_page.stale()]
    proofs = [f"{path.relative_to(ROOT)} is stale: run `make security`" for path in security_page.stale()]
    return [*stale, *left_behind(), *unlisted(), *pages, *proofs, *translations.problems(), *leaks()]


if __name__ == "__main__":
    found = problems()
    print("\n".join(found) or "everything generated is fresh; nothing of a reference stands outside solutions/")
    sys.exit(1 if found else 0)
