"""Publishes results on their topics again, when the last record of one lacks what its store has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from runtime.copies.result_copy import ResultRecord
from runtime.errors import BrokerUnavailable
from runtime.kafka.clients import stop_client
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

    async def publish(self, records: Sequence[ResultRecord]) -> int:
        """Publish records of one topic partition, at least one, in their order; return the offset of the last.

        Raises:
            BrokerUnavailable: Kafka did not take them, or not all.
        """
        first = records[0]
        last, at = -1, 0
        try:
            producer = await self._ready_for(first)
            while at < len(records):
                batch = producer.create_batch()
                for record in records[at:]:
                    if batch.append(timestamp=None, key=record.key, value=record.value, headers=record.headers) is None:
                        break
                    at += 1
                sent = await (await producer.send_batch(batch, first.topic, partition=first.partition))
                last = sent.offset + batch.record_count() - 1
        except (KafkaError, OSError) as error:
            key = first.key.decode()
            raise BrokerUnavailable(f"result {key} could not be published on {first.topic}: {error!r}") from error
        return last

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._producer is not None:
            await stop_client(self._producer.stop())

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
                    await stop_client(producer.stop())
                    raise
                self._producer = producer
            return self._producer
