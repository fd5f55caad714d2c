"""Publishes boards on `high-scores` again, when the last record of one lacks what its store has."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from runtime.errors import BrokerUnavailable
from runtime.kafka.connection import KafkaConnection
from topology.leaderboard.topics import HIGH_SCORES

_REQUEST_TIMEOUT_MS: Final = 5_000


class BoardProducer:
    """A producer that connects when there is something to publish, which is seldom.

    Args:
        kafka: how to connect.
    """

    def __init__(self, kafka: KafkaConnection) -> None:
        self._kafka = kafka
        self._producer: AIOKafkaProducer | None = None
        self._starting = asyncio.Lock()

    async def publish(self, partition: int, product_id: int, board: bytes) -> None:
        """Publish a board.

        Args:
            partition: the partition of `high-scores`.
            product_id: the key.
            board: the board as JSON.

        Raises:
            BrokerUnavailable: Kafka did not take it.
        """
        try:
            producer = await self._started()
            if partition not in await producer.partitions_for(HIGH_SCORES):
                await producer.client.force_metadata_update()
                if partition not in await producer.partitions_for(HIGH_SCORES):
                    raise UnknownTopicOrPartitionError(f"there is no partition {partition} yet")
            await producer.send_and_wait(HIGH_SCORES, board, key=str(product_id).encode(), partition=partition)
        except (KafkaError, OSError) as error:
            raise BrokerUnavailable(f"board {product_id} could not be published: {error!r}") from error

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._producer is not None:
            with suppress(KafkaError, OSError):
                await self._producer.stop()

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
