"""The messages to and from the zygote: small, one per packet."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from grader.base.limits import Limits


class Command(msgspec.Struct):
    """A client's request: fork a judge or a worker (descriptors are passed along), make a worker dump its stack, or
    kill it. A worker runs on `cpus`, or anywhere if the set is empty."""

    kind: Literal["judge", "worker", "where", "kill"]
    pid: int = 0
    limits: Limits | None = None
    cpus: set[int] = set()


class Reply(msgspec.Struct):
    """The zygote's reply: a process was started (or none, with the reason), or has exited with this status.

    `folder` is a started worker's own, to be looked at; empty where the kernel keeps its size.
    """

    kind: Literal["ready", "started", "ended", "refused", "unforkable"]
    pid: int = 0
    status: int = 0
    folder: str = ""
    reason: Annotated[str, msgspec.Meta(max_length=1000)] = ""
