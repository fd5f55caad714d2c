"""The global tables of this instance, as its stream thread needs them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from runtime.copies.copies import Copies
from runtime.kafka.inspected import Judged
from runtime.keys import KeyValue
from runtime.stores.global_table import TableChanges


class LocalTables:
    """The tables that the copies of this instance hold. Called from other threads than the event loop's.

    Args:
        copies: what is held.
    """

    def __init__(self, copies: Copies) -> None:
        self._copies = copies

    def caught_up(self) -> bool:
        """Return whether all tables have reached the ends of their topics since the process started."""
        return self._copies.tables_caught_up

    def rows(self, topic: str) -> Iterator[tuple[KeyValue, Mapping[str, Any]]]:
        """Yield every row that a table has, by key, in no particular order; one that lies twice may come twice."""
        return self._copies.tables[topic].snapshot().items()

    def keys(self, topic: str) -> Iterable[KeyValue]:
        """Return every key that a table has, as `rows` does."""
        return self._copies.tables[topic].snapshot().keys()

    def changes(self, topics: Collection[str] | None = None) -> TableChanges:
        """Return how tables have changed, those of some topics or all, all together."""
        tables = self._copies.tables
        each = [tables[topic].changes() for topic in (tables if topics is None else topics)]
        return TableChanges(sum(changes.added for changes in each), sum(changes.deleted for changes in each))

    def revision(self, topic: str) -> int:
        """Return a number that has grown when a row of a table has changed in any way."""
        return self._copies.tables[topic].revision()

    def judged(self) -> list[Judged]:
        """Return the records of the tables' topics that this process has looked at."""
        return [judged for table in self._copies.tables.values() for judged in table.judged()]
