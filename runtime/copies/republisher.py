"""Has results published again that their topic lacks, or that belong elsewhere; and lets rows go that have passed."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

from aiokafka import TopicPartition

from runtime.copies.copies import Copies
from runtime.copies.result_copies import ResultCopies
from runtime.copies.result_copy import ResultCopy, ResultRecord
from runtime.errors import BrokerUnavailable
from runtime.kafka.ids import TopicDescription

logger = logging.getLogger(__name__)

Publish = Callable[[Sequence[ResultRecord]], Awaitable[int]]
"""Publishes records of one topic partition, and returns the offset of the last. May raise `BrokerUnavailable`."""

_PARTITION: Final = attrgetter("partition")
_AT_ONCE: Final = 500
_LET_GO_AT_ONCE: Final = 100
"""New rows of a partition wait until its copy has read what was published before them: these take some milliseconds."""
_BREATH_S: Final = 0.005
_LOOK_FOR_PASSED_EVERY_S: Final = 1.0


class Republisher:
    """Publishes again what the copies of this instance have.

    Args:
        copies: whose results.
        publish: publishes those of one topic partition.
        lacking_for_s: how long the last record of a key may lack something before its result is published again.
    """

    def __init__(self, copies: Copies, publish: Publish, lacking_for_s: float = 1.0) -> None:
        self._copies = copies
        self._publish = publish
        self._lacking_for_s = lacking_for_s
        self._partitions: frozenset[int] = frozenset()
        self._waits: list[str] = []

    def set_partitions(self, partitions: Iterable[int]) -> None:
        """Tell which partitions this instance publishes again what their topics lack; one instance does so for each."""
        self._partitions = frozenset(partitions)

    async def look_after(self) -> None:
        """Publish the results again whose last record lacks something."""
        for copy in self._published_here():
            if not copy.lag:
                await self._publish_again(copy)

    async def let_rows_go(self) -> None:
        """Delete the rows that have passed from their topics, a few at a time, until cancelled.

        Windows of all keys end at once, and every copy has to read that they are gone: it does so in half of the time.
        """
        while True:
            found = False
            for copy in self._published_here():
                began_s = time.monotonic()
                if copy.reached and await self._let_some_go(copy):
                    found = True
                    await asyncio.sleep(max(time.monotonic() - began_s, _BREATH_S))
            if not found:
                await asyncio.sleep(_LOOK_FOR_PASSED_EVERY_S)

    async def _let_some_go(self, copy: ResultCopy) -> bool:
        """Delete some rows of a copy that have passed; return whether there may be more."""
        if copy.awaits_deletes:
            return True
        some = list(itertools.islice(copy.let_go(), _LET_GO_AT_ONCE))
        if not some:
            return False
        epoch = copy.epoch
        try:
            offset = await self._publish(some)
        except BrokerUnavailable as error:
            copy.name_again()
            logger.warning("rows of %s/%d that have passed are deleted later: %s", copy.name, copy.partition, error)
            return False
        if copy.epoch == epoch:
            copy.last_delete = offset
        return True

    def _published_here(self) -> Iterator[ResultCopy]:
        """Yield the copies whose topics this instance looks after; what comes and goes meanwhile is as it is then."""
        for held in self._copies.results.values():
            for partition in sorted(self._partitions):
                if (copy := held.copies.get(partition)) is not None:
                    yield copy

    async def _publish_again(self, copy: ResultCopy) -> None:
        records = copy.lacking(self._lacking_for_s)
        while some := list(itertools.islice(records, _AT_ONCE)):
            logger.info(
                "publishing result %s of store %s and %d more again: the topic lacks some of it",
                some[0].key.decode(), copy.name, len(some) - 1,
            )  # fmt: skip
            try:
                await self._publish(some)
            except BrokerUnavailable as error:
                # One partition may have no leader; the others have theirs published.
                logger.warning("results of %s/%d are published later: %s", copy.name, copy.partition, error)
                return

    async def move(
        self, described: Mapping[str, TopicDescription], leaderless: Collection[TopicPartition]
    ) -> dict[str, TopicDescription]:
        """Publish the results that belong to another partition, where a topic has not as many as it is known to have.

        Each instance does so for all of its copies: to merge a result twice changes nothing. It goes on answering with
        them until they are dropped. One that the stream writes meanwhile is in the seed of the generation that begins.

        Args:
            described: the topics that exist.
            leaderless: partitions that take nothing now.

        Returns:
            The same, but a topic that cannot take all of its results has as many partitions as before: nothing else
            waits for it.

        Raises:
            BrokerUnavailable: Kafka did not take one.
        """
        moved = dict(described)
        waits: list[str] = []
        for held in self._copies.results.values():
            topic = described.get(held.store.topic)
            if topic is None or topic.partitions == held.partition_count:
                continue
            if held.partition_count and any(at.topic == held.store.topic for at in leaderless):
                waits.append(held.store.name)
                moved[held.store.topic] = topic._replace(partitions=held.partition_count)
            else:
                await self._move(held, topic.partitions)
        if waits and waits != self._waits:
            logger.warning("results of %s are moved later: a partition has no leader", ", ".join(waits))
        self._waits = waits
        return moved

    async def _move(self, held: ResultCopies, partitions: int) -> None:
        for copy in list(held.copies.values()):
            if misplaced := copy.misplaced(partitions):
                logger.info("moving %d results out of partition %d of %s", len(misplaced), copy.partition, copy.name)
                records = (
                    copy.record(key, held.store.partition_for(held.store.owner(key), partitions)) for key in misplaced
                )
                await self._publish_all(record for record in records if record is not None)

    async def _publish_all(self, records: Iterator[ResultRecord]) -> None:
        while some := list(itertools.islice(records, _AT_ONCE)):
            some.sort(key=_PARTITION)
            await asyncio.gather(*(self._publish(list(each)) for _, each in itertools.groupby(some, _PARTITION)))
