"""The outermost form of a message: two sizes, a header, a payload. Needs no torch; trusts nothing."""

from __future__ import annotations

import struct

MAX_HEADER = 1 << 20  # bytes
MAX_PAYLOAD = 1 << 28  # bytes

NEXT_STEP = (b"", b"")  # header and payload of the message by which a judge asks whether a worker can take another step

PREFIX = struct.Struct("<IQ")  # header bytes, payload bytes


class BadMessage(ValueError):
    """The received bytes are not a valid message."""


def frame(header: bytes, payload: bytes) -> bytes:
    """The bytes of one message."""
    return PREFIX.pack(len(header), len(payload)) + header + payload


def frame_sizes(prefix: bytes) -> tuple[int, int]:
    """(header bytes, payload bytes) of a frame from its first 12 bytes. Raises BadMessage beyond the bounds."""
    header, payload = PREFIX.unpack(prefix)
    if header > MAX_HEADER or payload > MAX_PAYLOAD:
        raise BadMessage(f"a message of {header + payload} bytes")
    return header, payload
