"""How fresh boards are: from a producer's send to the HTTP answer that shows it, at several rates of events.

    .venv/bin/python -m benchmarks.freshness [RATE ...]

One instance with default settings. One process sends events at the rate; another sends a new best score of a board of
its own, reads that board until it shows, and begins again: its latency is what a player would see who plays and asks.
A batch of real time ends every 60 s; what its end costs is seen in a run where one ends every 10 s.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator

import uvloop

from benchmarks.figures import Figure, markdown
from benchmarks.load import Load, producer, sending
from benchmarks.loaded import Loaded
from tests.drivers.reader import Connection
from topology.kafka_connection import KafkaConnection
from topology.topics import SCORE_EVENTS

RATES = (100, 1_000, 10_000, 20_000, 50_000)
BACKLOG = 2_000_000
SECONDS = 30.0
WARM_UP_S = 10.0
OWN_PRODUCT = 1_001
PAUSE_S = 0.01
GIVE_UP_S = 30.0


def run(rates: tuple[int, ...] = RATES) -> Iterator[Figure]:
    """Yield the figures of one run."""
    for rate in rates:
        taken_ms = measure(rate)
        yield from _figures(f"producer to HTTP at {rate:,} ev/s", taken_ms)
    taken_ms = measure(1_000, CHECKPOINT_INTERVAL_S=10)
    yield from _figures("the same at 1,000 ev/s with a batch boundary every 10 s", taken_ms)


def measure(rate: int, **settings: object) -> list[float]:
    """Return the latency of each score in milliseconds, sorted."""
    # One more product than events are of.
    with Loaded(Load(events=BACKLOG, products=OWN_PRODUCT), **settings) as system:
        instance = system.start_and_settle()
        kafka = system.broker.connection
        with sending(kafka, rate, Load(products=OWN_PRODUCT - 1)):
            uvloop.run(_latencies_ms(kafka, instance.address, WARM_UP_S, first=1))
            taken_ms = uvloop.run(_latencies_ms(kafka, instance.address, SECONDS, first=1_000_000))
    return sorted(taken_ms)


async def _latencies_ms(kafka: KafkaConnection, address: str, seconds: float, first: int) -> list[float]:
    """Send a score, read until it is shown, and begin again."""
    connection, taken_ms = Connection(address), []
    path = f"/leaderboard/{OWN_PRODUCT}?limit=1"
    async with producer(kafka) as sender:
        end_s = time.perf_counter() + seconds
        score = 1e7 + first
        while time.perf_counter() < end_s:
            score += 1
            event = b'{"score":%r,"product_id":%d,"player_id":1}' % (score, OWN_PRODUCT)
            began_s = time.perf_counter()
            await sender.send(SCORE_EVENTS, event)
            while await _best(connection, path) < score:
                assert time.perf_counter() - began_s < GIVE_UP_S, f"score {score} was not shown"
            taken_ms.append((time.perf_counter() - began_s) * 1000)
            await asyncio.sleep(PAUSE_S)
    connection.close()
    return taken_ms


async def _best(connection: Connection, path: str) -> float:
    reply = await connection.get(path)
    return float(json.loads(reply.body)[0]["score"]) if reply.status == 200 else 0.0


def _figures(what: str, taken_ms: list[float]) -> Iterator[Figure]:
    cuts = statistics.quantiles(taken_ms, n=1000)
    yield Figure(f"{what}, p50", "ms", [cuts[499]])
    yield Figure(f"{what}, p99", "ms", [cuts[989]])
    yield Figure(f"{what}, p99.9", "ms", [cuts[998]])
    yield Figure(f"{what}, longest", "ms", [taken_ms[-1]])


def main() -> None:
    """Print the table of one run."""
    rates = tuple(map(int, sys.argv[1:])) or RATES
    print(markdown(run(rates)))


if __name__ == "__main__":
    main()
