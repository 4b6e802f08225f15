"""Files written whole or not at all, and zip files that are the same bytes each time they are built."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

MAX_DEPTH = 32  # folders inside folders
MAX_WALKED = 10_000  # files and folders
NO_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip file can hold

Kind = TypeVar("Kind")


class NotOverwritten(FileExistsError):
    """The existing file was not made by the kit, or was edited since: it is left as it is."""


def walk(folder: Path, skip: Iterable[str] = ()) -> Iterator[os.DirEntry[str]]:
    """The files below an untrusted folder: links are not followed, unreadable folders and hidden names are skipped, and
    the walk stops at `MAX_DEPTH` and after `MAX_WALKED` entries."""
    left_out, waiting, count = set(skip), [(str(folder), 0)], 0
    while waiting:
        place, depth = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(place) as listing:
            for entry in listing:
                count += 1
                if count > MAX_WALKED:
                    return
                if entry.name.startswith(".") or entry.name in left_out:
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    yield entry
                elif depth < MAX_DEPTH:
                    waiting.append((entry.path, depth + 1))


def table(rows: Iterable[Iterable[object]]) -> str:
    """The text of a CSV file with these rows; its lines end in CR LF."""
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()


def decoded(file: Path, kind: type[Kind]) -> Kind | None:
    """The content of a JSON file of ours as this type; None if it can't be read, or holds something else."""
    import msgspec

    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def holds_any(folder: Path) -> bool:
    """Whether there is a file anywhere in a folder, a hidden one too, or more than can be looked at."""
    waiting, count = [str(folder)], 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listing:
                for entry in listing:
                    count += 1
                    if count > MAX_WALKED or not entry.is_dir(follow_symlinks=False):
                        return True
                    waiting.append(entry.path)
        except OSError:  # a path that is too long, or a folder that may not be read
            return True
    return False


def write(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Writes a file whole or not at all, `private`: for its owner alone. Raises OSError; the file is then as it was."""
    content = content.encode() if isinstance(content, str) else content
    if Path(os.path.abspath(path)).is_relative_to("/dev"):  # as in `--json /dev/stdout`: no file may take its place
        path.write_bytes(content)
        return
    unfinished = path.parent / f".{os.getpid()}-{threading.get_ident()}.unfinished"  # several threads may write here
    try:
        if private:
            unfinished.touch(0o600)
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except BaseException:  # Ctrl-C too
        with contextlib.suppress(OSError):  # a read-only folder does not allow removal either
            unfinished.unlink(missing_ok=True)
        raise


def pack(archive: Path, entries: Iterable[tuple[str, Path | bytes, int]]) -> None:
    """Writes a zip file, whole or not at all, of (name inside, file or its content, Unix mode); makes its folder."""
    import zipfile  # imported late: the command line starts faster without it

    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_name(f".{archive.name}.unfinished")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, content, mode in entries:
                entry = zipfile.ZipInfo(name, NO_DATE)
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, mode << 16
                packed.writestr(entry, content if isinstance(content, bytes) else content.read_bytes())
        unfinished.replace(archive)
    finally:
        unfinished.unlink(missing_ok=True)
