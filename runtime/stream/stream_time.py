"""Tells the copies of a store with windows how far its events have come, by a record in each partition of its topic.

Windows of which Spark may still change a row must not be let go: so what is told is Spark's own bound, as a batch had
it, and not the newest event. That a process ends before it tells loses nothing: the bound is in Spark's checkpoint.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from runtime.declaration import Store
from runtime.kafka.clients import stop_client
from runtime.kafka.connection import KafkaConnection
from runtime.windows import STREAM_TIME_KEY, stream_time_headers

logger = logging.getLogger(__name__)

_EVERY_S: Final = 5.0
_REQUEST_TIMEOUT_MS: Final = 5_000


class StreamTime:
    """Tells the stream time of one store. Every method is called from one thread.

    Args:
        kafka: how to connect.
        store: whose topic it is told on; of a store without windows nothing is told.

    Attributes:
        is_of_now: whether Spark's bound stands as far behind the newest event as the store is declared now.
    """

    def __init__(self, kafka: KafkaConnection, store: Store) -> None:
        self._kafka = kafka
        self._store = store
        self._told: int | None = None
        self._now: int | None = None
        self._due_at_s = 0.0
        self._stands_at: int | None = None
        self.is_of_now = True

    def begin(self, after_ms: int | None) -> None:
        """Begin with a checkpoint.

        Args:
            after_ms: how far behind the newest event Spark's bound stands in it, in milliseconds, as the store was
                declared then; None where it has none yet. Of another declaration than today's nobody knows how far
                events have come before the bound moves.
        """
        self._stands_at = None
        self.is_of_now = self._store.window is None or after_ms in (None, self._store.window.late_ms)

    def note(self, watermark_ms: int | None) -> None:
        """Take note of Spark's event-time bound in a batch, in milliseconds from 1970."""
        window = self._store.window
        # While a backlog is read there is none, which Spark says as a time of long ago.
        if window is None or watermark_ms is None or watermark_ms <= 0:
            return
        if not self.is_of_now:
            self._stands_at = watermark_ms if self._stands_at is None else self._stands_at
            if watermark_ms == self._stands_at:
                return
            self.is_of_now = True
        self._now = max(watermark_ms + window.late_ms, self._now or 0)

    def tell(self, partitions: int) -> None:
        """Tell what was noted, when it is news and some seconds have gone by.

        Args:
            partitions: how many the topic has.
        """
        if self._now is None or self._now == self._told or time.monotonic() < self._due_at_s:
            return
        self._due_at_s = time.monotonic() + _EVERY_S
        try:
            asyncio.run(self._tell(self._now, partitions))
        except (KafkaError, OSError, TimeoutError) as error:
            logger.info("stream time of store %s is told later: %r", self._store.name, error)
        else:
            self._told = self._now

    async def _tell(self, stream_ms: int, partitions: int) -> None:
        producer = AIOKafkaProducer(**self._kafka.for_aiokafka(), acks="all", request_timeout_ms=_REQUEST_TIMEOUT_MS)
        try:
            await producer.start()
            headers = stream_time_headers(stream_ms, self._store.version)
            sent = [
                await producer.send(self._store.topic, None, key=STREAM_TIME_KEY, partition=partition, headers=headers)
                for partition in range(partitions)
            ]
            await asyncio.gather(*sent)
        finally:
            await stop_client(producer.stop())
