"""A submission: a folder of step files and notebooks. The trusted side reads it, follows no link and runs nothing."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grader.base import files
from grader.base.language import gettext as _
from grader.base.paths import STEP_NAME, step_folders
from grader.course import answer_cells
from grader.course.renamed import by_step

MAX_FILE = 256 << 10  # bytes
MAX_NOTEBOOK = 32 << 20  # bytes: outputs, which are skipped, may hold large pictures
MAX_FILES = 200
MAX_NOTEBOOKS = 50
MAX_UNREAD = 12  # of the list of files that were not read
ARCHIVE = re.compile(r".+\.(zip|7z|rar|tar|tgz|tar\.\w+)", re.IGNORECASE)
DOCUMENT = re.compile(r".+\.(docx?|odt|rtf|pdf|hwpx?|pages)", re.IGNORECASE)
NOT_ANSWERS = ("__pycache__", "__MACOSX")
MODULE_FILE = re.compile(r"([A-Za-z_]\w*)\.py")


class NoSubmission(FileNotFoundError):
    """There is no such folder."""


@dataclass
class Submission:
    """The sources of a submission by module name, the problems of unusable files, and the submitted files that were not
    read, each with the reason. `earlier` are the steps that the same person handed in with earlier assignments."""

    name: str
    sources: dict[str, tuple[str, str]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    earlier: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add_earlier(self, other: Submission, label: str) -> None:
        """Adds the written steps of an earlier submission, and what they may import; they replace those added before.

        `label` is what messages call that submission.
        """
        self.earlier |= {
            module: (f"{label}/{shown.partition('/')[2]}", source)
            for module, (shown, source) in other.sources.items()
            if module not in other.problems and not (STEP_NAME.fullmatch(module) and answer_cells.is_untouched(source))
        }


def read(folder: Path, only: Collection[str] | None = None) -> Submission:
    """Reads the `.py` files of a folder and the answer cells of its notebooks. Raises NoSubmission when there is no
    such folder. `only`: of the files with these names.

    Links are not followed, devices and pipes not opened. A file that is too large or damaged becomes a problem, as does
    a step with two different answers. An untouched stub does not count beside a written answer. A renamed file
    (`step02_softmax-1.py`) is read if it is the only answer to its step; files that are not read are listed.
    """
    if not folder.is_dir():
        raise NoSubmission(str(folder))
    submission = Submission(readable(folder.name or str(folder)))
    listing = sorted(os.listdir(folder) if only is None else only)
    names = sorted((name for name in listing if MODULE_FILE.fullmatch(name)), key=lambda name: name[:4] != "step")
    for name in names[:MAX_FILES]:
        module, shown = name[:-3], f"{submission.name}/{name}"
        try:
            submission.sources[module] = (shown, _source(folder / name, shown))
        except Unusable as unusable:
            submission.problems[module] = str(unusable)
    submission.unread |= dict.fromkeys(names[MAX_FILES:], _("more than {count} files").format(count=MAX_FILES))
    with answer_cells.one_budget():
        _add_renamed(submission, folder, listing)
        _add_notebooks(submission, folder, listing)
    _note_unread(submission, folder, listing)
    return submission


def _add_renamed(submission: Submission, folder: Path, listing: list[str]) -> None:
    """Reads renamed step files as answers to their steps, where there is no other answer."""
    for step, names in by_step(listing, [path.name for path in step_folders()]).items():
        written: dict[str, str] = {}
        for name in names[:MAX_FILES]:
            try:
                source = _source(folder / name, f"{submission.name}/{readable(name)}")
            except Unusable as unusable:
                submission.unread[readable(name)] = str(unusable)
                continue
            if not answer_cells.is_untouched(source):
                written[name] = source
        own = submission.sources.get(step)
        if own is not None and not answer_cells.is_untouched(own[1]):
            _note_other_answers(submission, step, own[1], written)
        elif len(set(written.values())) == 1 and step not in submission.problems:
            name, source = next(iter(written.items()))
            submission.sources[step] = (f"{submission.name}/{readable(name)}", source)
        elif len(written) > 1:
            first, second = (f"{submission.name}/{readable(name)}" for name in list(written)[:2])
            submission.problems[step] = answered_twice(step, first, second)


def _note_other_answers(submission: Submission, step: str, own: str, written: Mapping[str, str]) -> None:
    said = _("{step}.py is there too, and was read").format(step=step)
    submission.unread |= {readable(name): said for name, source in written.items() if source != own}


def _add_notebooks(submission: Submission, folder: Path, listing: list[str]) -> None:
    unusable_notebooks: dict[str, str] = {}
    answered, left = 0, MAX_NOTEBOOK
    notebooks = [name for name in listing if name.endswith(".ipynb")]
    for name in notebooks[:MAX_NOTEBOOKS]:
        shown = f"{submission.name}/{readable(name)}"
        try:
            left -= (folder / name).lstat().st_size
            if left < 0 and len(notebooks) > 1:  # reading them is nobody's deadline
                raise Unusable(
                    _("With {file}, the notebooks exceed {limit} MiB. Clear their outputs and save them again.").format(
                        file=shown, limit=MAX_NOTEBOOK >> 20
                    )
                )
            answers = notebook_answers(folder / name, shown)
            answered += _length(answers)
            if answered > MAX_FILE:
                raise Unusable(
                    _("With {file}, the answer cells exceed {limit} KiB. A step needs a few.").format(
                        file=shown, limit=MAX_FILE >> 10
                    )
                )
            if not answers:
                submission.unread[readable(name)] = _("it has no answer cell")
            add_cells(submission, answers, shown)
        except Unusable as unusable:
            unusable_notebooks[name.removesuffix(".ipynb")] = str(unusable)
    for name, problem in unusable_notebooks.items():
        steps = {name} if STEP_NAME.fullmatch(name) else {folder.name for folder in step_folders()}
        for step in steps - submission.sources.keys():
            submission.problems.setdefault(step, problem)
    submission.unread |= dict.fromkeys(notebooks[MAX_NOTEBOOKS:], _("more than {count} files").format(count=MAX_FILES))


def _note_unread(submission: Submission, folder: Path, listing: list[str]) -> None:
    """Lists archives, folders that hold Python files or notebooks, and Python files that no step can import."""
    steps = [path.name for path in step_folders()]
    meant = {name for names in by_step(listing, steps).values() for name in names}
    for name in listing:
        shown = readable(name)
        if name.startswith(".") or name in NOT_ANSWERS or shown in submission.unread:
            continue
        if ARCHIVE.fullmatch(name):
            submission.unread[shown] = _("it is an archive: unpack it")
        elif DOCUMENT.fullmatch(name):
            submission.unread[shown] = _("it is a document: put code into a .py file or a notebook")
        elif name.lower().endswith((".py", ".txt")) and not MODULE_FILE.fullmatch(name) and name not in meant:
            if name.lower().endswith(".py") or ".py." in name.lower():
                submission.unread[shown] = _("its name is not that of a step")
        elif _holds_answers(folder / name):
            submission.unread[f"{shown}/"] = _("it is a folder: put its files straight into the submission")
    if len(submission.unread) > MAX_UNREAD:
        rest = len(submission.unread) - MAX_UNREAD
        kept = list(submission.unread.items())[:MAX_UNREAD]
        submission.unread = dict(kept) | {"…": _("{count} more").format(count=rest)}


def _holds_answers(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return False
    return any(entry.name.lower().endswith((".py", ".ipynb")) for entry in files.walk(path, NOT_ANSWERS))


def answered_twice(step: str, first: str, second: str) -> str:
    """One sentence about a step with two different answers."""
    return _("{step} is answered twice, in {first} and in {second}. Keep one of them.").format(
        step=step, first=first, second=second
    )


def notebook_answers(path: Path, shown: str = "") -> dict[str, list[str]]:
    """The sources of a notebook's answer cells, by step; `shown` is the file name in messages. Raises Unusable."""
    shown = shown or path.name
    try:
        return answer_cells.answers(_data(path, shown, MAX_NOTEBOOK))
    except answer_cells.Damaged as damaged:
        raise _damaged(shown) from damaged


