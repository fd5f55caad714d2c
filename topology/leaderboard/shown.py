"""What is served of a board: a pure function of the board and the names as they are now, and its bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from topology.leaderboard.records import Board


class Rendered(NamedTuple):
    """A board as it is served.

    Attributes:
        body: a JSON list of entries, best first, UTF-8.
        etag: an HTTP entity tag, quotes included; equal bytes have equal tags on every instance.
    """

    body: bytes
    etag: str


class ServedEntry(NamedTuple):
    """One place of a board, with names."""

    player_id: int
    product_id: int
    player_name: str
    game_name: str
    score: float


def visible(
    product_id: int,
    board: Board,
    product_name: str | None,
    player_name: Callable[[int], str | None],
    limit: int,
) -> list[ServedEntry]:
    """Return the best entries whose player and product exist.

    Args:
        product_id: which board it is.
        board: known and pending entries; a pending one shows as soon as its player and product exist.
        product_name: None hides the whole board.
        player_name: None hides the player's entries; only asked until `limit` entries are found.
        limit: at most this many entries.
    """
    if product_name is None:
        return []
    entries: list[ServedEntry] = []
    for entry in board.ranked():
        name = player_name(entry.player_id)
        if name is not None:
            entries.append(ServedEntry(entry.player_id, product_id, name, product_name, entry.score))
            if len(entries) == limit:
                break
    return entries


def render(entries: list[ServedEntry]) -> Rendered:
    """Return the bytes of entries."""
    fields = [
        {
            "playerId": entry.player_id,
            "productId": entry.product_id,
            "playerName": entry.player_name,
            "gameName": entry.game_name,
            "score": entry.score,
        }
        for entry in entries
    ]
    return tagged(json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode())


def tagged(body: bytes) -> Rendered:
    """Return the bytes of a board with their entity tag."""
    return Rendered(body, f'"{blake2b(body, digest_size=12).hexdigest()}"')
