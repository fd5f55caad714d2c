"""How one instance hands rows to another: key and JSON bytes with their lengths; nothing is serialised again."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from runtime.keys import KeyType, KeyValue

FRAMES_TYPE: Final = "application/octet-stream"

_HEAD: Final = struct.Struct(">II")

Rows = list[tuple[KeyValue, bytes]]
"""Keys with the JSON of their rows."""


def pack(rows: Iterable[tuple[KeyValue, bytes]], key_type: KeyType) -> bytes:
    """Return the rows as frames, in their order."""
    encode, head = key_type.encode, _HEAD.pack
    frames: list[bytes] = []
    for key, row in rows:
        encoded = encode(key)
        frames += (head(len(encoded), len(row)), encoded, row)
    return b"".join(frames)


def unpack(frames: bytes, key_type: KeyType) -> Rows:
    """Return the rows that `frames` hold.

    Raises:
        ValueError: the bytes are no frames.
    """
    rows = []
    decode = key_type.decode
    position, end = 0, len(frames)
    while position < end:
        start = position + _HEAD.size
        if start > end:
            raise ValueError("a frame's head is cut off")
        key_bytes, row_bytes = _HEAD.unpack_from(frames, position)
        middle = start + key_bytes
        position = middle + row_bytes
        if position > end:
            raise ValueError("a frame's row is cut off")
        rows.append((decode(frames[start:middle]), frames[middle:position]))
    return rows
