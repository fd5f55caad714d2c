"""A driver for one global table of several partitions: write records, have them read, restart. No Kafka, no disk."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from runtime import Int64, Key, Table, Text
from runtime.copies.store_copy import Shared, UnusableRecords
from runtime.copies.table_copy import TableCopy
from runtime.errors import StateUnusable
from runtime.serving.in_memory import TOPIC_ID, GivenRecord
from runtime.stores.global_table import GlobalTable
from runtime.stores.memory import MemoryStores
from runtime.stores.protocol import NO_ENTRIES, Fill, StateStore

SENSORS = Table("sensors", key=Key("sensor_id", Int64), fields={"name": Text}, key_field="id")


@dataclass(frozen=True)
class Written:
    """A record of the topic; no name is a delete."""

    offset: int
    row_id: int
    name: str | None
    time_ms: int


class TableTopic:
    """A topic as Kafka has it: the records of each partition, in the order of their offsets."""

    def __init__(self, partitions: int) -> None:
        self.records: list[list[Written]] = [[] for _ in range(partitions)]
        self.ends = [0] * partitions

    def write(self, partition: int, row_id: int, name: str | None, time_ms: int) -> None:
        """Write one record."""
        self.records[partition].append(Written(self.ends[partition], row_id, name, time_ms))
        self.ends[partition] += 1

    def compact(self, partition: int) -> None:
        """Keep the last record of each key."""
        last = {record.row_id: record for record in self.records[partition]}
        self.records[partition] = sorted(last.values(), key=lambda record: record.offset)


class TableDriver:
    """The copies that an instance has of a table.

    Args:
        topic: where the records are.
        stores: what is filled; in memory by default.

    Attributes:
        copies: by partition.
        table: asks all of them.
        now_ms: wall-clock time.
        told: how often each id was said to have another name.
    """

    def __init__(self, topic: TableTopic, stores: MemoryStores | None = None) -> None:
        self.topic = topic
        self.stores = stores or MemoryStores([SENSORS.topic])
        self.now_ms = 0
        self.told: dict[int, str | None] = {}
        self.table = GlobalTable(SENSORS, self.stores.opened(SENSORS.topic))
        self._shared = Shared(UnusableRecords(), now_ms=lambda: self.now_ms)
        self.copies = [self._copy(partition) for partition in range(len(topic.records))]

    def read(self, partition: int, most: int | None = None) -> None:
        """Read what a partition has and this instance has not read, or so many records of it."""
        copy = self.copies[partition]
        copy.end = self.topic.ends[partition]
        if copy.fill is None:
            copy.begin(TOPIC_ID, 0)
        copy.resume(copy.end)
        unread = [record for record in self.topic.records[partition] if record.offset >= copy.position]
        records = [_fed(record) for record in unread[:most]]
        done = 0
        while done < len(records):
            done = copy.apply(records, done)
        if most is None or len(unread) <= most:
            copy.skip_to(copy.end)
        copy.settle()

    def read_all(self, order: list[int] | None = None) -> None:
        """Read all partitions to their ends, in this order."""
        for partition in order or range(len(self.copies)):
            self.read(partition)

    def names(self, ids: range) -> dict[int, str]:
        """Return the names of those that exist."""
        return {row_id: row["name"] for row_id in ids if (row := self.table.get(row_id)) is not None}

    def restarted(self) -> TableDriver:
        """Return the instance as it comes up again with the stores that it has."""
        self.stores.close()
        return TableDriver(self.topic, self.stores)

    def _copy(self, partition: int) -> TableCopy:
        store = self.stores.open(SENSORS.topic, partition)
        return TableCopy(self.table, partition, store, self._shared, self._tell, lambda: None)

    def _tell(self, row_ids: Collection[int]) -> None:
        for row_id in row_ids:
            row = self.table.get(row_id)
            self.told[row_id] = None if row is None else row["name"]


class FailingStore:
    """A store whose next write of rows fails, as that of a full disk does."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._write = store.write
        store.write = self.write  # type: ignore[method-assign]

    def write(
        self,
        changes: Mapping[bytes, bytes | None],  # noqa: ARG002  # as a store has it
        fill: Fill,  # noqa: ARG002
        entries: Mapping[bytes, bool] = NO_ENTRIES,  # noqa: ARG002
    ) -> None:
        """Fail once."""
        self._store.write = self._write  # type: ignore[method-assign]
        raise StateUnusable("No space left on device")


def _fed(record: Written) -> GivenRecord:
    value = None if record.name is None else json.dumps({"id": record.row_id, "name": record.name}).encode()
    return GivenRecord(record.offset, str(record.row_id).encode(), value, record.time_ms)
