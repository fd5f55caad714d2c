"""The view: boards as they are served, kept rendered for the default limit.

Between stores and queries. Bytes are built when a board or a name changes, not when they are read. Until a partition
has been warmed up, and for boards that a change of a name has made stale, they are built by the first read: an answer
is right at any time, and reads are only cheaper once the work is done.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from runtime.copies.listener import Watcher
from runtime.errors import StateUnusable
from runtime.records import ID_MAX, ID_MIN
from runtime.stores.global_table import GlobalTable
from runtime.stores.protocol import Store
from topology.leaderboard.records import Board
from topology.leaderboard.shown import Rendered, render, visible

logger = logging.getLogger(__name__)

DEFAULT_LIMIT: Final = 3

_AT_ONCE: Final = 32
"""A name on more boards than this is rendered again in the background, so that no read waits for all of them."""
_SLICE_S: Final = 0.002


@dataclass(slots=True)
class _Partition:
    """What is kept of one partition.

    Attributes:
        ready: changes are followed; before that they are only forgotten.
        warm: every board of the store is in `seen` or in `stale`.
        seen: product id to the players that its rendering looked at; hidden boards as well.
        shown: the boards that have an entry to show.
        stale: boards to render again.
        ascending: `shown` in order, made when it is asked for.
    """

    ready: bool = False
    warm: bool = False
    seen: dict[int, tuple[int, ...]] = field(default_factory=dict)
    shown: set[int] = field(default_factory=set)
    stale: set[int] = field(default_factory=set)
    ascending: list[int] | None = None


class RenderedView:
    """What is served of this instance's stores. Everything happens in one event loop.

    Args:
        boards: stores of `leader-boards` by partition; this and the next two are live views.
        players: stores of the table by partition.
        products: stores of the table by partition.
        default_limit: how many entries of a board are kept rendered.
        depth: the most entries that are asked for; changes are followed down to there.
    """

    def __init__(
        self,
        boards: Mapping[int, Store],
        players: Mapping[int, Store],
        products: Mapping[int, Store],
        default_limit: int = DEFAULT_LIMIT,
        depth: int = 10,
    ) -> None:
        self._stores = boards
        self._players = GlobalTable(players)
        self._products = GlobalTable(products)
        self._default_limit = default_limit
        self._depth = depth
        self._rendered: dict[int, Rendered] = {}
        self._partitions: dict[int, _Partition] = {}
        self._boards_of_player: dict[int, set[int]] = {}
        self._partition_of: dict[int, int] = {}
        self._version = 0
        self._watchers: list[Watcher] = []
        self._work = asyncio.Event()

    # Reading

    @property
    def version(self) -> int:
        """A number that grows with every change that a reader could see."""
        return self._version

    def get(self, product_id: int, limit: int) -> Rendered | None:
        """Return a board as it is served, or None when there is nothing to show of it."""
        if limit == self._default_limit:
            rendered = self._rendered.get(product_id)
            if rendered is not None:
                return rendered
        for partition, store in self._stores.items():
            value = store.get(product_id)
            if value is not None:
                board = Board.from_json(value)
                rendered = None
                # Also for another limit, so that a board that is read is in the index of who is on it.
                if limit == self._default_limit or product_id not in self._partition(partition).seen:
                    rendered = self._render(partition, product_id, board)
                if limit == self._default_limit:
                    return rendered
                return self._render_with(product_id, board, limit)
        return None

    def boards(
        self,
        partitions: Iterable[int],
        limit: int,
        first: int | None = None,
        last: int | None = None,
        most: int | None = None,
    ) -> list[tuple[int, bytes]]:
        """Return product ids and bodies, ascending, of at most `most` boards from `first` to `last`, both inclusive."""
        low, high = ID_MIN if first is None else first, ID_MAX if last is None else last
        ids: list[int] = []
        for partition in partitions:
            ids += self._shown_between(partition, low, high)
        ids.sort()
        if most is not None:
            del ids[most:]
        if limit == self._default_limit:
            return [(product_id, self._rendered[product_id].body) for product_id in ids]
        found = ((product_id, self.get(product_id, limit)) for product_id in ids)
        return [(product_id, rendered.body) for product_id, rendered in found if rendered is not None]

    def count(self, partitions: Iterable[int]) -> int:
        """Return how many boards have something to show."""
        total = 0
        for partition in partitions:
            self._settle(partition, ID_MIN, ID_MAX)
            total += len(self._partition(partition).shown)
        return total

    def shown(self) -> dict[int, int]:
        """Return how many boards are rendered and have something to show, by partition; renders nothing for it."""
        return {partition: len(kept.shown) for partition, kept in sorted(self._partitions.items())}

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Have `watcher` told what changes, until the returned function is called."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    # Following the stores: called after each write

    def board_changed(self, partition: int, product_id: int, board: Board | None) -> None:
        """Follow a board that was written, or deleted when it is None."""
        if board is None or not self._partition(partition).ready:
            self._forget(partition, product_id)
        else:
            self._render(partition, product_id, board)
        # Also when the first entries are as before: a reader may ask for more of them.
        self._changed(product_id)

    def player_changed(self, player_id: int, name: str | None) -> None:  # noqa: ARG002  # the store has the name
        """Follow a player that was created, renamed or deleted."""
        self._names_changed(self._boards_of_player.get(player_id, ()))

    def product_changed(self, product_id: int, name: str | None) -> None:  # noqa: ARG002  # the store has the name
        """Follow a product that was created, renamed or deleted."""
        self._names_changed((product_id,) if product_id in self._partition_of else ())

    def partition_ready(self, partition: int) -> None:
        """Follow a partition from now on: its store and the tables are complete."""
        self._partition(partition).ready = True
        self._changed(None)
        self._work.set()

    def partition_reset(self, partition: int) -> None:
        """Forget a partition whose store was emptied, opened or dropped."""
        for product_id in list(self._partition(partition).seen):
            self._forget(partition, product_id)
        del self._partitions[partition]
        self._changed(None)

    def tables_reset(self) -> None:
        """Forget everything: the names are being read anew."""
        for partition in list(self._partitions):
            self.partition_reset(partition)
        self._changed(None)

    # Working ahead

    async def warm_up(self) -> None:
        """Render what has not been rendered, a few milliseconds at a time."""
        for partition, kept in list(self._partitions.items()):
            if kept.ready and not kept.warm:
                await self._warm(partition, kept)
            while kept.stale and self._is_current(partition, kept):
                self._settle(partition, ID_MIN, ID_MAX, _SLICE_S)
                await asyncio.sleep(0)

    async def keep_warm(self) -> None:
        """Render what changes leave to do, until cancelled."""
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                await self.warm_up()
            except StateUnusable as error:
                # Whoever fills the stores opens them again, and then there is work again.
                logger.warning("boards are rendered later: %s", error)

    async def _warm(self, partition: int, kept: _Partition) -> None:
        store = self._stores.get(partition)
        if store is None:
            return
        started = time.monotonic()
        for product_id, _ in store.scan():
            if product_id not in kept.seen:
                self._render_stored(partition, product_id)
            if time.monotonic() - started > _SLICE_S:
                await asyncio.sleep(0)
                if not self._is_current(partition, kept):
                    return
                started = time.monotonic()
        kept.warm = True

    def _is_current(self, partition: int, kept: _Partition) -> bool:
        return self._partitions.get(partition) is kept

    def _settle(self, partition: int, low: int, high: int, budget_s: float | None = None) -> None:
        """Render what a reader of the ids from `low` to `high` needs and what is not rendered."""
        kept = self._partition(partition)
        store = self._stores.get(partition)
        if store is None:
            return
        if not kept.warm:
            for product_id, _ in store.scan(low, high):
                if product_id not in kept.seen:
                    self._render_stored(partition, product_id)
            # A partition that changes are not followed for yet can be rendered, but does not stay so.
            kept.warm = kept.ready and (low, high) == (ID_MIN, ID_MAX)
        started = time.monotonic()
        for product_id in list(kept.stale):
            if low <= product_id <= high:
                self._render_stored(partition, product_id)
            if budget_s is not None and time.monotonic() - started > budget_s:
                return

    def _shown_between(self, partition: int, low: int, high: int) -> list[int]:
        self._settle(partition, low, high)
        kept = self._partition(partition)
        if kept.ascending is None:
            kept.ascending = sorted(kept.shown)
        ascending = kept.ascending
        return ascending[bisect_left(ascending, low) : bisect_right(ascending, high)]

    # Rendering, and the index of who is on which board

    def _partition(self, partition: int) -> _Partition:
        kept = self._partitions.get(partition)
        if kept is None:
            kept = self._partitions[partition] = _Partition()
        return kept

    def _names_changed(self, product_ids: Collection[int]) -> None:
        # A board that has not been rendered is in no index, and may show the name as well.
        if not all(self._partition(partition).warm for partition in self._stores):
            self._version += 1
        at_once = len(product_ids) <= _AT_ONCE
        # A copy: to render a board renews the index that these are from.
        for product_id in list(product_ids):
            partition = self._partition_of[product_id]
            if at_once:
                self._render_stored(partition, product_id)
            else:
                self._rendered.pop(product_id, None)
                self._partition(partition).stale.add(product_id)
                self._work.set()
            self._changed(product_id)

    def _changed(self, product_id: int | None) -> None:
        self._version += 1
        for watcher in self._watchers:
            watcher(product_id)

    def _render_stored(self, partition: int, product_id: int) -> None:
        store = self._stores.get(partition)
        value = None if store is None else store.get(product_id)
        if value is None:
            self._forget(partition, product_id)
        else:
            self._render(partition, product_id, Board.from_json(value))

    def _render_with(self, product_id: int, board: Board, limit: int) -> Rendered | None:
        entries = visible(product_id, board, self._products.name(product_id), self._players.name, limit)
        return render(entries) if entries else None

    def _render(self, partition: int, product_id: int, board: Board) -> Rendered | None:
        """Render a board for the default limit and keep it."""
        # 1. Render, and note whom a reader of any limit looks at: the hidden ones too, they may come to exist.
        looked_at: dict[int, str | None] = {}

        def player_name(player_id: int) -> str | None:
            if player_id not in looked_at:
                looked_at[player_id] = self._players.name(player_id)
            return looked_at[player_id]

        entries = visible(product_id, board, self._products.name(product_id), player_name, self._depth)
        rendered = render(entries[: self._default_limit]) if entries else None
        # 2. Keep the bytes.
        kept = self._partition(partition)
        kept.stale.discard(product_id)
        if rendered is None:
            self._hide(kept, product_id)
        else:
            self._rendered[product_id] = rendered
            if product_id not in kept.shown:
                kept.shown.add(product_id)
                kept.ascending = None
        # 3. Renew the index.
        players = tuple(looked_at)
        seen = kept.seen.get(product_id, ())
        if players != seen:
            self._unindex(product_id, seen)
            for player_id in players:
                self._boards_of_player.setdefault(player_id, set()).add(product_id)
        kept.seen[product_id] = players
        self._partition_of[product_id] = partition
        return rendered

    def _hide(self, kept: _Partition, product_id: int) -> None:
        self._rendered.pop(product_id, None)
        if product_id in kept.shown:
            kept.shown.remove(product_id)
            kept.ascending = None

    def _forget(self, partition: int, product_id: int) -> None:
        kept = self._partition(partition)
        kept.stale.discard(product_id)
        self._hide(kept, product_id)
        self._unindex(product_id, kept.seen.pop(product_id, ()))
        self._partition_of.pop(product_id, None)

    def _unindex(self, product_id: int, players: tuple[int, ...]) -> None:
        for player_id in players:
            boards = self._boards_of_player[player_id]
            boards.discard(product_id)
            if not boards:
                del self._boards_of_player[player_id]
