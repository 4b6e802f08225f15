"""What helps a learner along: lessons in the terminal, hints one at a time, and a way back to the stub."""

from __future__ import annotations

import contextlib
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import CodeBlock, Markdown
from rich.padding import Padding
from rich.text import Text

from grader import stubs
from grader.language import LANGUAGES, current
from grader.language import gettext as _
from grader.places import SOLUTIONS

HINTS_HEADING = re.compile(r"^##\s+(?:Hints|힌트)\s*$", re.MULTILINE)
NUMBERED = re.compile(r"^\d+\.\s+", re.MULTILINE)
REMEMBERED = Path(".kit") / "hints.json"
BACKUPS = ".backup"
FALLBACK = "en"


class NoLesson(FileNotFoundError):
    """The step has no lesson, or its lesson no hints."""


class NoStub(FileNotFoundError):
    """The stub of the step can't be made."""


# --- lessons ---------------------------------------------------------------------------------------------------------


def lesson(step: str, solutions: Path = SOLUTIONS) -> str:
    """The lesson of a step as Markdown, in the language in use, else in English. Raises NoLesson."""
    for language in (current(), FALLBACK):
        with contextlib.suppress(FileNotFoundError):
            return (solutions / step / f"lesson.{language}.md").read_text(encoding="utf-8")
    raise NoLesson(step)


class Picture(CodeBlock):
    """A picture made of characters, or code: no margin and no background, so that 80 columns are enough for it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Its lines as they are drawn."""
        yield Text(str(self.text).rstrip(), "cyan")


class Lesson(Markdown):
    """Markdown whose pictures made of characters stay as they are drawn."""

    elements = Markdown.elements | {"fence": Picture, "code_block": Picture}


# --- hints -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hints:
    """The hints given so far, the newest last, and how many there are; `unsaved` is why that can't be remembered."""

    given: list[str]
    total: int
    is_new: bool
    unsaved: str | None = None


def hints(step: str, solutions: Path = SOLUTIONS) -> list[str]:
    """All hints of a step as Markdown: the numbered list under the lesson's heading for hints. Raises NoLesson."""
    _before, *after = HINTS_HEADING.split(lesson(step, solutions), maxsplit=1)
    section = after[0].partition("\n## ")[0] if after else ""
    found = [textwrap.dedent("   " + item).strip() for item in NUMBERED.split(section)[1:]]
    if not found:
        raise NoLesson(step)
    return found


def next_hint(step: str, folder: Path, solutions: Path = SOLUTIONS) -> Hints:
    """One hint more than the last time; how many were given is remembered in the folder. Raises NoLesson."""
    everything = hints(step, solutions)
    file = folder / REMEMBERED
    given = _remembered(file)
    before = min(max(given.get(step, 0), 0), len(everything))
    now = min(before + 1, len(everything))
    unsaved = None
    if now != before:
        try:
            file.parent.mkdir(exist_ok=True)
            stubs.write(file, msgspec.json.encode(given | {step: now}) + b"\n")
        except OSError as error:
            unsaved = error.strerror or str(error)
    return Hints(everything[:now], len(everything), now != before, unsaved)


def shown(step: str, so_far: Hints) -> RenderableType:
    """Hints as a person reads them: the newest last and bright."""
    parts: list[RenderableType] = []
    for number, hint in enumerate(so_far.given, 1):
        title = _("Hint {number} of {total}").format(number=number, total=so_far.total)
        style = "bold" if number == len(so_far.given) else "dim"
        parts += [Text(title, style), Padding(Markdown(hint, style="" if style == "bold" else "dim"), (0, 0, 0, 2))]
    if not so_far.is_new:
        parts.append(Text(_("There are no more hints for {step}; its lesson says the most.").format(step=step), "dim"))
    if so_far.unsaved:
        parts.append(
            Text(_("It can't be remembered that you saw this ({reason}).").format(reason=so_far.unsaved), "dim")
        )
    return Group(*parts)


def _remembered(file: Path) -> dict[str, int]:
    """How many hints were given for each step; nothing where the file is missing or damaged."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, int])
    except (OSError, msgspec.DecodeError):
        return {}


# --- back to the stub ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Restored:
    """What became of a file: `backup` is where the work went, None when there was none; `changed` if it was written."""

    file: Path
    backup: Path | None
    changed: bool


def reset(step: str, folder: Path, solutions: Path = SOLUTIONS, now: Callable[[], datetime] = datetime.now) -> Restored:
    """Puts the stub back, in the language in use, in place of a learner's file, which is kept under a dated free name.

    Raises NoStub when there is none, OSError when something can't be written; the file is then as it was.
    """
    try:
        stub = stubs.original(solutions / step, current()).encode()
    except FileNotFoundError:
        raise NoStub(step) from None
    file = folder / f"{step}.py"
    try:
        work = file.read_bytes()
    except FileNotFoundError:
        stubs.write(file, stub)
        return Restored(file, None, changed=True)
    if work == stub:
        return Restored(file, None, changed=False)
    is_work = work not in [stubs.original(solutions / step, spoken).encode() for spoken in LANGUAGES]
    backup = _keep(work, folder / BACKUPS, step, now()) if is_work else None
    stubs.write(file, stub)
    return Restored(file, backup, changed=True)


def told(restored: Restored) -> str:
    """What a reset has done, in a sentence."""
    if restored.backup is not None:
        return _("{file} is the stub again; your work is kept in {backup}.").format(
            file=restored.file, backup=restored.backup
        )
    if restored.changed:
        return _("{file} is there again: the stub.").format(file=restored.file)
    return _("{file} is the stub already.").format(file=restored.file)


def _keep(work: bytes, folder: Path, step: str, when: datetime) -> Path:
    """Writes the work under a name that nothing has yet."""
    folder.mkdir(exist_ok=True)
    for number in range(1000):
        suffix = f"-{number}" if number else ""
        path = folder / f"{step}.{when:%Y%m%d-%H%M%S}{suffix}.py"
        with contextlib.suppress(FileExistsError), path.open("xb") as file:
            file.write(work)
            return path
    raise FileExistsError(str(folder))
