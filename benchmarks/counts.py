"""How a store of counts does: a backlog, how fresh, a restore of a million keys, memory, and reads of one row.

    .venv/bin/python -m benchmarks.counts

Needs wrk. The topology is `event-counts`, with the service's default settings.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import uvloop

from benchmarks.figures import Figure, markdown, p50_and_p99
from benchmarks.freshness import SECONDS, WARM_UP_S, shown_after_ms
from benchmarks.load import PARTITIONS, SEED, SENDERS, send_chunks, sending
from benchmarks.loaded import DEFAULTS, LOOK_EVERY_S, installed, pinned
from benchmarks.process_tree import ProcessTree
from benchmarks.reads import CORE, figures, read
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from tests.drivers.instance import Instance
from tests.drivers.replicas import Replicas
from tests.waiting import wait_until
from topology.event_counts import EVENT_COUNTS

EVENTS = 2_000_000
KEYS = 100_000
MANY_KEYS = 1_000_000
SAMPLE = 200
RATE = 1_000
STORE = "/stores/event-counts-store"
_CHUNK = 20_000


@dataclass(frozen=True)
class Everybody:
    """Events of all keys, that are sent beside the one whose row is looked at.

    Attributes:
        topic: where they are sent.
    """

    topic: str = EVENT_COUNTS.events.topic

    def values(self) -> Iterator[bytes]:
        """Yield them, without an end."""
        dice = Random(SEED)
        while True:
            yield b"e%d" % dice.randrange(KEYS)


class Own:
    """One event, again and again, and its count."""

    topic = EVENT_COUNTS.events.topic
    path = f"{STORE}/keys/own"

    def __init__(self) -> None:
        self._sent = 0

    def next(self) -> tuple[float, bytes]:
        """Return the event, and how often it has come then."""
        self._sent += 1
        return self._sent, b"own"

    def shown(self, body: bytes) -> float:
        """Return how often it has come."""
        return float(json.loads(body)["count"])


def run() -> Iterator[Figure]:
    """Yield the figures of one run."""
    yield from _backlog()
    yield from _many_keys()


def _backlog() -> Iterator[Figure]:
    events = Random(SEED).choices(range(KEYS), k=EVENTS)
    with _started(events) as (kafka, replicas):
        counts = Counter(events)
        began_s = time.monotonic()
        (instance,) = replicas.add()
        with ProcessTree(instance.process.pid) as tree:
            _wait_until_counted(instance, counts)
            took_s, cpu_s = time.monotonic() - began_s, tree.cpu_s
        yield Figure(f"{EVENTS:,} events on {KEYS:,} keys, process start to exact counts", "s", [took_s])
        yield Figure("CPU time of instance and JVM", "s", [cpu_s])
        yield Figure("peak memory of both", "MB", [tree.peak_mb], 0)

        instance.wait_for_real_time()
        own = Own()
        with sending(kafka, RATE, Everybody()):
            uvloop.run(shown_after_ms(kafka, instance.address, own, WARM_UP_S))
            shown_ms = uvloop.run(shown_after_ms(kafka, instance.address, own, SECONDS))
        yield from p50_and_p99(f"{RATE:,} ev/s: until HTTP shows a count", shown_ms)


def _many_keys() -> Iterator[Figure]:
    with _started(range(MANY_KEYS)) as (_, replicas):
        counts = Counter(range(MANY_KEYS))
        (instance,) = replicas.add()
        _wait_until_counted(instance, counts)
        instance.wait_for_real_time()
        assert instance.terminate() == 0
        instance.lose_state()
        began_s = time.monotonic()
        instance.start()
        _wait_until_counted(instance, counts)
        yield Figure(f"start without its state, {MANY_KEYS:,} rows served", "s", [time.monotonic() - began_s])

        instance.wait_for_real_time()
        began_s = time.monotonic()
        (other,) = replicas.add()
        wait_until(lambda: _restored(other) == PARTITIONS, "all is restored", every_s=LOOK_EVERY_S)
        yield Figure(f"a second instance, {MANY_KEYS:,} rows restored", "s", [time.monotonic() - began_s])
        replicas.wait_until_settled()
        (without,) = replicas.others
        yield Figure(
            f"instance without the stream, {MANY_KEYS:,} keys", "MB", [ProcessTree(without.process.pid).pss_mb], 0
        )
        replicas.terminate(other)

        replicas.wait_until_settled()
        with pinned(instance, CORE):
            yield from figures("one row", read(f"{instance.url}{STORE}/keys/e1"))


@contextmanager
def _started(events: Sequence[int]) -> Iterator[tuple[KafkaConnection, Replicas]]:
    """Have a broker with the events, and no instance yet."""
    with installed() as (directory, broker):
        asyncio.run(create_missing(broker.connection, [*inputs_of(EVENT_COUNTS), *outputs_of(EVENT_COUNTS)]))
        shares = [(broker.connection, part, events[part::SENDERS]) for part in range(SENDERS)]
        with multiprocessing.get_context("spawn").Pool(SENDERS) as pool:
            pool.starmap(_send, shares)
        with Replicas(directory, broker.bootstrap_servers, TOPOLOGY=EVENT_COUNTS.name, **DEFAULTS) as replicas:
            yield broker.connection, replicas


def _wait_until_counted(instance: Instance, counts: Counter[int]) -> None:
    """Wait until an instance says how many keys there are, and the counts of some of them."""
    wanted = [{"event": f"e{key}", "count": counts[key]} for key in Random(SEED).sample(sorted(counts), SAMPLE)]
    asked = "&".join(f"key={row['event']}" for row in wanted)

    def are_counted() -> bool:
        found = instance.get(f"{STORE}/keys?{asked}")
        return (
            found.status_code == 200 and found.json() == wanted and instance.get(f"{STORE}/count").json() == len(counts)
        )

    wait_until(are_counted, "all is counted", every_s=LOOK_EVERY_S)


def _restored(instance: Instance) -> int:
    """Return how many copies of an instance have been filled to their ends."""
    lines = instance.get("/metrics").text.splitlines()
    return sum(line.startswith("leaderboard_store_restored{") and line.endswith(" 1.0") for line in lines)


def _send(kafka: KafkaConnection, part: int, events: Sequence[int]) -> None:
    chunks = (events[first : first + _CHUNK] for first in range(0, len(events), _CHUNK))
    values = (([b"e%d" % key for key in chunk], None) for chunk in chunks)
    asyncio.run(send_chunks(kafka, EVENT_COUNTS.events.topic, part, values))


def main() -> None:
    """Print the table of one run."""
    print(markdown(run()))


if __name__ == "__main__":
    main()
