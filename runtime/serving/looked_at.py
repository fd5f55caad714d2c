"""Which rows of tables a result was rendered with, and which results look at a row: so a change of a row shows at once.

That a look-up found nothing counts as well: the row may come to exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from runtime.keys import KeyValue
from runtime.stores.global_table import GlobalTable

LookedAt = tuple[Any, ...]
"""How many rows of each table, in the order of the tables, and then their keys: one tuple, since there is one for every
result."""

NOTHING: LookedAt = ()


class TrackedTable(Mapping[KeyValue, Mapping[str, Any]]):
    """A table that remembers what it was asked for; each key is looked up once until `begin`.

    Args:
        table: where rows are looked up.

    Attributes:
        found: the rows by key, None for what there is not.
    """

    def __init__(self, table: GlobalTable) -> None:
        self._table = table
        self.found: dict[KeyValue, Mapping[str, Any] | None] = {}

    def begin(self) -> None:
        """Forget what it was asked for."""
        self.found = {}

    def get(self, key: KeyValue, default: Any = None) -> Any:
        if key in self.found:
            row = self.found[key]
        else:
            row = self.found[key] = self._table.get(key)
        return default if row is None else row

    def __getitem__(self, key: KeyValue) -> Mapping[str, Any]:
        row: Mapping[str, Any] | None = self.get(key)
        if row is None:
            raise KeyError(key)
        return row

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None

    def __iter__(self) -> Iterator[KeyValue]:
        raise TypeError(f"rows of table {self._table.table.topic} can only be looked up by key, not gone through")

    def __len__(self) -> int:
        raise TypeError(f"rows of table {self._table.table.topic} can only be looked up by key, not counted")


class Lookups:
    """The tables as `show` is given them, and the index of who looked at what.

    A table that is held whole is given as its value, and is in no index: what its rows concern is declared.

    A row of the key that the result itself has is in no index: such a result is asked what it looked at. So what most
    results look at costs nothing more.

    Args:
        tables: by the name of the topic.
    """

    def __init__(self, tables: Mapping[str, GlobalTable]) -> None:
        self._whole = [(topic, table) for topic, table in tables.items() if table.table.whole is not None]
        self._by_key = {topic: TrackedTable(table) for topic, table in tables.items() if table.table.whole is None}
        self.tables: dict[str, Any] = dict(self._by_key)
        self._places = {topic: place for place, topic in enumerate(self._by_key)}
        self._lookers: Sequence[dict[KeyValue, set[KeyValue]]] = [{} for _ in self._by_key]

    def begin(self) -> None:
        """Begin to remember what is looked up."""
        for by_key in self._by_key.values():
            by_key.begin()
        for topic, table in self._whole:
            self.tables[topic] = table.whole

    def looked_at(self) -> LookedAt:
        """Return what was looked up since `begin`."""
        each = [table.found for table in self._by_key.values()]
        return (*map(len, each), *chain.from_iterable(each))

    def index(self, key: KeyValue, before: LookedAt, now: LookedAt) -> None:
        """Renew what the index says of a result.

        Args:
            key: of the result.
            before: what it looked at the last time.
            now: what it looks at; `NOTHING` when it is no more.
        """
        if now == before:
            return
        for place, lookers in enumerate(self._lookers):
            for row_key in self._keys(before, place):
                if row_key != key:
                    of_row = lookers[row_key]
                    of_row.discard(key)
                    if not of_row:
                        del lookers[row_key]
            for row_key in self._keys(now, place):
                if row_key != key:
                    lookers.setdefault(row_key, set()).add(key)

    def lookers(self, table: str, row_key: KeyValue) -> set[KeyValue]:
        """Return the keys of the results that look at a row, without the one that has the key of the row itself."""
        return self._lookers[self._places[table]].get(row_key, set())

    def looks_at_its_own(self, table: str, key: KeyValue, looked_at: LookedAt) -> bool:
        """Return whether a result looks at the row of a table that has its own key."""
        return key in self._keys(looked_at, self._places[table])

    def _keys(self, looked_at: LookedAt, place: int) -> LookedAt:
        """Return the keys of the table at a place; none of `NOTHING`."""
        if looked_at == NOTHING:
            return NOTHING
        begin = len(self._lookers) + sum(looked_at[:place])
        return looked_at[begin : begin + looked_at[place]]
