"""The boards as they have to be, computed in the plainest way from all records; shares no code with the product."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reference:
    """Every score ever sent and the tables as they are now.

    Attributes:
        players: name by id.
        products: name by id.
        scores: score, player id, product id, in an order that breaks ties: the earlier record first.
    """

    players: dict[int, str] = field(default_factory=dict)
    products: dict[int, str] = field(default_factory=dict)
    scores: list[tuple[float, int, int]] = field(default_factory=list)

    def boards(self, limit: int = 3) -> dict[str, list[dict[str, Any]]]:
        """Return the body of `GET /leaderboard`."""
        boards = {str(product): self.board(product, limit) for product in sorted(self.products)}
        return {product: board for product, board in boards.items() if board}

    def board(self, product: int, limit: int = 3) -> list[dict[str, Any]]:
        """Return one board; empty when there is nothing to show."""
        shown = [(score, player) for score, player, of in self.scores if of == product and player in self.players]
        best = sorted(shown, key=lambda entry: entry[0], reverse=True)[:limit] if product in self.products else []
        return [
            {
                "playerId": player,
                "productId": product,
                "playerName": self.players[player],
                "gameName": self.products[product],
                "score": float(score),
            }
            for score, player in best
        ]

    def add(self, scores: Iterable[tuple[float, int, int]]) -> None:
        """Add scores, in the order in which they are sent."""
        self.scores.extend(scores)

    def rename(self, players: Mapping[int, str]) -> None:
        """Create or rename players."""
        self.players.update(players)
