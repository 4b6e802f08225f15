"""What the zygote is asked and what it tells: small messages, one a packet."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from grader.limits import Limits


class Command(msgspec.Struct):
    """What a client asks: fork a judge or a worker (descriptors come along), kill a worker, or load all of torch."""

    kind: Literal["judge", "worker", "kill", "everything"]
    pid: int = 0
    folder: str = ""
    limits: Limits | None = None


class Reply(msgspec.Struct):
    """What a client is told: a process was started (or none, with the reason), or one has ended with this status."""

    kind: Literal["ready", "started", "ended", "refused"]
    pid: int = 0
    status: int = 0
    reason: Annotated[str, msgspec.Meta(max_length=1000)] = ""
