"""The command `moderate`: what is hidden is said on the topic `moderation`, and read from it."""

from __future__ import annotations

import asyncio
import json
from typing import Final, NamedTuple

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from app.errors import SetupError
from runtime.declaration import Topology
from runtime.errors import InvalidRecord
from runtime.kafka.clients import reading
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import kafka_errors, unavailable
from runtime.kafka.ids import TopicCatalog
from runtime.kafka.offsets import topic_offsets
from runtime.kafka.topics import create_missing, outputs_of
from runtime.table_records import parse_row
from runtime.windows import nearest_time_text
from topology.leaderboard.moderation import MODERATION_TABLE, Named, as_entries_have_it, key_of, named_by
from topology.leaderboard.topics import MODERATION

_REQUEST_TIMEOUT_MS: Final = 10_000
_POLL_MS: Final = 200
_SILENT_S: Final = 30.0
"""So long a read of the topic waits for the next records. A client of aiokafka would wait for a broker for ever."""


class Entry(NamedTuple):
    """Something that is hidden.

    Attributes:
        key: of its record; see `topology.leaderboard.moderation`.
        since: when its record was sent, ISO 8601 in UTC.
        reason: why; empty when nobody said.
    """

    key: str
    since: str
    reason: str


def score_named(entry: str) -> Named:
    """Return the score that the text `<topic id>/<partition>/<offset>` names, as `entry` of a rank has it.

    Raises:
        SetupError: it names none.
    """
    name = entry.removeprefix("score/")
    try:
        return named_by(f"score/{name}")
    except InvalidRecord as error:
        topic_id = name.partition("/")[0]
        told = as_entries_have_it(topic_id)
        fix = f"write the topic id as {told}" if told != topic_id else "write <topic id>/<partition>/<offset>"
        raise SetupError(f"{entry!r} names no score", f"{fix}, as `entry` of a rank has it") from error


async def say(kafka: KafkaConnection, topology: Topology, named: Named, *, hidden: bool, reason: str = "") -> str:
    """Hide something, or lift that, and return the key of the record once Kafka has taken it.

    Args:
        kafka: how to connect.
        topology: the leaderboard, whose topic is created where it is missing.
        named: what.
        hidden: whether to hide it.
        reason: why.

    Raises:
        SetupError: the service would not take the record.
        BrokerUnavailable: Kafka cannot be reached or did not take the record.
    """
    key = key_of(named)
    # A null is forgotten by and by, where nobody asks who was hidden once.
    value = json.dumps({"hidden": True, "reason": reason}).encode() if hidden else None
    try:
        parse_row(MODERATION_TABLE, key.encode(), value)
    except InvalidRecord as error:
        raise SetupError(f"{key!r} cannot be {'hidden' if hidden else 'shown'}", str(error)) from error
    await create_missing(kafka, [spec for spec in outputs_of(topology) if spec.name == MODERATION])
    producer = AIOKafkaProducer(
        **kafka.for_aiokafka(), enable_idempotence=True, acks="all", request_timeout_ms=_REQUEST_TIMEOUT_MS
    )
    try:
        async with producer:
            await producer.send_and_wait(MODERATION, value, key=key.encode())
    except (KafkaError, OSError) as error:
        raise await unavailable(kafka, error, "does not take the record") from error
    return key


async def all_hidden(kafka: KafkaConnection) -> list[Entry]:
    """Return what is hidden, in the order in which it was.

    Args:
        kafka: how to connect.

    Raises:
        BrokerUnavailable: Kafka cannot be reached.
    """
    hidden: dict[str, Entry] = {}
    for key, value, time_ms in await read_all(kafka):
        _take(hidden, key, value, time_ms)
    return list(hidden.values())


async def read_all(kafka: KafkaConnection) -> list[tuple[bytes | None, bytes | None, int]]:
    """Return the records of the topic, keys with values and times in milliseconds, in their order; none without it.

    Args:
        kafka: how to connect.

    Raises:
        BrokerUnavailable: Kafka cannot be reached.
    """
    async with TopicCatalog(kafka) as catalog:
        found = (await catalog.describe([MODERATION])).get(MODERATION)
    if found is None:
        return []
    offsets = await topic_offsets(kafka, MODERATION, found.partitions)
    left = {TopicPartition(MODERATION, at): end for at, end in offsets.end.items() if offsets.begin[at] < end}
    read: list[tuple[bytes | None, bytes | None, int]] = []
    async with reading(kafka) as consumer, kafka_errors(kafka), asyncio.timeout(_SILENT_S) as limit:
        consumer.assign(list(left))
        if left:
            await consumer.seek_to_beginning()
        while left:
            for records in (await consumer.getmany(*left, timeout_ms=_POLL_MS)).values():
                read += [(record.key, record.value, record.timestamp) for record in records]
                limit.reschedule(asyncio.get_running_loop().time() + _SILENT_S)
            left = {at: end for at, end in left.items() if await consumer.position(at) < end}
    return read


def _take(hidden: dict[str, Entry], key: bytes | None, value: bytes | None, time_ms: int) -> None:
    try:
        name, row = parse_row(MODERATION_TABLE, key, value)
    except InvalidRecord:
        # It hides nobody; the service counts it among the dead letters.
        return
    hidden.pop(name, None)
    if row is not None and row["hidden"]:
        hidden[name] = Entry(name, nearest_time_text(time_ms), row["reason"])
