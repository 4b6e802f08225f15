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


def unframed(data: bytes) -> tuple[bytes, bytes]:
    """The header and the payload of one whole message, as `frame` made it; unchecked, for messages of our own."""
    header, _payload = PREFIX.unpack_from(data)
    return data[PREFIX.size : PREFIX.size + header], data[PREFIX.size + header :]


def batch(frames: list[bytes]) -> bytes:
    """The bytes of several messages that are answered together; at least one. Without a mark if it is only one."""
    return b"".join([frame(b"", len(frames).to_bytes(8, "little")), *frames]) if len(frames) > 1 else frames[0]


def batch_size(message: tuple[bytes, bytes]) -> int:
    """The number of messages that follow this one (header, payload) and are answered together; 0 if this one starts no
    batch."""
    header, payload = message
    return int.from_bytes(payload, "little") if not header and payload else 0


def frame_sizes(prefix: bytes) -> tuple[int, int]:
    """(header bytes, payload bytes) of a frame from its first 12 bytes. Raises BadMessage beyond the bounds."""
    header, payload = PREFIX.unpack(prefix)
    if header > MAX_HEADER or payload > MAX_PAYLOAD:
        raise BadMessage(f"a message of {header + payload} bytes")
    return header, payload
