"""The temporary folders of workers: made, measured and removed by the trusted side, whatever a learner's code left there."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

MAX_ENTRIES = 5000  # files of one worker; more count as too much
BASE = "attention-kit-workers-"


class Scratch:
    """The folder that holds the folders of a zygote's workers. A lock on it says that the zygote lives."""

    def __init__(self) -> None:
        place = tempfile.gettempdir()
        _remove_stale(place)
        while True:
            self.path = tempfile.mkdtemp(prefix=BASE, dir=place)
            with contextlib.suppress(OSError):  # another zygote may take it for stale before it is locked
                self._lock = _locked(self.path)
                if os.path.isdir(self.path):
                    return

    def folder(self) -> str:
        """A new, empty folder. Raises OSError when none can be had."""
        return tempfile.mkdtemp(dir=self.path)

    def remove(self) -> None:
        """Removes everything."""
        remove(self.path)
        os.close(self._lock)


def size(folder: str, bound: int) -> int:
    """The bytes that the files below `folder` take, counted no further than `bound`; too many files are too many bytes."""
    total, entries, folders = 0, 0, [folder]
    while folders and total <= bound:
        try:
            with os.scandir(folders.pop()) as listing:
                for entry in listing:
                    entries += 1
                    if entries > MAX_ENTRIES:
                        return bound + 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:  # it vanished meanwhile, or hides: a folder that can't be listed takes no more files
            continue
    return total


def remove(folder: str) -> None:
    """Removes a folder with what it holds, following no link.

    Folders inside are first moved up to the top: neither their depth nor the length of their paths can stop it, as it
    stops `shutil.rmtree`. Nobody else may be at work in the folder any more.
    """
    with contextlib.suppress(OSError):
        os.chmod(folder, stat.S_IRWXU)
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(folder)


def _empty(top: int) -> None:
    pending = [(name, False) for name in os.listdir(top)]
    moved = 0
    while pending:
        name, emptied = pending.pop()
        try:
            if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=top)
            elif emptied:
                os.rmdir(name, dir_fd=top)
            else:
                os.chmod(name, stat.S_IRWXU, dir_fd=top)  # it is a folder, and nobody can swap it for a link
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
                pending.append((name, True))
                try:
                    for entry in os.listdir(inner):
                        if not stat.S_ISDIR(os.stat(entry, dir_fd=inner, follow_symlinks=False).st_mode):
                            os.unlink(entry, dir_fd=inner)
                            continue
                        os.chmod(entry, stat.S_IRWXU, dir_fd=inner)  # moving a folder writes to it
                        moved += 1
                        os.rename(entry, f"\n{moved}", src_dir_fd=inner, dst_dir_fd=top)
                        pending.append((f"\n{moved}", False))
                finally:
                    os.close(inner)
        except OSError:
            continue


def _remove_stale(place: str) -> None:
    """Removes what a zygote that was killed has left: its lock is gone, and the folder is this user's."""
    for path in Path(place).glob(f"{BASE}*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid != os.geteuid():
                continue
            lock = _locked(str(path))
            remove(str(path))
            os.close(lock)


def _locked(folder: str) -> int:
    """A descriptor of the folder that holds its lock. Raises OSError when another process has it."""
    import fcntl  # not on Windows, where nothing is forked

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
