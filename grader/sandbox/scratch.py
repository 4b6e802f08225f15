"""The temporary folders of workers: created, measured and removed by the trusted side, with any content."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import tempfile
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path

MAX_ENTRIES = 1000  # files of one worker; more count as beyond the quota
MAX_DEPTH = 32  # of its folders
SLICE = 200  # entries removed at a time
DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
BASE = "attention-kit-workers-"


class Scratch:
    """The folder that holds the folders of a zygote's workers. A lock on it shows that the zygote is alive."""

    def __init__(self) -> None:
        """Makes the folder for workers' folders, locked while this process lives, and removes those of processes that
        have ended."""
        self._leaving: deque[Iterator[None]] = deque()
        parent = tempfile.gettempdir()
        _remove_stale(parent)
        while True:
            self.path = tempfile.mkdtemp(prefix=f"{BASE}{os.getpid()}-", dir=parent)
            with contextlib.suppress(OSError):  # another zygote may consider it stale before it is locked
                self._lock = _locked(self.path)
                if os.path.isdir(self.path):
                    return

    def folder(self) -> str:
        """The path of a new, empty folder. Raises OSError if none can be created, not even after all pending
        removals."""
        try:
            return tempfile.mkdtemp(dir=self.path)
        except OSError:
            while self.tidy():
                pass
            return tempfile.mkdtemp(dir=self.path)

    def discard(self, folder: str) -> None:
        """Removes a folder: at once if it holds little, else slice by slice in `tidy`."""
        self._leaving.append(removal(folder))
        self.tidy()

    def tidy(self) -> bool:
        """Removes a slice of the pending entries. Returns whether there are more."""
        if self._leaving and sum(1 for _entry in itertools.islice(self._leaving[0], SLICE)) < SLICE:
            self._leaving.popleft()
        return bool(self._leaving)

    def remove(self) -> None:
        """Removes this folder with all workers' folders, and gives up its lock."""
        remove(self.path)
        os.close(self._lock)


def size(folder: str, bound: int) -> int:
    """The size in bytes of the files below `folder`, counted no further than `bound`.

    Too many files, folders nested too deep and folders that can't be read count as beyond the bound.
    """
    total, entries, folders = 0, 0, [(folder, 0)]
    while folders and total <= bound:
        path, depth = folders.pop()
        try:
            with os.scandir(path) as listing:
                for entry in listing:
                    entries += 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append((entry.path, depth + 1))
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entries > MAX_ENTRIES or depth > MAX_DEPTH:
                        return bound + 1
        except (FileNotFoundError, NotADirectoryError):  # it was removed meanwhile
            continue
        except OSError:  # also if its path is longer than the system allows: the worker is inside and needs no path
            return bound + 1
    return total


def remove(folder: str) -> None:
    """Removes a folder and its content, following no link. No other process may still use it."""
    for _entry in removal(folder):
        pass


def removal(folder: str) -> Iterator[None]:
    """`remove`, one entry per step of the iterator.

    It walks by file descriptors: neither depth nor long paths stop it, as they stop `shutil.rmtree`.
    """
    with contextlib.suppress(OSError):
        os.chmod(folder, stat.S_IRWXU)
        yield from _emptied(os.open(folder, DIRECTORY))
        os.rmdir(folder)


def _emptied(here: int) -> Iterator[None]:
    """Removes all that is in an open folder, however deep, and closes its descriptor; yields after each step of the
    work."""
    try:
        levels = [(yield from _files_removed(here))]
        while True:
            if levels[-1]:
                inner = os.open(levels[-1][-1], DIRECTORY, dir_fd=here)
                os.close(here)
                here = inner
                levels.append((yield from _files_removed(here)))
                continue
            levels.pop()
            if not levels:
                return
            outer = os.open("..", DIRECTORY, dir_fd=here)
            os.close(here)
            here = outer
            os.rmdir(levels[-1].pop(), dir_fd=here)
            yield
    finally:
        os.close(here)


def _files_removed(folder: int) -> Generator[None, None, list[str]]:
    """Removes everything in an open folder but the folders there, which it makes accessible; returns their names, and
    yields after each entry."""
    inner = []
    with os.scandir(folder) as listing:
        for entry in listing:
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.name, stat.S_IRWXU, dir_fd=folder)  # no process is left that could swap it for a link
                inner.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=folder)
            yield
    return inner


def _remove_stale(parent: str) -> None:
    """Removes the folders of killed zygotes in `parent`: they are unlocked and belong to this user."""
    for path in Path(parent).glob(f"{BASE}*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid != os.geteuid():
                continue
            lock = _locked(str(path))
            remove(str(path))
            os.close(lock)


def _locked(folder: str) -> int:
    """A descriptor of the folder, which holds its lock. Raises OSError if another process holds it."""
    import fcntl  # not on Windows, if nothing is forked

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
