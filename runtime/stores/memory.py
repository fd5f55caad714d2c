"""Stores that live in memory: for tests, and readable as what a store is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from runtime.stores.protocol import NO_ENTRIES, Fill, StateStore


class MemoryStore:
    """A store that is a dict."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._index: set[bytes] = set()
        self._fill: Fill | None = None

    @property
    def fill(self) -> Fill | None:
        return self._fill

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def get_each(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._values.get(key) for key in keys]

    def scan(
        self, first: bytes = b"", end: bytes | None = None, *, descending: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        rows = ((key, value) for key, value in self._values.items() if first <= key and (end is None or key < end))
        return iter(sorted(rows, reverse=descending))

    def write(
        self, changes: Mapping[bytes, bytes | None], fill: Fill, entries: Mapping[bytes, bool] = NO_ENTRIES
    ) -> None:
        for key, value in changes.items():
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        for entry, is_put in entries.items():
            (self._index.add if is_put else self._index.discard)(entry)
        self._fill = fill

    def indexed(self, first: bytes, end: bytes) -> Iterator[bytes]:
        return iter(sorted(entry for entry in self._index if first <= entry < end))

    def disk_bytes(self) -> int:
        return 0

    def wipe(self, fill: Fill) -> None:
        self._values.clear()
        self._index.clear()
        self._fill = fill


class MemoryStores:
    """The stores of an instance, in memory. They outlive `close`, as those on disk do.

    Args:
        names: of the stores.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._kept: dict[str, dict[int, MemoryStore]] = {name: {} for name in names}
        self._opened: dict[str, dict[int, StateStore]] = {name: {} for name in self._kept}
        self._notes: dict[str, str] = {}

    def open(self, name: str, partition: int) -> StateStore:
        store = self._kept[name].setdefault(partition, MemoryStore())
        return self._opened[name].setdefault(partition, store)

    def reopen(self, name: str, partition: int) -> StateStore:
        return self.open(name, partition)

    def opened(self, name: str) -> Mapping[int, StateStore]:
        return self._opened[name]

    def kept(self, name: str) -> list[int]:
        return sorted(self._kept[name])

    def drop(self, name: str, partition: int) -> None:
        self._opened[name].pop(partition, None)
        self._kept[name].pop(partition, None)

    def load_note(self, name: str) -> str | None:
        return self._notes.get(name)

    def save_note(self, name: str, text: str) -> None:
        self._notes[name] = text

    def close(self) -> None:
        for stores in self._opened.values():
            stores.clear()
