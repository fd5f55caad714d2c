"""What is served of a board: a pure function of the board and the tables as they are now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.declaration import Row, Tables
from topology.leaderboard.moderation import Hidden, ScoreName
from topology.leaderboard.places import Board, Entry
from topology.leaderboard.topics import MODERATION, PLAYERS, PRODUCTS


def show(depth: int) -> Callable[[Row, Tables], list[dict[str, Any]] | None]:
    """Return what shows a board: its best entries whose player exists and that are not hidden, best first.

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
        hidden: Hidden = tables[MODERATION]
        hides_some = bool(hidden)
        entries: list[dict[str, Any]] = []
        for entry in board.ranked():
            if hides_some and hides_score(hidden, board, entry):
                continue
            player = players.get(entry.player_id)
            # Looked up first: when it is lifted, the boards are found that looked for the player.
            if player is not None and not (hides_some and hidden.hides_player(entry.player_id, product_id)):
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


def hides_score(hidden: Hidden, board: Board, entry: Entry) -> bool:
    """Return whether an entry of a board is hidden by itself, whoever's it is."""
    topic_id = entry.topic or board.topic
    return topic_id is not None and ScoreName(topic_id, entry.partition, entry.offset) in hidden.scores
