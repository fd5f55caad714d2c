"""Who follows the copies of a store: its view, and whoever else wants to know what changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from runtime.keys import KeyValue
from runtime.results import Result


class Listener(Protocol):
    """Follows one store, and the tables. Called in the event loop after each write: it must be quick and not raise."""

    def rows_changed(
        self, partition: int, changes: Mapping[KeyValue, Result | None], before: Mapping[KeyValue, Result | None]
    ) -> None:
        """Results were written whose values have changed, by key, or deleted where they are None.

        Of a store that has a ranking, `before` has what was there until then.
        """

    def rows_filled(self, partition: int, keys: Collection[KeyValue]) -> None:
        """Results were written of a partition that is not ready, since it has never been complete."""

    def table_changed(self, table: str, keys: Collection[KeyValue]) -> None:
        """Rows of a table, by the name of its topic, came to exist, have other fields, or were deleted."""

    def partition_ready(self, partition: int) -> None:
        """A partition can answer from now on: its store and all tables have been complete once."""

    def partition_reset(self, partition: int) -> None:
        """The store of a partition was emptied, opened again or dropped; it is not ready any more."""

    def tables_reset(self) -> None:
        """A table was emptied; no partition is ready any more."""


class Followers:
    """A listener that hands on to all that follow a store.

    Attributes:
        listeners: those; another one is told of nothing that was before.
    """

    def __init__(self) -> None:
        self.listeners: list[Listener] = []

    def rows_changed(
        self, partition: int, changes: Mapping[KeyValue, Result | None], before: Mapping[KeyValue, Result | None]
    ) -> None:
        for listener in self.listeners:
            listener.rows_changed(partition, changes, before)

    def rows_filled(self, partition: int, keys: Collection[KeyValue]) -> None:
        for listener in self.listeners:
            listener.rows_filled(partition, keys)

    def table_changed(self, table: str, keys: Collection[KeyValue]) -> None:
        for listener in self.listeners:
            listener.table_changed(table, keys)

    def partition_ready(self, partition: int) -> None:
        for listener in self.listeners:
            listener.partition_ready(partition)

    def partition_reset(self, partition: int) -> None:
        for listener in self.listeners:
            listener.partition_reset(partition)

    def tables_reset(self) -> None:
        for listener in self.listeners:
            listener.tables_reset()
