"""Files that anyone may have made, read by the trusted side: no link is followed, no device opened, nothing is run."""

from __future__ import annotations

import codecs
import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from grader.base.language import gettext as _

MAX_FILE = 256 << 10  # bytes
MAX_NOTEBOOK = 32 << 20  # bytes: outputs, which are skipped, may hold large pictures
COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # PEP 263: in one of the first two lines
NO_TEXT = ("idna", "punycode", "unicode_escape", "raw-unicode-escape", "utf-7", "undefined")  # slow, or a disguise


class Unusable(Exception):
    """A file or a cell can't be used. One sentence."""


def source_text(path: Path, shown: str) -> str:
    """The text of a Python file in the encoding that it names. Raises Unusable."""
    data = content(path, shown, MAX_FILE)
    try:
        return as_text(data.decode(_encoding(data)), shown)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Unusable(
            _("{file} is not UTF-8 (byte 0x{byte:02x} on line {line}). Save it as UTF-8.").format(
                file=shown, byte=data[error.start], line=line
            )
        ) from error


def _encoding(data: bytes) -> str:
    """The encoding that a file names as Python has it, such as cp949; UTF-8 if it names none, or none of text."""
    for line in data.splitlines()[:2]:
        if named := COOKIE.match(line):
            with suppress(LookupError, UnicodeDecodeError):
                "".encode(name := named[1].decode())
                return "utf-8-sig" if codecs.lookup(name).name in (*NO_TEXT, "utf-8") else name
    return "utf-8-sig"


def as_text(text: str, shown: str) -> str:
    """Decodes source as Python does. A byte order mark and Windows line endings come from editors and are accepted."""
    if len(text.encode(errors="replace")) > MAX_FILE:
        raise Unusable(_("{file} is larger than {limit} KiB. A step needs a few.", file=shown, limit=MAX_FILE >> 10))
    if "\0" in text:
        raise Unusable(_("{file} contains a NUL character: it is not Python source.", file=shown))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def content(path: Path, shown: str, limit: int) -> bytes:
    """The content of a regular file, at most `limit` bytes."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        if path.is_symlink():
            raise Unusable(_("{file} is a link. Put the file itself there.", file=shown))
        descriptor = os.open(path, flags)
    except OSError as error:
        raise Unusable(_("{file} can't be read ({reason}).", file=shown, reason=error.strerror)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unusable(_("{file} is not a regular file.", file=shown))
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_large(shown, limit)
    return data


def damaged(shown: str) -> Unusable:
    """The sentence about a notebook that can't be read."""
    return Unusable(_("{file} is damaged: it is not a notebook in format 4. Save it again.", file=shown))


def _too_large(shown: str, limit: int) -> Unusable:
    if limit == MAX_NOTEBOOK:
        sentence = _("{file} is larger than {limit} MiB. Clear its outputs and save it again.")
        return Unusable(sentence.format(file=shown, limit=limit >> 20))
    return Unusable(_("{file} is larger than {limit} KiB. A step needs a few.", file=shown, limit=limit >> 10))
