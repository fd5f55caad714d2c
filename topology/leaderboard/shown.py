"""What is served of a board: a pure function of the board and the tables as they are now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.declaration import Row, Tables
from topology.leaderboard.places import Board
from topology.leaderboard.topics import PLAYERS, PRODUCTS


def show(depth: int) -> Callable[[Row, Tables], list[dict[str, Any]] | None]:
    """Return what shows a board: its best entries whose player exists, best first.

    Args:
        depth: at most so many. A pending entry shows as soon as its player and product exist.
    """

    def shown(row: Row, tables: Tables) -> list[dict[str, Any]] | None:
        product_id: int = row["product_id"]
        product = tables[PRODUCTS].get(product_id)
        if product is None:
            return None
        board: Board = row["board"]
        players, game = tables[PLAYERS], product["name"]
        entries: list[dict[str, Any]] = []
        for entry in board.ranked():
            player = players.get(entry.player_id)
            if player is not None:
                entries.append(
                    {
                        "playerId": entry.player_id,
                        "productId": product_id,
                        "playerName": player["name"],
                        "gameName": game,
                        "score": entry.score,
                    }
                )
                if len(entries) == depth:
                    break
        return entries

    return shown
