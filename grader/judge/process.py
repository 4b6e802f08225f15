"""The judge: a warm process that grades submission after submission and never imports a learner's code.

Requests arrive on a channel. In each check, a worker answers for the `student`, and the solutions in this process, or a
recording of them, for the `reference`.
"""

from __future__ import annotations

import socket
import traceback
from collections.abc import Sequence
from pathlib import Path

from grader.base.paths import ROOT
from grader.judge.messages import Broken, Channel

# Bytes that a judge may allocate beyond its initial memory. Answers are bounded, what a check computes from them is
# not: an unforeseen shape may broadcast to a huge one, and on a machine out of memory other students' processes are
# killed.
MEMORY = 4 << 30


def main(
    stream: socket.socket, control: socket.socket | None, proven: Sequence[str] = (), cpu_claims: int | None = None
) -> None:
    """Serves requests until the other side closes.

    `control` is a socket to the zygote, if there is one, which has tested the `proven` layers. `cpu_claims` is the file
    in which parallel judges claim a CPU each (`sandbox.cpus`).
    """
    channel = Channel(stream)
    try:
        _serve(channel, control, proven, cpu_claims)
    except BaseException:
        channel.send(Broken(traceback.format_exc(limit=-6)))


def _serve(channel: Channel, control: socket.socket | None, proven: Sequence[str], cpu_claims: int | None) -> None:
    """Prepares the judge, as the zygote has if there is a `control` socket, and serves its channel until that
    closes."""
    from grader.calls import devices
    from grader.judge.session import Session
    from grader.sandbox import preload
    from grader.sandbox.forked import ForkLauncher
    from grader.sandbox.process import Launcher
    from grader.sandbox.spawned import SpawnLauncher

    if control is None:  # else the zygote has done it: some references would import all of torch's compiler
        preload.load_torch()
    launcher: Launcher = ForkLauncher(control, proven) if control is not None else SpawnLauncher(str(ROOT))
    session = Session(channel, launcher, cpu_claims)
    if control is not None and not devices.accelerator():  # a driver maps more than any bound
        _bound_memory()
    session.serve()


def _bound_memory() -> None:
    """Makes allocations beyond `MEMORY` fail in the check that makes them. Linux only, as forked judges are."""
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))
