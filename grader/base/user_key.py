"""A secret of this user on this machine: what only they can have written or been given is recognised by it.

It is in the user's own folder for state, readable by them alone, and never in a folder that is handed in or copied.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from functools import cache
from pathlib import Path

NAME = "attention-from-scratch"
SIZE = 32  # bytes


@cache
def user_key() -> bytes | None:
    """The key, made when it is first needed; None if it can't be kept for this user alone."""
    folder = _state_folder()
    if folder is None:
        return None
    file = folder / "key"
    with contextlib.suppress(OSError):
        folder.mkdir(0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as written:
                written.write(secrets.token_bytes(SIZE))
        return _read(file)
    return None


def signed(purpose: str, content: bytes) -> str | None:
    """A digest, in hexadecimal, of the content for this purpose, which only this user can make; None without a key."""
    key = user_key()
    return hmac.new(key, purpose.encode() + b"\0" + content, hashlib.sha256).hexdigest() if key else None


def _read(file: Path) -> bytes | None:
    """The key in a file; None if others may read it, or its size is wrong. Raises OSError."""
    opened = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(opened, "rb") as held:
        status = os.fstat(opened)
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077):
            return None
        key = held.read(SIZE + 1)
    return key if len(key) == SIZE else None


def _state_folder() -> Path | None:
    """The folder for this kit's state in the user's home; None without a home."""
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        place = os.environ.get(name, "")
        if place and os.path.isabs(place):
            return Path(place) / NAME
    with contextlib.suppress(RuntimeError):  # no home folder
        return Path.home() / ".local" / "state" / NAME
    return None
