"""Publishes results on their topics again, when the last record of one lacks what its store has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from runtime.copies.result_copy import ResultRecord
from runtime.errors import BrokerUnavailable
from runtime.kafka.connection import KafkaConnection

_REQUEST_TIMEOUT_MS: Final = 5_000


class ResultProducer:
    """A producer that connects when there is something to publish, which is seldom.

    Args:
        kafka: how to connect.
    """

    def __init__(self, kafka: KafkaConnection) -> None:
        self._kafka = kafka
        self._producer: AIOKafkaProducer | None = None
        self._starting = asyncio.Lock()

    async def publish(self, record: ResultRecord) -> None:
        """Publish a result.

        Raises:
            BrokerUnavailable: Kafka did not take it.
        """
        async with self._translated(record):
            producer = await self._ready_for(record)
            await producer.send_and_wait(
                record.topic, record.value, key=record.key, partition=record.partition, headers=record.headers
            )

    async def publish_together(self, records: Sequence[ResultRecord]) -> int:
        """Publish records of one topic partition, at least one; return the offset of the last.

        To make a task and a request of each would take a multiple of the time.

        Raises:
            BrokerUnavailable: Kafka did not take them, or not all.
        """
        first = records[0]
        last = -1
        async with self._translated(first):
            producer = await self._ready_for(first)
            at = 0
            while at < len(records):
                batch = producer.create_batch()
                for record in records[at:]:
                    if batch.append(timestamp=None, key=record.key, value=record.value, headers=record.headers) is None:
                        break
                    at += 1
                sent = await (await producer.send_batch(batch, first.topic, partition=first.partition))
                last = sent.offset + batch.record_count() - 1
        return last

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._producer is not None:
            with suppress(KafkaError, OSError):
                await self._producer.stop()

    @asynccontextmanager
    async def _translated(self, record: ResultRecord) -> AsyncIterator[None]:
        try:
            yield
        except (KafkaError, OSError) as error:
            key = record.key.decode()
            raise BrokerUnavailable(f"result {key} could not be published on {record.topic}: {error!r}") from error

    async def _ready_for(self, record: ResultRecord) -> AIOKafkaProducer:
        """Return the producer, once it knows of the record's partition."""
        topic, partition = record.topic, record.partition
        producer = await self._started()
        if partition not in await producer.partitions_for(topic):
            await producer.client.force_metadata_update()
            if partition not in await producer.partitions_for(topic):
                raise UnknownTopicOrPartitionError(f"there is no partition {partition} yet")
        return producer

    async def _started(self) -> AIOKafkaProducer:
        async with self._starting:
            if self._producer is None:
                producer = AIOKafkaProducer(
                    **self._kafka.for_aiokafka(), acks="all", request_timeout_ms=_REQUEST_TIMEOUT_MS
                )
                try:
                    await producer.start()
                except BaseException:
                    await producer.stop()
                    raise
                self._producer = producer
            return self._producer
