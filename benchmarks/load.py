"""The load of the benchmarks: seeded score events, players and products, sent as fast as the broker takes them.

    .venv/bin/python -m benchmarks.load BOOTSTRAP_SERVERS [EVENTS]

Popularity falls with the rank as in Zipf's law, of products and of players. Scores have four decimals of a million: the
places of a board do not tie, so what has to come out does not depend on which event the broker took first.
"""

from __future__ import annotations

import asyncio
import heapq
import multiprocessing
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, cycle, islice
from multiprocessing.synchronize import Event
from typing import Any, ClassVar, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from aiokafka import AIOKafkaProducer

from runtime.kafka.connection import KafkaConnection
from runtime.kafka.offsets import topic_offsets
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from topology.leaderboard.board import LEADERBOARD
from topology.leaderboard.topics import PLAYERS, PRODUCTS, SCORE_EVENTS

SEED = 202_611
PARTITIONS = 4
SENDERS = 2
_CHUNK = 20_000
_DRAWN = 200_000
_BATCH_BYTES = 256 * 1024
_TICK_S = 0.005
_PART_AT_A_RATE = SENDERS


class AtARate(Protocol):
    """What another process sends at a rate."""

    @property
    def topic(self) -> str:
        """Where to."""

    def values(self) -> Iterator[bytes]:
        """Yield the events as they stand in the topic, without an end."""


@dataclass(frozen=True)
class Load:
    """What is sent.

    Attributes:
        events: how many score events.
        players: how many players exist, with ids from 1.
        products: how many products exist, with ids from 1.
        seed: another seed, other events.
    """

    events: int = 2_000_000
    players: int = 100_000
    products: int = 1_000
    seed: int = SEED

    topic: ClassVar[str] = SCORE_EVENTS

    def values(self) -> Iterator[bytes]:
        """Yield the events that are sent at a rate, without an end."""
        return (each for chunk in self.scores(sys.maxsize, _PART_AT_A_RATE) for each in chunk.values())

    def scores(self, events: int, part: int = 0) -> Iterator[Scores]:
        """Yield so many events in chunks. Each part is another stream of events."""
        dice = random.Random(f"{self.seed}/{part}")
        products, players = _zipf(self.products, dice), _zipf(self.players, dice)
        for first in range(0, events, _CHUNK):
            count = min(_CHUNK, events - first)
            ten_thousandths = pc.floor(pc.multiply(_uniform(count, dice), 1e10))
            yield Scores(pc.divide(ten_thousandths, 1e4), _drawn(products, count, dice), _drawn(players, count, dice))


class Scores(NamedTuple):
    """A chunk of score events, as columns."""

    scores: pa.Array
    products: pa.Array
    players: pa.Array

    def values(self) -> list[bytes]:
        """Return the events as they stand in the topic."""
        score, product, player = (pc.cast(column, pa.string()) for column in self)
        parts = ('{"score":', score, ',"product_id":', product, ',"player_id":', player, "}", "")
        values: list[bytes] = pc.cast(pc.binary_join_element_wise(*parts), pa.binary()).to_pylist()
        return values


class Best:
    """The best scores of each product, in the plainest way.

    Args:
        places: how many.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._best: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)

    def add(self, scores: Scores) -> None:
        """Take more scores."""
        self._add(zip(*(column.to_pylist() for column in scores), strict=True))

    def _add(self, scores: Iterable[tuple[float, int, int]]) -> None:
        for score, product, player in scores:
            best = self._best[product]
            if len(best) < self._places:
                heapq.heappush(best, (score, player))
            elif score > best[0][0]:
                heapq.heapreplace(best, (score, player))

    def merge(self, other: Best) -> None:
        """Take what another one has."""
        for product, best in other._best.items():
            self._add((score, product, player) for score, player in best)

    def boards(self) -> dict[str, list[dict[str, Any]]]:
        """Return the body of `GET /leaderboard`."""
        return {str(product): self._board(product) for product in sorted(self._best)}

    def _board(self, product: int) -> list[dict[str, Any]]:
        return [
            {
                "playerId": player,
                "productId": product,
                "playerName": f"Player {player}",
                "gameName": f"Game {product}",
                "score": score,
            }
            for score, player in sorted(self._best[product], reverse=True)
        ]


def fill(kafka: KafkaConnection, load: Load, limit: int = 3) -> Best:
    """Create the topics and send everything; return the boards that have to come out."""
    asyncio.run(send_tables(kafka, load))
    return send_scores(kafka, load, limit)


async def send_tables(kafka: KafkaConnection, load: Load) -> None:
    """Create the topics, and send the players and products."""
    await create_missing(kafka, [*inputs_of(LEADERBOARD), *outputs_of(LEADERBOARD)])
    async with producer(kafka, linger_ms=20) as sender:
        for topic, name, count in ((PLAYERS, "Player", load.players), (PRODUCTS, "Game", load.products)):
            for row in range(1, count + 1):
                await sender.send(topic, b'{"id":%d,"name":"%s %d"}' % (row, name.encode(), row), key=b"%d" % row)


def send_scores(kafka: KafkaConnection, load: Load, limit: int = 3) -> Best:
    """Send the events alone; return the boards that they make."""
    best = Best(limit)
    shares = [load.events // SENDERS] * SENDERS
    shares[0] += load.events - sum(shares)
    with multiprocessing.get_context("spawn").Pool(SENDERS) as pool:
        for part in pool.starmap(partial(_send_share, kafka, load, limit), enumerate(shares)):
            best.merge(part)
    return best


def events_sent(kafka: KafkaConnection) -> int:
    """Return how many score events the broker has been sent so far."""
    return sum(asyncio.run(topic_offsets(kafka, SCORE_EVENTS, PARTITIONS)).end.values())


@contextmanager
def sending(kafka: KafkaConnection, rate: int, load: AtARate) -> Iterator[None]:
    """Have another process send so many events a second while the block runs."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    sender = context.Process(target=_be_sender, args=(kafka, rate, load, stop), daemon=True)
    sender.start()
    try:
        yield
        if not sender.is_alive():
            raise RuntimeError("the sender has ended early")
    finally:
        stop.set()
        sender.join()


