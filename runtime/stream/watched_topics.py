"""The topics of the topology while it runs: waited for, created when they are the service's own, and watched."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from runtime.errors import BrokerUnavailable, TopicChanged, TopicMissing
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import TopicCatalog, TopicDescription, topic_ids
from runtime.kafka.offsets import TopicOffsets, topic_offsets
from runtime.kafka.topics import create_missing
from topology.leaderboard.topics import HIGH_SCORES, OUTPUTS, PLAYERS, PRODUCTS, SCORE_EVENTS

logger = logging.getLogger(__name__)

_ALL: Final = (SCORE_EVENTS, PLAYERS, PRODUCTS, HIGH_SCORES)
_COMPACTED: Final = "compact"
_WAIT_S: Final = 1.0
_LOOK_EVERY_S: Final = 5.0
_QUIET_S: Final = 5.0


class WatchedTopics:
    """The topics as a query was started on them.

    Args:
        kafka: how to connect.
        stop: set when everything should end.
        check_stop: called while something is waited for; it raises when everything should end.
    """

    def __init__(self, kafka: KafkaConnection, stop: threading.Event, check_stop: Callable[[], None]) -> None:
        self._kafka = kafka
        self._stop = stop
        self._check_stop = check_stop
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
            found, cleanup_policy = asyncio.run(self._describe())
            missing = {topic for topic in _ALL if topic not in found}
            if not missing:
                if _COMPACTED not in cleanup_policy:
                    # A broker that creates topics by itself makes such a one when this is deleted.
                    logger.warning(
                        "topic %s has cleanup.policy=%s, so Kafka will delete boards from it: set it to compact",
                        HIGH_SCORES, cleanup_policy,
                    )  # fmt: skip
                self._topics, self._looked_at_s = found, time.monotonic()
                return found
            if missing != said:
                logger.warning("waiting: %s", TopicMissing(sorted(missing)))
                said = missing
            if HIGH_SCORES in missing:
                # The service's own: nobody else creates it.
                asyncio.run(create_missing(self._kafka, OUTPUTS))
            else:
                self._stop.wait(_WAIT_S)

    async def _describe(self) -> tuple[dict[str, TopicDescription], str]:
        """Return the topics that exist, and the cleanup policy of `high-scores`."""
        async with TopicCatalog(self._kafka) as catalog:
            found = await catalog.describe(_ALL)
            policy = await catalog.setting(HIGH_SCORES, "cleanup.policy") if HIGH_SCORES in found else None
            return found, policy or _COMPACTED

    def look(self) -> None:
        """Notice what a running query does not: to Spark a topic of the same name is the same topic.

        Raises:
            TopicChanged: the query has to be started anew.
        """
        if time.monotonic() - self._looked_at_s < _LOOK_EVERY_S:
            return
        self._looked_at_s = time.monotonic()
        try:
            found = asyncio.run(topic_ids(self._kafka, _ALL))
        except BrokerUnavailable as error:
            logger.info("topics could not be looked at: %s", error)
            return
        for name, topic in self._topics.items():
            now = found.get(name)
            if now is None or now.topic_id != topic.topic_id:
                raise TopicChanged(f"topic {name} was deleted" + (" and created anew" if now else ""))
            if name in (SCORE_EVENTS, HIGH_SCORES) and now.partitions != topic.partitions:
                raise TopicChanged(f"topic {name} has {now.partitions} partitions instead of {topic.partitions}")

    def score_events_after(self, positions: Mapping[int, int]) -> int:
        """Return how many score events lie behind these positions now."""
        offsets = self._score_events()
        return sum(end - positions.get(partition, offsets.begin[partition]) for partition, end in offsets.end.items())

    def score_events_begin(self) -> Mapping[int, int]:
        """Return the offset of the first record in each partition of `score-events`."""
        return self._score_events().begin

    def _score_events(self) -> TopicOffsets:
        return asyncio.run(topic_offsets(self._kafka, SCORE_EVENTS, self._topics[SCORE_EVENTS].partitions))

    def boards_end(self) -> Mapping[int, int]:
        """Return the end offset of each partition of `high-scores`, none of those that hold no record."""
        offsets = asyncio.run(topic_offsets(self._kafka, HIGH_SCORES, self._topics[HIGH_SCORES].partitions))
        return {partition: end for partition, end in offsets.end.items() if end > offsets.begin[partition]}

    def wait_for_boards(self) -> None:
        """Wait until the instances have published the boards of their stores on a `high-scores` that was created anew.

        They do so within moments; the seed of the generation that begins is made from what is there then.
        """
        quiet_since_s, end = time.monotonic(), self.boards_end()
        while time.monotonic() - quiet_since_s < _QUIET_S:
            self._check_stop()
            self._stop.wait(_QUIET_S / 10)
            if (now := self.boards_end()) != end:
                quiet_since_s, end = time.monotonic(), now
