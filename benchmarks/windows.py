"""How fresh windows are: 100,000 keys in windows of a minute, of which one begins every ten seconds.

    .venv/bin/python -m benchmarks.windows

One instance with the service's default settings. An event is shown when all six windows that it lies in
have counted it. Measured twice: before windows are let go, and when as many go as come.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Final

import uvloop

from benchmarks.counts import KEYS, RATE, Everybody
from benchmarks.figures import Figure, markdown, p50_and_p99
from benchmarks.freshness import SECONDS, shown_after_ms
from benchmarks.load import PARTITIONS, producer, send_values, sending
from benchmarks.loaded import DEFAULTS, LOOK_EVERY_S, installed
from runtime import Count, Hopping, Key, PlainText, Store, Stream, Text, Topology
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from tests.drivers.instance import Instance
from tests.drivers.replicas import Replicas
from tests.waiting import wait_until

WINDOWS_OF_ONE: Final = 6
WARM_UP_S: Final = 30.0
UNTIL_WINDOWS_GO_S: Final = 120.0
"""More: windows have ended by then, and the three minutes are over that they are kept."""

CLICKS: Final = Topology(
    "clicks",
    Stream("clicks", PlainText()),
    stores=[
        Store(
            "clicks",
            topic="clicks-in-windows",
            key=Key("text", Text),
            values={"count": Count()},
            window=Hopping("1 minute", "10 seconds", keep="3 minutes"),
        )
    ],
)


class OwnInWindows:
    """One event, again and again, and what its windows have counted: each minute another, before windows of it go."""

    topic = CLICKS.events.topic

    def __init__(self) -> None:
        self.path = ""
        self._sent = 0

    def next(self) -> tuple[float, bytes]:
        """Return the event, and how often it has come then."""
        key = f"own{int(time.time() // 60)}"
        path = f"/stores/clicks/keys/{key}"
        self._sent = self._sent + 1 if path == self.path else 1
        self.path = path
        return self._sent, key.encode()

    def shown(self, body: bytes) -> float:
        """Return how often it has come, by all of its windows."""
        windows = json.loads(body)
        return sum(row["count"] for row in windows) / WINDOWS_OF_ONE if isinstance(windows, list) else 0


def run() -> Iterator[Figure]:
    """Yield the figures of one run."""
    with installed() as (directory, broker):
        kafka = broker.connection
        asyncio.run(create_missing(kafka, [*inputs_of(CLICKS), *outputs_of(CLICKS)]))
        asyncio.run(_send_each_key(kafka))
        settings = {"TOPOLOGY": "benchmarks.windows:CLICKS", **DEFAULTS}
        with Replicas(directory, broker.bootstrap_servers, **settings) as replicas:
            (instance,) = replicas.add()
            every = f"{KEYS * WINDOWS_OF_ONE}"
            wait_until(
                lambda: instance.get("/stores/clicks/count").text == every, "all are counted", every_s=LOOK_EVERY_S
            )
            instance.wait_for_real_time()
            with sending(kafka, RATE, Everybody(CLICKS.events.topic)):
                yield from _measure(kafka, instance, WARM_UP_S, "until HTTP shows all six")
                yield from _measure(kafka, instance, UNTIL_WINDOWS_GO_S, "the same while as many windows go as come")


def _measure(kafka: KafkaConnection, instance: Instance, after_s: float, what: str) -> Iterator[Figure]:
    """Yield what is measured for a minute, so that the end of a batch is in it."""
    own = OwnInWindows()
    uvloop.run(shown_after_ms(kafka, instance.address, own, after_s))
    shown_ms = uvloop.run(shown_after_ms(kafka, instance.address, own, SECONDS))
    what = f"{RATE:,} ev/s, {KEYS:,} keys in windows of a minute by ten seconds: {what}"
    yield from p50_and_p99(what, shown_ms)
    yield Figure(f"{what}, longest", "ms", [max(shown_ms)])


async def _send_each_key(kafka: KafkaConnection) -> None:
    async with producer(kafka) as sender:
        for partition in range(PARTITIONS):
            values = [b"e%d" % key for key in range(partition, KEYS, PARTITIONS)]
            await send_values(sender, CLICKS.events.topic, partition, values)
        await sender.flush()


def main() -> None:
    """Print the table of one run."""
    print(markdown(run()))


if __name__ == "__main__":
    main()