def notebook_cells(path: Path) -> list[answer_cells.Cell]:
    """Every cell of a notebook, answer or not. Raises Unusable."""
    try:
        return list(answer_cells.cells(_data(path, path.name, MAX_NOTEBOOK)))
    except answer_cells.Damaged as damaged:
        raise _damaged(path.name) from damaged


def add_cells(submission: Submission, answers: Mapping[str, list[str]], shown: str) -> None:
    """Adds the answer cells of one notebook, by step, to a submission; `shown` is the notebook's name."""
    cells: dict[str, str] = {}
    for step, sources in answers.items():
        try:
            cells[step] = _answer(step, [_as_text(source, shown) for source in sources], shown)
        except Unusable as unusable:
            submission.problems.setdefault(step, str(unusable))
    for step, source in answer_cells.with_earlier_names(cells).items():
        _add_answer(submission, step, f"{shown}[{step}]", source)


def _length(answers: Mapping[str, list[str]]) -> int:
    """The total number of characters in the answer cells: too much is not read, since no deadline holds here."""
    return sum(len(source) for sources in answers.values() for source in sources if len(source) <= MAX_FILE)


def readable(name: str) -> str:
    """A file name that is safe to print in one line: control characters and bytes that are not UTF-8 become escapes."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _answer(step: str, sources: list[str], shown: str) -> str:
    """The one answer to a step in a notebook."""
    if not sources:
        raise Unusable(
            _(
                "{file} has no answer cell for {step}: it was deleted, is no longer a code cell, or has lost "
                "its metadata. Begin a code cell with the line: # {step}"
            ).format(file=shown, step=step)
        )
    different = set(sources)
    written = {source for source in different if not answer_cells.is_untouched(source)} or different
    if len(written) > 1:
        raise Unusable(
            _("{file} has {count} answer cells for {step}. Keep one of them.").format(
                file=shown, count=len(written), step=step
            )
        )
    (source,) = written
    return answer_cells.without_commands(source)


def _add_answer(submission: Submission, step: str, shown: str, source: str) -> None:
    """Adds an answer to a step, unless the step already has another one."""
    other = submission.sources.get(step)
    if other is None or answer_cells.is_untouched(other[1]):
        submission.sources[step] = (shown, source)
    elif other[1] != source and not answer_cells.is_untouched(source):
        submission.problems[step] = answered_twice(step, other[0], shown)


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
    """Decodes source as Python does. A byte order mark and Windows line endings come from editors and are accepted."""
    if len(text.encode(errors="replace")) > MAX_FILE:
        raise Unusable(
            _("{file} is larger than {limit} KiB. A step needs a few.").format(file=shown, limit=MAX_FILE >> 10)
        )
    if "\0" in text:
        raise Unusable(_("{file} contains a NUL character: it is not Python source.").format(file=shown))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _data(path: Path, shown: str, limit: int) -> bytes:
    """The content of a regular file, at most `limit` bytes."""
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
    return Unusable(_("{file} is damaged: it is not a notebook in format 4. Save it again.").format(file=shown))


def _too_large(shown: str, limit: int) -> Unusable:
    if limit == MAX_NOTEBOOK:
        said = _("{file} is larger than {limit} MiB. Clear its outputs and save it again.")
        return Unusable(said.format(file=shown, limit=limit >> 20))
    return Unusable(_("{file} is larger than {limit} KiB. A step needs a few.").format(file=shown, limit=limit >> 10))
