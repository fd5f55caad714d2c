"""How long score events take to a board: from the timestamp of the record to this instance's store."""

from __future__ import annotations

from itertools import chain
from typing import Final

from runtime.histogram import Histogram
from topology.leaderboard.records import Board

_BOUNDS_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Freshness:
    """Follows the boards that change while the copies are being followed, not while they are restored.

    Attributes:
        delays_s: seconds from the newest score event of a changed board to the change. What changes a board without a
            newer event says nothing: a repeat, a board published again, a late score with an old timestamp.
        read: boards that were read: those that the query has written, and some that were published again.
        unchanged: those among them that brought nothing new.
        newest_ms: the newest timestamp seen on such a board, wall-clock milliseconds; None before the first.
        generation: the highest of the boards that were read; 0 before the first.
    """

    def __init__(self) -> None:
        self.delays_s = Histogram(_BOUNDS_S)
        self.newest_ms: int | None = None
        self.read = self.unchanged = self.generation = 0

    def note(self, old: Board | None, new: Board, now_ms: int) -> None:
        """Take note of a board that was read.

        Args:
            old: the board before.
            new: the board as it is now, what was read merged into it.
            now_ms: wall-clock time in milliseconds.
        """
        self.read += 1
        self.generation = max(self.generation, new.generation)
        if new == old:
            self.unchanged += 1
            return
        newest = _newest_ms(new)
        if newest is None or (old is not None and newest <= (_newest_ms(old) or 0)):
            return
        self.delays_s.observe(max(0, now_ms - newest) / 1000)
        self.newest_ms = max(newest, self.newest_ms or 0)


def _newest_ms(board: Board) -> int | None:
    return max((entry.timestamp_ms for entry in chain(board.known, board.pending)), default=None)
