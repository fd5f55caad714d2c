"""A global table: `players` or `products`, of which every instance holds all partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from runtime.kafka.partitioner import partition_for
from runtime.stores.protocol import Store


class TableChanges(NamedTuple):
    """How many ids of a table have come to exist and ceased to, since the process began; both only grow."""

    added: int
    deleted: int


class GlobalTable:
    """Names by id.

    Args:
        stores: the table's stores by partition; a live view.
    """

    def __init__(self, stores: Mapping[int, Store]) -> None:
        self._stores = stores

    def name(self, row_id: int) -> str | None:
        """Return the name of a row, or None when there is no such row."""
        # Not every producer partitions as Java's do, so a row may lie anywhere; where Java's put it is the first guess.
        home = self._stores.get(partition_for(row_id, len(self._stores) or 1))
        value = None if home is None else home.get(row_id)
        if value is None:
            others = (store.get(row_id) for store in self._stores.values() if store is not home)
            value = next((found for found in others if found is not None), None)
        return None if value is None else value.decode()

    def ids(self) -> Iterator[int]:
        """Yield every id, in no particular order."""
        for store in self._stores.values():
            for row_id, _ in store.scan():
                yield row_id
