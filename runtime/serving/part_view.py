"""The rows of a store that have one second part of keys, by the first part.

    rows by key of two parts ─▶ those of one second part: the same rows, by first part

They are found by the index of the store, in which the second part comes first. Where the second part is a stretch of
time that runs (`runtime.lapsing`), another one runs after it: then all rows may read differently, and whoever follows
them is told so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextvars import Context
from heapq import merge
from itertools import chain
from typing import Final

from runtime.copies.status import CopyStatus
from runtime.keys import KeyPair, KeyType, KeyValue
from runtime.serving.local_view import LocalView
from runtime.serving.orders import bounds
from runtime.serving.view import EVERYTHING, Cut, Range, Rendered, View, Watcher

logger = logging.getLogger(__name__)

_FIXED: Final = ".of."
_LOOK_EVERY_S: Final = 0.2
"""How often it is looked whether another stretch runs, while somebody follows the rows."""


class PartView(View):
    """Rows of one second part.

    Args:
        whole: the rows of all second parts.
        name: what tells it from other views.
        second: returns the second part; another one when the time has come.
    """

    def __init__(self, whole: LocalView, name: str, second: Callable[[], KeyValue]) -> None:
        assert whole.store.key.parts, "only keys of two parts have a second one"
        self.store = whole.store
        self._whole = whole
        self._name = name
        self._second_of = second
        self._second = second()
        self._turns = 0
        self._watchers: list[Watcher] = []
        self._unwatch: Callable[[], None] | None = None
        self._looking: asyncio.Task[None] | None = None

    @property
    def key_type(self) -> KeyType:
        return self.store.key.parts[0].type

    @property
    def name(self) -> str:
        return self._name

    @property
    def names_by_text(self) -> bool:
        return False

    @property
    def second(self) -> KeyValue:
        """The second part of keys whose rows these are now."""
        self._turn()
        return self._second

    @property
    def version(self) -> int:
        self._turn()
        return self._whole.version + self._turns

    @property
    def partition_count(self) -> int:
        return self._whole.partition_count

    def partition_for(self, key: KeyValue) -> int:
        return self._whole.partition_for(KeyPair(key, self._second))

    def status(self, partition: int) -> CopyStatus:
        return self._whole.status(partition)

    def get(self, key: KeyValue, cut: Cut = None) -> Rendered | None:
        return self._whole.get(KeyPair(key, self.second), cut)

    def rows(self, partitions: Iterable[int], within: Range, cut: Cut = None) -> list[tuple[KeyValue, bytes]]:
        second = self.second
        each = [self._keys(partition, second, within) for partition in partitions]
        keys = sorted(chain.from_iterable(each), reverse=True) if within.descending else merge(*each)
        found: list[tuple[KeyValue, bytes]] = []
        for key in keys:
            if within.most is not None and len(found) >= within.most:
                break
            if (row := self._whole.get(KeyPair(key, second), cut)) is not None:
                found.append((key, row.body))
        return found

    def count(self, partitions: Iterable[int]) -> int:
        partitions = list(partitions)
        known = self._whole.count_of_second(partitions, self.second)
        return len(self.rows(partitions, EVERYTHING)) if known is None else known

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        self._watchers.append(watcher)
        if self._unwatch is None:
            self._unwatch = self._whole.watch(self._changed)
            # In no request's context: it goes on when the one that began it has long ended.
            look = asyncio.get_running_loop().create_task(self._look(), name=f"view {self._name}", context=Context())
            self._looking = look

        def leave() -> None:
            self._watchers.remove(watcher)
            if not self._watchers and self._unwatch is not None and self._looking is not None:
                self._unwatch()
                self._looking.cancel()
                self._unwatch = self._looking = None

        return leave

    def _turn(self) -> None:
        """Look which second part it is now."""
        if (now := self._second_of()) != self._second:
            self._second = now
            self._turns += 1
            self._tell(None)

    def _keys(self, partition: int, second: KeyValue, within: Range) -> Iterator[KeyValue]:
        store = self._whole.opened(partition)
        if store is None:
            return
        prefix, past = bounds(self.store.key.parts[1].type, second)
        encode = self.key_type.encode
        first = prefix if within.first is None else prefix + encode(within.first)
        end = past if within.end is None else prefix + encode(within.end)
        for entry in store.indexed(first, end):
            yield self.store.key.unturned(entry).first

    def _changed(self, key: KeyValue | None) -> None:
        if key is None:
            self._tell(None)
        elif key.second == self.second:
            self._tell(key.first)

    def _tell(self, key: KeyValue | None) -> None:
        for watcher in list(self._watchers):
            watcher(key)

    async def _look(self) -> None:
        before = self._second
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if (second := self.second) != before:
                logger.info("view %s: %s comes after %s", self._name, second, before)
                before = second


class Parts:
    """Views of the rows of second parts: of those that run now, and of any.

    Args:
        whole: the rows of all; their store is lapsing.

    Attributes:
        running: of those that run, by the name of their kind.
    """

    def __init__(self, whole: LocalView) -> None:
        lapsing = whole.store.lapsing
        assert lapsing is not None, "nothing runs of another store"
        self._whole = whole
        self._of = whole.store.key.parts[1].type
        self.running = {
            name: PartView(whole, f"{whole.store.name}.{name}", second) for name, second in lapsing.running.items()
        }

    def of(self, second: KeyValue) -> PartView:
        """Return a view of the rows of one second part, whenever that is."""
        return PartView(self._whole, f"{self._whole.store.name}{_FIXED}{self._of.encode(second).hex()}", lambda: second)

    def second_of(self, name: str) -> KeyValue | None:
        """Return the second part whose rows a view of this name has, if it is one that `of` returns."""
        store, fixed, text = name.rpartition(_FIXED)
        if not fixed or store != self._whole.store.name:
            return None
        try:
            return self._of.decode(bytes.fromhex(text))
        except ValueError:
            return None
