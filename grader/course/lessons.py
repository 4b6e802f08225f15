"""Help for learners: lessons in the terminal, hints one at a time, and a reset to the stub."""

from __future__ import annotations

import contextlib
import errno
import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import CodeBlock, Markdown
from rich.padding import Padding
from rich.text import Text

from grader.base import files
from grader.base.language import LANGUAGES, current
from grader.base.language import gettext as _
from grader.base.paths import SOLUTIONS, step_folder
from grader.course import formulas, stubs

HINTS_HEADING = re.compile(r"^##\s+(?:Hints|힌트)\s*$", re.MULTILINE)
PICTURE = re.compile(r"^!\[[^\]\n]++\]\(picture:\w+\)\n+", re.MULTILINE)  # a line that a page draws
NUMBERED = re.compile(r"^\d+\.\s+", re.MULTILINE)
REMEMBERED = Path(".kit") / "hints.json"
BACKUPS = ".backup"
FALLBACK = "en"


FRONT = re.compile(r"\A---\n(.*?)^---\n", re.MULTILINE | re.DOTALL)


class NoLesson(FileNotFoundError):
    """The step has no lesson, or its lesson has no hints."""


class NoStub(FileNotFoundError):
    """The stub of the step can't be generated."""


# --- lessons ---------------------------------------------------------------------------------------------------------


def lesson(step: str, solutions: Path = SOLUTIONS) -> str:
    """The lesson of a step as Markdown, in the language in use, else in English. Raises NoLesson."""
    for language in (current(), FALLBACK):
        with contextlib.suppress(FileNotFoundError):
            return plain(step_folder(step, solutions) / f"lesson.{language}.md")
    raise NoLesson(step)


