"""Notices saves: at once where the system tells of them, else by looking at the folder a few times a second.

Looking is what counts; a notification only says when. So one that is lost, as on a network drive or a folder shared
with another system, costs a second and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
from collections.abc import Callable
from pathlib import Path

from grader.language import gettext as _
from grader.submission import MODULE_FILE

QUIET, LONGEST = 25, 100  # milliseconds: a save is over when nothing has changed for so long, or after so long
TOLD, NOT_TOLD = 1.0, 0.2  # seconds between two looks, with notifications and without
PROBING = 50  # milliseconds after which the watch is set up and can be tried

Stamp = tuple[int, int, int, int]


class Folder:
    """A folder of step files and when each was last written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamps = self._look()

    def changed(self) -> list[str]:
        """The modules whose files were written, made or removed since the last call; the last one written comes first.

        Times are in nanoseconds: watchfiles' own polling knows seconds only and misses the second save within one.
        """
        before, self._stamps = self._stamps, self._look()
        names = {name for name, _stamp in before.items() ^ self._stamps.items()}
        return sorted(names, key=lambda name: self._stamps.get(name, (0, 0, 0, 0)), reverse=True)

    def _look(self) -> dict[str, Stamp]:
        stamps: dict[str, Stamp] = {}
        with contextlib.suppress(OSError), os.scandir(self.path) as listing:
            for entry in listing:
                if MODULE_FILE.fullmatch(entry.name):
                    with contextlib.suppress(OSError):  # removed meanwhile
                        status = entry.stat(follow_symlinks=False)
                        stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
                        stamps[entry.name[:-3]] = stamp
        return stamps


class Notifications:
    """Calls `wake`, from a thread of its own, whenever something in the folder changes.

    `arrive` says whether that works: it is set once the system has told of a probe file, or of a save.
    """

    def __init__(self, folder: Path, wake: Callable[[], None]) -> None:
        self.folder, self._wake = folder, wake
        self.arrive = threading.Event()
        self.reason = why_not()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def pause(self) -> float:
        """Seconds to wait before the folder is looked at without having been told."""
        return TOLD if self.arrive.is_set() else NOT_TOLD

    def __enter__(self) -> Notifications:
        if self.reason is None:
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        if self._thread.ident:
            self._thread.join(1.0)

    def _run(self) -> None:
        probe = self.folder / f".kit-probe-{os.getpid()}"
        try:
            self._listen(probe)
        except Exception as error:  # no more watches to be had, no such folder, no watchfiles: looking goes on
            self.reason = f"{type(error).__name__}: {error}"
            self.arrive.clear()
        finally:
            with contextlib.suppress(OSError):
                probe.unlink(missing_ok=True)

    def _listen(self, probe: Path) -> None:
        from watchfiles import watch

        tried = False
        for changes in watch(
            self.folder, watch_filter=None, debounce=LONGEST, step=QUIET, rust_timeout=PROBING, yield_on_timeout=True,
            stop_event=self._stop, raise_interrupt=False, force_polling=False, recursive=False,
        ):  # fmt: skip
            if not tried:
                tried = True
                with contextlib.suppress(OSError):  # a folder that can't be written to: any other change will tell
                    probe.touch()
            if changes:
                if not self.arrive.is_set():
                    self.arrive.set()
                    with contextlib.suppress(OSError):
                        probe.unlink(missing_ok=True)
                self._wake()


def why_not() -> str | None:
    """Why notifications are not even tried on this system, None where they are."""
    forced = os.environ.get("WATCHFILES_FORCE_POLLING", "").lower()
    if forced and forced not in ("false", "disable", "disabled"):
        return _("WATCHFILES_FORCE_POLLING is set")
    if not forced and "microsoft-standard" in platform.uname().release.lower():
        return _("WSL does not tell of saves made on the Windows side")
    return None
