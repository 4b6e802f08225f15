"""The learner's files: generated from the references, and never written over a learner's work."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

from grader import course, stubs
from grader.language import LANGUAGES, current


@dataclass
class Written:
    """What became of the stubs: written anew, already right, or left alone because a learner has worked on them."""

    written: list[str]
    fresh: list[str]
    kept: list[str]


def write(folder: Path = course.EXERCISES) -> Written:
    """Writes every stub that is missing, stale or in another language, in the language in use, and still untouched."""
    folder.mkdir(parents=True, exist_ok=True)
    result = Written([], [], [])
    for step in course.steps():
        path, stub = folder / f"{step.name}.py", step.stub(current())
        present = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
        if present == stub:
            result.fresh.append(step.name)
        elif present is None or _holds_no_work(present, step):
            stubs.write(path, stub)
            result.written.append(step.name)
        else:
            result.kept.append(step.name)
    return result


def write_solved(folder: Path) -> None:
    """Writes the references as a submission: what a course's own tests grade."""
    folder.mkdir(parents=True, exist_ok=True)
    for step in course.steps():
        stubs.write(folder / f"{step.name}.py", step.solved())


def stale(folder: Path = course.EXERCISES) -> list[str]:
    """The steps whose stub in `folder` is not what the reference gives, in whichever language."""
    return [
        step.name
        for step in course.steps()
        if not (path := folder / f"{step.name}.py").is_file()
        or path.read_text(encoding="utf-8") not in {step.stub(spoken) for spoken in LANGUAGES}
    ]


def _holds_no_work(source: str, step: course.Step) -> bool:
    """Whether a file is a stub, perhaps of another day or language, and nobody has written even a note into it."""
    if not course.is_untouched(source):
        return False
    ours = set().union(*(_comments(step.stub(spoken)) for spoken in LANGUAGES))
    return _comments(source) <= ours


def _comments(source: str) -> set[str]:
    """The comments in a source that parses, but for line 1, which says where a stub is from."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.string for token in tokens if token.type == tokenize.COMMENT and token.start[0] > 1}
