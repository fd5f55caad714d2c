"""What an operator, or an accident, does to topics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from runtime.kafka.connection import KafkaConnection
from tests.drivers.topic_reader import read_topic
from tests.waiting import wait_until


class Topics:
    """The topics of a broker.

    Args:
        bootstrap_servers: Kafka.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers

    def names(self) -> set[str]:
        """Return the names of those that exist."""
        return set(self._administer(AIOKafkaAdminClient.list_topics))

    def partitions(self, name: str) -> int:
        """Return how many partitions a topic has."""
        (described,) = self._administer(lambda admin: admin.describe_topics([name]))
        return len(described["partitions"])

    def delete(self, name: str) -> None:
        """Delete a topic; returns when it is gone."""
        self._administer(lambda admin: admin.delete_topics([name]))
        wait_until(lambda: name not in self.names(), f"{name} is gone")

    def create(self, name: str, partitions: int = 4, **config: str) -> None:
        """Create a topic; returns when clients can use it."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, partitions, 1, topic_configs=settings)
        self._administer(lambda admin: admin.create_topics([topic]))
        self._await_partitions(name, partitions)

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions to a topic."""
        self._administer(lambda admin: admin.create_partitions({name: NewPartitions(partitions)}))
        self._await_partitions(name, partitions)

    def configure(self, name: str, **config: str) -> None:
        """Set settings of a topic."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        resource = ConfigResource(ConfigResourceType.TOPIC, name, settings)
        self._administer(lambda admin: admin.alter_configs([resource]))

    def truncate(self, name: str) -> None:
        """Delete every record that a topic holds now, as retention would."""
        ends = {TopicPartition(name, partition): RecordsToDelete(end) for partition, end in self.ends(name).items()}
        self._administer(lambda admin: admin.delete_records(ends))

    def ends(self, name: str) -> dict[int, int]:
        """Return the offset behind the last record of each partition."""
        return asyncio.run(self._ends(name, self.partitions(name)))

    def keys(self, name: str) -> set[bytes | None]:
        """Return the keys of all records that a topic holds."""
        return {record.key for record in read_topic(KafkaConnection(self._bootstrap_servers), name)}

    def group_state(self, group: str) -> str:
        """Return what a consumer group is doing, as the broker names it."""
        (answer,) = self._administer(lambda admin: admin.describe_consumer_groups([group]))
        ((_, _, state, *_),) = answer.groups
        return str(state)

    def _await_partitions(self, name: str, partitions: int) -> None:
        def are_led() -> bool:
            (described,) = self._administer(lambda admin: admin.describe_topics([name]))
            found = described["partitions"]
            return len(found) == partitions and all(each["leader"] >= 0 for each in found)

        wait_until(are_led, f"{name} has {partitions} partitions")

    async def _ends(self, name: str, partitions: int) -> dict[int, int]:
        async with AIOKafkaConsumer(bootstrap_servers=self._bootstrap_servers) as consumer:
            wanted = [TopicPartition(name, partition) for partition in range(partitions)]
            return {at.partition: end for at, end in (await consumer.end_offsets(wanted)).items()}

    def _administer(self, task: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
        async def administer() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap_servers)
            await admin.start()
            try:
                return await task(admin)
            finally:
                await admin.close()

        return asyncio.run(administer())
