"""The global tables of an instance, as its stream needs them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from runtime.declaration import Store, Table, Topology
from runtime.kafka.inspected import Judged
from runtime.keys import Int64, KeyValue, Text
from runtime.stores.global_table import TableChanges
from runtime.types import FIELD_DIGITS, Boolean, ColumnType, Decimal, Double, Timestamp

_ARROW_TYPES: Final = {
    Int64.spark: pa.int64(), Text.spark: pa.string(), Double.spark: pa.float64(), Boolean.spark: pa.bool_(),
}  # fmt: skip


class TableSource(Protocol):
    """The global tables of this instance. Called from the stream's threads and from those beside them."""

    def caught_up(self) -> bool:
        """Return whether all tables have reached the ends of their topics since the process started."""

    def keys(self, topic: str) -> Iterable[KeyValue]:
        """Return the keys of a table's rows, in no particular order."""

    def rows(self, topic: str) -> Iterable[tuple[KeyValue, Mapping[str, Any]]]:
        """Return a table's rows, keys with fields, in no particular order."""

    def changes(self, topics: Collection[str] | None = None) -> TableChanges:
        """Return how tables have changed, all together.

        Args:
            topics: those of which tables; None: of all.
        """

    def revision(self, topic: str) -> int:
        """Return a number that has grown when a row of a table has changed in any way."""

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
    key = table.key.name
    if store.keys_only:
        # Each once: a join must not double an event.
        return pa.table({key: _arrow(tables.keys(table.topic), table.key.type).unique()})
    rows = dict(tables.rows(table.topic))
    fields = {name: _arrow([row[name] for row in rows.values()], of_type) for name, of_type in table.fields.items()}
    return pa.table({key: _arrow(list(rows), table.key.type), **fields})


def _arrow(values: Iterable[Any], of_type: ColumnType) -> pa.Array:
    """Return a column of a table as Spark is given it."""
    if isinstance(of_type, Decimal):
        return pa.array(values, pa.decimal128(FIELD_DIGITS, of_type.digits))
    if of_type is Timestamp:
        return pa.array(values, pa.string()).cast(pa.timestamp("us", "UTC"))
    return pa.array(values, _ARROW_TYPES[of_type.spark])
