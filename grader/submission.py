"""A submission: a folder of step files, read once, by the side that is trusted, with nothing followed or run."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from grader.language import gettext as _

MAX_FILE = 256 << 10  # bytes
MAX_FILES = 200
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
    """Reads the `.py` files of a folder. Raises NoSubmission when it is not a folder.

    Links are not followed, devices and pipes not opened; a file that is too large or not UTF-8 becomes a problem.
    """
    if not folder.is_dir():
        raise NoSubmission(str(folder))
    submission = Submission(folder.name or str(folder))
    names = sorted(name for name in os.listdir(folder) if MODULE_FILE.fullmatch(name))
    for name in sorted(names, key=lambda name: not name.startswith("step"))[:MAX_FILES]:
        module, shown = name[:-3], f"{submission.name}/{name}"
        try:
            submission.sources[module] = (shown, _source(folder / name, shown))
        except _Unusable as unusable:
            submission.problems[module] = str(unusable)
    return submission


class _Unusable(Exception):
    pass


def _source(path: Path, shown: str) -> str:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        if path.is_symlink():
            raise _Unusable(_("{file} is a link. Put the file itself there.").format(file=shown))
        descriptor = os.open(path, flags)
    except OSError as error:
        raise _Unusable(_("{file} can't be read ({reason}).").format(file=shown, reason=error.strerror)) from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _Unusable(_("{file} is not a regular file.").format(file=shown))
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise _Unusable(
            _("{file} is larger than {limit} KiB. A step needs a few.").format(file=shown, limit=MAX_FILE >> 10)
        )
    try:
        # A byte order mark and Windows line ends are an editor's doing, not a fault.
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _Unusable(
            _("{file} is not UTF-8 (byte 0x{byte:02x} on line {line}). Save it as UTF-8.").format(
                file=shown, byte=data[error.start], line=line
            )
        ) from error
    if "\0" in text:
        raise _Unusable(_("{file} holds a NUL character: it is not Python source.").format(file=shown))
    return text
