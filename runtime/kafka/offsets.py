"""Where the partitions of a topic begin and end now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import for_code
from aiokafka.structs import OffsetAndMetadata

from runtime.kafka.clients import stop_client
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import kafka_errors


class _Admin(AIOKafkaAdminClient):  # type: ignore[misc]  # aiokafka has no types
    """Raises what a broker says of a whole request; aiokafka takes such an answer for that of an empty group."""

    async def _send_request(self, request: Any, node_id: int | None = None) -> Any:
        response = await super()._send_request(request, node_id)
        if error_code := getattr(response, "error_code", 0):
            raise for_code(error_code)(str(request))
        return response


class TopicOffsets(NamedTuple):
    """Offsets of a topic by partition.

    Attributes:
        begin: of the first record that is there.
        end: after the last record; where a transaction is open, before its first.
    """

    begin: dict[int, int]
    end: dict[int, int]


class OffsetRange(NamedTuple):
    """Offsets of one partition: from the first on, up to before the end."""

    begin: int
    end: int


Ranges = Mapping[TopicPartition, OffsetRange]
"""What is read of some partitions, or passed over."""


class PartitionOffsets(NamedTuple):
    """Offsets of several topics by partition; see `TopicOffsets`."""

    begin: dict[TopicPartition, int]
    end: dict[TopicPartition, int]

    def ranges(self, topics: Collection[str]) -> dict[TopicPartition, OffsetRange]:
        """Return all that some of the topics hold."""
        return {at: OffsetRange(begin, self.end[at]) for at, begin in self.begin.items() if at.topic in topics}


def by_partition(topics: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """Return offsets, by topic and then by partition as Spark writes them, by both."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    """Return offsets by topic and then by partition, which as JSON is what Spark takes; see `by_partition`."""
    found: dict[str, dict[int, int]] = {}
    for at, offset in offsets.items():
        found.setdefault(at.topic, {})[at.partition] = offset
    return found


async def partition_offsets(kafka: KafkaConnection, topics: Mapping[str, int]) -> PartitionOffsets:
    """Return the offsets of existing topics.

    Args:
        kafka: how to connect.
        topics: how many partitions each has, by its name. A consumer without a subscription does not know, and would
            find none.

    Raises:
        BrokerUnavailable: Kafka cannot be reached or did not answer in time.
    """
    consumer = AIOKafkaConsumer(**kafka.for_aiokafka(), isolation_level="read_committed")
    try:
        async with kafka_errors(kafka):
            await consumer.start()
            wanted = [TopicPartition(topic, number) for topic, many in topics.items() for number in range(many)]
            return PartitionOffsets(await consumer.beginning_offsets(wanted), await consumer.end_offsets(wanted))
    finally:
        await stop_client(consumer.stop())


async def topic_offsets(kafka: KafkaConnection, topic: str, partitions: int) -> TopicOffsets:
    """Return the offsets of an existing topic; see `partition_offsets`.

    Args:
        kafka: how to connect.
        topic: which topic.
        partitions: how many it has.
    """
    found = await partition_offsets(kafka, {topic: partitions})
    return TopicOffsets(*({at.partition: offset for at, offset in offsets.items()} for offsets in found))


async def committed_offsets(kafka: KafkaConnection, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets that a consumer group has committed; none for a group that does not exist.

    Args:
        kafka: how to connect.
        group: which one.

    Raises:
        BrokerUnavailable: Kafka cannot be reached or did not answer in time.
    """
    admin = _Admin(**kafka.for_aiokafka())
    try:
        async with kafka_errors(kafka):
            await admin.start()
            found: dict[TopicPartition, OffsetAndMetadata] = await admin.list_consumer_group_offsets(group)
            return found
    finally:
        await stop_client(admin.close())
