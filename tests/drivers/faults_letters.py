"""Dead letters as a reader of committed transactions sees them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

_TOPIC = "score-events-invalid"


class Letter(NamedTuple):
    """What is known of a record that could not be used: where it lay, and its bytes."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def dead_letters(bootstrap_servers: str) -> Counter[Letter]:
    """Return every letter, and how often it is there; one without a reason is an error."""
    return asyncio.run(_dead_letters(bootstrap_servers))


async def _dead_letters(bootstrap_servers: str) -> Counter[Letter]:
    found: Counter[Letter] = Counter()
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        at = TopicPartition(_TOPIC, 0)
        end = (await consumer.end_offsets([at]))[at]
        consumer.assign([at])
        while await consumer.position(at) < end:
            for record in (await consumer.getmany(at, timeout_ms=200, max_records=1_000)).get(at, []):
                headers = {name: value.decode() for name, value in record.headers}
                assert headers["reason"], record
                where = headers["topic"], int(headers["partition"]), int(headers["offset"])
                found[Letter(*where, record.key, record.value)] += 1
    return found
