"""What is served of a store's copies at this instance, however its rows are made."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from runtime.copies.copies import Copies
from runtime.copies.status import CopyStatus
from runtime.declaration import Row, Store
from runtime.keys import KeyType, KeyValue
from runtime.results import Result
from runtime.serving.view import Range, View, Watcher
from runtime.stores.protocol import StateStore
from runtime.windows import WINDOW_END, WINDOW_START, time_text


class LocalView(View):
    """The rows of a store's copies. It follows them: see `runtime.copies.listener`.

    Args:
        store: what it is declared as.
        copies: what this instance holds.
    """

    def __init__(self, store: Store, copies: Copies) -> None:
        self.store = store
        self._copies = copies
        self._held = copies.results[store.name]
        self._stores = self._held.opened
        self._values = store.record
        self._key_type = self.key_type
        self._version = 0
        self._watchers: list[Watcher] = []

    @property
    def key_type(self) -> KeyType:
        return self.store.row_key

    @property
    def version(self) -> int:
        return self._version

    @property
    def partition_count(self) -> int:
        return self._held.partition_count

    def partition_for(self, key: KeyValue) -> int:
        store = self.store
        # A look-up for each read: one step where keys have no windows.
        owner = key if store.window is None else key.key
        return store.partition_for(owner, self._held.partition_count or 1)

    def status(self, partition: int) -> CopyStatus:
        return self._copies.status(self.store.name, partition)

    def opened(self, partition: int) -> StateStore | None:
        """Return the store of a partition, None when it is not held."""
        return self._stores.get(partition)

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    @abstractmethod
    def shown(self) -> dict[int, int]:
        """Return how many rows are known to be shown, by partition; does nothing to find out."""

    def count_of_second(self, partitions: Iterable[int], second: KeyValue) -> int | None:  # noqa: ARG002  # nobody counts
        """Return how many rows with a second part of their keys are shown; None where they have to be gone through."""
        return None

    async def keep_warm(self) -> None:
        """Do ahead what reads would have to wait for, until cancelled; returns when there is nothing of the kind."""

    # Following the copies

    @abstractmethod
    def rows_changed(
        self, partition: int, changes: Mapping[KeyValue, Result | None], before: Mapping[KeyValue, Result | None]
    ) -> None:
        """Follow results that were written, by key, or deleted where they are None; see `runtime.copies.listener`."""

    def rows_filled(self, partition: int, keys: Collection[KeyValue]) -> None:
        """Follow results that were written of a partition that is not ready: whatever was made of them is forgotten."""
        self.rows_changed(partition, dict.fromkeys(keys), {})

    @abstractmethod
    def table_changed(self, table: str, keys: Collection[KeyValue]) -> None:
        """Follow rows of a table that came to exist, have other fields, or were deleted."""

    @abstractmethod
    def partition_ready(self, partition: int) -> None:
        """Follow a partition from now on: its store and the tables are complete."""

    @abstractmethod
    def partition_reset(self, partition: int) -> None:
        """Forget a partition whose store was emptied, opened again or dropped."""

    @abstractmethod
    def tables_reset(self) -> None:
        """Forget what was looked up: a table is being read anew."""

    def _changed(self, key: KeyValue | None) -> None:
        self._version += 1
        for watcher in self._watchers:
            watcher(key)

    def _scan(self, store: StateStore, within: Range) -> Iterator[tuple[bytes, bytes]]:
        """Return what a store holds of a range, in its order: keys as the store has them, and values."""
        encode = self._key_type.encode
        first = b"" if within.first is None else encode(within.first)
        end = None if within.end is None else encode(within.end)
        return store.scan(first, end, descending=within.descending)

    def _row(self, key: KeyValue, values: Mapping[str, Any]) -> Row:
        store = self.store
        if store.key.parts:
            return {**{part.name: of for part, of in zip(store.key.parts, key, strict=True)}, **values}
        if store.window is None:
            return {store.key.name: key, **values}
        start, end = (time_text(ms) for ms in (key.start_ms, store.window.end_ms(key.start_ms, values)))
        return {store.key.name: key.key, WINDOW_START: start, WINDOW_END: end, **values}
