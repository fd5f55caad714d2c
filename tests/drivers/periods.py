"""Score events of many days, and the boards of periods as they have to be, in the plainest way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aiokafka import AIOKafkaProducer

from runtime.kafka.connection import KafkaConnection
from tests.drivers.reference import Reference
from topology.leaderboard.topics import SCORE_EVENTS

NAMES = ("day", "week", "month")


def ms(text: str) -> int:
    """Return an instant in milliseconds from 1970, of a text such as `2026-11-25T16:00:00` in UTC."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def period(name: str, at_ms: int) -> str:
    """Return the first day of the period of a name that an instant lies in."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    if name == "week":
        year, week, _ = at.isocalendar()
        return datetime.fromisocalendar(year, week, 1).date().isoformat()
    return f"{at:%Y-%m}-01" if name == "month" else f"{at:%Y-%m-%d}"


@dataclass
class DatedScores:
    """Scores with the time of each, sent and remembered.

    Attributes:
        kafka: where they go.
        players: name by id.
        products: name by id.
        scores: score, player, product and time in milliseconds from 1970.
    """

    kafka: KafkaConnection
    players: dict[int, str]
    products: dict[int, str]
    scores: list[tuple[float, int, int, int]] = field(default_factory=list)

    def send(self, scores: Iterable[tuple[float, int, int, int]]) -> None:
        """Send scores, and remember them."""
        new = list(scores)
        self.scores += new
        asyncio.run(self._send(new))

    def boards(self, name: str, begin: str, limit: int = 3) -> dict[str, list[dict[str, Any]]]:
        """Return the boards of the period of a name that began on a day."""
        of = [(score, player, product) for score, player, product, at in self.scores if period(name, at) == begin]
        return Reference(self.players, self.products, of).boards(limit)

    def all_boards(self, limit: int = 3) -> dict[str, list[dict[str, Any]]]:
        """Return the boards of all time."""
        return Reference(self.players, self.products, [each[:3] for each in self.scores]).boards(limit)

    def periods(self) -> set[tuple[str, str]]:
        """Return the periods that have scores, by name and first day."""
        return {(name, period(name, at)) for *_, at in self.scores for name in NAMES}

    async def _send(self, scores: list[tuple[float, int, int, int]]) -> None:
        async with AIOKafkaProducer(**self.kafka.for_aiokafka(), enable_idempotence=True) as producer:
            sent = []
            for score, player, product, at in scores:
                value = json.dumps({"score": score, "product_id": product, "player_id": player}).encode()
                sent.append(await producer.send(SCORE_EVENTS, value, timestamp_ms=at))
            await asyncio.gather(*sent)
