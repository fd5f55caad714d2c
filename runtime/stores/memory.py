"""Stores that live in memory: for tests, and readable as what a store is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runtime.records import ID_MAX, ID_MIN
from runtime.stores.protocol import Fill, Store, StoreName


class MemoryStore:
    """A store that is a dict."""

    def __init__(self) -> None:
        self._values: dict[int, bytes] = {}
        self._fill: Fill | None = None

    @property
    def fill(self) -> Fill | None:
        return self._fill

    def get(self, key: int) -> bytes | None:
        return self._values.get(key)

    def scan(self, first: int = ID_MIN, last: int = ID_MAX) -> Iterator[tuple[int, bytes]]:
        return iter(sorted((key, value) for key, value in self._values.items() if first <= key <= last))

    def write(self, changes: Mapping[int, bytes | None], fill: Fill) -> None:
        for key, value in changes.items():
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        self._fill = fill

    def disk_bytes(self) -> int:
        return 0

    def wipe(self, fill: Fill) -> None:
        self._values.clear()
        self._fill = fill


class MemoryStores:
    """The stores of an instance, in memory. They outlive `close`, as those on disk do."""

    def __init__(self) -> None:
        self._kept: dict[StoreName, dict[int, MemoryStore]] = {"leader-boards": {}, "players": {}, "products": {}}
        self._opened: dict[StoreName, dict[int, Store]] = {"leader-boards": {}, "players": {}, "products": {}}
        self._notes: dict[str, str] = {}

    def open(self, name: StoreName, partition: int) -> Store:
        store = self._kept[name].setdefault(partition, MemoryStore())
        return self._opened[name].setdefault(partition, store)

    def reopen(self, name: StoreName, partition: int) -> Store:
        return self.open(name, partition)

    def opened(self, name: StoreName) -> Mapping[int, Store]:
        return self._opened[name]

    def kept(self, name: StoreName) -> list[int]:
        return sorted(self._kept[name])

    def drop(self, name: StoreName, partition: int) -> None:
        self._opened[name].pop(partition, None)
        self._kept[name].pop(partition, None)

    def load_note(self, name: str) -> str | None:
        return self._notes.get(name)

    def save_note(self, name: str, text: str) -> None:
        self._notes[name] = text

    def close(self) -> None:
        for stores in self._opened.values():
            stores.clear()