def plain(file: Path) -> str:
    """The text of a lesson's file without its front matter. Raises OSError."""
    return FRONT.sub("", file.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Effort:
    """A step's effort, from its lesson's front matter: minutes (`10-20`, empty if it says none), and difficulty, from 1
    to 3."""

    minutes: str = ""
    difficulty: int = 0

    def __str__(self) -> str:
        """Minutes, and one to three dots for the difficulty; empty if the lesson says none."""
        if not self.minutes:
            return ""
        dots = "●" * self.difficulty + "○" * (3 - self.difficulty)
        return _("{minutes} min", minutes=self.minutes.replace("-", "–")) + f"  {dots}"


def effort(step: str, solutions: Path = SOLUTIONS) -> Effort:
    """The minutes and the difficulty of a step, as its lesson says; an empty Effort if it does not."""
    try:
        front = FRONT.match((step_folder(step, solutions) / f"lesson.{FALLBACK}.md").read_text(encoding="utf-8"))
    except FileNotFoundError:
        front = None
    settings = dict(re.findall(r"^(\w+): *(\S+)$", front[1], re.MULTILINE)) if front else {}
    difficulty = settings.get("difficulty", "")
    return Effort(settings.get("minutes", ""), int(difficulty) if difficulty in ("1", "2", "3") else 0)


def reading(step: str, solutions: Path = SOLUTIONS, *, pictured: bool = False, commands: bool = True) -> str:
    """The Markdown of a lesson up to its hints, which are given one at a time; `pictured`: with lines for drawn
    pictures and LaTeX, as a page shows them; `commands`: with the command for the hints. Raises NoLesson."""
    text, *hints = HINTS_HEADING.split(lesson(step, solutions), maxsplit=1)
    text, number, sentences = (formulas.as_latex if pictured else formulas.without)(text), int(step[4:6]), []
    if not pictured and PICTURE.search(text):
        text = PICTURE.sub("", text)
        sentences.append(_("As a page with drawn pictures: {command}", command=f"`make lesson STEP={number} PAGE=1`"))
    if hints and commands:
        sentences.append(_("Hints, one at a time: {command}", command=f"`make hint STEP={number}`"))
    return "\n\n".join([text.rstrip(), *sentences]) + "\n"


class AsciiPicture(CodeBlock):
    """An ASCII picture, or code: without margin or background, so that it fits 80 columns."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields its lines unchanged, in the code's style."""
        yield Text(str(self.text).rstrip(), "cyan")


class Lesson(Markdown):
    """Markdown that keeps its ASCII pictures unchanged."""

    elements = Markdown.elements | {"fence": AsciiPicture, "code_block": AsciiPicture}


# --- hints -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hints:
    """The hints given so far, the newest last, and how many there are; `unsaved` is the reason why the count can't be
    saved."""

    given: list[str]
    total: int
    is_new: bool
    unsaved: str | None = None


def hints(step: str, solutions: Path = SOLUTIONS) -> list[str]:
    """All hints of a step as Markdown: the numbered list under the lesson's heading for hints. Raises NoLesson."""
    _before, *after = HINTS_HEADING.split(lesson(step, solutions), maxsplit=1)
    section = after[0].partition("\n## ")[0] if after else ""
    items = [textwrap.dedent("   " + item).strip() for item in NUMBERED.split(section)[1:]]
    if not items:
        raise NoLesson(step)
    return items


def hints_of(names: Iterable[str]) -> dict[str, list[str]]:
    """The hints, as Markdown, of each of these steps that has some, by its name."""
    by_function = {}
    for name in names:
        with contextlib.suppress(NoLesson):
            by_function[name] = hints(name)
    return by_function


def hints_so_far(step: str, folder: Path, solutions: Path = SOLUTIONS) -> Hints:
    """The hints of a step that a learner has seen, as the folder of the exercises counts them. Raises NoLesson."""
    everything = hints(step, solutions)
    seen = min(max(_remembered(folder / REMEMBERED).get(step, 0), 0), len(everything))
    return Hints(everything[:seen], len(everything), is_new=False)


def next_hint(step: str, folder: Path, solutions: Path = SOLUTIONS) -> Hints:
    """The hints seen so far and one more, and counts it in the folder of the exercises; a failure to save is in the
    result. Raises NoLesson."""
    everything = hints(step, solutions)
    file = folder / REMEMBERED
    counts = _remembered(file)
    before = min(max(counts.get(step, 0), 0), len(everything))
    now = min(before + 1, len(everything))
    unsaved = None
    if now != before:
        try:
            file.parent.mkdir(exist_ok=True)
            files.write(file, msgspec.json.encode(counts | {step: now}) + b"\n")
        except OSError as error:
            unsaved = error.strerror or str(error)
    return Hints(everything[:now], len(everything), now != before, unsaved)


def shown(step: str, so_far: Hints) -> RenderableType:
    """Hints for the terminal: the newest last and bright."""
    parts: list[RenderableType] = []
    for number, hint in enumerate(so_far.given, 1):
        title = _("Hint {number} of {total}", number=number, total=so_far.total)
        style = "bold" if number == len(so_far.given) else "dim"
        parts += [Text(title, style), Padding(Markdown(hint, style="" if style == "bold" else "dim"), (0, 0, 0, 2))]
    if not so_far.is_new:
        parts.append(Text(_("There are no more hints for {step}; its lesson explains the most.", step=step), "dim"))
    if so_far.unsaved:
        parts.append(Text(_("The kit can't remember that you saw this hint ({reason}).", reason=so_far.unsaved), "dim"))
    return Group(*parts)


def _remembered(file: Path) -> dict[str, int]:
    """The number of hints given for each step; nothing if the file is missing or damaged."""
    return files.decoded(file, dict[str, int]) or {}


# --- back to the stub ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResetResult:
    """The result of a reset: `backup` is the file that keeps the work, None if there was none; `changed`: the file was
    changed."""

    file: Path
    backup: Path | None
    changed: bool


def reset(
    step: str, folder: Path, solutions: Path = SOLUTIONS, now: Callable[[], datetime] = datetime.now
) -> ResetResult:
    """Replaces a learner's file by the stub, in the language in use; the work is kept under a dated, unused name.

    Raises NoStub without a stub, OSError when something can't be written; the file is then as it was.
    """
    try:
        stub = stubs.original(step_folder(step, solutions), current()).encode()
    except FileNotFoundError:
        raise NoStub(step) from None
    file = folder / f"{step}.py"
    if file.exists() and not file.is_file():  # reading a FIFO would not end
        raise OSError(errno.EINVAL, _("{file} is not a regular file", file=file))
    try:
        work = file.read_bytes()
    except FileNotFoundError:
        files.write(file, stub)
        return ResetResult(file, None, changed=True)
    if work == stub:
        return ResetResult(file, None, changed=False)
    is_work = work not in [stubs.original(step_folder(step, solutions), spoken).encode() for spoken in LANGUAGES]
    backup = _keep(work, folder / BACKUPS, step, now()) if is_work else None
    files.write(file, stub)
    return ResetResult(file, backup, changed=True)


def as_sentence(restored: ResetResult) -> str:
    """The result of a reset in a sentence."""
    if restored.backup is not None:
        return _("{file} is the stub again; your work is kept in {backup}.", file=restored.file, backup=restored.backup)
    if restored.changed:
        return _("{file} is back: the stub.", file=restored.file)
    return _("{file} is already the stub.", file=restored.file)


def _keep(work: bytes, folder: Path, step: str, when: datetime) -> Path:
    """Writes the work into the folder, under a name with the step and the date that no file has. Returns its path.
    Raises OSError."""
    folder.mkdir(exist_ok=True)
    for number in range(1000):
        suffix = f"-{number}" if number else ""
        path = folder / f"{step}.{when:%Y%m%d-%H%M%S}{suffix}.py"
        with contextlib.suppress(FileExistsError), path.open("xb") as file:
            file.write(work)
            return path
    raise FileExistsError(str(folder))
