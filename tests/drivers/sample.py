"""Boards that stay as they are while a test runs, so that answers can be checked, and one that new scores reach."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiokafka import AIOKafkaProducer

from runtime.kafka.connection import KafkaConnection
from tests.drivers.instance import Instance
from tests.drivers.producer import Inputs, score_records
from tests.drivers.reference import Reference
from topology.leaderboard.topics import SCORE_EVENTS

LIVE = 900
PRODUCTS = range(1, 13)
MISSING = (0, 13, 14, 15, 16, -1, 2**63 - 1)
PATHS = (
    *(f"/leaderboard/{product}" for product in (*PRODUCTS, *MISSING)),
    "/leaderboard/1?limit=10",
    "/leaderboard/1/12",
    "/leaderboard/count",
)
"""What is read; the answers do not depend on the board that is played on."""

_PLAYERS = range(1, 30)
_SCORES = 3_000
_SEED = 20261121


class Sample:
    """Fills the topics of a broker, and knows what has to be served.

    Args:
        kafka: how to connect.
    """

    def __init__(self, kafka: KafkaConnection) -> None:
        self.reference = Reference(
            {player: f"Player {player}" for player in _PLAYERS},
            {product: f"Game {product}" for product in (*PRODUCTS, LIVE)},
        )
        self._kafka = kafka
        self._inputs = Inputs(kafka)
        self._next_score = itertools.count(1)

    def load(self) -> None:
        """Create the topics and send everything."""
        source = random.Random(_SEED)
        self._inputs.create_topics()
        self._inputs.players(dict(self.reference.players))
        self._inputs.products(dict(self.reference.products))
        # Some players do not exist; no two scores are equal.
        numbers = range(_SCORES)
        self._send([(number + source.random(), source.randrange(1, 35), source.choice(PRODUCTS)) for number in numbers])
        self.play()

    def play(self) -> float:
        """Send a score that becomes the best of the live board; return it."""
        score = float(next(self._next_score))
        self._send([(score, 1, LIVE)])
        return score

    @contextmanager
    def played_on(self, per_s: int) -> Iterator[None]:
        """Have better and better scores sent to the live board, so many in a second, while the block runs."""
        stop = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._play_on(per_s, stop)), name="player")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    async def _play_on(self, per_s: int, stop: threading.Event) -> None:
        async with AIOKafkaProducer(**self._kafka.for_aiokafka(), enable_idempotence=True) as producer:
            while not stop.is_set():
                score = (float(next(self._next_score)), 1, LIVE)
                self.reference.add([score])
                ((_, event),) = score_records([score])
                await (await producer.send(SCORE_EVENTS, event))
                await asyncio.sleep(1 / per_s)

    def _send(self, scores: list[tuple[float, int, int]]) -> None:
        self.reference.add(scores)
        self._inputs.scores(scores)


def is_shown(instance: Instance, score: float) -> bool:
    """Return whether an instance shows a score, or a better one, on the live board."""
    answer = instance.get(f"/leaderboard/{LIVE}?limit=1")
    return answer.status_code == 200 and bool(answer.json()[0]["score"] >= score)
