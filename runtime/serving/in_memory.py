"""An instance in memory: given records of result topics and of tables, it says what a service would show."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from runtime.copies.copies import Copies, names_of
from runtime.copies.store_copy import StoreCopy
from runtime.declaration import Topology
from runtime.kafka.ids import TopicDescription
from runtime.keys import KeyValue
from runtime.serving.local_view import LocalView
from runtime.serving.view import EVERYTHING
from runtime.serving.views import parts_of, rankings_of, views_of
from runtime.stores.memory import MemoryStores
from runtime.stores.protocol import StateStores

T = TypeVar("T")

TOPIC_ID = "c5a1f0de-0000-4000-8000-000000000001"
"""Of each topic."""


@dataclass(frozen=True)
class GivenRecord:
    """A record as a consumer would give it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = 0
    headers: Sequence[tuple[str, bytes]] = ()


class InMemory:
    """The copies of one instance, filled by hand, and what is served of them: no Kafka, no disk, no event loop.

    Args:
        topology: of what.
        partitions: how many each result topic has.
        table_partitions: how many each table has, by its topic; one where that is not said.
        stores: where the data is; in memory by default.

    Attributes:
        copies: what is held.
        views: what is served, by store.
        rankings: where rows stand, by store.
        parts: the rows of one second part, by store.
        now_ms: wall-clock time.
    """

    def __init__(
        self,
        topology: Topology,
        partitions: int = 1,
        table_partitions: Mapping[str, int] | None = None,
        stores: StateStores | None = None,
    ) -> None:
        self.topology = topology
        self.partitions = partitions
        self.stores: StateStores = stores or MemoryStores(names_of(topology))
        self.now_ms = 0
        self.copies = Copies(topology, self.stores, now_ms=lambda: self.now_ms)
        self.views: Mapping[str, LocalView] = views_of(self.copies)
        self.rankings = rankings_of(self.copies)
        self.parts = parts_of(self.views)
        self.copies.assign(range(partitions))
        of_tables = {table.topic: 1 for table in topology.tables} | dict(table_partitions or {})
        topics = {store.topic: TopicDescription(TOPIC_ID, partitions) for store in topology.stores}
        topics |= {topic: TopicDescription(TOPIC_ID, count) for topic, count in of_tables.items()}
        for copy in finished(self.copies.topics_described(topics)):
            if copy.fill is None:
                copy.begin(TOPIC_ID, 0)
            copy.resume(copy.position)
        self.copies.progressed()

    def read_table(self, topic: str, partition: int, records: Sequence[GivenRecord]) -> None:
        """Read records of a table's partition; those that cannot be used are counted and left out."""
        read(self.copies.tables[topic].copies[partition], records)

    def read_results(self, store: str, records: Sequence[GivenRecord]) -> None:
        """Read records of a store's first partition, whose offsets are not looked at."""
        copy = self.copies.results[store].copies[0]
        first = copy.position
        numbered = [
            GivenRecord(first + at, each.key, each.value, each.timestamp, each.headers)
            for at, each in enumerate(records)
        ]
        read(copy, numbered)

    def let_go(self, store: str, stream_ms: int) -> list[bytes]:
        """Delete the windows of a store that are kept no longer at a stream time; return the keys of their records."""
        copy = self.copies.results[store].copies[0]
        copy.stream_ms = stream_ms
        ended = [GivenRecord(0, record.key, None) for record in copy.let_go()]
        self.read_results(store, ended)
        return [record.key for record in ended if record.key is not None]

    def rows(self, store: str, limit: int | None = None) -> list[tuple[KeyValue, bytes]]:
        """Return what is served of a store, ascending by key: keys with JSON.

        Args:
            store: which one.
            limit: at most so many entries of a row that is a list.
        """
        return self.views[store].rows(range(self.partitions), EVERYTHING, limit)


def read(copy: StoreCopy, records: Sequence[GivenRecord]) -> None:
    """Have a copy read records to the last."""
    if records:
        copy.end = records[-1].offset + 1
    done = 0
    while done < len(records):
        done = copy.apply(records, done)


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what only gives others a turn, without an event loop: there may be one already."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
