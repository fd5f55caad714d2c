"""A look at the newest score events while Spark starts, for the floors of a first long backlog.

Before there are boards there are no floors, and so each event of a backlog would be joined, sorted and added up, though
hardly one of them reaches a board. A board is at least as good as its best events among some thousands: what is below
the last place of these cannot be on it, whatever the others are.

Only such events are looked at that need no JSON reader, by columns. The newest, since retention takes the oldest: what
the floors are taken from has to be there when the query reads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from itertools import chain
from typing import Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from aiokafka import TopicPartition

from runtime.errors import LeaderboardError
from runtime.kafka.clients import reading
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import kafka_errors
from runtime.kafka.ids import TopicDescription
from runtime.kafka.offsets import TopicOffsets, topic_offsets
from runtime.kafka.unreadable import reason_of
from topology.leaderboard.events import plain_events
from topology.leaderboard.topics import HIGH_SCORES, SCORE_EVENTS

logger = logging.getLogger(__name__)

_FROM_EVENTS: Final = 500_000
"""A shorter backlog takes Spark less time than it would save."""

_ONE_OF: Final = 8
_MOST_EVENTS: Final = 300_000
"""With a thousand boards of twenty places, the 250,000 of a backlog of 2,000,000 leave one event of twelve."""

_POLL_MS: Final = 200
_FETCH_BYTES: Final = 2 << 20
_WITHIN_S: Final = 10.0
_TAKEN_WITHIN_S: Final = 2.0


class NewestEvents(NamedTuple):
    """Some of the newest events.

    Attributes:
        events: `product_id bigint, player_id bigint, score double`.
        begin: the first offset that was looked at, by partition.
    """

    events: pa.Table
    begin: dict[int, int]

    def floors(self, players: pa.Array, products: pa.Array, places: int) -> pa.Table:
        """Return the last place of each board that these events alone would fill: `product_id, floor`.

        Args:
            players: the ids that exist, of those that the query joins. What is not known has no place yet.
            products: the same of products.
            places: how many entries each list of a board keeps.
        """
        events = self.events
        known = pc.and_(pc.is_in(events["player_id"], players), pc.is_in(events["product_id"], products))
        ranked = events.filter(known).sort_by([("product_id", "ascending"), ("score", "descending")])
        last_places, first = [], 0
        # On one thread the groups come in the order of the rows.
        groups = ranked.group_by("product_id", use_threads=False).aggregate([([], "count_all")])
        for count in groups["count_all"].to_pylist():
            if count >= places:
                last_places.append(first + places - 1)
            first += count
        full = ranked.take(pa.array(last_places, pa.int64()))
        return pa.table({"product_id": full["product_id"], "floor": full["score"]})

    def still_there(self, begin: Mapping[int, int]) -> bool:
        """Return whether no event has been deleted since, by where the partitions begin now."""
        return all(begin[partition] <= offset for partition, offset in self.begin.items())


class FirstLook:
    """A context manager that looks in the background, unless there are boards, or few events; after its end, no longer.

    Args:
        kafka: how to connect.
        topics: `score-events` and `high-scores`, among others.
    """

    def __init__(self, kafka: KafkaConnection, topics: Mapping[str, TopicDescription]) -> None:
        self._kafka = kafka
        self._topics = topics
        self._enough = threading.Event()
        self._looked: Future[NewestEvents | None] = Future()

    def __enter__(self) -> Self:
        # Nobody waits for a broker that does not answer, neither a stop nor the end of the process.
        threading.Thread(target=self._run, name="first-look", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()

    def take(self) -> NewestEvents | None:
        """Return what has been seen so far, and look no longer; None when there was no need to look, or no way."""
        self._enough.set()
        try:
            return self._looked.result(_TAKEN_WITHIN_S)
        except (LeaderboardError, TimeoutError) as error:
            # Whoever needs Kafka will say so. Without floors a backlog takes longer, and that is all.
            logger.info("no floors from the newest score events: %s", str(error) or "Kafka takes too long")
            return None

    def _run(self) -> None:
        try:
            self._looked.set_result(asyncio.run(self._look()))
        except BaseException as error:  # noqa: BLE001  # whoever takes it is told
            self._looked.set_exception(error)

    async def _look(self) -> NewestEvents | None:
        offsets = await self._offsets(HIGH_SCORES)
        if offsets.end != offsets.begin:
            return None
        offsets = await self._offsets(SCORE_EVENTS)
        waiting = sum(offsets.end.values()) - sum(offsets.begin.values())
        if waiting < _FROM_EVENTS:
            return None
        return await self._read(offsets, min(waiting // _ONE_OF, _MOST_EVENTS))

    async def _offsets(self, topic: str) -> TopicOffsets:
        return await topic_offsets(self._kafka, topic, self._topics[topic].partitions)

    async def _read(self, offsets: TopicOffsets, events: int) -> NewestEvents:
        share = events // len(offsets.end)
        begin = {partition: max(end - share, offsets.begin[partition]) for partition, end in offsets.end.items()}
        left = {
            TopicPartition(SCORE_EVENTS, partition): end
            for partition, end in offsets.end.items()
            if begin[partition] < end
        }
        began_s, seen = time.monotonic(), [plain_events(pa.array([], pa.binary()))]
        # Where records went away meanwhile, others would be seen twice.
        reader = reading(self._kafka, auto_offset_reset="none", max_partition_fetch_bytes=_FETCH_BYTES)
        async with reader as consumer, kafka_errors(self._kafka):
            consumer.assign(list(left))
            for place in left:
                consumer.seek(place, begin[place.partition])
            while left and not self._enough.is_set() and time.monotonic() - began_s < _WITHIN_S:
                records = chain(*(await consumer.getmany(*left, timeout_ms=_POLL_MS)).values())
                # What Spark cannot read counts for no board, and so for no floor.
                values = [record.value for record in records if reason_of(record) is None]
                seen.append(plain_events(pa.array(values, pa.binary())))
                # By positions: the end of a transaction has an offset, and is no record.
                left = {place: end for place, end in left.items() if await consumer.position(place) < end}
        newest = NewestEvents(pa.concat_tables(seen), begin)
        took_s = time.monotonic() - began_s
        logger.info("floors come from %s of the newest score events, seen in %.1f s", f"{len(newest.events):,}", took_s)
        return newest
