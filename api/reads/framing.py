"""How one instance hands boards to another: product id, length, JSON bytes; nothing is serialised again."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

FRAMES_TYPE: Final = "application/octet-stream"

_HEAD: Final = struct.Struct(">qI")


def pack(boards: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the boards as frames, in their order."""
    return b"".join([_HEAD.pack(product_id, len(board)) + board for product_id, board in boards])


def unpack(frames: bytes) -> list[tuple[int, bytes]]:
    """Return the boards that `frames` hold.

    Raises:
        ValueError: the bytes are no frames.
    """
    boards = []
    position, end = 0, len(frames)
    while position < end:
        start = position + _HEAD.size
        if start > end:
            raise ValueError("a frame's head is cut off")
        product_id, length = _HEAD.unpack_from(frames, position)
        position = start + length
        if position > end:
            raise ValueError("a frame's board is cut off")
        boards.append((product_id, frames[start:position]))
    return boards


def compose(boards: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the JSON object that maps each product id to its board, in the given order."""
    return b"{%b}" % b",".join([b'"%d":%b' % board for board in boards])
