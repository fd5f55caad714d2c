"""The records of the topology: what the topics hold, their JSON, the ranking of entries, and the merge of boards.

Ranking and merge are what makes the system correct under repeats: boards of one generation merge as sets of entries, so
that the order in which they arrive, and how often, changes nothing.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NamedTuple

from runtime.errors import InvalidRecord
from runtime.records import ID_MAX, ID_MIN, json_object

SPARE_FACTOR: Final = 2
"""A board keeps this many times the served depth, so that a few deletes leave no hole."""

NOT_A_BOARD: Final = "not a board"


class Entry(NamedTuple):
    """One place on a board; compares by all fields, so that a set of entries holds a repeat once."""

    score: float
    timestamp_ms: int
    partition: int
    offset: int
    player_id: int


def rank(entry: Entry) -> tuple[float, int, int, int, int]:
    """Return the sort key that puts the best entry first: the score, then the earlier record.

    The same total order as `topology.leaderboard.query.ENTRY` has in Spark.
    """
    return (-entry.score, entry.timestamp_ms, entry.partition, entry.offset, -entry.player_id)


class Board(NamedTuple):
    """A record of `high-scores`: the best entries of one product, best first.

    Attributes:
        generation: boards of a higher generation replace those of a lower one.
        known: entries whose player and product existed when they were processed.
        pending: entries of which one did not exist yet.
        pending_lost: how many entries fell out of the pending list in this generation.
    """

    generation: int
    known: tuple[Entry, ...]
    pending: tuple[Entry, ...]
    pending_lost: int = 0

    def ranked(self) -> list[Entry]:
        """Return every entry once, best first. An entry read again after a failure may stand in both lists."""
        return sorted({*self.known, *self.pending}, key=rank)

    def to_json(self) -> bytes:
        """Return the record's value, as Spark writes it."""
        board = {
            "generation": self.generation,
            "known": [_entry_to_json(entry) for entry in self.known],
            "pending": [_entry_to_json(entry) for entry in self.pending],
            "pending_lost": self.pending_lost,
        }
        return json.dumps(board, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes) -> Board:
        """Return the board that a record's value is.

        Raises:
            InvalidRecord: the bytes are no board.
        """
        fields = json_object(value)
        try:
            return cls(
                generation=int(fields["generation"]),
                known=tuple(_entry_from_json(entry) for entry in fields["known"]),
                pending=tuple(_entry_from_json(entry) for entry in fields["pending"]),
                pending_lost=int(fields["pending_lost"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidRecord(NOT_A_BOARD, repr(error)) from error


def merge(old: Board | None, new: Board, places: int) -> Board:
    """Return the board that has seen what both have seen; commutative, associative and idempotent.

    Args:
        old: the board so far, if any.
        new: another record of the same product.
        places: how many entries each list keeps.
    """
    if old is None or old == new or old.generation < new.generation:
        return new
    if old.generation > new.generation:
        return old
    return Board(
        generation=old.generation,
        known=_best(old.known, new.known, places),
        pending=_best(old.pending, new.pending, places),
        pending_lost=max(old.pending_lost, new.pending_lost),
    )


def stands_for(record: Board, merged: Board) -> bool:
    """Return whether a record says all that the board does which came of merging it.

    So does one that has an entry as known which was pending before: its player or product was created, and the query
    that made the record read the event again. The merged board has such an entry in both lists.
    """
    known = set(record.known)
    return (
        record.generation == merged.generation
        and record.pending_lost == merged.pending_lost
        and known.issuperset(merged.known)
        and known.union(record.pending) == {*merged.known, *merged.pending}
    )


def _best(left: tuple[Entry, ...], right: tuple[Entry, ...], places: int) -> tuple[Entry, ...]:
    return left if left == right else tuple(sorted({*left, *right}, key=rank)[:places])


def _entry_to_json(entry: Entry) -> dict[str, float]:
    return {
        "score": entry.score,
        "player_id": entry.player_id,
        "timestamp": entry.timestamp_ms,
        "partition": entry.partition,
        "offset": entry.offset,
    }


def _entry_from_json(fields: dict[str, Any]) -> Entry:
    score = float(fields["score"])
    if not math.isfinite(score):
        raise ValueError(f"score {score}")
    player_id = int(fields["player_id"])
    if not ID_MIN <= player_id <= ID_MAX:
        raise ValueError(f"player id {player_id}")
    return Entry(
        score=score,
        timestamp_ms=int(fields["timestamp"]),
        partition=int(fields["partition"]),
        offset=int(fields["offset"]),
        player_id=player_id,
    )
