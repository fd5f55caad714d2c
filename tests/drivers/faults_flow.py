"""Events that flow the whole time, from a thread of their own; a ledger has exactly those that the broker has."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Protocol, Self

from aiokafka import AIOKafkaProducer

from tests.drivers.faults_events import Event
from tests.drivers.faults_ledger import Place
from tests.waiting import UNHURRIED_S, wait_until

_TICK_S: Final = 0.05
# A broker may be away for a minute: what was sent is sent again until it is there.
_GIVE_UP_MS: Final = 240_000
_AT_ONCE: Final = 5_000


class Events(Protocol):
    """An endless stream of events."""

    def next(self) -> Event:
        """Return the next one."""


class Ledger(Protocol):
    """Every record that the broker has acknowledged.

    Attributes:
        count: how many.
    """

    count: int

    def note(self, event: Event, place: Place) -> None:
        """Take note of one; of those of a key in the order in which they were sent."""


class Flow:
    """Sends events at a steady rate; a context manager that runs the thread.

    Args:
        bootstrap_servers: Kafka.
        events: what is sent.
        ledger: takes note of what the broker acknowledges.
        per_s: events a second.
    """

    def __init__(self, bootstrap_servers: str, events: Events, ledger: Ledger, per_s: int) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._events = events
        self._ledger = ledger
        self._per_tick = round(per_s * _TICK_S)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="flow", daemon=True)
        self._producer: AIOKafkaProducer | None = None
        self._flowing: Future[None] | None = None
        self._stopping = False
        self._turn = asyncio.Lock()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # What is still under way after a failure is of no interest.
        for task in asyncio.all_tasks(self._loop):
            self._loop.call_soon_threadsafe(task.cancel)
        with suppress(Exception):
            self._run(self._close(), deadline_s=5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    # Steady

    def start(self) -> None:
        """Let events flow."""
        self._stopping = False
        self._flowing = asyncio.run_coroutine_threadsafe(self._go(), self._loop)

    def stop(self) -> None:
        """Stop, and return when the broker has all that was sent. Another start may meet topics created anew."""
        if self._flowing is not None:
            flowing, self._flowing = self._flowing, None
            self._stopping = True
            flowing.result(UNHURRIED_S)
        self._run(self._close())

    def wait_for(self, count: int) -> None:
        """Wait until the broker has so many more events."""
        wanted = self._ledger.count + count
        wait_until(lambda: self._count() >= wanted, f"{count} more events are taken by the broker")

    # At once

    def send(self, events: Iterable[Event], timestamp_ms: int | None = None) -> None:
        """Send these, and return when the broker has them; the timestamp is now unless one is given."""
        self._run(self._send_all(events, timestamp_ms))

    def send_next(self, count: int) -> None:
        """Send the next events of the stream as fast as it goes."""
        self.send(self._events.next() for _ in range(count))

    def _count(self) -> int:
        if self._flowing is not None and self._flowing.done():
            self._flowing.result()
        return self._ledger.count

    async def _go(self) -> None:
        begun_s, sent = self._loop.time(), 0
        while not self._stopping:
            await asyncio.sleep(_TICK_S)
            due = int((self._loop.time() - begun_s) / _TICK_S) * self._per_tick - sent
            # What a broker was too long away for is not made up for.
            sent += due
            await self._send_all([self._events.next() for _ in range(min(due, 10 * self._per_tick))], None)

    async def _send_all(self, events: Iterable[Event], timestamp_ms: int | None) -> None:
        async with self._turn:
            producer, left = await self._open(), iter(events)
            while part := list(itertools.islice(left, _AT_ONCE)):
                # Not left to aiokafka, which tells of all records of a batch that they have the first one's.
                at_ms = [_now_ms() - each.back_ms if timestamp_ms is None else timestamp_ms for each in part]
                sent = [
                    await producer.send(each.topic, each.value, each.key, each.partition, at)
                    for each, at in zip(part, at_ms, strict=True)
                ]
                for event, at, found in zip(part, at_ms, await asyncio.gather(*sent), strict=True):
                    self._ledger.note(event, Place(at, found.partition, found.offset))

    async def _open(self) -> AIOKafkaProducer:
        if self._producer is None:
            self._producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap_servers, enable_idempotence=True, request_timeout_ms=_GIVE_UP_MS
            )
            await self._producer.start()
        return self._producer

    async def _close(self) -> None:
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await producer.stop()

    def _run(self, coroutine: Coroutine[Any, Any, None], deadline_s: float = UNHURRIED_S) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(deadline_s)


def _now_ms() -> int:
    return int(time.time() * 1000)
