"""A plain Kafka producer for tests: the records of the three inputs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from runtime.kafka.connection import KafkaConnection
from runtime.kafka.offsets import topic_offsets
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from topology.leaderboard.board import LEADERBOARD
from topology.leaderboard.topics import PLAYERS, PRODUCTS, SCORE_EVENTS

Record = tuple[bytes | None, bytes | None]
Score = tuple[float, int, int]

_OPEN_AT_MOST_MS = 600_000
"""As long as a test may take; Kafka ends a transaction that is open for longer."""


class Inputs:
    """Writes to the topics that the service reads.

    Args:
        kafka: how to connect.
    """

    def __init__(self, kafka: KafkaConnection) -> None:
        self.kafka = kafka

    def create_topics(self) -> None:
        """Create what is missing of all topics."""
        asyncio.run(create_missing(self.kafka, [*inputs_of(LEADERBOARD), *outputs_of(LEADERBOARD)]))

    def players(self, names: Mapping[int, str | None]) -> None:
        """Create, rename or (None) delete players."""
        self.send(PLAYERS, _table_records(names))

    def products(self, names: Mapping[int, str | None]) -> None:
        """Create, rename or (None) delete products."""
        self.send(PRODUCTS, _table_records(names))

    def scores(self, scores: Iterable[Score], partition: int | None = None) -> None:
        """Send scores (score, player id, product id); each is in the log before the next is sent only per partition."""
        self.send(SCORE_EVENTS, score_records(scores), partition)

    @contextmanager
    def uncommitted_scores(self, scores: Iterable[Score], partition: int) -> Iterator[None]:
        """Send scores to a partition in a transaction that is open while the block runs, and then committed."""
        with asyncio.Runner() as runner:
            producer = runner.run(self._begin(score_records(scores), partition))
            try:
                yield
            finally:
                runner.run(producer.commit_transaction())
                runner.run(producer.stop())

    def aborted_scores(self, scores: Iterable[Score]) -> None:
        """Send scores in a transaction that is aborted when the broker has them: none of them counts."""
        self.send_and_abort(SCORE_EVENTS, score_records(scores))

    def send(self, topic: str, records: Iterable[Record], partition: int | None = None) -> None:
        """Send raw records and wait until the broker has them; without a partition their keys decide."""
        asyncio.run(self._send(topic, list(records), partition))

    def send_and_abort(self, topic: str, records: Iterable[Record]) -> None:
        """Send raw records in a transaction that is aborted when the broker has them."""
        asyncio.run(self._abort(topic, list(records)))

    def truncate(self, topic: str, partitions: int) -> None:
        """Delete every record that a topic holds now, as retention would."""
        asyncio.run(self._truncate(topic, partitions))

    async def _truncate(self, topic: str, partitions: int) -> None:
        offsets = await topic_offsets(self.kafka, topic, partitions)
        admin = AIOKafkaAdminClient(**self.kafka.for_aiokafka())
        await admin.start()
        try:
            await admin.delete_records(
                {TopicPartition(topic, partition): RecordsToDelete(end) for partition, end in offsets.end.items()}
            )
        finally:
            await admin.close()
        left = await topic_offsets(self.kafka, topic, partitions)
        assert left.begin == left.end

    async def _abort(self, topic: str, records: list[Record]) -> None:
        producer = AIOKafkaProducer(**self.kafka.for_aiokafka(), transactional_id=f"aborts-{topic}")
        async with producer:
            await producer.begin_transaction()
            sent = [await _send(producer, topic, *record) for record in records]
            await asyncio.gather(*sent)
            await producer.abort_transaction()

    async def _begin(self, records: list[Record], partition: int) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            **self.kafka.for_aiokafka(), transactional_id="is-open", transaction_timeout_ms=_OPEN_AT_MOST_MS
        )
        await producer.start()
        await producer.begin_transaction()
        sent = [await _send(producer, SCORE_EVENTS, *record, partition) for record in records]
        await asyncio.gather(*sent)
        return producer

    async def _send(self, topic: str, records: list[Record], partition: int | None) -> None:
        async with AIOKafkaProducer(**self.kafka.for_aiokafka(), enable_idempotence=True) as producer:
            sent = [await _send(producer, topic, *record, partition) for record in records]
            await asyncio.gather(*sent)


async def _send(
    producer: AIOKafkaProducer, topic: str, key: bytes | None, value: bytes | None, partition: int | None = None
) -> Any:
    if key is not None or value is not None:
        return await producer.send(topic, value, key=key, partition=partition)
    # aiokafka's `send` refuses such a record, though Kafka has them.
    batch = producer.create_batch()
    batch.append(timestamp=None, key=None, value=None)
    return await producer.send_batch(batch, topic, partition=partition or 0)


def score_records(scores: Iterable[Score]) -> list[Record]:
    """Return score events as records."""
    events = ({"score": score, "product_id": product, "player_id": player} for score, player, product in scores)
    return [(None, json.dumps(event).encode()) for event in events]


def _table_records(names: Mapping[int, str | None]) -> list[Record]:
    return [
        (str(row).encode(), None if name is None else json.dumps({"id": row, "name": name}).encode())
        for row, name in names.items()
    ]
