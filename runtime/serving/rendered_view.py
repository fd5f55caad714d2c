"""The view of a store with `show`: rows as they are served, kept rendered for the default limit.

Bytes are built when a result or a row of a table changes, not when they are read. Until a partition has been warmed up,
and for results that a change of a table has made stale, they are built by the first read: an answer is right at any
time, and reads are only cheaper once the work is done.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sortedcontainers import SortedList

from runtime.copies.copies import Copies
from runtime.declaration import Limits, Show, Store
from runtime.errors import LeaderboardError
from runtime.keys import KeyPair, KeyValue
from runtime.records import json_bytes
from runtime.results import Result, values_of
from runtime.serving.ahead import Ahead
from runtime.serving.local_view import LocalView
from runtime.serving.looked_at import NOTHING, LookedAt, Lookups
from runtime.serving.texts import SEARCHED_AT_ONCE, has_any, keys_with
from runtime.serving.view import EVERYTHING, Cut, NotMade, Range, Rendered, tagged

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 32
"""A row that more results look at has them rendered again in the background, so that no read waits for all of them."""
_SLICE_S: Final = 0.002
_PAUSE_S: Final = 4 * _SLICE_S
"""Between two slices of what a change has made stale. All instances that have the row are at it at the same time."""
_COUNTED_AT_ONCE: Final = 50_000
"""Whoever counts rows waits until so many have been rendered: a second. More are rendered in the background first."""
_NO_LIST: Final = Limits(default=0, most=0)


@dataclass(slots=True)
class _Partition:
    """What is kept of one partition.

    Attributes:
        ready: changes are followed; before that they are only forgotten.
        warm: every key of the store is in `seen` or in `stale`.
        seen: key to what its rendering looked at; hidden rows as well.
        shown: the keys that have something to show.
        of_second: how many of these have a second part, of keys of two parts.
        stale: keys to render again.
        ascending: `shown` in order, made when it is first asked for. To sort a million takes seconds.
    """

    ready: bool = False
    warm: bool = False
    seen: dict[KeyValue, LookedAt] = field(default_factory=dict)
    shown: set[KeyValue] = field(default_factory=set)
    of_second: Counter[KeyValue] = field(default_factory=Counter)
    stale: set[KeyValue] = field(default_factory=set)
    ascending: SortedList | None = None

    def between(self, within: Range) -> list[KeyValue]:
        """Return the keys to show in a range, ascending; no more than the range has."""
        if self.ascending is None:
            self.ascending = SortedList(self.shown)
        low = 0 if within.first is None else self.ascending.bisect_left(within.first)
        high = len(self.ascending) if within.end is None else self.ascending.bisect_left(within.end)
        if within.most is not None and within.descending:
            low = max(low, high - within.most)
        elif within.most is not None:
            high = min(high, low + within.most)
        return list(self.ascending.islice(low, high))

    def show(self, key: KeyValue) -> None:
        """Take note of a key that has something to show."""
        if key not in self.shown:
            self.shown.add(key)
            if isinstance(key, KeyPair):
                self.of_second[key.second] += 1
            if self.ascending is not None:
                self.ascending.add(key)

    def hide(self, key: KeyValue) -> None:
        """Take note of a key that has nothing to show."""
        if key in self.shown:
            self.shown.remove(key)
            if isinstance(key, KeyPair):
                self.of_second[key.second] -= 1
                if not self.of_second[key.second]:
                    del self.of_second[key.second]
            if self.ascending is not None:
                self.ascending.remove(key)


class RenderedView(LocalView):
    """What `show` makes of the rows. A row that is a list is cut at the limit, and hidden when it is empty.

    Args:
        store: what it is declared as; it has `show`.
        copies: what this instance holds.

    Attributes:
        raises: whether an error of `show` goes to whoever reads, as a test wants it; else the row is hidden, and the
            first error is in the log.
    """

    def __init__(self, store: Store, copies: Copies) -> None:
        super().__init__(store, copies)
        self.raises = False
        assert store.show is not None, "a store without it has a StoredView"
        self._show: Show = store.show
        limits = store.limits or _NO_LIST
        self._is_list = store.limits is not None
        self._default_limit, self._most = limits.default, limits.most
        self._lookups = Lookups({topic: table.table for topic, table in copies.tables.items()})
        self._rendered: dict[KeyValue, Rendered] = {}
        self._partitions: dict[int, _Partition] = {}
        self._ahead = Ahead(f"rows of store {self.store.name} are rendered")
        self._sought: dict[bytes, int] = {}
        self._seeks = 0
        self._fails = False

    # Reading

    @property
    def is_seeking(self) -> bool:
        return bool(self._sought)

    def get(self, key: KeyValue, cut: Cut = None) -> Rendered | None:
        is_default = cut is None or cut == self._default_limit
        if is_default:
            rendered = self._rendered.get(key)
            if rendered is not None and not self.is_seeking:
                return rendered
        partition = self.partition_for(key)
        store = self._stores.get(partition)
        stored = None if store is None else store.get(self._key_type.encode(key))
        if stored is None:
            return None
        values = self._values.row(values_of(stored))
        rendered = None
        # Also for another limit, so that a result that is read is in the index of who looks at what.
        if is_default or key not in self._partition(partition).seen:
            rendered = self._render(partition, key, values)
        return rendered if is_default else self._made(key, values, cut)

    def rows(self, partitions: Iterable[int], within: Range, cut: Cut = None) -> list[tuple[KeyValue, bytes]]:
        keys: list[KeyValue] = []
        for partition in partitions:
            keys += self._keys(partition, within)
        keys.sort(reverse=within.descending)
        if within.most is not None:
            del keys[within.most :]
        if cut is None or cut == self._default_limit:
            return [(key, self._rendered[key].body) for key in keys]
        found = ((key, self.get(key, cut)) for key in keys)
        return [(key, rendered.body) for key, rendered in found if rendered is not None]

    def count(self, partitions: Iterable[int]) -> int:
        total = 0
        for partition in partitions:
            kept, store = self._partition(partition), self._stores.get(partition)
            rows = 0 if kept.warm or store is None or store.fill is None else store.fill.rows - len(kept.seen)
            if rows + len(kept.stale) > _COUNTED_AT_ONCE:
                raise NotMade(f"rows of store {self.store.name} are being made, and not counted before")
            self._settle(partition, EVERYTHING)
            total += len(kept.shown)
        return total

    def count_of_second(self, partitions: Iterable[int], second: KeyValue) -> int | None:
        kept = {partition: self._partition(partition) for partition in partitions}
        if self._sought or not all(each.warm for each in kept.values()):
            return None
        for partition, each in kept.items():
            for key in [key for key in each.stale if key.second == second]:
                self._render_stored(partition, key)
        return sum(each.of_second[second] for each in kept.values())

    def shown(self) -> dict[int, int]:
        return {partition: len(kept.shown) for partition, kept in sorted(self._partitions.items())}

    # Following the copies: called after each write

    def rows_changed(
        self,
        partition: int,
        changes: Mapping[KeyValue, Result | None],
        before: Mapping[KeyValue, Result | None],  # noqa: ARG002  # what was shown is kept
    ) -> None:
        for key, result in changes.items():
            if result is None or not self._partition(partition).ready:
                self._forget(partition, key)
            else:
                self._render(partition, key, self._values.row_of(result.values))
            # Also when the first entries are as before: a reader may ask for more of them.
            self._changed(key)

    def table_changed(self, table: str, keys: Collection[KeyValue]) -> None:
        if not any(kept.seen for kept in self._partitions.values()):
            # Nothing is rendered, as while a table is read for the first time.
            self._version += 1
            return
        whole = self._copies.tables[table].table.table.whole
        if whole is None:
            for key in keys:
                self._row_changed(table, key)
            return
        for key in keys:
            concern = whole.concerns(key)
            for other, row_key in concern.rows:
                self._row_changed(other, row_key)
            if concern.text is not None:
                self._seek(concern.text)

    def partition_ready(self, partition: int) -> None:
        self._partition(partition).ready = True
        self._changed(None)
        self._ahead.is_needed()

    def partition_reset(self, partition: int) -> None:
        for key in list(self._partition(partition).seen):
            self._forget(partition, key)
        del self._partitions[partition]
        self._changed(None)

    def tables_reset(self) -> None:
        for partition in list(self._partitions):
            self.partition_reset(partition)
        self._changed(None)

    def _row_changed(self, table: str, key: KeyValue) -> None:
        # The table has the row. A copy: to render a result renews the index that these are from.
        lookers = [*self._lookups.lookers(table, key)]
        own = self._partition_of(key)
        if own is not None and self._lookups.looks_at_its_own(table, key, self._partitions[own].seen[key]):
            lookers.append(key)
        self._render_again(lookers)

    # Rows with a text in them read differently

    def _seek(self, text: bytes) -> None:
        """Have the rows rendered again whose values have a text in them: at once, or in the background if there are
        many rows; until then each is rendered when it is read."""
        self._seeks += 1
        self._sought[text] = self._seeks
        self._version += 1
        if sum(len(kept.seen) for kept in self._partitions.values()) <= SEARCHED_AT_ONCE:
            self._end_search()
        else:
            self._ahead.is_needed()

    def _end_search(self) -> None:
        for _ in self._searching():
            pass

    def _searching(self) -> Iterator[None]:
        """Render the rows again that have what is sought in them; yield every few milliseconds."""
        while self._sought:
            sought = dict(self._sought)
            for partition, kept in list(self._partitions.items()):
                yield from self._searching_in(partition, kept, sought)
            for text, seek in sought.items():
                # What was sought again meanwhile may be in rows that had been passed, and have been rendered since.
                if self._sought.get(text) == seek:
                    del self._sought[text]

    def _searching_in(self, partition: int, kept: _Partition, texts: Collection[bytes]) -> Iterator[None]:
        store = self._stores.get(partition)
        for encoded in () if store is None else keys_with(store, has_any(texts), _SLICE_S):
            if encoded is not None:
                key = self._key_type.decode(encoded)
                if key in kept.seen:
                    self._render_again([key])
                continue
            yield
            if not self._is_current(partition, kept):
                # Whatever is rendered of it from now on is so by what the tables are now.
                return

    # Working ahead

    async def warm_up(self) -> None:
        """Render what has not been rendered, a few milliseconds at a time."""
        for _ in self._searching():
            await asyncio.sleep(0)
        for partition, kept in list(self._partitions.items()):
            if kept.ready and not kept.warm:
                await self._warm(partition, kept)
            while kept.stale and self._is_current(partition, kept):
                self._settle(partition, EVERYTHING, _SLICE_S)
                # Whoever reads one meanwhile renders it: most of the time is left to them, and to what changes next.
                await asyncio.sleep(_PAUSE_S)

    async def keep_warm(self) -> None:
        """Render what changes leave to do, until cancelled."""
        await self._ahead.keep_up(self.warm_up)

    async def _warm(self, partition: int, kept: _Partition) -> None:
        store = self._stores.get(partition)
        if store is None:
            return
        started = time.monotonic()
        for _ in self._rendered_of(partition, kept, store.scan()):
            if time.monotonic() - started > _SLICE_S:
                await asyncio.sleep(0)
                if not self._is_current(partition, kept):
                    return
                started = time.monotonic()
        kept.warm = True

    def _is_current(self, partition: int, kept: _Partition) -> bool:
        return self._partitions.get(partition) is kept

    def _keys(self, partition: int, within: Range) -> list[KeyValue]:
        """Return the keys to show in a range, in no particular order; no more than the range has. They are rendered."""
        kept, store = self._partition(partition), self._stores.get(partition)
        is_nearly_made = kept.warm and len(kept.stale) <= SEARCHED_AT_ONCE
        if is_nearly_made or within.most is None or store is None:
            self._settle(partition, within)
            return kept.between(within)
        # Of very many rows a page does not wait for those behind it.
        self._end_search()
        keys: list[KeyValue] = []
        for key in self._rendered_of(partition, kept, self._scan(store, within)):
            if key in kept.shown:
                keys.append(key)
                if len(keys) == within.most:
                    break
        return keys

    def _rendered_of(
        self, partition: int, kept: _Partition, scanned: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[KeyValue]:
        """Yield the keys of what is scanned of a store, hidden ones too, each once it is rendered as it is now."""
        for encoded, _ in scanned:
            key = self._key_type.decode(encoded)
            if key not in kept.seen or key in kept.stale:
                self._render_stored(partition, key)
            yield key

    def _settle(self, partition: int, within: Range, budget_s: float | None = None) -> None:
        """Render what a reader of a range needs and what is not rendered."""
        if budget_s is None:
            self._end_search()
        kept = self._partition(partition)
        store = self._stores.get(partition)
        if store is None:
            return
        if not kept.warm:
            for _ in self._rendered_of(partition, kept, self._scan(store, within)):
                pass
            # A partition that changes are not followed for yet can be rendered, but does not stay so.
            kept.warm = kept.ready and within.first is None and within.end is None
        started = time.monotonic()
        for key in list(kept.stale):
            if (within.first is None or key >= within.first) and (within.end is None or key < within.end):
                self._render_stored(partition, key)
            if budget_s is not None and time.monotonic() - started > budget_s:
                return

    # Rendering, and what has to be rendered again

    def _partition(self, partition: int) -> _Partition:
        kept = self._partitions.get(partition)
        if kept is None:
            kept = self._partitions[partition] = _Partition()
        return kept

    def _partition_of(self, key: KeyValue) -> int | None:
        """Return the partition in which a key was rendered. There are few: to look costs less than to remember."""
        return next((partition for partition, kept in self._partitions.items() if key in kept.seen), None)

    def _render_again(self, keys: Collection[KeyValue]) -> None:
        # A result that has not been rendered is in no index, and may look at the row as well.
        if not all(self._partition(partition).warm for partition in self._stores):
            self._version += 1
        if len(keys) <= _AT_ONCE:
            for key in keys:
                partition = self._partition_of(key)
                assert partition is not None, "the index has only what was rendered"
                self._render_stored(partition, key)
                self._changed(key)
            return
        # A partition at a time, and not a key: nobody is answered until all are marked.
        for kept in self._partitions.values():
            kept.stale |= kept.seen.keys() & keys
        for key in keys:
            self._rendered.pop(key, None)
            self._changed(key)
        self._ahead.is_needed()

    def _render_stored(self, partition: int, key: KeyValue) -> None:
        store = self._stores.get(partition)
        stored = None if store is None else store.get(self._key_type.encode(key))
        if stored is None:
            self._forget(partition, key)
        else:
            self._render(partition, key, self._values.row(values_of(stored)))

    def _render(self, partition: int, key: KeyValue, values: Mapping[str, Any]) -> Rendered | None:
        """Render a row for the default limit and keep it."""
        # 1. Render, and note what a reader of any limit looks at: the missing ones too, they may come to exist.
        rendered = self._made(key, values, self._default_limit)
        looked_at = self._lookups.looked_at()
        # 2. Keep the bytes.
        kept = self._partition(partition)
        kept.stale.discard(key)
        if rendered is None:
            self._hide(kept, key)
        else:
            self._rendered[key] = rendered
            kept.show(key)
        # 3. Renew the index.
        self._lookups.index(key, kept.seen.get(key, NOTHING), looked_at)
        kept.seen[key] = looked_at
        return rendered

    def _made(self, key: KeyValue, values: Mapping[str, Any], cut: Cut) -> Rendered | None:
        """Return a row as it is served, of a list at most as much as anybody may ask for; None when it is hidden."""
        self._lookups.begin()
        try:
            return self._rendered_at(self._show(self._row(key, values), self._lookups.tables), cut)
        except LeaderboardError:
            # Not of the row: a table cannot be read.
            raise
        except Exception:
            if self.raises:
                raise
            # One row must not keep all others from being shown and filled.
            if not self._fails:
                self._fails = True
                logger.exception("show of store %s fails for key %s: such rows are hidden", self.store.name, key)
            return None

    def _rendered_at(self, shown: Any, cut: Cut) -> Rendered | None:
        if self._is_list and isinstance(shown, list):
            shown = shown[: self._most] or None
        if shown is None:
            return None
        is_cut = self._is_list and isinstance(shown, list) and isinstance(cut, int)
        return tagged(json_bytes(shown[:cut] if is_cut else shown))

    def _hide(self, kept: _Partition, key: KeyValue) -> None:
        self._rendered.pop(key, None)
        kept.hide(key)

    def _forget(self, partition: int, key: KeyValue) -> None:
        kept = self._partition(partition)
        kept.stale.discard(key)
        self._hide(kept, key)
        self._lookups.index(key, kept.seen.pop(key, NOTHING), NOTHING)
