"""The topics that a topology reads, as a batch reads them: the very same ones from look to look."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from aiokafka import TopicPartition

from app.errors import NotComparable
from runtime.errors import TopicMissing
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import TopicDescription, topic_ids
from runtime.kafka.offsets import PartitionOffsets, partition_offsets


class Inputs:
    """The topics.

    Args:
        kafka: how to connect.
        names: of the topics.

    Attributes:
        described: the topics as they were when they were asked for last.
    """

    def __init__(self, kafka: KafkaConnection, names: Sequence[str]) -> None:
        self._kafka = kafka
        self._names = names
        self._topic_ids: dict[str, str] = {}
        self.described: dict[str, TopicDescription] = {}

    def offsets(self) -> PartitionOffsets:
        """Return where the topics begin and end now.

        Raises:
            BrokerUnavailable: Kafka cannot be reached or did not answer in time.
            TopicMissing: one does not exist.
            NotComparable: one was created anew since the last call.
        """
        return asyncio.run(self._offsets())

    def begins(self, names: Collection[str]) -> dict[TopicPartition, int]:
        """Return where some of the topics begin now, of the partitions that they had before.

        Raises:
            BrokerUnavailable: Kafka cannot be reached or did not answer in time.
        """
        return asyncio.run(partition_offsets(self._kafka, self._partitions(names))).begin

    async def _offsets(self) -> PartitionOffsets:
        found = await topic_ids(self._kafka, self._names)
        missing = sorted(set(self._names) - found.keys())
        if missing:
            raise TopicMissing(missing)
        for topic, description in found.items():
            if self._topic_ids.setdefault(topic, description.topic_id) != description.topic_id:
                raise NotComparable(f"topic {topic} was created anew meanwhile; verify once more")
        self.described = dict(found)
        return await partition_offsets(self._kafka, self._partitions(self._names))

    def _partitions(self, names: Collection[str]) -> dict[str, int]:
        return {name: self.described[name].partitions for name in names}
