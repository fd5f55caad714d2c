"""Has results published again that their topic lacks, or that belong to another partition; and lets windows go."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from runtime.copies.copies import Copies
from runtime.copies.result_copies import ResultCopies
from runtime.copies.result_copy import ResultCopy, ResultRecord
from runtime.errors import BrokerUnavailable
from runtime.kafka.ids import TopicDescription

logger = logging.getLogger(__name__)

Publish = Callable[[ResultRecord], Awaitable[None]]
"""Publishes a result. May raise `BrokerUnavailable`."""

_AT_ONCE: Final = 500


class _Log(NamedTuple):
    """What is said of some records: of the key of the first one, of which store, and how many more."""

    level: int
    text: str


_LACKING: Final = _Log(logging.INFO, "publishing result %s of store %s and %d more again: the topic lacks some of it")
_LET_GO: Final = _Log(logging.DEBUG, "deleting window %s of store %s and %d more: they are kept no longer")


class Republisher:
    """Publishes again what the copies of this instance have.

    Args:
        copies: whose results.
        publish: publishes one.
        lacking_for_s: how long the last record of a key may lack something before its result is published again.
    """

    def __init__(self, copies: Copies, publish: Publish, lacking_for_s: float = 1.0) -> None:
        self._copies = copies
        self._publish = publish
        self._lacking_for_s = lacking_for_s
        self._partitions: frozenset[int] = frozenset()

    def set_partitions(self, partitions: Iterable[int]) -> None:
        """Tell which partitions this instance publishes again what their topics lack; one instance does so for each."""
        self._partitions = frozenset(partitions)

    async def look_after(self) -> None:
        """Publish the results again whose last record lacks something, and delete the windows that are let go."""
        for held in self._copies.results.values():
            for partition in sorted(self._partitions & held.copies.keys()):
                copy = held.copies[partition]
                if not copy.lag:
                    await self._publish_some(copy, copy.lacking(self._lacking_for_s), _LACKING)
                    await self._publish_some(copy, copy.let_go(), _LET_GO)

    async def _publish_some(self, copy: ResultCopy, records: Iterator[ResultRecord], what: _Log) -> None:
        while some := list(itertools.islice(records, _AT_ONCE)):
            logger.log(what.level, what.text, some[0].key.decode(), copy.name, len(some) - 1)
            try:
                await asyncio.gather(*map(self._publish, some))
            except BrokerUnavailable as error:
                # One partition may have no leader; the others have theirs published.
                logger.warning("results of %s/%d are published later: %s", copy.name, copy.partition, error)
                return

    async def move(self, described: Mapping[str, TopicDescription]) -> None:
        """Publish the results that belong to another partition, where a topic has not as many as it is known to have.

        Each instance does so for all of its copies: to merge a result twice changes nothing. It goes on answering with
        them until they are dropped. One that the stream writes meanwhile is in the seed of the generation that begins.

        Raises:
            BrokerUnavailable: Kafka did not take one.
        """
        for held in self._copies.results.values():
            topic = described.get(held.store.topic)
            if topic is not None and topic.partitions != held.partition_count:
                await self._move(held, topic.partitions)

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
            await asyncio.gather(*map(self._publish, some))
