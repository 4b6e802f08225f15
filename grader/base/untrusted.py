"""Reads files of unknown origin on the trusted side: no link is followed, no device opened, nothing is run."""

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
CONFLICT = re.compile(rb"(<{7}|>{7}) |={7}$")  # the lines that Git writes around two sides of a merge
SHORTCUT = re.compile(rb'"(doc_id|url|resource_id)"')
OLD_FORMAT = re.compile(rb'"nbformat": ?([123])\b')
MOST_OF_A_START = 4096  # bytes that show what a file is
NO_TEXT = ("idna", "punycode", "unicode_escape", "raw-unicode-escape", "utf-7", "undefined")  # slow, or a disguise


class Unusable(Exception):
    """A file or a cell can't be used. One sentence."""


def source_text(path: Path, shown: str) -> str:
    """The text of a Python file, decoded from the encoding that it names. Raises Unusable, whose sentence calls the
    file `shown`."""
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
    """The source with every line ended by a line feed: editors of other systems write other ends. Raises Unusable if it
    is too long, or holds a NUL."""
    if len(text.encode(errors="replace")) > MAX_FILE:
        raise Unusable(_("{file} is larger than {limit} KiB. A step needs a few.", file=shown, limit=MAX_FILE >> 10))
    if "\0" in text:
        raise Unusable(_("{file} contains a NUL character: it is not Python source.", file=shown))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def content(path: Path, shown: str, limit: int) -> bytes:
    """The content of a regular file. Raises Unusable for any other, and for more than `limit` bytes."""
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


def damaged(shown: str, data: bytes) -> Unusable:
    """The error, to be raised, for a notebook with this content that can't be read: it says what the file holds
    instead, and what to do about it."""
    start = data[:MOST_OF_A_START].lstrip(b"\xef\xbb\xbf \t\r\n")
    line = next((number for number, text in enumerate(data.splitlines(), 1) if CONFLICT.match(text)), 0)
    if not data.strip():
        sentence = _("{file} is empty. Hand the notebook in again.")
    elif data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or data[1:40:2].count(0) > 10:
        sentence = _("{file} is text in UTF-16, and a notebook is UTF-8. Save it again in Jupyter.")
    elif start[:15].lower().startswith((b"<!doctype", b"<html")):
        sentence = _("{file} is a web page, as of a login, and not the notebook itself. Download the notebook again.")
    elif line:
        sentence = _("{file} holds the marks of a merge in Git (line {line}). Choose one side and save it again.")
    elif start.startswith(b"{") and SHORTCUT.search(start) and b'"cells"' not in data:
        sentence = _("{file} is only a shortcut of Google Drive. In Colab choose File, Download, Download .ipynb.")
    elif OLD_FORMAT.search(data):
        sentence = _("{file} is a notebook in format {format}. Open it in Jupyter and save it: then it is in format 4.")
    elif start.startswith(b"{") and not data.rstrip().endswith(b"}"):
        sentence = _("{file} is cut off: the end is missing. Download or save it again.")
    else:
        sentence = _("{file} is damaged: it is not a notebook in format 4. Save it again.")
    old = OLD_FORMAT.search(data)
    return Unusable(sentence.format(file=shown, line=line, format=old[1].decode() if old else ""))


def _too_large(shown: str, limit: int) -> Unusable:
    """The refusal of a file of more than `limit` bytes."""
    if limit == MAX_NOTEBOOK:
        sentence = _("{file} is larger than {limit} MiB. Clear its outputs and save it again.")
        return Unusable(sentence.format(file=shown, limit=limit >> 20))
    return Unusable(_("{file} is larger than {limit} KiB. A step needs a few.", file=shown, limit=limit >> 10))
