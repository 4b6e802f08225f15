"""Linux namespaces around the workers: no network but an isolated loopback, and a minimal file tree.

They are made once, by a process that ends again, and each worker joins them in a fraction of a millisecond. No
privileges are needed if the system lets an ordinary user make a user namespace; if it does not, this layer is missing
and nothing else changes. All of it is asked of the kernel directly, for the reasons in `kernel`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.sandbox.kernel import PR_SET_DUMPABLE, libc, prctl, system_call
from grader.sandbox.scratch import MAX_ENTRIES

NEW_USER, NEW_MOUNTS, NEW_NETWORK, NEW_IPC = 0x10000000, 0x00020000, 0x40000000, 0x08000000
JOINED = ("user", "net", "ipc", "mnt")  # in this order: joining the first gives the right to join the others
MS_BIND, MS_REC, MS_PRIVATE, MS_NOSUID, MNT_DETACH = 1 << 12, 1 << 14, 1 << 18, 1 << 1, 1 << 1
MOUNT_ATTR_RDONLY, AT_RECURSIVE, AT_FDCWD = 1, 0x8000, -100
DEVICES = (os.devnull, "/dev/urandom", "/dev/random", "/dev/zero")
OWN = "/learner"  # a worker's own folder, once it has joined
TREE_OPTIONS = b"mode=755,size=1m"  # the tree itself holds only folders and links
OWN_OPTIONS = "mode=700,size={bytes},nr_inodes={files}"
MS_NODEV = 1 << 2


class NotJoined(OSError):
    """The kernel refused what it allowed before."""


@dataclass(frozen=True)
class Namespaces:
    """Namespaces that wait for workers: a descriptor each."""

    descriptors: tuple[int, ...]

    def join(self, disk: int) -> str:
        """Moves this process in for good, with a file system of its own, and returns that one's path.

        The kernel keeps it to `disk` bytes, in memory, and it goes with the process. Raises NotJoined. Capabilities
        over the namespaces are left: `kernel.drop_privileges` gives them up.
        """
        for descriptor in self.descriptors:
            _require_success("setns", libc().setns(descriptor, 0))
        self.close()
        _require_success("unshare", libc().unshare(NEW_MOUNTS))
        options = OWN_OPTIONS.format(bytes=disk, files=MAX_ENTRIES).encode()
        _mount("own", OWN, MS_NOSUID | MS_NODEV, kind=b"tmpfs", options=options)
        os.chdir(OWN)
        return OWN

    def close(self) -> None:
        """Closes the descriptors; the kernel removes the namespaces with the last worker."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def make(base: str, readable: Sequence[str], spelled: Sequence[str]) -> Namespaces | None:
    """Namespaces in which `readable` is there for reading, and no more; `base` is a folder to build the tree in.

    `spelled` are paths as programs spell them: symbolic links along them are recreated. Returns None if the system
    does not allow it. Call it while this process has one thread.
    """
    if not sys.platform.startswith("linux"):
        return None
    for name in ("setns", "unshare", "mount", "umount2"):  # looked up once, and not by every worker
        getattr(libc(), name)
    place = tempfile.mkdtemp(dir=base)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                descriptors = _unshare()
                _build_tree(place, readable, spelled)
                socket.send_fds(theirs, [b"made"], descriptors)
            os._exit(0)
        theirs.close()
        _said, descriptors, _flags, _address = socket.recv_fds(ours, 16, len(JOINED))
        os.waitpid(pid, 0)
    os.rmdir(place)
    return Namespaces(tuple(descriptors)) if len(descriptors) == len(JOINED) else None


def _unshare() -> list[int]:
    """Moves this process into namespaces of its own. Returns a descriptor for each that workers join. Raises
    OSError."""
    user, group = os.geteuid(), os.getegid()
    _require_success("unshare", libc().unshare(NEW_USER | NEW_MOUNTS | NEW_NETWORK | NEW_IPC))
    prctl(PR_SET_DUMPABLE, 1)  # else root owns the files below /proc/self
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path(f"/proc/self/{name}").write_text(text, encoding="ascii")
    with contextlib.suppress(OSError):  # no process inside may create namespaces
        Path("/proc/sys/user/max_user_namespaces").write_text("0", encoding="ascii")
    return [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in JOINED]


def _build_tree(place: str, readable: Sequence[str], spelled: Sequence[str]) -> None:
    """Builds a tree with the `readable` paths and the links along the `spelled` ones in the folder `place`, and makes
    that this process's root, for reading only. Raises OSError."""
    _mount(None, "/", MS_REC | MS_PRIVATE)
    _mount("kit", place, MS_NOSUID, kind=b"tmpfs", options=TREE_OPTIONS)
    for path in _without_nested([*readable, *(path for path in DEVICES if os.path.exists(path))]):
        target = place + path
        if os.path.isdir(path):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            Path(target).touch()
        _mount(path, target, MS_BIND | MS_REC)
    for link, leads_to in _links(spelled):
        if not os.path.lexists(place + link):
            os.makedirs(place + os.path.dirname(link), exist_ok=True)
            os.symlink(leads_to, place + link)
    os.makedirs(place + OWN)
    attributes = ctypes.create_string_buffer(struct.pack("=QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0))
    _require_success(
        "mount_setattr", system_call("mount_setattr", AT_FDCWD, place.encode(), AT_RECURSIVE, attributes, 32)
    )
    os.chdir(place)
    _require_success("pivot_root", system_call("pivot_root", b".", b"."))
    _require_success("umount", libc().umount2(b".", MNT_DETACH))


def _without_nested(paths: Sequence[str]) -> list[str]:
    """The paths without those below another one: a bind mount includes them."""
    return [
        path for path in dict.fromkeys(paths) if not any(f"{path}/".startswith(f"{o}/") for o in paths if o != path)
    ]


def _links(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every symbolic link along the paths: its own real path, and its target."""
    seen: set[str] = set()
    waiting = list(paths)
    while waiting:
        here, rest = "/", [part for part in waiting.pop().split("/") if part]
        while rest:
            here = os.path.normpath(os.path.join(here, rest.pop(0)))
            if not os.path.islink(here):
                continue
            if here not in seen:
                seen.add(here)
                leads_to = os.readlink(here)
                yield here, leads_to
                waiting.append(os.path.join(os.path.dirname(here), leads_to, *rest))
            break


def _mount(
    source: str | None, target: str, flags: int, kind: bytes | None = None, options: bytes | None = None
) -> None:
    """Mounts as mount(2) does; `kind` is the type of file system. Raises NotJoined."""
    name = source.encode() if source is not None else None
    _require_success(f"mount {target}", libc().mount(name, target.encode(), kind, ctypes.c_ulong(flags), options))


def _require_success(call: str, result: int) -> None:
    """Raises NotJoined, naming the call, unless the result of a function of the C library is 0."""
    if result != 0:
        raise NotJoined(ctypes.get_errno(), f"{call} was refused")
