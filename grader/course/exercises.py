"""The learner's files: generated from the references; a learner's work is never overwritten."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

from grader.base import files, paths
from grader.base.language import LANGUAGES, current
from grader.course import steps, stubs
from grader.course.choice import CORE


@dataclass
class WrittenStubs:
    """The stubs by outcome: written, already up to date, or left alone because a learner has worked on them."""

    written: list[str]
    fresh: list[str]
    kept: list[str]


def write(folder: Path = paths.EXERCISES) -> WrittenStubs:
    """Writes, in the language in use, every stub of the core that is missing, or that is stale or in another language
    and still untouched. Stubs of other tracks are refreshed if they exist: `begin` creates them."""
    folder.mkdir(parents=True, exist_ok=True)
    result = WrittenStubs([], [], [])
    for step in _steps_in(folder):
        path, stub = folder / f"{step.name}.py", step.stub(current())
        present = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
        if present == stub:
            result.fresh.append(step.name)
        elif present is None or _holds_no_work(present, step):
            files.write(path, stub)
            result.written.append(step.name)
        else:
            result.kept.append(step.name)
    return result


def begin(names: list[str], folder: Path = paths.EXERCISES) -> WrittenStubs:
    """Writes the stubs of these steps into the folder, in the language in use; an existing file is left alone, and
    listed as kept."""
    folder.mkdir(parents=True, exist_ok=True)
    result = WrittenStubs([], [], [])
    for step in steps.steps():
        path = folder / f"{step.name}.py"
        if step.name not in names:
            continue
        if path.is_file():
            result.kept.append(step.name)
        else:
            files.write(path, step.stub(current()))
            result.written.append(step.name)
    return result


def write_solved(folder: Path) -> None:
    """Writes the references as a submission, for a course's own tests."""
    folder.mkdir(parents=True, exist_ok=True)
    for step in steps.steps():
        files.write(folder / f"{step.name}.py", step.solved())


def write_in_language(folder: Path) -> list[str]:
    """Writes the stubs in a folder again in the language in use, if all its files are unedited. Returns the names
    of the steps written: none if a file is edited, or all are in this language."""
    found = {step: folder / f"{step.name}.py" for step in _steps_in(folder)}
    present = {
        step: path.read_text(encoding="utf-8", errors="replace") for step, path in found.items() if path.is_file()
    }
    if not present or not all(_holds_no_work(source, step) for step, source in present.items()):
        return []
    written = []
    for step, source in present.items():
        if source != (stub := step.stub(current())):
            files.write(found[step], stub)
            written.append(step.name)
    return written


def stale(folder: Path = paths.EXERCISES) -> list[str]:
    """The names of the steps with a file in `folder` that is missing, or not the current stub in any language."""
    return [
        step.name
        for step in _steps_in(folder)
        if not (path := folder / f"{step.name}.py").is_file()
        or path.read_text(encoding="utf-8") not in {step.stub(spoken) for spoken in LANGUAGES}
    ]


def _steps_in(folder: Path) -> list[steps.Step]:
    """The steps with stubs in a folder: the core, and those of other tracks that exist there."""
    return [step for step in steps.steps() if step.track == CORE or (folder / f"{step.name}.py").is_file()]


def _holds_no_work(source: str, step: steps.Step) -> bool:
    """Whether a file is an untouched stub, perhaps older or in another language, without even an added comment."""
    if not stubs.is_untouched(source):
        return False
    ours = set().union(*(_comments(step.stub(spoken)) for spoken in LANGUAGES))
    return _comments(source) <= ours


def _comments(source: str) -> set[str]:
    """The comments in a source that parses, except line 1, which says where a stub comes from."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.string for token in tokens if token.type == tokenize.COMMENT and token.start[0] > 1}
