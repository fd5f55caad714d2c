"""A seeded stream of all that may come in: scores, ties, strangers, renames, deletes, and records that are bad."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

Input = Literal["score-events", "players", "products"]

BAD_SCORES: Final[tuple[bytes | None, ...]] = (
    None,
    b"",
    b"5",
    b"[]",
    b"null",
    b"\xff\xfe\x00",
    b'{"score": 10, "product_id": 1',
    b'{"score": 10, "product_id": 1}',
    b'{"score": null, "product_id": 1, "player_id": 1}',
    b'{"score": "many", "product_id": 1, "player_id": 1}',
    b'{"score": NaN, "product_id": 1, "player_id": 1}',
    b'{"score": 1e999, "product_id": 1, "player_id": 1}',
    b'{"score": 10, "product_id": "one", "player_id": 1}',
    b'{"score": 10, "product_id": 1, "player_id": 1.5}',
    b'{"score": 10, "product_id": 1, "player_id": 99999999999999999999}',
)
"""None of them is a score event, however generously one reads."""


class Score(NamedTuple):
    """What a usable score event says."""

    score: float
    player: int
    product: int


class Event(NamedTuple):
    """One record to send.

    Attributes:
        topic: where to.
        key: of the record.
        value: of the record.
        partition: where to; None lets the key decide.
        means: what a ledger makes of it; here the score, the id and name (None: deleted) of a table's row, or None when
            the record is bad.
        back_ms: how long before now it was.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    means: Any
    back_ms: int = 0


@dataclass(frozen=True)
class Mix:
    """How often what comes, as shares of all events.

    Attributes:
        bad: records that no reader can use.
        stranger: scores of a player who is created some hundred events later.
        unknown: scores of players who never come to exist.
        rename: new names.
        delete: deletes, and creations of what was deleted.
        deleted: the most players that are deleted at a time.
        rise_after: scores rise by one after so many events, so that boards never come to rest.
    """

    bad: float = 0.02
    stranger: float = 0.01
    unknown: float = 0.002
    rename: float = 0.01
    delete: float = 0.002
    deleted: int = 4
    rise_after: int = 20


PLAYERS: Final = range(1, 41)
PRODUCTS: Final = range(1, 13)
LATE_PRODUCT: Final = 12
LIVE: Final = 900
"""A product that the stream never scores on."""

_STRANGERS_COME_AFTER: Final = (100, 800)
_NEVER_KNOWN: Final = range(5_000, 5_006)


class Events:
    """An endless stream: the same seed gives the same events.

    Args:
        seed: of the random numbers.
        mix: how often what comes.
        partitions: of the scores' topic.
    """

    def __init__(self, seed: int, mix: Mix, partitions: int = 4) -> None:
        self.partitions = partitions
        self._random = random.Random(seed)
        self._mix = mix
        self._count = 0
        self._players = list(PLAYERS)
        self._deleted: list[int] = []
        self._strangers: deque[tuple[int, int]] = deque()
        self._next_stranger = 1_000

    def beginning(self) -> Iterator[Event]:
        """Yield the rows of the tables that are there from the beginning."""
        for player in PLAYERS:
            yield row("players", player, f"Player {player}")
        for product in (*PRODUCTS, LIVE):
            if product != LATE_PRODUCT:
                yield row("products", product, f"Game {product}")

    def next(self) -> Event:
        """Return the next event."""
        self._count += 1
        if self._count == 1_000:
            return row("products", LATE_PRODUCT, "Late game")
        if self._strangers and self._strangers[0][0] <= self._count:
            player = self._strangers.popleft()[1]
            self._players.append(player)
            return row("players", player, f"Stranger {player}")
        mix, drawn = self._mix, self._random.random()
        for share, make in (
            (mix.rename, self._rename),
            (mix.delete, self._delete),
            (mix.bad, self._bad),
            (mix.stranger, self._stranger),
            (mix.unknown, lambda: self._score(self._random.choice(_NEVER_KNOWN))),
        ):
            if drawn < share:
                return make()
            drawn -= share
        return self._score(self._random.choice(self._players))

    def _rename(self) -> Event:
        if self._random.random() < 0.1:
            product = self._random.choice([each for each in PRODUCTS if each != LATE_PRODUCT])
            return row("products", product, f"Game {product} ü {self._count}")
        player = self._random.choice([each for each in self._players if each not in self._deleted])
        return row("players", player, f'Player "{player}" {self._count}')

    def _delete(self) -> Event:
        if self._deleted and (len(self._deleted) >= self._mix.deleted or self._random.random() < 0.3):
            player = self._deleted.pop(0)
            return row("players", player, f"Player {player} again")
        player = self._random.choice([each for each in self._players if each not in self._deleted])
        self._deleted.append(player)
        return row("players", player, None)

    def _bad(self) -> Event:
        value = self._random.choice(BAD_SCORES)
        # The producer sends no record without both.
        key = self._random.choice((b"some key", b"\xff") if value is None else (None, b"some key", b"\xff"))
        return Event("score-events", key, value, self._partition(), None)

    def _stranger(self) -> Event:
        self._next_stranger += 1
        self._strangers.append((self._count + self._random.randint(*_STRANGERS_COME_AFTER), self._next_stranger))
        self._strangers = deque(sorted(self._strangers))
        return self._score(self._next_stranger)

    def _score(self, player: int) -> Event:
        # Whole numbers: many are equal.
        score = float(self._random.randrange(1_000) + self._count // self._mix.rise_after)
        return score_event(Score(score, player, self._random.choice(PRODUCTS)), self._partition())

    def _partition(self) -> int:
        return self._random.randrange(self.partitions)


def row(table: Literal["players", "products"], row_id: int, name: str | None) -> Event:
    """Return the record that creates, renames or (None) deletes a row of a table."""
    value = None if name is None else json.dumps({"id": row_id, "name": name}).encode()
    return Event(table, str(row_id).encode(), value, None, (row_id, name))


def score_event(score: Score, partition: int) -> Event:
    """Return the record of a score."""
    value = {"score": score.score, "product_id": score.product, "player_id": score.player}
    return Event("score-events", None, json.dumps(value).encode(), partition, score)
