"""What the broker has acknowledged, and the boards that follow from it; shares no code with the product."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.drivers.faults_events import Event, Score
from tests.drivers.reference import Reference


class Place(NamedTuple):
    """Where a record lies. Of equal scores the earlier is the better one, in this order."""

    timestamp_ms: int
    partition: int
    offset: int


class Taken(NamedTuple):
    """A score that the broker has.

    Attributes:
        place: where it lies.
        score: what it says.
        at_s: when the broker said so, monotonic.
    """

    place: Place
    score: Score
    at_s: float


@dataclass
class Ledger:
    """Every record that the broker has acknowledged.

    Attributes:
        scores: those of usable score events.
        bad: the others of the scores' topic: where they lie, their key and their value.
        players: name by id, as they are now.
        products: name by id, as they are now.
        count: records of all three inputs.
    """

    scores: list[Taken] = field(default_factory=list)
    bad: list[tuple[Place, bytes | None, bytes | None]] = field(default_factory=list)
    players: dict[int, str] = field(default_factory=dict)
    products: dict[int, str] = field(default_factory=dict)
    count: int = 0

    def settling(self) -> list[Event]:
        """Return what is sent while it is waited for that instances have it all: nothing, boards wait for no event."""
        return []

    def note(self, event: Event, place: Place) -> None:
        """Take note of a record; of one row's records in the order in which they were sent."""
        self.count += 1
        if event.means is None:
            self.bad.append((place, event.key, event.value))
        elif isinstance(event.means, Score):
            self.scores.append(Taken(place, event.means, time.monotonic()))
        else:
            row_id, name = event.means
            table = self.players if event.topic == "players" else self.products
            table.pop(row_id, None)
            if name is not None:
                table[row_id] = name

    def boards(self, limit: int) -> dict[str, list[dict[str, Any]]]:
        """Return the body of `GET /leaderboard` that follows."""
        scores = [taken.score for taken in sorted(self.scores)]
        return Reference(self.players, self.products, [(of.score, of.player, of.product) for of in scores]).boards(
            limit
        )

    def best(self) -> float:
        """Return the highest score so far."""
        return max((taken.score.score for taken in self.scores), default=0.0)

    def since(self, offsets: dict[int, int]) -> list[Taken]:
        """Return the scores at or after an offset of each partition; partitions that are not named count whole."""
        return [taken for taken in self.scores if taken.place.offset >= offsets.get(taken.place.partition, 0)]
