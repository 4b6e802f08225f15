"""What the zygote is asked and what it tells: small messages, one a packet."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from grader.limits import Limits


class Command(msgspec.Struct):
    """What a client asks: fork a judge or a worker (descriptors come along), have a worker say where it is or kill it,
    or load all of torch. A worker runs on `processors`, or anywhere if there are none."""

    kind: Literal["judge", "worker", "where", "kill"]
    pid: int = 0
    limits: Limits | None = None
    processors: set[int] = set()


class Reply(msgspec.Struct):
    """What a client is told: a process was started (or none, with the reason), or one has ended with this status.

    `folder` is a started worker's own; its client removes it.
    """

    kind: Literal["ready", "started", "ended", "refused"]
    pid: int = 0
    status: int = 0
    folder: str = ""
    reason: Annotated[str, msgspec.Meta(max_length=1000)] = ""
