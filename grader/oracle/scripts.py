"""The known messages and verdicts of each step under its seed, shared by all judges of a run.

They share one anonymous file: each appends what it has learned, and reads what the others have. No worker has it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from grader.checks.lazy import PassRecord, Script

with suppress(ImportError):  # Windows has none, and no judges that share a file
    import fcntl

START = 1 << 20  # judges lock the bytes before it, one for each processor: see `sandbox.cpus`
HEAD = struct.Struct("<QQ")  # how often it was emptied, and the bytes that it holds
MOST = 64 << 20  # bytes, of memory: then it is emptied
LENGTH = struct.Struct("<I")

Checks = dict[str, Script]


class LearnedCheck(msgspec.Struct, array_like=True):
    """The script of one check."""

    step: str
    seed: int
    device: str
    check: str
    groups: list[list[bytes]]
    passed: dict[bytes, PassRecord]
    reached: set[bytes]


class SharedScripts:
    """The scripts of each step under its last seed. Without a descriptor nothing is shared."""

    def __init__(self, descriptor: int | None = None) -> None:
        """`descriptor` is that of the judges' shared file; None: nothing is shared."""
        self._descriptor = descriptor
        self._of_step: dict[str, tuple[int, dict[str, Checks]]] = {}
        self._written: dict[tuple[str, str, str], tuple[int, int, int]] = {}  # how much is known of what is in the file
        self._read = (0, 0)

    def of(self, step: str, seed: int) -> dict[str, Checks]:
        """The scripts of a step's checks by device, then by check; new ones are added to these dicts. Those under
        another seed are forgotten."""
        if self._of_step.get(step, (None,))[0] != seed:
            self._of_step[step] = seed, {}
        return self._of_step[step][1]

    def refresh(self) -> None:
        """Reads the scripts that other judges have learned since the last call."""
        if self._descriptor is None:
            return
        head = self._head()
        emptied, place = self._read
        if head == self._read:
            return
        if emptied != head[0]:
            place = 0
        data = os.pread(self._descriptor, head[1] - place, START + HEAD.size + place)
        self._read, at = head, 0
        while at < len(data):
            (length,) = LENGTH.unpack_from(data, at)
            at += LENGTH.size + length
            self._take(msgspec.msgpack.decode(data[at - length : at], type=LearnedCheck))

    def publish(self, step: str) -> None:
        """Appends the scripts of a step that were learned since the last call to the shared file; empties it first if
        it is full."""
        if self._descriptor is None or step not in self._of_step:
            return
        seed, devices = self._of_step[step]
        new = b"".join(self._new(step, seed, devices))
        if not new:
            return
        with self._locked():
            self.refresh()  # what comes before is not its own
            emptied, size = self._head()
            if size + len(new) > MOST:
                os.ftruncate(self._descriptor, START)
                emptied, size = emptied + 1, 0
            os.pwrite(self._descriptor, new, START + HEAD.size + size)
            self._read = emptied, size + len(new)
            os.pwrite(self._descriptor, HEAD.pack(*self._read), START)

    def _new(self, step: str, seed: int, devices: dict[str, Checks]) -> Iterator[bytes]:
        """Yields the scripts of a step that have changed since they were last written, encoded, and notes them as
        written."""
        for device, checks in devices.items():
            for check, script in checks.items():
                version = seed, len(script.passed), len(script.reached)
                before = self._written.get((step, device, check))
                self._written[step, device, check] = version
                if version != before:
                    entry = LearnedCheck(step, seed, device, check, script.groups, script.passed, script.reached)
                    data = msgspec.msgpack.encode(entry)
                    yield LENGTH.pack(len(data)) + data

    def _take(self, entry: LearnedCheck) -> None:
        """Adds a script that another judge has learned."""
        checks = self.of(entry.step, entry.seed).setdefault(entry.device, {})
        script = checks.setdefault(entry.check, Script(entry.groups))
        script.passed |= entry.passed
        if script.groups == entry.groups:
            script.reached |= entry.reached
        self._written[entry.step, entry.device, entry.check] = (entry.seed, len(script.passed), len(script.reached))

    def _head(self) -> tuple[int, int]:
        """The two numbers at the start of the shared file; zeros while it is empty."""
        assert self._descriptor is not None
        data = os.pread(self._descriptor, HEAD.size, START)
        found: Any = HEAD.unpack(data) if len(data) == HEAD.size else (0, 0)
        return found  # type: ignore[no-any-return]  # two numbers

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the lock of the shared file for one block, against other processes."""
        assert self._descriptor is not None
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, START)
        try:
            yield
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, START)
