"""A copy of a partition of `players` or `products`: names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from runtime.copies.store_copy import Record, Shared, StoreCopy
from runtime.records import parse_named
from runtime.stores.protocol import Store

TableName = Literal["players", "products"]


class TableCopy(StoreCopy):
    """A partition of `players` or `products`: the last record of a key counts.

    Attributes:
        added: how many ids have come to exist, ever growing.
        deleted: how many ids have ceased to exist, ever growing.
        is_addition: its partition was added to a topic whose table could already answer.
    """

    def __init__(
        self, name: TableName, topic: str, partition: int, store: Store, shared: Shared, on_reset: Callable[[], None]
    ) -> None:
        super().__init__(name, topic, partition, store, shared, on_reset)
        self.added = 0
        self.deleted = 0
        self.is_addition = False
        self._changed = shared.listener.player_changed if name == "players" else shared.listener.product_changed
        self._names: dict[int, bytes | None] = {}

    def begin(self, topic_id: str, position: int) -> None:
        # Only while it is new does it hold no answer back; once emptied, its rows are missed.
        self.is_addition = self.is_addition and self.fill is None
        super().begin(topic_id, position)

    def _use(self, record: Record) -> None:
        row_id, row = parse_named(record.key, record.value)
        self._names[row_id] = None if row is None else row.name.encode()

    def _commit(self) -> None:
        changes: dict[int, bytes | None] = {}
        added, deleted = self.added, self.deleted
        for row_id, name in self._names.items():
            before = self.store.get(row_id)
            if name != before:
                changes[row_id] = name
                self.added += before is None
                self.deleted += name is None
        self._names = {}
        fill = self._next_fill(self.position)
        rows = fill.rows + (self.added - added) - (self.deleted - deleted)
        self.store.write(changes, fill._replace(rows=rows))
        for row_id, name in changes.items():
            self._changed(row_id, None if name is None else name.decode())

    def _discard(self) -> None:
        self._names = {}
