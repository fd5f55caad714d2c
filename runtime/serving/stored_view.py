"""The view of a store whose rows are shown as they are: it reads the store, and keeps rows that were read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice
from typing import Final

from runtime.copies.copies import Copies
from runtime.declaration import Store
from runtime.keys import KeyValue
from runtime.records import json_bytes
from runtime.results import Result, values_of
from runtime.serving.kept_rows import KeptRows
from runtime.serving.local_view import LocalView
from runtime.serving.view import Cut, Range, Rendered, tagged
from runtime.stores.protocol import StateStore

_KEPT: Final = 16_384
_LARGEST_BYTES: Final = 2_048
"""Of a row that is kept: all of them are 32 MB at the most."""


class StoredView(LocalView):
    """Rows as they are: `{"word":"hello","count":2}`. There is no part of one.

    Args:
        store: what it is declared as; it has no `show`.
        copies: what this instance holds.
    """

    def __init__(self, store: Store, copies: Copies) -> None:
        super().__init__(store, copies)
        self._kept = KeptRows(_KEPT, _LARGEST_BYTES)

    def get(self, key: KeyValue, cut: Cut = None) -> Rendered | None:  # noqa: ARG002  # rows are no lists
        rendered = self._kept.get(key)
        if rendered is not None:
            return rendered
        store = self._stores.get(self.partition_for(key))
        stored = None if store is None else store.get(self._key_type.encode(key))
        if stored is None:
            return None
        return self._kept.keep(key, tagged(self._body(key, stored)))

    def rows(
        self,
        partitions: Iterable[int],
        within: Range,
        cut: Cut = None,  # noqa: ARG002  # rows are no lists
    ) -> list[tuple[KeyValue, bytes]]:
        scans = (self._scan(store, within) for store in self._opened(partitions))
        decode = self._key_type.decode
        in_order = merge(*scans, reverse=within.descending)
        found = ((decode(encoded), stored) for encoded, stored in islice(in_order, within.most))
        return [(key, self._body(key, stored)) for key, stored in found]

    def count(self, partitions: Iterable[int]) -> int:
        return sum(store.fill.rows for store in self._opened(partitions) if store.fill is not None)

    def shown(self) -> dict[int, int]:
        return {partition: self.count([partition]) for partition in sorted(self._stores)}

    def rows_changed(
        self,
        partition: int,  # noqa: ARG002  # it is stored
        changes: Mapping[KeyValue, Result | None],
        before: Mapping[KeyValue, Result | None],  # noqa: ARG002  # it was read, or not
    ) -> None:
        for key in changes:
            self._kept.forget(key)
            self._changed(key)

    def table_changed(self, table: str, keys: Collection[KeyValue]) -> None:
        """Show no change: these rows look into no table."""

    def partition_ready(self, partition: int) -> None:  # noqa: ARG002  # all rows may
        self._changed(None)

    def partition_reset(self, partition: int) -> None:  # noqa: ARG002  # all rows may
        self._kept.forget(None)
        self._changed(None)

    def tables_reset(self) -> None:
        self._changed(None)

    def _opened(self, partitions: Iterable[int]) -> Iterator[StateStore]:
        return (store for partition in partitions if (store := self._stores.get(partition)) is not None)

    def _body(self, key: KeyValue, stored: bytes) -> bytes:
        # Not the record's own bytes: two instances that have the same values have the same bytes, and tags.
        return json_bytes(self._row(key, self._values.row(values_of(stored))))
