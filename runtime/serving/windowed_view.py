"""The view of a store with windows, by key: the windows of a key as one list, the oldest first.

rows by key and window ─▶ by key: [{"word":"hello","windowStart":…,"windowEnd":…,"count":2}, …]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from runtime.copies.status import CopyStatus
from runtime.keys import KeyType, KeyValue
from runtime.serving.kept_rows import KeptRows
from runtime.serving.view import EVERYTHING, Cut, Range, Rendered, Span, View, Watcher, tagged
from runtime.types import FIRST_MS, LAST_MS
from runtime.windows import WindowKey

_KEPT: Final = 1_024
_LARGEST_BYTES: Final = 16_384
"""Of a list that is kept, of some 150 windows: all of them are 16 MB at the most."""


class WindowedView(View):
    """Rows by key, made of those by key and window when they are read. A key with no window is not there.

    Args:
        by_row: the rows by key and window.
    """

    def __init__(self, by_row: View) -> None:
        assert by_row.store.window is not None, "a store without windows is by key as it is"
        self.store = by_row.store
        self._windows = by_row.store.window
        self._by_row = by_row
        self._kept = KeptRows(_KEPT, _LARGEST_BYTES)
        # Before anybody else watches: whoever is told of a change may read at once.
        self.watch(self._kept.forget)

    @property
    def key_type(self) -> KeyType:
        return self.store.key.type

    @property
    def by_row(self) -> View:
        return self._by_row

    @property
    def version(self) -> int:
        return self._by_row.version

    @property
    def partition_count(self) -> int:
        return self._by_row.partition_count

    def partition_for(self, key: KeyValue) -> int:
        return self.store.partition_for(key, self.partition_count or 1)

    def status(self, partition: int) -> CopyStatus:
        return self._by_row.status(partition)

    def get(self, key: KeyValue, cut: Cut = None) -> Rendered | None:
        """Return the windows of a key that begin within a span; an empty list when there are only others."""
        if isinstance(cut, Span):
            found = self._rows(key, cut.first_ms, cut.last_ms)
            return _listed(found) if found or self._rows(key, most=1) else None
        kept = None if self._by_row.is_seeking else self._kept.get(key)
        if kept is None and (found := self._rows(key)):
            kept = self._kept.keep(key, _listed(found))
        return kept

    def rows(self, partitions: Iterable[int], within: Range, cut: Cut = None) -> list[tuple[KeyValue, bytes]]:
        found: dict[KeyValue, list[bytes]] = {}
        keys = within._replace(
            first=None if within.first is None else self._windows.first_of(within.first),
            end=None if within.end is None else self._windows.first_of(within.end),
            most=None,
        )
        for row_key, body in self._by_row.rows(partitions, keys):
            found.setdefault(row_key.key, []).append(body)
        most = list(found)[: within.most]
        whole = ((key, self.get(key, cut)) for key in most)
        return [(key, rendered.body) for key, rendered in whole if rendered is not None]

    def count(self, partitions: Iterable[int]) -> int:
        return len(self.rows(partitions, EVERYTHING))

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        return self._by_row.watch(lambda row_key: watcher(None if row_key is None else row_key.key))

    def _rows(
        self, key: KeyValue, first_ms: int | None = None, last_ms: int | None = None, most: int | None = None
    ) -> list[bytes]:
        """Return the rows of a key's windows that begin from `first_ms` to `last_ms`, the oldest first."""
        first = WindowKey(key, FIRST_MS if first_ms is None else first_ms)
        end = WindowKey(key, (LAST_MS if last_ms is None else last_ms) + 1)
        return [body for _, body in self._by_row.rows([self.partition_for(key)], Range(first, end, most))]


def _listed(windows: Iterable[bytes]) -> Rendered:
    return tagged(b"[%b]" % b",".join(windows))
