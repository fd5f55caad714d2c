"""Topics: what they are created with, and their creation."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    InvalidConfigurationError,
    InvalidReplicationFactorError,
    TopicAlreadyExistsError,
    for_code,
)

from runtime.declaration import Stream, Table, Topology
from runtime.errors import BrokerUnavailable, Fix
from runtime.kafka.clients import stop_client
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import kafka_errors
from runtime.kafka.record_times import REFUSES, REFUSES_BEFORE
from runtime.records import LARGEST_BYTES

DELETE_RETENTION_MS = 24 * 60 * 60 * 1000
"""How long a compacted topic keeps a tombstone: a copy last filled longer ago than this may have missed one."""

_REQUEST_TIMEOUT_MS = 10_000
_VISIBLE_POLL_S = 0.02

MIB = 1024 * 1024

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TopicSpec:
    """What a topic is created with.

    Args:
        name: its name.
        partitions: how many it gets; one that exists keeps what it has.
        config: Kafka's topic settings that differ from the broker's.
    """

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


TABLE = MappingProxyType(
    {
        **REFUSES,
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.1",
        "segment.bytes": str(16 * MIB),
        "delete.retention.ms": str(DELETE_RETENTION_MS),
    }
)
_COMPACTED_AFTER_MS = 5 * 60 * 1000
"""Longer than a batch and a take-over. A driver that repeats what another one has written may for a while publish less
of a key than is published already: compaction must not take the better record before every copy has read it."""

# Results are written over and over. Only closed segments are compacted, so small ones, closed at least once a minute,
# keep the topic near the size of its rows and a restore short.
RESULTS = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.05",
        "min.compaction.lag.ms": str(_COMPACTED_AFTER_MS),
        # Kafka refuses a shorter one.
        "max.compaction.lag.ms": str(_COMPACTED_AFTER_MS),
        "segment.ms": "60000",
        "segment.bytes": str(4 * MIB),
        "delete.retention.ms": str(DELETE_RETENTION_MS),
        # Kafka's own limit is 1 MiB, and a key with the last thousand texts of some kind has more: a result that is
        # refused would stop the stream, at each start again.
        "max.message.bytes": str(LARGEST_BYTES),
    }
)
# A copy is larger than what it copies: it says where from and why.
DEAD_LETTERS = MappingProxyType({"max.message.bytes": str(8 * MIB)})


def inputs_of(topology: Topology) -> list[TopicSpec]:
    """Return the topics that a topology reads, which belong to producers: its sources, then its tables."""
    sources = [TopicSpec(source.topic, source.partitions, REFUSES) for source in topology.sources]
    return [*sources, *(_of_table(table) for table in topology.tables if not table.own)]


def outputs_of(topology: Topology) -> list[TopicSpec]:
    """Return the topics that the service creates for a topology: one a store, its own tables, those of dead letters."""
    results = [TopicSpec(store.topic, store.partitions, RESULTS) for store in topology.stores]
    tables = [_of_table(table) for table in topology.tables if table.own]
    return [*results, *tables, *(dead_letters_of(source) for source in topology.sources)]


def _of_table(table: Table) -> TopicSpec:
    return TopicSpec(table.topic, table.partitions, TABLE)


def dead_letters_of(stream: Stream) -> TopicSpec:
    """Return the topic of what cannot be used of a source."""
    return TopicSpec(stream.invalid_topic, 1, DEAD_LETTERS)


async def create_missing(kafka: KafkaConnection, specs: Sequence[TopicSpec]) -> list[str]:
    """Create the topics that do not exist yet, with the broker's own replication factor.

    Topics that exist stay as they are, and two instances may do this at once.

    Args:
        kafka: how to connect.
        specs: the topics wanted.

    Returns:
        The names of those that this call created, in the order of `specs`.

    Raises:
        BrokerUnavailable: Kafka cannot be reached or did not do it in time.
        Fix: Kafka refuses a topic; the message says which and why.
    """
    admin = AIOKafkaAdminClient(**kafka.for_aiokafka(), request_timeout_ms=_REQUEST_TIMEOUT_MS)
    try:
        async with kafka_errors(kafka):
            await admin.start()
            return await _create_missing(admin, specs)
    finally:
        await stop_client(admin.close())


async def _create_missing(admin: AIOKafkaAdminClient, specs: Sequence[TopicSpec]) -> list[str]:
    present = set(await admin.list_topics())
    wanted = [spec for spec in specs if spec.name not in present]
    if not wanted:
        return []
    answers = await _create(admin, wanted)
    if older := [_for_older(spec) for spec in wanted if _is_for_newer(spec, answers[spec.name])]:
        answers |= await _create(admin, older)
    created = {name for name, answer in answers.items() if _was_created(answer)}
    await _await_visible(admin, {spec.name for spec in wanted})
    for spec in wanted:
        if spec.name in created:
            logger.info("created topic %s with %d partitions", spec.name, spec.partitions)
    return [spec.name for spec in wanted if spec.name in created]


async def _create(admin: AIOKafkaAdminClient, specs: Sequence[TopicSpec]) -> dict[str, Sequence[Any]]:
    """Have topics created; return Kafka's answer for each by its name."""
    response = await admin.create_topics([_new_topic(spec) for spec in specs])
    return {answer[0]: answer for answer in response.topic_errors}


def _new_topic(spec: TopicSpec) -> NewTopic:
    # The empty assignment is what makes aiokafka let -1 through: the broker's default.
    return NewTopic(spec.name, spec.partitions, -1, replica_assignments={}, topic_configs=dict(spec.config))


def _is_for_newer(spec: TopicSpec, answer: Sequence[Any]) -> bool:
    """Return whether Kafka refuses a topic since it does not know the setting for the times of records."""
    _, code, *message = answer
    settings = REFUSES.keys() & spec.config.keys()
    return for_code(code) is InvalidConfigurationError and any(name in str(message) for name in settings)


def _for_older(spec: TopicSpec) -> TopicSpec:
    config = {name: value for name, value in spec.config.items() if name not in REFUSES}
    return replace(spec, config=config | REFUSES_BEFORE)


def _was_created(answer: Sequence[Any]) -> bool:
    """Read one topic's answer: its name, an error code and, from version 1 on, a message."""
    name, code, *rest = answer
    if code == 0:
        return True
    error = for_code(code)
    if error is TopicAlreadyExistsError:
        return False
    message = (rest[0] if rest else None) or error.__name__
    # The factor is the broker's own: what is missing is brokers, which are still starting or were declared dead.
    if error.retriable or error is InvalidReplicationFactorError:
        raise BrokerUnavailable(f"topic {name} cannot be created now ({message})")
    raise Fix(f"Kafka refuses to create topic {name}: {message}")


async def _await_visible(admin: AIOKafkaAdminClient, names: set[str]) -> None:
    """Wait until a broker's metadata holds the topics: it follows the controller's answer a moment later."""
    deadline_s = time.monotonic() + _REQUEST_TIMEOUT_MS / 1000
    while True:
        topics = await admin.describe_topics(sorted(names))
        ready = {topic["topic"] for topic in topics if topic["error_code"] == 0 and _all_led(topic["partitions"])}
        if ready >= names:
            return
        if time.monotonic() > deadline_s:
            raise BrokerUnavailable(f"new topics have no leader yet: {', '.join(sorted(names - ready))}")
        await asyncio.sleep(_VISIBLE_POLL_S)


def _all_led(partitions: Sequence[Mapping[str, Any]]) -> bool:
    return bool(partitions) and all(partition["leader"] >= 0 for partition in partitions)
