"""The materializer: topic partitions → stores. It restores them, follows them, and knows how far behind they are.

It holds the copies and says what each can answer, whether Kafka answers or not; `runtime.copies.fill_session` does the
reading. One consumer without a group reads everything, so that no rebalance ever stops it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from runtime.copies.fill_session import FillOptions, FillSession
from runtime.copies.listener import Listener
from runtime.copies.result_copy import BoardCopy
from runtime.copies.status import CopyStatus
from runtime.copies.store_copy import Shared, StoreCopy, UnusableRecords
from runtime.copies.table_copy import TableCopy, TableName
from runtime.errors import BrokerUnavailable, LeaderboardError, StateUnusable
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import TopicDescription
from runtime.kafka.inspected import Judged
from runtime.kafka.partitioner import partition_for
from runtime.measures import CopyMeasures
from runtime.stores.global_table import TableChanges
from runtime.stores.protocol import Stores
from runtime.stream.freshness import Freshness
from topology.leaderboard.topics import HIGH_SCORES, PLAYERS, PRODUCTS

logger = logging.getLogger(__name__)

Republish = Callable[[int, int, bytes], Awaitable[None]]
"""Publishes a board: partition, product id, the board as JSON. May raise `BrokerUnavailable`."""

_TOPICS_NOTE: Final = "topics"
_PLACES_NOTE: Final = "places"


@dataclass(frozen=True, slots=True)
class FilledFrom:
    """The names of the topics that fill the stores."""

    high_scores: str = HIGH_SCORES
    players: str = PLAYERS
    products: str = PRODUCTS


class Materializer:
    """Fills the stores of this instance. Everything happens in one event loop.

    Args:
        kafka: how to connect.
        stores: what is filled; they are opened and dropped here, and closed by whoever made them.
        listener: follows every change.
        places: how many entries a merged list of a board keeps.
        republish: publishes a board whose last record lacks something that the store has; None never does.
        topics: where the records come from.
        options: how stores are filled.
        now_ms: wall-clock time in milliseconds.

    Attributes:
        unusable: the records that could not be used, counted.
    """

    def __init__(
        self,
        kafka: KafkaConnection,
        stores: Stores,
        listener: Listener,
        places: int,
        *,
        republish: Republish | None = None,
        topics: FilledFrom | None = None,
        options: FillOptions | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        names = topics or FilledFrom()
        self.unusable = UnusableRecords()
        self._kafka = kafka
        self._stores = stores
        self._listener = listener
        self._shared = Shared(listener, self.unusable, now_ms)
        self._places = places
        self._republish = republish
        self._boards_topic = names.high_scores
        self._table_topics: dict[TableName, str] = {"players": names.players, "products": names.products}
        self._options = options or FillOptions()
        self._boards: dict[int, BoardCopy] = {}
        self._tables: dict[TableName, dict[int, TableCopy]] = {"players": {}, "products": {}}
        self._described: dict[str, TopicDescription] = {}
        self._missing: list[str] = []
        self._wanted: set[int] = set()
        self._active: frozenset[int] = frozenset()
        self._ready: set[int] = set()
        self._tables_caught_up = False
        self._tables_were_read = False
        self._changed = asyncio.Event()
        self._trouble = f"Kafka at {kafka} has not answered yet"
        self._complained = False
        self._state_trouble = ""
        self._task: asyncio.Task[None] | None = None

    # Start and stop

    async def start(self) -> None:
        """Open what is on disk, which can answer at once, and begin to fill.

        Raises:
            StateUnusable: a store cannot be opened.
        """
        self._described = _parse_note(self._stores.load_note(_TOPICS_NOTE))
        for name, topic in self._table_topics.items():
            described = self._described.get(topic)
            for partition in range(described.partitions if described else 0):
                self._open_table(name, partition)
        # While others kept longer lists, boards were cut here.
        places_are_others = self._stores.load_note(_PLACES_NOTE) not in (None, str(self._places))
        for partition in self._stores.kept("leader-boards"):
            self._wanted.add(partition)
            copy = self._open_boards(partition)
            if places_are_others:
                copy.read_again()
        self._stores.save_note(_PLACES_NOTE, str(self._places))
        self.progressed()
        self._task = asyncio.create_task(self._run(), name="materializer")

    async def stop(self) -> None:
        """Stop filling. The stores stay open, and go on answering."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    # What to fill

    def assign(self, partitions: Iterable[int]) -> None:
        """Fill the stores of these partitions. Those of others that are held go on being filled until `drop`."""
        self._wanted |= set(partitions)
        self._changed.set()

    def drop(self, partition: int) -> None:
        """Stop filling a partition and delete its store.

        Raises:
            StateUnusable: the store cannot be deleted.
        """
        self._wanted.discard(partition)
        self._drop_boards(partition)
        self._changed.set()

    def set_active(self, partitions: Iterable[int]) -> None:
        """Tell which partitions this instance publishes boards again for."""
        self._active = frozenset(partitions)

    # How far it is

    @property
    def partition_count(self) -> int:
        """How many partitions `leader-boards` has in the whole cluster; 0 while that is not known."""
        described = self._described.get(self._boards_topic)
        return described.partitions if described else 0

    @property
    def held(self) -> dict[int, CopyStatus]:
        """Every partition of `leader-boards` that this instance has a copy of, ascending."""
        return {partition: self.copy_status(partition) for partition in sorted(self._boards)}

    @property
    def tables_caught_up(self) -> bool:
        """Whether the copies of both tables have come to where the topics ended when this process first saw them."""
        return self._tables_caught_up

    @property
    def trouble(self) -> str:
        """Why nothing is filled now; empty when it is."""
        return self._trouble

    @property
    def state_trouble(self) -> str:
        """Why the stores cannot be written; empty when they can."""
        return self._state_trouble

    def table_changes(self, name: TableName) -> TableChanges:
        """Return how many ids of a table have come to exist and ceased to."""
        # Asked for by the stream thread as well: one may be opened meanwhile.
        copies = list(self._tables[name].values())
        return TableChanges(sum(copy.added for copy in copies), sum(copy.deleted for copy in copies))

    def tables_judged(self) -> list[Judged]:
        """Return the records of the tables' topics that this process has looked at."""
        return [copy.judged() for copies in self._tables.values() for copy in list(copies.values())]

    def table_lag(self, name: TableName) -> int:
        """Return how many records the copy of a table is behind."""
        return sum(copy.lag for copy in self._tables[name].values())

    def measure(self) -> tuple[CopyMeasures, ...]:
        """Return what there is to measure of each copy."""
        tables = (copy for copies in self._tables.values() for copy in copies.values())
        return tuple(copy.measure() for copy in (*self._boards.values(), *tables))

    @property
    def freshness(self) -> Freshness:
        """How long score events took to the boards."""
        return self._shared.freshness

    def copy_status(self, partition: int) -> CopyStatus:
        """Return how far the copy of `partition` is; also for one that this instance does not hold."""
        copy = self._boards.get(partition)
        lag = copy.lag if copy else 0
        # Asked for with every read: what takes a look at all tables was found out when something progressed.
        can_answer = partition in self._ready
        end_is_known = copy is not None and copy.end is not None
        caught_up = can_answer and not self._trouble and end_is_known and lag == 0 and self._tables_caught_up
        reason = "" if caught_up else self._reason(partition, lag)
        # A table without a topic has nothing that could be read.
        lag_is_known = end_is_known and (self._tables_were_read or bool(self._missing))
        return CopyStatus(can_answer, caught_up, lag, reason, copy.position if copy else 0, lag_is_known)

    def _reason(self, partition: int, lag: int) -> str:
        if partition not in self._wanted:
            return f"this instance has no copy of partition {partition}"
        if self._trouble:
            return self._trouble
        if self._missing:
            return f"missing topics: {', '.join(self._missing)}"
        if partition >= self.partition_count:
            return f"topic {self._boards_topic} has no partition {partition}"
        for name in self._tables:
            if not self._is_complete(name):
                return f"restoring table {name}, {self.table_lag(name)} records to go"
        if not self._tables_were_read:
            return f"tables are {sum(map(self.table_lag, self._tables))} records behind"
        if lag:
            return f"partition {partition} is {lag} records behind"
        return f"partition {partition} is being opened, or has no leader"

    def _is_complete(self, name: TableName) -> bool:
        """Whether a table holds what its topic did once. A partition added to the topic since holds no answer back."""
        described = self._described.get(self._table_topics[name])
        copies = self._tables[name]
        return (
            described is not None
            and len(copies) >= described.partitions
            and all(copy.is_addition or copy.restored_from(described.topic_id) for copy in copies.values())
        )

    # What a session needs

    @property
    def topic_names(self) -> list[str]:
        """The topics that are of interest."""
        return [self._boards_topic, *self._table_topics.values()]

    async def topics_described(self, described: dict[str, TopicDescription]) -> list[StoreCopy]:
        """Take note of the topics that exist, and return the copies to fill from them.

        Raises:
            StateUnusable: a store cannot be opened.
        """
        self._note_missing([name for name in self.topic_names if name not in described])
        complete = [
            name
            for name, topic in self._table_topics.items()
            if self._is_complete(name)
            and topic in described
            and described[topic].topic_id == self._described[topic].topic_id
        ]
        # Before they are taken note of: a table that gets partitions goes on answering while they are opened.
        copies: list[StoreCopy] = []
        for name, topic in self._table_topics.items():
            if topic in described:
                for partition in range(described[topic].partitions):
                    copy = self._open_table(name, partition)
                    copy.is_addition |= name in complete and copy.fill is None
                    copies.append(copy)
                    # Opening one takes milliseconds.
                    await asyncio.sleep(0)
        boards = described.get(self._boards_topic)
        if boards is not None and boards.partitions != self.partition_count:
            await self._move_boards(boards.partitions)
        # What does not exist any more is still what the stores hold.
        known = self._described | described
        if known != self._described:
            self._stores.save_note(_TOPICS_NOTE, json.dumps(known))
            self._described = known
        self._drop_what_no_topic_has()
        if self._boards_topic in described:
            for partition in sorted(self._wanted):
                # It may be dropped while another one is opened.
                if partition in self._wanted and partition < self.partition_count:
                    copies.append(self._open_boards(partition))
                    await asyncio.sleep(0)
        return copies

    def resumed(self) -> None:
        """Every copy has been looked at, and they are being filled from now on."""
        self._trouble = ""
        self._state_trouble = ""
        if self._complained:
            self._complained = False
            logger.info("stores are filled again")

    def progressed(self) -> None:
        """Find out which partitions can answer now, and tell the listener."""
        tables = self._tables.values()
        self._tables_caught_up = all(copies and all(copy.reached for copy in copies.values()) for copies in tables)
        # Also while a partition is read that a table got since.
        self._tables_were_read |= self._tables_caught_up
        is_complete = all(self._is_complete(name) for name in self._tables)
        for partition, copy in self._boards.items():
            if not (is_complete and copy.restored):
                self._ready.discard(partition)
            elif partition not in self._ready:
                self._ready.add(partition)
                logger.info("store leader-boards/%d can answer", partition)
                self._listener.partition_ready(partition)

    async def look_after(self) -> None:
        """Publish the boards again whose last record lacks something, where this instance is active."""
        if self._republish is None:
            return
        for partition in sorted(self._active & self._boards.keys()):
            copy = self._boards[partition]
            if copy.lag:
                continue
            lacking = copy.lacking(self._options.lacking_for_s)
            while some := list(itertools.islice(lacking, self._options.max_records)):
                first, *others = (product_id for product_id, _ in some)
                logger.info("publishing board %d and %d more again: the topic lacks some of it", first, len(others))
                try:
                    await asyncio.gather(*(self._republish(partition, *each) for each in some))
                except BrokerUnavailable as error:
                    # One partition may have no leader; the others have theirs published.
                    logger.warning("boards of partition %d are published again later: %s", partition, error)
                    break

    # Copies

    def _open_boards(self, partition: int) -> BoardCopy:
        if partition not in self._boards:
            store = self._stores.open("leader-boards", partition)
            on_reset = partial(self._boards_reset, partition)
            self._boards[partition] = BoardCopy(
                self._boards_topic, partition, store, self._shared, on_reset, self._places
            )
        copy = self._boards[partition]
        copy.partition_count = self.partition_count
        return copy

    async def _move_boards(self, partitions: int) -> None:
        """Publish the boards that belong to another partition of so many there, and then drop them here.

        Each instance does so for all of its copies: to merge a board twice changes nothing. It goes on answering with
        them until they are dropped. One that the stream writes meanwhile is in the seed of the generation that begins.
        """
        if self._republish is not None:
            for copy in list(self._boards.values()):
                misplaced = copy.misplaced(partitions)
                if misplaced:
                    logger.info("moving %d boards out of partition %d", len(misplaced), copy.partition)
                for first in range(0, len(misplaced), self._options.max_records):
                    await asyncio.gather(
                        *(
                            self._republish(partition_for(product_id, partitions), product_id, value)
                            for product_id in misplaced[first : first + self._options.max_records]
                            if (value := copy.store.get(product_id)) is not None
                        )
                    )
        for copy in self._boards.values():
            copy.place(partitions)

    def _open_table(self, name: TableName, partition: int) -> TableCopy:
        copies = self._tables[name]
        if partition not in copies:
            store = self._stores.open(name, partition)
            topic = self._table_topics[name]
            copies[partition] = TableCopy(name, topic, partition, store, self._shared, self._tables_reset)
        return copies[partition]

    def _drop_boards(self, partition: int) -> None:
        copy = self._boards.pop(partition, None)
        if copy is not None:
            copy.drop()
        self._boards_reset(partition)
        self._stores.drop("leader-boards", partition)

    def _boards_reset(self, partition: int) -> None:
        self._ready.discard(partition)
        self._listener.partition_reset(partition)

    def _tables_reset(self) -> None:
        self._ready.clear()
        self._tables_caught_up = self._tables_were_read = False
        self._listener.tables_reset()

    def _drop_what_no_topic_has(self) -> None:
        """Drop the stores of partitions that a topic had before it was created again with fewer."""
        for partition in [p for p in self._boards if 0 < self.partition_count <= p]:
            self._drop_boards(partition)
        for name, copies in self._tables.items():
            described = self._described.get(self._table_topics[name])
            for partition in [p for p in copies if described and p >= described.partitions]:
                copies.pop(partition).drop()
                self._tables_reset()
                self._stores.drop(name, partition)

    # Sessions, one after the other

    async def _run(self) -> None:
        unwritten = False
        while True:
            try:
                if unwritten:
                    self._reopen_stores()
                    unwritten = False
                await FillSession(self._kafka, self, self._changed, self._options).run()
            except BrokerUnavailable as error:
                self._complain(error)
            except StateUnusable as error:
                self._complain(error)
                self._state_trouble = str(error)
                unwritten = True
            except Exception as error:
                # A defect must not end the filling for good: reads would grow old without anybody noticing.
                logger.exception("filling stores failed; it begins again")
                self._trouble = repr(error)
            await asyncio.sleep(self._options.retry_after_s)

    def _complain(self, error: LeaderboardError) -> None:
        self._trouble = str(error)
        if not self._complained:
            self._complained = True
            logger.warning("stores are not filled for now, and answer with what they have: %s", error)

    def _note_missing(self, missing: list[str]) -> None:
        if missing != self._missing:
            self._missing = missing
            if missing:
                logger.warning("waiting for topics: %s", ", ".join(missing))

    def _reopen_stores(self) -> None:
        """Open every store again: RocksDB takes no more writes after one has failed, even when there is room again."""
        tables = (copy for copies in self._tables.values() for copy in copies.values())
        try:
            for copy in [*self._boards.values(), *tables]:
                copy.reopened(self._stores.reopen(copy.name, copy.partition))
        finally:
            # They answer with what they have, whether all of them can be opened and Kafka answers or not.
            self.progressed()


def _parse_note(note: str | None) -> dict[str, TopicDescription]:
    try:
        topics = json.loads(note or "{}")
        return {str(name): TopicDescription(str(topic_id), int(count)) for name, (topic_id, count) in topics.items()}
    except (TypeError, ValueError, AttributeError):
        logger.warning("the note of the topics cannot be read; stores answer when Kafka does")
        return {}
