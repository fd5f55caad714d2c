"""A look at some score events while Spark starts, for the floors of a first long backlog.

Before there are boards there are no floors, and so each event of a backlog would be joined, sorted and added up, though
hardly one of them reaches a board. A board is at least as good as its best events among some thousands: what is below
the last place of these cannot be on it, whatever the others are.

Only such events are looked at that need no JSON reader, by columns. Boards of all time look at the newest, since
retention takes the oldest: what the floors are taken from has to be there when the query reads. Boards of periods look
at some from all over the backlog: the newest say nothing of the days before.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import chain
from typing import Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from aiokafka import ConsumerRecord, TopicPartition

from runtime.errors import LeaderboardError
from runtime.kafka.clients import reading
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import kafka_errors
from runtime.kafka.ids import TopicDescription
from runtime.kafka.offsets import OffsetRange, TopicOffsets, topic_offsets
from runtime.kafka.unreadable import reason_of
from topology.leaderboard.events import plain_events
from topology.leaderboard.topics import HIGH_SCORES, SCORE_EVENTS

logger = logging.getLogger(__name__)

_FROM_EVENTS: Final = 50_000
"""Of fewer events no floor would save much."""

_POLL_MS: Final = 200
_FETCH_BYTES: Final = 2 << 20
_PIECE_BYTES: Final = 64 << 10
_WITHIN_S: Final = 10.0
_TAKEN_WITHIN_S: Final = 2.0


class Which(NamedTuple):
    """Which events of a backlog are looked at.

    Attributes:
        most: no more than these.
        pieces: in so many pieces of each partition, which lie all over the backlog; one: the newest.
    """

    most: int
    pieces: int

    def ranges(self, offsets: TopicOffsets) -> Iterator[dict[int, OffsetRange]]:
        """Yield what is read at a time, the newest first: by partition, of those that have records; none of them twice.

        Args:
            offsets: of the backlog.

        Example:
            >>> [*Which(most=4, pieces=2).ranges(TopicOffsets(begin={0: 0}, end={0: 10}))]
            [{0: OffsetRange(begin=8, end=10)}, {0: OffsetRange(begin=3, end=5)}]
        """
        waiting = sum(offsets.end.values()) - sum(offsets.begin.values())
        size = -(-min(waiting, self.most) // (len(offsets.end) * self.pieces))
        for piece in range(self.pieces):
            ranges = {}
            for place, (partition, end) in enumerate(sorted(offsets.end.items())):
                begin = offsets.begin[partition]
                # Those of other partitions lie between.
                shift = place / len(offsets.end) if self.pieces > 1 else 0
                until, older = (
                    end - int((end - begin) * (number + shift) / self.pieces) for number in (piece, piece + 1)
                )
                # Pieces of a partition with few records would overlap.
                if begin < until:
                    ranges[partition] = OffsetRange(max(until - size, older, begin), until)
            yield ranges


NEWEST: Final = Which(250_000, 1)
"""With a thousand boards of twenty places, these of a backlog of 2,000,000 leave one event of twelve."""
EVERYWHERE: Final = Which(500_000, 32)
"""With four partitions, thirty days have four pieces each."""


class SeenEvents(NamedTuple):
    """Some events of a backlog.

    Attributes:
        events: `product_id bigint, player_id bigint, score double, at_ms bigint`, or with other keys of boards.
        begin: the first offset that was looked at, by partition.
    """

    events: pa.Table
    begin: dict[int, int]

    def floors(self, keys: Sequence[str], players: pa.Array, products: pa.Array, places: int) -> pa.Table:
        """Return the last place of each board that these events alone would fill: the keys, and `floor`.

        Args:
            keys: the columns that tell boards apart.
            players: the ids that exist, of those that the query joins. What is not known has no place yet.
            products: the same of products.
            places: how many entries each list of a board keeps.
        """
        events = self.events
        known = pc.and_(pc.is_in(events["player_id"], players), pc.is_in(events["product_id"], products))
        counting = events.filter(known)
        # Boards by a number each: to sort by several columns, and by texts, takes four times as long.
        board = pa.repeat(pa.scalar(0, pa.int64()), counting.num_rows)
        for key in keys:
            encoded = counting[key].combine_chunks().dictionary_encode()
            board = pc.add(pc.multiply(board, len(encoded.dictionary)), encoded.indices)
        ranked = pc.sort_indices(
            pa.table({"board": board, "score": counting["score"]}),
            sort_keys=[("board", "ascending"), ("score", "descending")],
        )
        ends = pc.run_end_encode(board.take(ranked)).run_ends
        begins = pa.concat_arrays([pa.array([0], ends.type), ends])[:-1]
        is_full = pc.greater_equal(pc.subtract(ends, begins), places)
        last_places = ranked.take(pc.add(begins.filter(is_full), places - 1))
        return counting.select([*keys, "score"]).take(last_places).rename_columns([*keys, "floor"])

    def still_there(self, begin: Mapping[int, int]) -> bool:
        """Return whether no event has been deleted since, by where the partitions begin now."""
        return all(begin[partition] <= offset for partition, offset in self.begin.items())


class FirstLook:
    """A context manager that looks in the background, unless there are all kinds of boards, or few events.

    After its end it looks no longer.

    Args:
        kafka: how to connect.
        topics: `score-events` and that of the boards, among others.
        boards: the topics of the boards.
        which: the events that are looked at.
    """

    def __init__(
        self,
        kafka: KafkaConnection,
        topics: Mapping[str, TopicDescription],
        boards: Sequence[str] = (HIGH_SCORES,),
        which: Which = NEWEST,
    ) -> None:
        self._kafka = kafka
        self._topics = topics
        self._boards = boards
        self._which = which
        self._enough = threading.Event()
        self._looked: Future[SeenEvents | None] = Future()

    def __enter__(self) -> Self:
        # Nobody waits for a broker that does not answer, neither a stop nor the end of the process.
        threading.Thread(target=self._run, name="first-look", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()

    def take(self) -> SeenEvents | None:
        """Return what has been seen so far, and look no longer; None when there was no need to look, or no way."""
        self._enough.set()
        try:
            return self._looked.result(_TAKEN_WITHIN_S)
        except (LeaderboardError, TimeoutError) as error:
            # Whoever needs Kafka will say so. Without floors a backlog takes longer, and that is all.
            logger.info("no floors from score events: %s", str(error) or "Kafka takes too long")
            return None

    def _run(self) -> None:
        try:
            self._looked.set_result(asyncio.run(self._look()))
        except BaseException as error:  # noqa: BLE001  # whoever takes it is told
            self._looked.set_exception(error)

    async def _look(self) -> SeenEvents | None:
        of_boards = [await self._offsets(topic) for topic in self._boards]
        if all(each.end != each.begin for each in of_boards):
            return None
        offsets = await self._offsets(SCORE_EVENTS)
        waiting = sum(offsets.end.values()) - sum(offsets.begin.values())
        if waiting < _FROM_EVENTS:
            return None
        return await self._read(offsets)

    async def _offsets(self, topic: str) -> TopicOffsets:
        return await topic_offsets(self._kafka, topic, self._topics[topic].partitions)

    async def _read(self, offsets: TopicOffsets) -> SeenEvents:
        began_s, seen, looked_from = time.monotonic(), [_plain([])], dict(offsets.end)
        pieces = [*self._which.ranges(offsets)]
        # Where records went away meanwhile, others would be seen twice.
        reader = reading(
            self._kafka,
            auto_offset_reset="none",
            max_partition_fetch_bytes=max(_FETCH_BYTES // len(pieces), _PIECE_BYTES),
        )
        async with reader as consumer, kafka_errors(self._kafka):
            consumer.assign([TopicPartition(SCORE_EVENTS, partition) for partition in offsets.end])
            for piece in pieces:
                left = {TopicPartition(SCORE_EVENTS, partition): at.end for partition, at in piece.items()}
                for place in left:
                    begin = piece[place.partition].begin
                    consumer.seek(place, begin)
                    looked_from[place.partition] = min(looked_from[place.partition], begin)
                while left and not self._enough.is_set() and time.monotonic() - began_s < _WITHIN_S:
                    records = chain(*(await consumer.getmany(*left, timeout_ms=_POLL_MS)).values())
                    seen.append(_plain([record for record in records if _counts(record, piece[record.partition])]))
                    # By positions: the end of a transaction has an offset, and is no record.
                    left = {place: end for place, end in left.items() if await consumer.position(place) < end}
        found = SeenEvents(pa.concat_tables(seen), looked_from)
        took_s = time.monotonic() - began_s
        logger.info("floors come from %s of the score events, seen in %.1f s", f"{len(found.events):,}", took_s)
        return found


def _counts(record: ConsumerRecord[bytes, bytes], of: OffsetRange) -> bool:
    # Kafka gives whole batches, and a record that is seen twice would take two places. What Spark cannot read counts
    # for no board, and so for no floor.
    return of.begin <= record.offset < of.end and reason_of(record) is None


def _plain(records: Sequence[ConsumerRecord[bytes, bytes]]) -> pa.Table:
    values = pa.array([record.value for record in records], pa.binary())
    return plain_events(values, pa.array([record.timestamp for record in records], pa.int64()))
