"""The tables of an instance, filled by hand: no Kafka, no disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runtime.copies.copies import Copies, names_of
from runtime.declaration import Topology
from runtime.serving.table_view import TableView
from runtime.serving.views import tables_of
from runtime.stores.memory import MemoryStores
from tests.drivers.stores import CopiesDriver, feed

TableRows = Mapping[str, Mapping[Any, Mapping[str, Any]]]
"""Rows by table and key: the fields by name."""


def filled_tables(
    topology: Topology, rows: TableRows, times_ms: Mapping[Any, int] | None = None
) -> dict[str, TableView]:
    """Return a view of each table of a topology; those that have no rows are complete, and empty.

    Args:
        topology: the declaration.
        rows: what they have.
        times_ms: the timestamps of their records, by key; 0 where none is said.
    """
    times_ms = times_ms or {}
    driver = CopiesDriver(topology, 1)
    for table in topology.tables:
        copy = driver.table(table.topic)
        for key, fields in rows.get(table.topic, {}).items():
            text = table.key.type.text(key)
            claimed = {} if table.key_field is None else {table.key_field: key}
            value = json.dumps({**claimed, **fields}).encode()
            feed(copy, text.encode(), value, timestamp_ms=times_ms.get(key, 0))
    return tables_of(driver.copies)


def unfilled_tables(topology: Topology) -> dict[str, TableView]:
    """Return a view of each table of a topology, none of which has been read yet."""
    return tables_of(Copies(topology, MemoryStores(names_of(topology))))
