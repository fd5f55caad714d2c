"""Who follows the stores: the view, and whoever else wants to know what changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from topology.leaderboard.records import Board


class Listener(Protocol):
    """Follows the stores. Called in the event loop after each write, so it must be quick and not raise."""

    def board_changed(self, partition: int, product_id: int, board: Board | None) -> None:
        """A board was written, or deleted when it is None."""

    def player_changed(self, player_id: int, name: str | None) -> None:
        """A player was created or renamed, or deleted when `name` is None."""

    def product_changed(self, product_id: int, name: str | None) -> None:
        """A product was created or renamed, or deleted when `name` is None."""

    def partition_ready(self, partition: int) -> None:
        """A partition can answer from now on: its store and both tables have been complete once."""

    def partition_reset(self, partition: int) -> None:
        """The store of a partition was emptied, opened again or dropped; it is not ready any more."""

    def tables_reset(self) -> None:
        """A table was emptied; no partition is ready any more."""


Watcher = Callable[[int | None], None]
"""Told the product whose board may read differently from now on, at whatever limit; None when many may at once, or when
a copy came to be able to answer, or ceased to be. Called in the event loop within the change: it must be quick."""
