"""`make fresh`: nothing generated is stale, and nothing of a reference stands outside `solutions/`.

Each line it prints names what is wrong and the command that mends it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from grader import course, exercises, translations
from tests import misconceptions_page, security_page

ROOT = course.ROOT
TELLING = 24  # characters from which a line of a solution is told from everyday Python
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


def problems() -> list[str]:
    """Everything that is stale or out of place."""
    stale = [f"exercises/{name}.py is stale: run `make exercises`" for name in exercises.stale()]
    pages = [f"{path.relative_to(ROOT)} is stale: run `make misconceptions`" for path in misconceptions_page.stale()]
    proofs = [f"{path.relative_to(ROOT)} is stale: run `make security`" for path in security_page.stale()]
    return [*stale, *pages, *proofs, *translations.problems(), *leaks()]


if __name__ == "__main__":
    found = problems()
    print("\n".join(found) or "everything generated is fresh; nothing of a reference stands outside solutions/")
    sys.exit(1 if found else 0)
