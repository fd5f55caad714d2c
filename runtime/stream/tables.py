"""The global tables of an instance, as its stream needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from runtime.declaration import Store, Table, Topology
from runtime.kafka.inspected import Judged
from runtime.keys import Int64, KeyValue, Text
from runtime.stores.global_table import TableChanges

_ARROW_TYPES: Final = {Int64: pa.int64(), Text: pa.string()}


class TableSource(Protocol):
    """The global tables of this instance. Called from the stream's threads and from those beside them."""

    def caught_up(self) -> bool:
        """Return whether all tables have reached the ends of their topics since the process started."""

    def keys(self, topic: str) -> Iterable[KeyValue]:
        """Return the keys of a table's rows, in no particular order."""

    def rows(self, topic: str) -> Iterable[tuple[KeyValue, Mapping[str, str]]]:
        """Return a table's rows, keys with fields, in no particular order."""

    def changes(self) -> TableChanges:
        """Return how the tables have changed."""

    def judged(self) -> Iterable[Judged]:
        """Return the records of the tables' topics that this process has looked at."""


def tables_in_memory(
    session: SparkSession, topology: Topology, store: Store, tables: TableSource
) -> dict[str, DataFrame]:
    """Return the tables that `rows` of a store is given, as they are now, by parameter."""
    return {name: in_memory(session, _as_given(store, table, tables)) for name, table in topology.joined(store).items()}


def in_memory(session: SparkSession, table: pa.Table) -> DataFrame:
    """Return a small table in one partition."""
    return session.createDataFrame(table).coalesce(1)


def _as_given(store: Store, table: Table, tables: TableSource) -> pa.Table:
    key, key_type = table.key.name, _ARROW_TYPES[table.key.type]
    if store.keys_only:
        # Each once: a join must not double an event.
        return pa.table({key: pa.array(tables.keys(table.topic), key_type).unique()})
    rows = dict(tables.rows(table.topic))
    fields = {
        name: pa.array([row[name] for row in rows.values()], _ARROW_TYPES[of_type])
        for name, of_type in table.fields.items()
    }
    return pa.table({key: pa.array(list(rows), key_type), **fields})
