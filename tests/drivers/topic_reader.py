"""Reads whole topics, as any consumer would."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from runtime.kafka.offsets import topic_offsets


def read_topic(kafka: KafkaConnection, topic: str) -> list[Any]:
    """Return every committed record that a topic holds now."""
    return asyncio.run(all_records(kafka, topic))


async def all_records(kafka: KafkaConnection, topic: str) -> list[Any]:
    """The same, in the event loop that runs."""
    found = (await topic_ids(kafka, [topic])).get(topic)
    if found is None:
        return []
    ends = (await topic_offsets(kafka, topic, found.partitions)).end
    consumer = AIOKafkaConsumer(
        **kafka.for_aiokafka(), group_id=None, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    records: list[Any] = []
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, partition) for partition in ends])
        while [p for p, end in ends.items() if await consumer.position(TopicPartition(topic, p)) < end]:
            for batch in (await consumer.getmany(timeout_ms=200)).values():
                records.extend(batch)
    finally:
        await asyncio.gather(consumer.stop(), return_exceptions=True)
    return records
