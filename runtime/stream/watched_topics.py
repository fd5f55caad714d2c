"""The topics of the topology while it runs: waited for, created when they are the service's own, and watched."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from aiokafka import TopicPartition

from runtime.declaration import Store, Topology
from runtime.errors import BrokerUnavailable, TopicChanged, TopicMissing
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import TopicCatalog, TopicDescription
from runtime.kafka.offsets import PartitionOffsets, partition_offsets
from runtime.kafka.topic_settings import CHECKED, WatchedSettings
from runtime.kafka.topics import create_missing, outputs_of

logger = logging.getLogger(__name__)

_WAIT_S: Final = 1.0
_LOOK_EVERY_S: Final = 5.0
_QUIET_S: Final = 5.0


class WatchedTopics:
    """The topics as a query was started on them.

    Args:
        kafka: how to connect.
        topology: whose topics they are.
        store: the one whose stream watches.
        stop: set when everything should end.
        check_stop: called while something is waited for; it raises when everything should end.
        waits_for: told what is waited for.
    """

    def __init__(
        self,
        kafka: KafkaConnection,
        topology: Topology,
        store: Store,
        stop: threading.Event,
        check_stop: Callable[[], None],
        waits_for: Callable[[str], None],
    ) -> None:
        self._kafka = kafka
        self._topology = topology
        self._sources = topology.source_topics
        self._results = [each.topic for each in store.made]
        self._all = [*topology.inputs, *self._results]
        self._own = {*self._results, *(table.topic for table in topology.tables if table.own)}
        self._stop = stop
        self._check_stop = check_stop
        self._settings = WatchedSettings(kafka, topology)
        self._waits_for = waits_for
        self._topics: Mapping[str, TopicDescription] = {}
        self._looked_at_s = 0.0

    def wait_for_all(self) -> Mapping[str, TopicDescription]:
        """Return the topics once all of them exist; a log line says which one is missing.

        Raises:
            BrokerUnavailable: Kafka does not answer.
        """
        said: set[str] = set()
        while True:
            self._check_stop()
            found = asyncio.run(self._describe())
            missing = {topic for topic in self._all if topic not in found}
            if not missing:
                self._topics, self._looked_at_s = found, time.monotonic()
                return found
            self._waits_for(f"topics that do not exist: {', '.join(sorted(missing))}")
            if missing != said:
                logger.warning("waiting: %s", TopicMissing(sorted(missing)))
                said = missing
            if self._own & missing:
                # The service's own: nobody else creates them.
                asyncio.run(create_missing(self._kafka, outputs_of(self._topology)))
            else:
                self._stop.wait(_WAIT_S)

    async def _describe(self) -> dict[str, TopicDescription]:
        """Return the topics that exist, and say what their settings lose."""
        async with TopicCatalog(self._kafka) as catalog:
            found = await catalog.describe(self._all)
            # A broker that creates topics by itself makes them with settings of its own.
            settings = await catalog.settings(found, CHECKED) if found else {}
            self._settings.look(settings, int(time.time() * 1000))
            return found

    def look(self) -> None:
        """Notice what a running query does not: to Spark a topic of the same name is the same topic.

        Raises:
            TopicChanged: the query has to be started anew.
        """
        if time.monotonic() - self._looked_at_s < _LOOK_EVERY_S:
            return
        self._looked_at_s = time.monotonic()
        try:
            found = asyncio.run(self._describe())
        except BrokerUnavailable as error:
            logger.info("topics could not be looked at: %s", error)
            return
        for name, topic in self._topics.items():
            now = found.get(name)
            if now is None or now.topic_id != topic.topic_id:
                raise TopicChanged(f"topic {name} was deleted" + (" and created anew" if now else ""))
            if name in (*self._sources, *self._results) and now.partitions != topic.partitions:
                raise TopicChanged(f"topic {name} has {now.partitions} partitions instead of {topic.partitions}")

    def events_after(self, positions: Mapping[TopicPartition, int]) -> int:
        """Return how many events lie behind these positions now."""
        offsets = self.events()
        return sum(end - positions.get(at, offsets.begin[at]) for at, end in offsets.end.items())

    def events(self) -> PartitionOffsets:
        """Return where the partitions of the sources begin and end now."""
        partitions = {topic: self._topics[topic].partitions for topic in self._sources}
        return asyncio.run(partition_offsets(self._kafka, partitions))

    def results_end(self) -> Mapping[TopicPartition, int]:
        """Return the end offset of each partition of the result topics, none of those that hold no record."""
        partitions = {topic: self._topics[topic].partitions for topic in self._results}
        offsets = asyncio.run(partition_offsets(self._kafka, partitions))
        return {at: end for at, end in offsets.end.items() if end > offsets.begin[at]}

    def wait_for_results(self) -> None:
        """Wait until the instances have published the results of their stores on a result topic that was created anew.

        They do so within moments; the seed of the generation that begins is made from what is there then.
        """
        quiet_since_s, end = time.monotonic(), self.results_end()
        while time.monotonic() - quiet_since_s < _QUIET_S:
            self._check_stop()
            self._stop.wait(_QUIET_S / 10)
            if (now := self.results_end()) != end:
                quiet_since_s, end = time.monotonic(), now
