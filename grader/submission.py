"""A submission: a folder of step files and notebooks, read by the side that is trusted; nothing is followed or run."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grader import notebooks
from grader.language import gettext as _
from grader.places import STEP_NAME, step_folders

MAX_FILE = 256 << 10  # bytes
MAX_NOTEBOOK = 32 << 20  # bytes: pictures in outputs are large, and are skipped
MAX_FILES = 200
MAX_NOTEBOOKS = 50
MODULE_FILE = re.compile(r"([A-Za-z_]\w*)\.py")


class NoSubmission(FileNotFoundError):
    """There is no such folder."""


@dataclass
class Submission:
    """The sources of a submission by module name, and what is wrong with files that can't be used."""

    name: str
    sources: dict[str, tuple[str, str]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def read(folder: Path) -> Submission:
    """Reads the `.py` files of a folder and the answer cells of its notebooks. Raises NoSubmission when it is none.

    Links are not followed, devices and pipes not opened; a file that is too large or damaged becomes a problem, as does
    a step that is answered in two ways. A stub that nobody has touched is no answer beside one that was written.
    """
    if not folder.is_dir():
        raise NoSubmission(str(folder))
    submission = Submission(readable(folder.name or str(folder)))
    listing = sorted(os.listdir(folder))
    names = sorted((name for name in listing if MODULE_FILE.fullmatch(name)), key=lambda name: name[:4] != "step")
    for name in names[:MAX_FILES]:
        module, shown = name[:-3], f"{submission.name}/{name}"
        try:
            submission.sources[module] = (shown, _source(folder / name, shown))
        except Unusable as unusable:
            submission.problems[module] = str(unusable)
    unusable_notebooks: dict[str, str] = {}
    answered = 0
    for name in [name for name in listing if name.endswith(".ipynb")][:MAX_NOTEBOOKS]:
        shown = f"{submission.name}/{readable(name)}"
        try:
            answers = notebook_answers(folder / name, shown)
            answered += _length(answers)
            if answered > MAX_FILE:
                raise Unusable(
                    _("With {file} the answer cells hold more than {limit} KiB. A step needs a few.").format(
                        file=shown, limit=MAX_FILE >> 10
                    )
                )
            add_cells(submission, answers, shown)
        except Unusable as unusable:
            unusable_notebooks[name.removesuffix(".ipynb")] = str(unusable)
    for name, problem in unusable_notebooks.items():
        steps = {name} if STEP_NAME.fullmatch(name) else {folder.name for folder in step_folders()}
        for step in steps - submission.sources.keys():
            submission.problems.setdefault(step, problem)
    return submission


def notebook_answers(path: Path, shown: str = "") -> dict[str, list[str]]:
    """The sources of a notebook's answer cells, by step; `shown` is what to call the file. Raises Unusable."""
    shown = shown or path.name
    try:
        return notebooks.answers(_data(path, shown, MAX_NOTEBOOK))
    except notebooks.Damaged as damaged:
        raise _damaged(shown) from damaged


def notebook_cells(path: Path) -> list[notebooks.Cell]:
    """Every cell of a notebook, answer or not. Raises Unusable."""
    try:
        return list(notebooks.cells(_data(path, path.name, MAX_NOTEBOOK)))
    except notebooks.Damaged as damaged:
        raise _damaged(path.name) from damaged


def add_cells(submission: Submission, answers: Mapping[str, list[str]], shown: str) -> None:
    """Adds the answer cells of one notebook, by step, to what is there already; `shown` is the notebook's name."""
    cells: dict[str, str] = {}
    for step, sources in answers.items():
        try:
            cells[step] = _answer(step, [_as_text(source, shown) for source in sources], shown)
        except Unusable as unusable:
            submission.problems.setdefault(step, str(unusable))
    for step, source in notebooks.with_earlier_names(cells).items():
        _add_answer(submission, step, f"{shown}[{step}]", source)


def _length(answers: Mapping[str, list[str]]) -> int:
    """The characters of the answer cells together: reading them is nobody's deadline. What is too large is not read."""
    return sum(len(source) for sources in answers.values() for source in sources if len(source) <= MAX_FILE)


def readable(name: str) -> str:
    """A file name as it can be written anywhere, in one line: what is not printed, and bytes that are no UTF-8, as
    escapes."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _answer(step: str, sources: list[str], shown: str) -> str:
    """The one answer to a step in a notebook."""
    if not sources:
        raise Unusable(
            _(
                "{file} has no answer cell for {step}: it was deleted, is no code cell any more, or has lost its "
                "metadata. Begin a code cell with the line: # {step}"
            ).format(file=shown, step=step)
        )
    different = set(sources)
    written = {source for source in different if not notebooks.is_untouched(source)} or different
    if len(written) > 1:
        raise Unusable(
            _("{file} has {count} answer cells for {step}. Keep one of them.").format(
                file=shown, count=len(written), step=step
            )
        )
    (source,) = written
    if line := notebooks.command(source):
        raise Unusable(
            _(
                "{file}, the answer cell of {step}, line {line}: `{text}` is a command of the notebook and not Python. "
                "Move it to a cell of its own."
            ).format(file=shown, step=step, line=line[0], text=line[1])
        )
    return source


def _add_answer(submission: Submission, step: str, shown: str, source: str) -> None:
    """Adds an answer to a step, unless the step has another one."""
    other = submission.sources.get(step)
    if other is None or notebooks.is_untouched(other[1]):
        submission.sources[step] = (shown, source)
    elif other[1] != source and not notebooks.is_untouched(source):
        submission.problems[step] = _("{step} is answered twice, in {first} and in {second}. Keep one of them.").format(
            step=step, first=other[0], second=shown
        )


class Unusable(Exception):
    """A file or a cell can't be used. One sentence."""


def _source(path: Path, shown: str) -> str:
    data = _data(path, shown, MAX_FILE)
    try:
        return _as_text(data.decode("utf-8-sig"), shown)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Unusable(
            _("{file} is not UTF-8 (byte 0x{byte:02x} on line {line}). Save it as UTF-8.").format(
                file=shown, byte=data[error.start], line=line
            )
        ) from error


def _as_text(text: str, shown: str) -> str:
    """Source as Python reads it. A byte order mark and Windows line ends are an editor's doing, not a fault."""
    if len(text.encode(errors="replace")) > MAX_FILE:
        raise Unusable(
            _("{file} is larger than {limit} KiB. A step needs a few.").format(file=shown, limit=MAX_FILE >> 10)
        )
    if "\0" in text:
        raise Unusable(_("{file} holds a NUL character: it is not Python source.").format(file=shown))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _data(path: Path, shown: str, limit: int) -> bytes:
    """The bytes of a regular file, `limit` of them at most."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        if path.is_symlink():
            raise Unusable(_("{file} is a link. Put the file itself there.").format(file=shown))
        descriptor = os.open(path, flags)
    except OSError as error:
        raise Unusable(_("{file} can't be read ({reason}).").format(file=shown, reason=error.strerror)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unusable(_("{file} is not a regular file.").format(file=shown))
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_large(shown, limit)
    return data


def _damaged(shown: str) -> Unusable:
    return Unusable(_("{file} is damaged: it is not a notebook of format 4. Save it again.").format(file=shown))


def _too_large(shown: str, limit: int) -> Unusable:
    if limit == MAX_NOTEBOOK:
        said = _("{file} is larger than {limit} MiB. Clear its outputs and save it again.")
        return Unusable(said.format(file=shown, limit=limit >> 20))
    return Unusable(_("{file} is larger than {limit} KiB. A step needs a few.").format(file=shown, limit=limit >> 10))
