"""Examples of rows, made of what a topology declares: the document of the routes shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from api.http.schemas import Column
from api.operate.declared import columns_of, key_column, key_columns, table_columns
from runtime.declaration import Store, Table, Topology
from runtime.windows import WINDOW_END, WINDOW_START, Windows, time_text

_A_TIME_MS: Final = 1_764_061_200_000
"""2025-11-25T09:00:00Z."""
_OF_TYPE: Final[Mapping[str, Any]] = {"integer": 7, "number": 12.5, "boolean": True, "array": [], "object": {}}


def example_of(column: Column) -> Any:
    """Return a value that a column may have; of a key of two parts the text.

    >>> example_of(Column(name="word", type="text")), example_of(Column(name="count", type="integer"))
    ('word-1', 7)
    >>> example_of(Column(name="city/year", type="text/integer"))
    'city-1/7'
    """
    if "/" in column.type:
        parts = zip(column.name.split("/"), column.type.split("/"), strict=True)
        return "/".join(str(example_of(Column(name=name, type=of_type))) for name, of_type in parts)
    return _OF_TYPE.get(column.type, f"{column.name}-1")


def example_table_row(table: Table) -> dict[str, Any]:
    """Return a row of a table."""
    return _row([key_column(table.key), *table_columns(table)])


def example_row(topology: Topology, store: Store) -> Any:
    """Return what may be shown of a row of a store; None when the declaration does not say what that looks like.

    Args:
        topology: whose store it is; `show` is given a row of each of its tables, whatever key is looked up.
        store: the store.
    """
    columns = columns_of(store)
    if not columns:
        return None
    row = {**_row(key_columns(store.key)), **_times(store.window), **_row(columns)}
    if store.show is None:
        return row
    tables = {table.topic: _OneRow(example_table_row(table)) for table in topology.tables}
    try:
        shown = store.show(row, tables)
        json.dumps(shown)
    except Exception:  # noqa: BLE001  # it is of somebody's own, and may take no such values
        return None
    return None if store.limits is not None and not isinstance(shown, list) else shown


def example_row_name(store: Store) -> Any:
    """Return what names that row among all in the store's events: its key, of a window with the start."""
    key = example_of(key_column(store.key))
    return key if store.window is None else f"{key}@{_start(store.window)}"


def _times(windows: Windows | None) -> dict[str, Any]:
    """Return the columns that say of which window a row is."""
    if windows is None:
        return {}
    start_ms = _start(windows)
    return {WINDOW_START: time_text(start_ms), WINDOW_END: time_text(start_ms + windows.least_ms)}


def _start(windows: Windows) -> int:
    return _A_TIME_MS - _A_TIME_MS % windows.every_ms


def _row(columns: Iterable[Column]) -> dict[str, Any]:
    return {column.name: example_of(column) for column in columns}


class _OneRow(Mapping[Any, Mapping[str, Any]]):
    """A table that has the same row for each key."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row

    def __getitem__(self, key: Any) -> Mapping[str, Any]:
        return self._row

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0
