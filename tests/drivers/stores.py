"""A driver for the copies of one instance and what is served of them: feed records, ask the view. No Kafka, no disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from runtime.copies.result_copy import ResultCopy, ResultRecord
from runtime.copies.store_copy import StoreCopy
from runtime.copies.table_copy import TableCopy
from runtime.declaration import Topology
from runtime.kafka.partitioner import partition_for
from runtime.keys import KeyValue
from runtime.results import Result
from runtime.serving.in_memory import GivenRecord, InMemory, read
from runtime.serving.rendered_view import RenderedView
from runtime.serving.view import EVERYTHING
from runtime.stores.protocol import StateStores
from tests.drivers.readings import PEAKS, Highest, names_and_levels, readings


class CopiesDriver(InMemory):
    """The copies of one instance, filled by hand.

    Args:
        topology: of what.
        partitions: how many each result topic has; tables have one.
        stores: where the data is; in memory by default.
    """

    def __init__(self, topology: Topology, partitions: int = 4, stores: StateStores | None = None) -> None:
        super().__init__(topology, partitions, stores=stores)

    @property
    def all_partitions(self) -> range:
        return range(self.partitions)

    @property
    def unusable(self) -> Mapping[tuple[str, str], int]:
        """The records that could not be used, by topic and reason."""
        return self.copies.unusable.counts

    def copy(self, store: str, partition: int = 0) -> ResultCopy:
        """Return the copy of a store's partition."""
        return self.copies.results[store].copies[partition]

    def table(self, topic: str) -> TableCopy:
        """Return the copy of a table's only partition."""
        return self.copies.tables[topic].copies[0]

    def name(self, table: str, names: Mapping[int, str | None]) -> None:
        """Create, rename or delete (None) rows of a table."""
        for row_id, name in names.items():
            value = None if name is None else json.dumps({"id": row_id, "name": name}).encode()
            feed(self.table(table), str(row_id).encode(), value)

    def publish(self, store: str, key: KeyValue, result: Result | None, partition: int | None = None) -> None:
        """Publish a result, or a delete; in the partition where it belongs, or in another one."""
        home = partition_for(key, self.partitions) if partition is None else partition
        value = None if result is None else self.topology.store(store).record.to_json(result.values)
        feed(self.copy(store, home), str(key).encode(), value, () if result is None else result.made.to_headers())

    def publish_again(self, record: ResultRecord) -> None:
        """Publish what a copy has to be published."""
        copy = next(held for held in self.copies.results.values() if held.store.topic == record.topic)
        feed(copy.copies[record.partition], record.key, record.value, record.headers)


class StoresDriver(CopiesDriver):
    """The highest readings of stations, and their tables; see `tests.drivers.readings`.

    Args:
        partitions: how many partitions the store has.
        kept: how many readings a station keeps.
        stores: where the data is.

    Attributes:
        view: what is served of the stations.
    """

    def __init__(self, partitions: int = 4, kept: int = 20, stores: StateStores | None = None) -> None:
        super().__init__(readings(kept), partitions, stores)
        view = self.views[PEAKS]
        assert isinstance(view, RenderedView)
        self.view = view

    def station(self, station_id: int, result: Result | None) -> None:
        """Publish the readings of a station, or a delete."""
        self.publish(PEAKS, station_id, result)

    def stored(self, station_id: int) -> Result | None:
        """Return what the store holds of a station."""
        return self.held(self.copy(PEAKS, partition_for(station_id, self.partitions)), station_id)

    def held(self, copy: ResultCopy, station_id: int) -> Result | None:
        """Return what a copy holds of a station."""
        from runtime.results import from_stored

        store = self.topology.store(PEAKS)
        stored = copy.store.get(store.key.type.encode(station_id))
        return None if stored is None else from_stored(store.record, stored)

    def feed(self, key: bytes | None, value: bytes | None, result: Result | None = None, partition: int = 0) -> None:
        """Publish anything, with the headers of a result or without."""
        feed(self.copy(PEAKS, partition), key, value, () if result is None else result.made.to_headers())

    def get(self, station_id: int, limit: int = 3) -> list[tuple[str, float]] | None:
        """Return a row as names and levels, or None when there is none to show."""
        rendered = self.view.get(station_id, limit)
        return None if rendered is None else names_and_levels(json.loads(rendered.body))

    def all(self, limit: int = 3) -> dict[int, list[tuple[str, float]]]:
        """Return every row as names and levels, ascending."""
        rows = self.view.rows(self.all_partitions, EVERYTHING, limit)
        return {station_id: names_and_levels(json.loads(body)) for station_id, body in rows}


def value_of(result: Result) -> bytes:
    """Return a result of readings as a record's value."""
    return Highest(20).to_json(result.values)


def stations_to_publish(copy: ResultCopy, for_s: float = 0.0) -> list[int]:
    """Return the stations that a copy has to be published again."""
    return [int(record.key) for record in copy.lacking(for_s)]


def feed(
    copy: StoreCopy,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes]] = (),
    timestamp_ms: int = 0,
) -> None:
    """Have a copy read one record."""
    read(copy, [GivenRecord(copy.position, key, value, timestamp_ms, tuple(headers))])
