"""How fresh boards are: from a producer's send to the HTTP answer that shows it, at several rates of events.

    .venv/bin/python -m benchmarks.freshness [RATE ...]

One instance with default settings, right after a backlog is exact, then another one after a longer backlog. One process
sends events at the rate; another sends a new best score of a board of its own, reads that board every millisecond until
it shows, and begins again: its latency is what a player would see who plays and asks. A reader of `high-scores` tells
which part of it Spark takes. A batch of real time ends every 60 s, so one end of a batch falls into what is measured of
each rate; what it costs is seen better in a run where one ends every 10 s.

These tries come one after the other: a wait of a second is one of them, however many players would have played in that
second. So there is one more figure, of scores that are sent at any moment.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import uvloop
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from benchmarks.figures import Figure, markdown, p50_and_p99
from benchmarks.load import PARTITIONS, Load, events_sent, producer, sending
from benchmarks.loaded import Loaded
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.partitioner import partition_for
from tests.drivers.reader import Connection
from topology.leaderboard.topics import HIGH_SCORES, SCORE_EVENTS

RATES = (100, 1_000, 10_000, 20_000, 50_000)
BACKLOG = Load(products=1_001)
SHORT_BACKLOG = Load(events=200_000, products=1_001)
OWN_PRODUCT = BACKLOG.products
SECONDS = 60.0
"""As long as a batch of real time by default."""
WARM_UP_S = 10.0
PAUSE_S = 0.01
READ_EVERY_S = 0.001
GIVE_UP_S = 60.0


class Probe(Protocol):
    """An event that is sent, and the row that shows it; of each topology its own.

    Attributes:
        topic: where it is sent.
        path: of the row.
    """

    topic: str
    path: str

    def next(self) -> tuple[float, bytes]:
        """Return the next event, and the number that the row has from then on."""

    def shown(self, body: bytes) -> float:
        """Return the number that a row has."""


class OwnBoard:
    """A new best score of a board of its own."""

    topic = SCORE_EVENTS
    path = f"/leaderboard/{OWN_PRODUCT}?limit=1"

    def next(self) -> tuple[float, bytes]:
        """Return a score above those before it."""
        score = _next_score()
        return score, _event(score)

    def shown(self, body: bytes) -> float:
        """Return the best score."""
        return float(json.loads(body)[0]["score"])


class Stages(NamedTuple):
    """When scores were somewhere, in milliseconds after each was sent.

    Attributes:
        taken_ms: the broker has acknowledged it.
        published_ms: its board is read from `high-scores`.
    """

    taken_ms: list[float]
    published_ms: list[float]


def run(rates: tuple[int, ...] = RATES) -> Iterator[Figure]:
    """Yield the figures of one run."""
    yield from _first_minute(1_000)
    with Loaded(BACKLOG) as system:
        address = system.start_and_settle().address
        for rate in rates:
            yield from measure(system, address, rate, f"{rate:,} ev/s")
        yield from _at_each_copy(system, 1_000)
    with Loaded(BACKLOG, CHECKPOINT_INTERVAL_S=10) as system:
        address = system.start_and_settle().address
        yield from measure(system, address, 1_000, "1,000 ev/s, a batch boundary every 10 s")


def _first_minute(rate: int) -> Iterator[Figure]:
    """Yield how long it takes right after a start, when real time goes through much for the first time."""
    with Loaded(SHORT_BACKLOG) as system:
        instance, kafka = system.start(), system.broker.connection
        system.wait_until_exact(instance)
        address = instance.address
        (first_ms,) = uvloop.run(shown_after_ms(kafka, address, OwnBoard(), seconds=PAUSE_S / 2))
        yield Figure("a backlog is exact: until a score shows that is sent then", "ms", [first_ms])
        with sending(kafka, rate, Load(products=OWN_PRODUCT - 1, seed=rate)):
            for what, seconds in (("ten seconds after that", 10.0), ("fifty seconds after these", 50.0)):
                shown_ms = uvloop.run(shown_after_ms(kafka, address, OwnBoard(), seconds))
                yield from p50_and_p99(f"{rate:,} ev/s, {what}: until HTTP shows it", shown_ms)


def _at_each_copy(system: Loaded, rate: int) -> Iterator[Figure]:
    """Yield how long it takes at the active copy and at a standby of another instance."""
    # Its boards are not those of the load any more: there have been events since.
    asked = system.start()
    system.settle()
    kafka = system.broker.connection
    hosts = asked.get(f"/hosts/{OWN_PRODUCT}").json()
    copies = {"the active copy": hosts["active"], "a standby": hosts["standbys"][0]}
    with sending(kafka, rate, Load(products=OWN_PRODUCT - 1, seed=rate + 1)):
        for what, host in copies.items():
            address = f"{host['host']}:{host['port']}"
            uvloop.run(shown_after_ms(kafka, address, OwnBoard(), WARM_UP_S))
            shown_ms = uvloop.run(shown_after_ms(kafka, address, OwnBoard(), SECONDS / 2))
            p50_ms = statistics.median(shown_ms)
            yield Figure(f"{rate:,} ev/s, two instances: until HTTP shows it at {what}, p50", "ms", [p50_ms])


def measure(system: Loaded, address: str, rate: int, what: str) -> Iterator[Figure]:
    """Yield the figures of one rate of events."""
    kafka = system.broker.connection
    with sending(kafka, rate, Load(products=OWN_PRODUCT - 1, seed=rate)):
        uvloop.run(shown_after_ms(kafka, address, OwnBoard(), WARM_UP_S))
        before, began_s = events_sent(kafka), time.perf_counter()
        shown_ms = sorted(uvloop.run(shown_after_ms(kafka, address, OwnBoard(), SECONDS)))
        # Without those that were sent in order to see when they are shown.
        sent = events_sent(kafka) - before - len(shown_ms)
        sent_per_s = sent / (time.perf_counter() - began_s)
        stages = uvloop.run(_stages(kafka, WARM_UP_S))
    cuts = statistics.quantiles(shown_ms, n=1000)
    any_moment_ms = sent_at_any_moment(shown_ms, period_ms=cuts[499] + PAUSE_S * 1000)
    yield Figure(f"{what}: sent", "ev/s", [sent_per_s], 0)
    yield Figure(f"{what}: until the broker has it, p50", "ms", [statistics.median(stages.taken_ms)])
    yield Figure(f"{what}: until its board is on high-scores, p50", "ms", [statistics.median(stages.published_ms)])
    yield Figure(f"{what}: until HTTP shows it, p50", "ms", [cuts[499]])
    yield Figure(f"{what}: until HTTP shows it, p99", "ms", [cuts[989]])
    # Of fewer than a thousand tries, this quantile would be extrapolated.
    yield Figure(f"{what}: until HTTP shows it, p99.9", "ms", [min(cuts[998], shown_ms[-1])])
    yield Figure(f"{what}: until HTTP shows it, longest", "ms", [shown_ms[-1]])
    any_moment_p99_ms = statistics.quantiles(any_moment_ms, n=100)[98]
    yield Figure(f"{what}: until HTTP shows it, p99 of scores sent at any moment", "ms", [any_moment_p99_ms])


def sent_at_any_moment(tries_ms: Sequence[float], period_ms: float) -> list[float]:
    """Return how long scores would have taken that were sent at a steady pace, from tries one after the other.

    A try that took longer than a period kept others from being sent. Each of those would have waited for the rest of
    that time. HdrHistogram does the same (`recordValueWithExpectedInterval`).

    Args:
        tries_ms: how long each try took.
        period_ms: from one try to the next, when none takes long.
    """
    kept_back_ms = [ms - period_ms * periods for ms in tries_ms for periods in range(1, int(ms // period_ms))]
    return [*tries_ms, *kept_back_ms]


async def shown_after_ms(kafka: KafkaConnection, address: str, probe: Probe, seconds: float) -> list[float]:
    """Send an event, read until it is shown, and begin again; return how long each took, in milliseconds."""
    connection = Connection(address)
    taken_ms: list[float] = []
    async with producer(kafka) as sender:
        end_s = time.perf_counter() + seconds
        while time.perf_counter() < end_s:
            number, event = probe.next()
            began_s = time.perf_counter()
            await sender.send(probe.topic, event)
            while await _shown(connection, probe) < number:
                assert time.perf_counter() - began_s < GIVE_UP_S, f"{event!r} was not shown"
                await asyncio.sleep(READ_EVERY_S)
            taken_ms.append((time.perf_counter() - began_s) * 1000)
            await asyncio.sleep(PAUSE_S)
    connection.close()
    return taken_ms


async def _stages(kafka: KafkaConnection, seconds: float) -> Stages:
    """Send a score, wait for its board on `high-scores`, and begin again."""
    stages = Stages([], [])
    place = TopicPartition(HIGH_SCORES, partition_for(OWN_PRODUCT, PARTITIONS))
    async with producer(kafka) as sender, AIOKafkaConsumer(**kafka.for_aiokafka()) as consumer:
        consumer.assign([place])
        await consumer.seek_to_end(place)
        end_s = time.perf_counter() + seconds
        while time.perf_counter() < end_s:
            score = _next_score()
            began_s = time.perf_counter()
            taken_s: list[float] = []
            acknowledged = await sender.send(SCORE_EVENTS, _event(score))
            acknowledged.add_done_callback(lambda _, taken_s=taken_s: taken_s.append(time.perf_counter()))
            async with asyncio.timeout(GIVE_UP_S):
                while not _holds(await consumer.getone(), score):
                    pass
            stages.published_ms.append((time.perf_counter() - began_s) * 1000)
            await acknowledged
            stages.taken_ms.append((taken_s[0] - began_s) * 1000)
            await asyncio.sleep(PAUSE_S)
    return stages


def _holds(record: ConsumerRecord[bytes, bytes], score: float) -> bool:
    return record.key == b"%d" % OWN_PRODUCT and bool(json.loads(record.value)["known"][0]["score"] >= score)


def _next_score() -> float:
    """Return a score above those before it."""
    return float(time.time_ns() // 1000)


def _event(score: float) -> bytes:
    return b'{"score":%r,"product_id":%d,"player_id":1}' % (score, OWN_PRODUCT)


async def _shown(connection: Connection, probe: Probe) -> float:
    reply = await connection.get(probe.path)
    return probe.shown(reply.body) if reply.status == 200 else 0.0


def main() -> None:
    """Print the table of one run."""
    rates = tuple(map(int, sys.argv[1:])) or RATES
    print(markdown(run(rates)))


if __name__ == "__main__":
    main()
