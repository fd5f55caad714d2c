"""What is served of a global table at this instance."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from runtime.copies.copies import Copies
from runtime.keys import KeyValue
from runtime.records import json_bytes
from runtime.serving.view import Rendered, tagged
from runtime.stores.protocol import Fill


class TimedRow(NamedTuple):
    """A row, and when it was sent.

    Attributes:
        key: of the row.
        fields: by name.
        time_ms: of its record, in milliseconds from 1970.
    """

    key: KeyValue
    fields: Mapping[str, Any]
    time_ms: int


class TableView:
    """The rows of a table, of which this instance has all. Everything happens in one event loop.

    Args:
        copies: what this instance holds.
        topic: of the table.

    Attributes:
        table: what it is declared as.
    """

    def __init__(self, copies: Copies, topic: str) -> None:
        self._copies = copies
        self._held = copies.tables[topic]
        self._rows = self._held.table
        self._counted: tuple[list[Fill | None], int] | None = None
        self.table = self._rows.table

    def reason(self) -> str:
        """Return why the table cannot answer yet; empty when it can."""
        return self._copies.table_reason(self.table.topic)

    def lag(self) -> int:
        """Return how many records the copy is behind the end of the table's topic, as last seen."""
        return self._held.lag

    def get(self, key: KeyValue) -> Rendered | None:
        """Return the row of a key, or None when there is none; raises StateUnusable."""
        fields = self._rows.get(key)
        return None if fields is None else tagged(json_bytes({self.table.key.name: key, **fields}))

    def rows(self) -> list[TimedRow]:
        """Return all rows, of a table that is held whole, in the order of their times; raises StateUnusable."""
        found = ((key, fields, self._rows.time_ms(key) or 0) for key, fields in dict(self._rows.items()).items())
        return sorted((TimedRow(*row) for row in found), key=lambda row: (row.time_ms, row.key))

    async def count(self) -> int:
        """Return how many rows there are; raises StateUnusable."""
        known = self._rows.known_count()
        if known is not None:
            return known
        fills = self._rows.fills()
        if self._counted is None or self._counted[0] != fills:
            # It goes through all rows, and other requests are answered meanwhile.
            self._counted = (fills, await asyncio.to_thread(self._held.snapshot().count))
        return self._counted[1]
