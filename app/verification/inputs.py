"""The topics that a topology reads, as a batch reads them: the very same ones from look to look."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.errors import NotComparable
from runtime.errors import TopicMissing
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import TopicDescription, topic_ids
from runtime.kafka.offsets import TopicOffsets, topic_offsets


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

    def offsets(self) -> dict[str, TopicOffsets]:
        """Return where each topic begins and ends now.

        Raises:
            BrokerUnavailable: Kafka cannot be reached or did not answer in time.
            TopicMissing: one does not exist.
            NotComparable: one was created anew since the last call.
        """
        return asyncio.run(self._offsets())

    async def _offsets(self) -> dict[str, TopicOffsets]:
        found = await topic_ids(self._kafka, self._names)
        missing = sorted(set(self._names) - found.keys())
        if missing:
            raise TopicMissing(missing)
        for topic, description in found.items():
            if self._topic_ids.setdefault(topic, description.topic_id) != description.topic_id:
                raise NotComparable(f"topic {topic} was created anew meanwhile; verify once more")
        self.described = dict(found)
        return {name: await topic_offsets(self._kafka, name, found[name].partitions) for name in self._names}
