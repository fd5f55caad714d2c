"""What an instance holds of the topics of a topology, and what each copy can answer, whether Kafka answers or not."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

from runtime.copies.listener import Listener
from runtime.copies.result_copies import ResultCopies
from runtime.copies.status import CopyStatus, Role
from runtime.copies.store_copy import Shared, StoreCopy, UnusableRecords
from runtime.copies.table_copies import TableCopies
from runtime.declaration import Store, Table, Topology
from runtime.kafka.ids import TopicDescription
from runtime.keys import KeyValue
from runtime.measures import CopyMeasures
from runtime.stores.protocol import StateStores

logger = logging.getLogger(__name__)

_TOPICS_NOTE: Final = "topics"
_VALUES_NOTE: Final = "values"
_TABLES_NOTE: Final = "tables"
_CURRENT_FOR_MS: Final = 1000
"""A copy that has not heard from Kafka for longer is not current."""


def names_of(topology: Topology) -> list[str]:
    """Return the names of the state stores that a topology needs: those of its stores, and the topics of its tables."""
    return [*(store.name for store in topology.stores), *(table.topic for table in topology.tables)]


class Copies:
    """The copies of this instance. Everything happens in one event loop.

    Args:
        topology: of what.
        stores: what is filled; they are opened and dropped here, and closed by whoever made them.
        now_ms: wall-clock time in milliseconds.

    Attributes:
        topology: see there.
        results: the copies of result topics, by the name of the store.
        tables: the copies of tables, by the name of the topic.
        unusable: the records that could not be used, counted.
        freshness: how long events took to the results of each store.
        active: the partitions that this instance is active for; it is a standby for all others that it holds.
        trouble: why nothing is filled now; empty when it is.
        state_trouble: why the stores cannot be written; empty when they can.
        changed: set when the copies to fill are others.
    """

    def __init__(
        self,
        topology: Topology,
        stores: StateStores,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.topology = topology
        self.unusable = UnusableRecords()
        shared = Shared(self.unusable, now_ms)
        self.results = {store.name: ResultCopies(store, stores, shared) for store in topology.stores}
        self.tables = {
            table.topic: TableCopies(
                table, stores, shared, partial(self._table_changed, table.topic), self._tables_reset
            )
            for table in topology.tables
        }
        self.freshness = {name: held.freshness for name, held in self.results.items()}
        self.active: frozenset[int] = frozenset()
        self.trouble = self.state_trouble = ""
        self.changed = asyncio.Event()
        self._stores = stores
        self._now_ms = now_ms
        self._described: dict[str, TopicDescription] = {}
        self._missing: list[str] = []
        self._wanted: set[int] = set()
        self._tables_caught_up = False
        self._tables_were_read = False
        self._tables_current_at_ms = 0

    def follow(self, store: str, listener: Listener) -> None:
        """Have a listener told of what changes in a store, and in the tables."""
        self.results[store].followers.listeners.append(listener)

    def open_kept(self) -> None:
        """Open what was kept, which can answer at once.

        Raises:
            StateUnusable: a store cannot be opened.
        """
        self._described = _topics_of(self._noted(_TOPICS_NOTE))
        self._drop_tables_of_another_form()
        for table in self.tables.values():
            if (topic := self._described.get(table.topic)) is not None:
                for partition in range(topic.partitions):
                    table.open_partition(partition)
                table.keep(topic)
        noted = self._noted(_VALUES_NOTE)
        declared = {name: _form_of(held.store) for name, held in self.results.items()}
        for name, held in self.results.items():
            if (topic := self._described.get(held.store.topic)) is not None:
                held.partition_count = topic.partitions
            self._open_kept(held, noted.get(name, declared[name]), declared[name])
        self._stores.save_note(_VALUES_NOTE, json.dumps(declared))
        self.progressed()

    def _noted(self, name: str) -> dict[str, Any]:
        """Return the lists that a note has by name; none where it cannot be read: the stores answer when Kafka does."""
        try:
            note = json.loads(self._stores.load_note(name) or "{}")
            return {str(each): [first, second] for each, (first, second) in note.items()}
        except (TypeError, ValueError, AttributeError):
            logger.warning("the note %s cannot be read; stores answer when Kafka does", name)
            return {}

    def _drop_tables_of_another_form(self) -> None:
        """Drop what was kept of tables that had other keys or fields: nothing in their topics would be read again."""
        noted = self._noted(_TABLES_NOTE)
        declared = {table.topic: form_of_table(table) for table in self.topology.tables}
        for topic, form in declared.items():
            if noted.get(topic, form) != form:
                for partition in self._stores.kept(topic):
                    self._stores.drop(topic, partition)
        self._stores.save_note(_TABLES_NOTE, json.dumps(declared))

    def _open_kept(self, held: ResultCopies, noted: list[str], declared: list[str]) -> None:
        """Open what was kept of a store.

        Args:
            held: its copies.
            noted: the form that its values had when they were kept.
            declared: the form that they have now.
        """
        for partition in self._stores.kept(held.store.name):
            self._wanted.add(partition)
            if noted[0] not in (declared[0], held.store.record.kept_form):
                # It cannot be read as what it is now.
                held.drop(partition)
            elif noted != declared:
                # What was cut to its form of before is in the topic; and of before keys and windows were noted.
                held.open(partition).read_again()
            else:
                held.open(partition)

    # Which partitions

    def assign(self, partitions: Iterable[int]) -> None:
        """Hold these partitions of every store. Those of others that are held go on being filled until `drop`."""
        self._wanted |= set(partitions)
        self.changed.set()

    def drop(self, partition: int) -> None:
        """Stop filling a partition and delete what every store has of it.

        Raises:
            StateUnusable: a store cannot be deleted.
        """
        self._wanted.discard(partition)
        for held in self.results.values():
            held.drop(partition)
        self.changed.set()

    def set_active(self, partitions: Iterable[int]) -> None:
        """Tell which partitions this instance is active for."""
        self.active = frozenset(partitions)

    # How far they are

    @property
    def partition_count(self) -> int:
        """How many partitions the result topics have; 0 while that is not known of all, the fewest if they differ."""
        return min(held.partition_count for held in self.results.values())

    @property
    def held(self) -> dict[int, CopyStatus]:
        """Every partition that this instance has a copy of, ascending, as `task_status` has it."""
        partitions = {partition for held in self.results.values() for partition in held.copies}
        return {partition: self.task_status(partition) for partition in sorted(partitions)}

    @property
    def tables_caught_up(self) -> bool:
        """Whether the copies of all tables have come to where the topics ended when this process first saw them."""
        return self._tables_caught_up

    def status(self, store: str, partition: int) -> CopyStatus:
        """Return how far a store's copy of `partition` is; also for one that this instance does not hold."""
        held = self.results[store]
        copy = held.copies.get(partition)
        role: Role = "active" if partition in self.active else "standby"
        lag = copy.lag if copy else 0
        # Asked for with every read: what takes a look at all tables was found out when something progressed.
        can_answer = partition in held.ready
        end_is_known = copy is not None and copy.end is not None
        caught_up = can_answer and not self.trouble and end_is_known and lag == 0 and self._tables_caught_up
        reason = "" if caught_up else self._reason(held, partition, lag)
        # A table without a topic has nothing that could be read.
        lag_is_known = end_is_known and (self._tables_were_read or bool(self._missing))
        if copy is None:
            return CopyStatus(can_answer, role, lag, reason, caught_up=caught_up, lag_is_known=lag_is_known)
        since_ms = self._now_ms() - _CURRENT_FOR_MS
        is_current = can_answer and copy.current_at_ms >= since_ms and self._tables_current_at_ms >= since_ms
        is_followed = copy.told_at_ms >= since_ms
        topic_id = copy.fill.topic_id if copy.fill else ""
        # By place: one is made for every read.
        return CopyStatus(
            can_answer, role, lag, reason, copy.position, is_current, is_followed, topic_id, caught_up, lag_is_known
        )

    def table_reason(self, topic: str) -> str:
        """Return why a table cannot answer yet; empty when it can."""
        table = self.tables[topic]
        if table.is_complete:
            return ""
        if self.trouble:
            return self.trouble
        return f"topic {topic} is missing" if topic in self._missing else _restoring(table)

    def task_status(self, partition: int) -> CopyStatus:
        """Return how far the copies of `partition` are, of all stores together: a task is that partition of each."""
        each = [self.status(store, partition) for store in self.results]
        return CopyStatus(
            can_answer=all(status.can_answer for status in each),
            role=each[0].role,
            caught_up=all(status.caught_up for status in each),
            lag=sum(status.lag for status in each),
            reason=next((status.reason for status in each if status.reason), ""),
            position=sum(status.position for status in each),
            lag_is_known=all(status.lag_is_known for status in each),
        )

    def measure(self) -> tuple[CopyMeasures, ...]:
        """Return what there is to measure of each copy."""
        return tuple(copy.measure() for group in self._groups for copy in group.copies.values())

    def _reason(self, held: ResultCopies, partition: int, lag: int) -> str:
        if partition not in self._wanted:
            return f"this instance has no copy of partition {partition}"
        if self.trouble:
            return self.trouble
        if self._missing:
            return f"missing topics: {', '.join(self._missing)}"
        if partition >= held.partition_count:
            return f"topic {held.store.topic} has no partition {partition}"
        for table in self.tables.values():
            if not table.is_complete:
                return _restoring(table)
        if not self._tables_were_read:
            return f"tables are {sum(table.lag for table in self.tables.values())} records behind"
        if lag:
            return f"partition {partition} is {lag} records behind"
        return f"partition {partition} is being opened, or has no leader"

    # What a session needs

    @property
    def topic_names(self) -> list[str]:
        """The topics that are of interest."""
        return [*(held.store.topic for held in self.results.values()), *self.tables]

    async def topics_described(self, described: Mapping[str, TopicDescription]) -> list[StoreCopy]:
        """Take note of the topics that exist, and return the copies to fill from them.

        Raises:
            StateUnusable: a store cannot be opened.
        """
        self._note_missing([name for name in self.topic_names if name not in described])
        copies: list[StoreCopy] = []
        for table in self.tables.values():
            if (topic := described.get(table.topic)) is not None:
                copies += await table.open(topic)
        for held in self.results.values():
            topic = described.get(held.store.topic)
            if topic is not None and topic.partitions != held.partition_count:
                held.place(topic.partitions)
        # What does not exist any more is still what the stores hold.
        known = self._described | dict(described)
        if known != self._described:
            self._stores.save_note(_TOPICS_NOTE, json.dumps(known))
            self._described = known
        for table in self.tables.values():
            if table.topic in known:
                table.keep(known[table.topic])
        return copies + [copy for held in self.results.values() for copy in await self._open(held, described)]

    async def _open(self, held: ResultCopies, described: Mapping[str, TopicDescription]) -> list[StoreCopy]:
        copies: list[StoreCopy] = []
        for partition in sorted(self._wanted) if held.store.topic in described else ():
            # It may be dropped while another one is opened.
            if partition in self._wanted and partition < held.partition_count:
                copies.append(held.open(partition))
                await asyncio.sleep(0)
        return copies

    def progressed(self) -> None:
        """Find out which partitions can answer now, and tell whoever follows."""
        tables = self.tables.values()
        self._tables_caught_up = all(table.reached for table in tables)
        # Also while a partition is read that a table got since.
        self._tables_were_read |= self._tables_caught_up
        ages = [copy.current_at_ms for table in tables for copy in table.copies.values()]
        self._tables_current_at_ms = min(ages, default=self._now_ms()) if self._tables_caught_up else 0
        are_complete = all(table.is_complete for table in tables)
        for held in self.results.values():
            held.find_ready(tables_are_complete=are_complete)

    def reopen(self) -> None:
        """Open every store again: RocksDB takes no more writes after one has failed, even when there is room again.

        Raises:
            StateUnusable: one cannot be opened.
        """
        try:
            for group in self._groups:
                group.reopen()
        finally:
            # They answer with what they have, whether all of them can be opened and Kafka answers or not.
            self.progressed()

    @property
    def _groups(self) -> list[ResultCopies | TableCopies]:
        return [*self.results.values(), *self.tables.values()]

    def _note_missing(self, missing: list[str]) -> None:
        if missing != self._missing:
            self._missing = missing
            if missing:
                logger.warning("waiting for topics: %s", ", ".join(missing))

    def _table_changed(self, table: str, keys: Collection[KeyValue]) -> None:
        self.tables[table].table.changed(keys)
        for held in self.results.values():
            held.followers.table_changed(table, keys)

    def _tables_reset(self) -> None:
        for each in self.tables.values():
            each.table.reset()
        self._tables_caught_up = self._tables_were_read = False
        for held in self.results.values():
            held.tables_reset()


def _restoring(table: TableCopies) -> str:
    return f"restoring table {table.topic}, {table.lag} records to go"


def _form_of(store: Store) -> list[str]:
    """Return what values are, and how they were made: with another of the first, what is held cannot be read."""
    # The index of a copy says when windows end.
    of_window = [] if store.window is None else [store.window.shape]
    return [" ".join([store.record.kept_form, store.row_key.name, *of_window]), repr(store.record)]


def form_of_table(table: Table) -> list[str]:
    """Return what keys and fields of a table are."""
    fields = ", ".join(f"{name} {of_type.spark}" for name, of_type in table.fields.items())
    return [f"{table.key.name} {table.key.type.name}", fields]


def _topics_of(note: Mapping[str, Any]) -> dict[str, TopicDescription]:
    return {name: TopicDescription(str(topic_id), int(count)) for name, (topic_id, count) in note.items()}