def sent_at_a_rate(load: Load, events: int) -> Iterator[Scores]:
    """Return the events that `sending` begins with, so many."""
    return first(load.scores(sys.maxsize, _PART_AT_A_RATE), events)


def first(chunks: Iterable[Scores], events: int) -> Iterator[Scores]:
    """Yield the first so many events of several chunks."""
    for chunk in chunks:
        yield Scores(*(column[:events] for column in chunk))
        events -= len(chunk.scores)
        if events <= 0:
            return


def producer(kafka: KafkaConnection, **settings: Any) -> AIOKafkaProducer:
    """Return a producer as the load uses it."""
    return AIOKafkaProducer(**kafka.for_aiokafka(), compression_type="lz4", **settings)


async def send_values(
    sender: AIOKafkaProducer, topic: str, partition: int, values: Iterable[bytes], at_ms: int | None = None
) -> None:
    """Send values to a partition in batches made here: a call for each record would take twice as long.

    Args:
        sender: sends them.
        topic: where to.
        partition: of the topic.
        values: of the records.
        at_ms: the time of the records, in milliseconds from 1970; None: now.
    """
    at_ms = int(time.time() * 1000) if at_ms is None else at_ms
    batch = sender.create_batch()
    for each in values:
        if batch.append(timestamp=at_ms, key=None, value=each) is None:
            await sender.send_batch(batch, topic, partition=partition)
            batch = sender.create_batch()
            batch.append(timestamp=at_ms, key=None, value=each)
    await sender.send_batch(batch, topic, partition=partition)


async def send_chunks(
    kafka: KafkaConnection, topic: str, part: int, chunks: Iterable[tuple[Iterable[bytes], int | None]], **settings: Any
) -> None:
    """Send chunks of values, each with its time as `send_values` takes it, to the partitions of one sender in turn.

    Args:
        kafka: how to connect.
        topic: where to.
        part: which of the senders this one is.
        chunks: what is sent.
        settings: of the producer.
    """
    async with producer(kafka, **settings) as sender:
        for partition, (values, at_ms) in zip(cycle(range(part, PARTITIONS, SENDERS)), chunks, strict=False):
            await send_values(sender, topic, partition, values, at_ms)
        await sender.flush()


def _send_share(kafka: KafkaConnection, load: Load, limit: int, part: int, events: int) -> Best:
    best = Best(limit)
    chunks = _noted(load.scores(events, part), best)
    asyncio.run(send_chunks(kafka, SCORE_EVENTS, part, chunks, max_batch_size=_BATCH_BYTES))
    return best


def _noted(chunks: Iterable[Scores], best: Best) -> Iterator[tuple[Iterable[bytes], None]]:
    for chunk in chunks:
        best.add(chunk)
        yield chunk.values(), None


def _be_sender(kafka: KafkaConnection, rate: int, load: AtARate, stop: Event) -> None:
    # As from another machine: Linux shares out the cores among sessions.
    os.setsid()
    asyncio.run(_send_at(kafka, rate, load, stop))


async def _send_at(kafka: KafkaConnection, rate: int, load: AtARate, stop: Event) -> None:
    values = load.values()
    async with producer(kafka, max_batch_size=_BATCH_BYTES) as sender:
        began_s, sent = time.monotonic(), 0
        while not stop.is_set():
            due = int((time.monotonic() - began_s) * rate)
            for partition in range(PARTITIONS):
                count = (due - sent + partition) // PARTITIONS
                if count:
                    await send_values(sender, load.topic, partition, islice(values, count))
            sent = due
            await asyncio.sleep(_TICK_S)


def _zipf(count: int, dice: random.Random) -> pa.Array:
    """Return ids from 1, as many of each as its chance says: the n-th has 1/n of the first's."""
    weights = list(accumulate(1 / rank for rank in range(1, count + 1)))
    return pa.array(dice.choices(range(1, count + 1), cum_weights=weights, k=_DRAWN), pa.int64())


def _drawn(ids: pa.Array, count: int, dice: random.Random) -> pa.Array:
    return ids.take(pc.cast(pc.floor(pc.multiply(_uniform(count, dice), len(ids))), pa.int32()))


def _uniform(count: int, dice: random.Random) -> pa.Array:
    return pc.random(count, initializer=dice.getrandbits(63))


def main() -> None:
    """Send a load and print how fast that went."""
    load = Load(events=int(sys.argv[2]) if len(sys.argv) > 2 else Load.events)
    began_s = time.monotonic()
    fill(KafkaConnection(sys.argv[1]), load)
    took_s = time.monotonic() - began_s
    print(f"{load.events:,} events in {took_s:.1f} s, tables and all: {load.events / took_s:,.0f} ev/s")


if __name__ == "__main__":
    main()
