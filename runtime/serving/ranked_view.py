"""The view of a ranking: where each row of a store stands among those with the same first part of the key.

    rows of the store ─ place ─▶ sort keys, in order, of each first part ─▶ rank, neighbours, pages, count
    tables ─ who is there ─┘

In memory there are sort keys alone. What is shown is made when it is read, of the row and of the tables: the row is
read back from its sort key where the ranking says how, and from the store where it does not.
An order is there from when it was made; until then a reader of a short one makes it, and of a long one is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from typing import Any, Final, NamedTuple

from sortedcontainers import SortedList

from runtime.copies.copies import Copies
from runtime.declaration import Store
from runtime.errors import StateUnusable
from runtime.keys import KeyPair, KeyValue, first_bytes
from runtime.ranking import ReadBack, Standing
from runtime.records import json_bytes
from runtime.results import Result, values_of
from runtime.serving.ahead import Ahead
from runtime.serving.local_view import LocalView
from runtime.serving.looked_at import Lookups
from runtime.serving.orders import IN_STORE, SECOND_BYTES, SLICE_S, TAIL_BYTES, Making, bounds, second_of, sort_key
from runtime.serving.texts import SEARCHED_AT_ONCE, has_any, keys_with
from runtime.serving.view import Cut, NotMade, Range, Rendered, tagged
from runtime.stores.protocol import StateStore

logger = logging.getLogger(__name__)

AT_ONCE: Final = 2_000
"""An order of so many rows is made by who reads it, in some ten milliseconds, when it is not there yet."""

AT_A_TIME: Final = 200
"""So many rows are read in a millisecond or two."""

_KNOWN: Final = 16_384
"""So many second parts are remembered to be there: a megabyte or two."""


class Page(NamedTuple):
    """Rows that stand one behind the other.

    Attributes:
        rows: as they are shown, a JSON list.
        last: what places of rows behind the last one come after, while there are more; None at the end.
    """

    rows: bytes
    last: bytes | None


@dataclass(slots=True, eq=False)
class _Partition:
    """What is kept of one partition.

    Attributes:
        ready: changes are followed.
        orders: by the first part of keys. What is not there has not been made, or has no row with a place.
        past: orders of all first parts whose bytes are below this have been made; None when all have.
        making: the one that is being made.
        long: first parts of which a reader has found too many rows to make their order.
    """

    ready: bool = False
    orders: dict[KeyValue, SortedList] = field(default_factory=dict)
    past: bytes | None = b""
    making: Making | None = None
    long: set[KeyValue] = field(default_factory=set)


@dataclass(slots=True)
class _Concerned:
    """Which rows may count otherwise by a change of the table that says what counts.

    Attributes:
        seconds: those with one of these second parts.
        texts: those that have one of these in their values.
    """

    seconds: set[KeyValue] = field(default_factory=set)
    texts: set[bytes] = field(default_factory=set)


class _Search:
    """A search for the rows that are concerned.

    Args:
        due: which are.

    Attributes:
        due: the same.
        has: whether values have one of the texts in them.
        found: the rows that have been found, each in its partition.
    """

    def __init__(self, due: _Concerned) -> None:
        self.due = due
        self.has = has_any(due.texts)
        self.found: dict[KeyPair, _Partition] = {}


class RankedView(LocalView):
    """Where rows stand. Everything happens in one event loop.

    Args:
        store: what it is declared as; it has a ranking.
        copies: what this instance holds.
        at_once: how many rows an order has at most that a reader makes.
        at_a_time: of others so many rows are read, and looked up in the table of their second parts, together.
        searched_at_once: among more rows those that have a text in them are looked for in the background.
        slice_s: how long the event loop is held to make others, in seconds.

    Attributes:
        counting: what says which values count, as the orders that there are have been made with it; None: all do.
    """

    def __init__(
        self,
        store: Store,
        copies: Copies,
        *,
        at_once: int = AT_ONCE,
        at_a_time: int = AT_A_TIME,
        searched_at_once: int = SEARCHED_AT_ONCE,
        slice_s: float = SLICE_S,
    ) -> None:
        super().__init__(store, copies)
        assert store.ranking is not None, "only a ranking has places"
        self._ranking = store.ranking
        self._first, self._second = store.key.parts
        tables = {topic: held.table for topic, held in copies.tables.items()}
        self._second_in = None if self._ranking.second_in is None else tables[self._ranking.second_in]
        self._first_in = None if self._ranking.first_in is None else tables[self._ranking.first_in]
        self._lookups = Lookups(tables)
        self._counted_in = None if self._ranking.counted_in is None else tables[self._ranking.counted_in]
        self.counting: Any = None
        # Which rows have yet to stand by what counts now, and the search for those that come before them.
        self._due: _Concerned | None = None
        self._search: _Search | None = None
        self._rests = _Rests(self._ranking.read_back)
        # Of a backlog many results are of those who play much, and to look each of them up takes a tenth of its work.
        self._known_there: set[KeyValue] = set()
        self._partitions: dict[int, _Partition] = {}
        self._at_once, self._at_a_time, self._slice_s = at_once, at_a_time, slice_s
        self._searched_at_once = searched_at_once
        self._ahead = Ahead(f"the ranking of store {self.store.name} is made")
        self._searches = Ahead(f"rows of store {self.store.name} that count otherwise are looked for")

    @property
    def name(self) -> str:
        return f"{self.store.name}.ranking"

    @property
    def pace_s(self) -> float:
        # Each change may move all others of its part.
        return 1.0

    def group_of(self, key: KeyValue) -> KeyValue:
        return key.first

    # Reading

    def get(self, key: KeyValue, cut: Cut = None) -> Rendered | None:
        """Return where a row stands, or None when it has no place.

        Args:
            key: which row.
            cut: a number for a list with so many rows before it and behind it.
        """
        order, found = self._order(key.first), self._sort_key_of(key)
        position = None if order is None or found is None else _position(order, found)
        if order is None or position is None:
            return None
        if isinstance(cut, int):
            return tagged(json_bytes(self._shown(key.first, order, max(0, position - cut), position + cut + 1)))
        return tagged(json_bytes(self._shown(key.first, order, position, position + 1)[0]))

    def named(self, first: KeyValue, seconds: Iterable[KeyValue]) -> bytes:
        """Return those of some rows that have a place, the best first, as a JSON list.

        Args:
            first: the first part of their keys.
            seconds: the second parts.
        """
        order = self._order(first)
        if order is None:
            return b"[]"
        keys = (self._sort_key_of(KeyPair(first, second)) for second in seconds)
        places = (None if key is None else _position(order, key) for key in keys)
        positions = sorted({position for position in places if position is not None})
        return json_bytes([self._shown(first, order, position, position + 1)[0] for position in positions])

    def page(self, first: KeyValue, size: int, after: bytes | None = None, from_rank: int = 1) -> Page | None:
        """Return the rows that stand one behind the other, None where none has a place.

        Args:
            first: the first part of their keys.
            size: at most so many.
            after: `last` of the page before: those that stand behind where its last row stood.
            from_rank: the rank of the first one, where no page came before.
        """
        order = self._order(first)
        if order is None:
            return None
        start = from_rank - 1 if after is None else order.bisect_right(after + IN_STORE)
        end = start + size
        # Without its last byte, which says something else at another instance.
        last = order[end - 1][:-1] if end < len(order) else None
        return Page(json_bytes(self._shown(first, order, start, end)), last)

    def count_of(self, first: KeyValue) -> int | None:
        """Return how many rows with this first part have a place, None where none has."""
        order = self._order(first)
        return None if order is None else len(order)

    def has_first(self, first: KeyValue) -> bool:
        """Return whether a first part of keys is there: whether its table has a row of it."""
        return self._first_in is None or self._first_in.has(first)

    def why_not_made(self, first: KeyValue) -> str:
        """Return why nothing can be said yet of rows with this first part; empty when it can, or when no read can."""
        try:
            self._order(first)
        except StateUnusable as error:
            # Of a store that cannot be read whoever reads is told.
            return str(error) if isinstance(error, NotMade) else ""
        return ""

    def rows(self, partitions: Iterable[int], within: Range, cut: Cut = None) -> list[tuple[KeyValue, bytes]]:
        decode = self._key_type.decode
        stores = [store for partition in partitions if (store := self._stores.get(partition)) is not None]
        scans = (self._scan(store, within) for store in stores)
        keys = (decode(encoded) for encoded, _ in merge(*scans, reverse=within.descending))
        found = ((key, self.get(key, cut)) for key in keys)
        return list(islice(((key, row.body) for key, row in found if row is not None), within.most))

    def count(self, partitions: Iterable[int]) -> int:
        kept = [self._partitions[each] for each in partitions if each in self._partitions]
        return sum(len(order) for each in kept for first, order in each.orders.items() if self.has_first(first))

    def shown(self) -> dict[int, int]:
        return {partition: self.count([partition]) for partition in sorted(self._partitions)}

    # Following the copies: called after each write

    def rows_changed(
        self, partition: int, changes: Mapping[KeyValue, Result | None], before: Mapping[KeyValue, Result | None]
    ) -> None:
        kept = self._partitions.get(partition)
        for key, result in changes.items():
            if kept is not None and kept.ready:
                self._move(kept, key, before.get(key), result)
                if self._search is not None and result is not None:
                    # It may have been passed.
                    self._look_at(self._search, kept, key, result)
            self._changed(key)

    def rows_filled(self, partition: int, keys: Collection[KeyValue]) -> None:  # noqa: ARG002  # nobody ranks them yet
        self._version += 1

    def table_changed(self, table: str, keys: Collection[KeyValue]) -> None:
        self._version += 1
        if table == self._ranking.counted_in:
            self._count_anew(keys)
            return
        if table == self._ranking.second_in:
            self._known_there.difference_update(keys)
        # While a table is filled, nothing is ranked.
        for key in keys if table == self._ranking.second_in and self._partitions else ():
            there = self._has_second(key)
            for partition, kept in self._partitions.items():
                self._come_or_go(kept, self._stores.get(partition), key, there=there)
        for key in keys if table == self._ranking.first_in else ():
            self._changed(KeyPair(key, 0))

    def partition_ready(self, partition: int) -> None:
        if self._counted_in is not None and self._search is None and self._due is None:
            # Tables are complete, and changes of them are followed from here on.
            self.counting = self._counted_in.whole
        self._partitions[partition] = _Partition(ready=True)
        self._changed(None)
        self._ahead.is_needed()

    def partition_reset(self, partition: int) -> None:
        self._partitions.pop(partition, None)
        self._changed(None)

    def tables_reset(self) -> None:
        self._partitions.clear()
        self._known_there.clear()
        self._due = self._search = None
        self._changed(None)

    # What counts

    def _count_anew(self, keys: Collection[KeyValue]) -> None:
        """Have the rows stand where they do by what counts now: in the background, if it takes a search of many.

        Args:
            keys: of the rows of the table that have changed.
        """
        assert self._counted_in is not None, "a table has changed"
        whole = self._counted_in.table.whole
        assert whole is not None, "it is held whole"
        due = self._due_later()
        for concern in map(whole.concerns, keys):
            due.seconds.update(key for topic, key in concern.rows if topic == self._ranking.second_in)
            if concern.text is not None:
                due.texts.add(concern.text)
        if self._search is not None or (due.texts and self._rows() > self._searched_at_once):
            self._searches.is_needed()
            return
        for _ in self._counting_anew():
            pass

    def _due_later(self) -> _Concerned:
        """Return which rows the next search is for, so that some can be added."""
        self._due = self._due or _Concerned()
        return self._due

    def _rows(self) -> int:
        """Return how many rows there are to look through."""
        fills = (store.fill for partition in self._partitions if (store := self._stores.get(partition)) is not None)
        return sum(fill.rows for fill in fills if fill is not None)

    def _counting_anew(self) -> Iterator[None]:
        """Have rows stand by what counts now; yield every few milliseconds while they are looked for.

        Until all are found, every row stands by what counted before.
        """
        assert self._counted_in is not None, "a table has changed"
        while self._due is not None and self._search is None:
            search, counting = _Search(self._due), self._counted_in.whole
            self._search, self._due = search, None
            looked_through: set[_Partition] = set()
            try:
                # Those that become ready meanwhile are made by what counted before as well.
                while rest := [each for each in self._partitions.items() if each[1] not in looked_through]:
                    partition, kept = rest[0]
                    looked_through.add(kept)
                    for _ in self._looking_through(partition, kept, search):
                        yield
                        if self._search is not search:
                            # All is made anew, by what counts then.
                            return
                self._restand(search.found, counting)
            except StateUnusable:
                later = self._due_later()
                later.seconds |= search.due.seconds
                later.texts |= search.due.texts
                self._searches.is_needed()
                raise
            finally:
                if self._search is search:
                    self._search = None

    def _looking_through(self, partition: int, kept: _Partition, search: _Search) -> Iterator[None]:
        """Find the rows of a partition that are concerned; yield every few milliseconds."""
        store = self._stores.get(partition)
        if not kept.ready or store is None or store.fill is None or not store.fill.rows:
            return
        for second in search.due.seconds:
            for entry in store.indexed(*bounds(self._second.type, second)):
                search.found[self.store.key.unturned(entry)] = kept
        for encoded in keys_with(store, search.has, self._slice_s) if search.due.texts else ():
            if encoded is not None:
                search.found[self._key_type.decode(encoded)] = kept
                continue
            yield
            if self._partitions.get(partition) is not kept:
                return

    def _look_at(self, search: _Search, kept: _Partition, key: KeyPair, result: Result) -> None:
        """Find a row that has changed since the search began, if it is concerned."""
        if key.second in search.due.seconds or search.has(self._values.to_json(result.values)):
            search.found[key] = kept

    def _restand(self, found: Mapping[KeyPair, _Partition], counting: Any) -> None:
        """Have rows stand where they do by what counts from now on."""
        current = {*self._partitions.values()}
        rows = [(kept, pair) for pair, kept in found.items() if kept in current]
        # 1. Where they stood before.
        for kept, pair in rows:
            self._stand(kept, pair, there=False)
        # 2. Where they stand now.
        self.counting = counting
        for kept, pair in rows:
            self._stand(kept, pair, there=self._has_second(pair.second))
            self._changed(pair)

    def _stand(self, kept: _Partition, pair: KeyPair, *, there: bool) -> None:
        """Have a row stand in its order, or not, by what counts at this time."""
        if kept.making is not None and kept.making.part == pair.first:
            kept.making.touched.add(pair.second)
        found = self._sort_key_of(pair)
        order = kept.orders.get(pair.first)
        if found is None:
            return
        if order is not None:
            order.discard(found)
            if there:
                order.add(found)
        elif there and self._is_past(kept, pair.first):
            kept.orders[pair.first] = SortedList([found])

    def _move(self, kept: _Partition, key: KeyPair, before: Result | None, now: Result | None) -> None:
        """Have a row stand where it stands now."""
        if kept.making is not None and kept.making.part == key.first:
            kept.making.touched.add(key.second)
        order = kept.orders.get(key.first)
        if order is None:
            if kept.past is not None and kept.past <= first_bytes(self._first.type, key.first):
                # It will be made of what the store has then.
                return
            order = SortedList()
        left, taken = self._sort_key(key, before), self._sort_key(key, now)
        if left == taken:
            return
        stood = left is not None and _left(order, left)
        # Of a row that stood there the second part is there.
        if taken is not None and (stood or self._has_second(key.second)):
            order.add(taken)
            kept.orders[key.first] = order

    def _come_or_go(self, kept: _Partition, store: StateStore | None, second: KeyValue, *, there: bool) -> None:
        """Have the rows of a second part have places, or none any more."""
        if not kept.ready or store is None or store.fill is None or not store.fill.rows:
            return
        for entry in store.indexed(*bounds(self._second.type, second)):
            pair = self.store.key.unturned(entry)
            self._stand(kept, pair, there=there)
            self._changed(pair)

    # Making orders

    async def keep_warm(self) -> None:
        """Make the orders of partitions that become ready, and look for rows that count otherwise, until cancelled."""
        await asyncio.gather(self._ahead.keep_up(self.warm_up), self._searches.keep_up(self.search))

    async def warm_up(self) -> None:
        """Make the orders that have not been made, a few milliseconds at a time."""
        for partition in list(self._partitions):
            await self._make_all(partition)

    async def search(self) -> None:
        """Have the rows stand by what counts now that have to be looked for, a few milliseconds at a time."""
        if self._counted_in is not None:
            for _ in self._counting_anew():
                await asyncio.sleep(0)

    async def _make_all(self, partition: int) -> None:
        kept, store = self._partitions.get(partition), self._stores.get(partition)
        while kept is not None and store is not None and kept.past is not None:
            found = next(iter(store.scan(kept.past)), None)
            if found is None:
                kept.past = None
                return
            first = self._key_type.decode(found[0]).first
            # Those before it have no rows now, and are followed from here on; this one while it is made.
            kept.past, end = bounds(self._first.type, first)
            if first not in kept.orders:
                making = kept.making = Making(first)
                for order in making.made(self._all_sort_keys(store, first), self._slice_s):
                    if order is not None:
                        self._made(kept, making, order)
                        break
                    await asyncio.sleep(0)
                    if self._partitions.get(partition) is not kept:
                        return
            kept.past = end
            await asyncio.sleep(0)
            if self._partitions.get(partition) is not kept:
                return

    def _made(self, kept: _Partition, making: Making, order: SortedList) -> None:
        kept.making = None
        for second in making.touched:
            found = self._sort_key_of(KeyPair(making.part, second))
            if found is not None and self._has_second(second):
                order.add(found)
        if order:
            kept.orders[making.part] = order
            self._changed(KeyPair(making.part, 0))

    def _order(self, first: KeyValue) -> SortedList | None:
        """Return the order of the rows with a first part, None when none of them is shown.

        Raises:
            NotMade: it is being made.
        """
        if not self.has_first(first):
            return None
        partition = self.partition_for(KeyPair(first, 0))
        kept, store = self._partitions.get(partition), self._stores.get(partition)
        if kept is None or store is None:
            raise NotMade(f"partition {partition} of {self.store.name} is not ready")
        order = kept.orders.get(first)
        if order is None and not self._is_past(kept, first):
            order = self._made_at_once(kept, store, first)
        return order or None

    def _made_at_once(self, kept: _Partition, store: StateStore, first: KeyValue) -> SortedList:
        if kept.making is not None and kept.making.part == first:
            raise NotMade(f"the order of {self._first.name} {first} is being made")
        if first not in kept.long:
            rows = list(islice(store.scan(*bounds(self._first.type, first)), self._at_once + 1))
            if len(rows) <= self._at_once:
                order = kept.orders[first] = SortedList(self._sort_keys(rows))
                return order
            # Whoever follows one of these rows asks again and again until the order is there.
            kept.long.add(first)
        raise NotMade(f"the order of {self._first.name} {first} is yet to be made")

    def _is_past(self, kept: _Partition, first: KeyValue) -> bool:
        """Return whether there is an order of a first part if it has a row with a place."""
        return kept.past is None or first_bytes(self._first.type, first) < kept.past

    def _all_sort_keys(self, store: StateStore, first: KeyValue) -> Iterator[list[bytes]]:
        """Yield the sort keys of the rows with a first part that have a place, those of some rows at a time."""
        rows = store.scan(*bounds(self._first.type, first))
        while some := list(islice(rows, self._at_a_time)):
            yield self._sort_keys(some)

    def _sort_keys(self, rows: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
        """Return the sort keys of those of some rows, as a store has them in its order, that have a place."""
        # A million of them are read before an order is there.
        values, place, rest_of = self._values.row, self._ranking.place, self._rests.byte_of
        seconds = [encoded[-SECOND_BYTES:] for encoded, _ in rows]
        there = {*seconds} if self._second_in is None else self._second_in.those_there(seconds)
        keys = []
        for second, (encoded, stored) in zip(seconds, rows, strict=True):
            if second in there:
                found = values(values_of(stored))
                row = self._counted(self._key_type.decode(encoded), found) if self.counting else found
                at = place(row)
                if at is not None:
                    keys.append(at + second + rest_of(row))
        return keys

    # One row

    def _has_second(self, second: KeyValue) -> bool:
        if self._second_in is None or second in self._known_there:
            return True
        there = self._second_in.has(second)
        if there:
            if len(self._known_there) >= _KNOWN:
                self._known_there.clear()
            self._known_there.add(second)
        return there

    def _sort_key(self, key: KeyPair, result: Result | None) -> bytes | None:
        return None if result is None else self._sort_key_at(key, self._values.row_of(result.values))

    def _sort_key_at(self, key: KeyPair, values: Mapping[str, Any]) -> bytes | None:
        row = self._counted(key, values)
        at = self._ranking.place(row)
        return None if at is None else sort_key(at, key.second, self._rests.byte_of(row))

    def _counted(self, key: KeyPair, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what counts of the values of a row."""
        if not self.counting:
            return values
        assert self._ranking.counts is not None, "a table says what counts"
        return self._ranking.counts(key.first, key.second, values, self.counting)

    def _sort_key_of(self, key: KeyPair) -> bytes | None:
        """Return the sort key of a row as it is in the store, whether it has a place or not."""
        store = self._stores.get(self.partition_for(key))
        stored = None if store is None else store.get(self._key_type.encode(key))
        return None if stored is None else self._sort_key_at(key, self._values.row(values_of(stored)))

    def _shown(self, first: KeyValue, order: SortedList, start: int, end: int) -> list[Any]:
        """Return what is shown of the rows at some positions. To make JSON of all at once takes half as long."""
        self._lookups.begin()
        show, tables, row_of = self._ranking.show, self._lookups.tables, self._row_of(first)
        first_name, second_name, shared_bytes = self._first.name, self._second.name, self._ranking.shared_bytes
        shown, shared, level = [], 0, b""
        for position, key in enumerate(order.islice(start, min(end, len(order))), start):
            if key[:shared_bytes] != level or not shared:
                level = key[:shared_bytes]
                shared = 1 + (order.bisect_left(level) if position == start else position)
            row = {first_name: first, second_name: second_of(key), **row_of(key)}
            shown.append(show(row, Standing(position + 1, shared, len(order)), tables))
        return shown

    def _row_of(self, first: KeyValue) -> Callable[[bytes], Mapping[str, Any]]:
        """Return what finds the values of a row with a first part that count and are shown, by its sort key.

        To look a row up takes longer than all else that is done to show it.
        """
        store, begin = self._stores[self.partition_for(KeyPair(first, 0))], first_bytes(self._first.type, first)
        read_back = self._rests.read_back

        def row_of(key: bytes) -> Mapping[str, Any]:
            if key[-1:] != IN_STORE:
                return read_back(key)
            stored = store.get(begin + key[-TAIL_BYTES:-1])
            assert stored is not None, "what has a place is in the store"
            return self._counted(KeyPair(first, second_of(key)), self._values.row(values_of(stored)))

        return row_of


class _Rests:
    """What rows have beside their places, each kept once, and the byte of sort keys that says which one a row has.

    Args:
        ranking_says: how rows are read back from their places; None where they are not.
    """

    def __init__(self, ranking_says: ReadBack | None) -> None:
        self._says = ranking_says
        self._bytes: dict[Hashable, bytes] = {}
        self._each: list[Hashable] = []

    def byte_of(self, row: Mapping[str, Any]) -> bytes:
        """Return the last byte of the sort key of a row that has a place."""
        if self._says is None:
            return IN_STORE
        rest = self._says.rest(row)
        byte = self._bytes.get(rest)
        if byte is None:
            if len(self._each) >= IN_STORE[0]:
                return IN_STORE
            byte = self._bytes[rest] = bytes((len(self._each),))
            self._each.append(rest)
        return byte

    def read_back(self, key: bytes) -> Mapping[str, Any]:
        """Return the values of a row by its sort key, which does not say that they are in the store."""
        assert self._says is not None, "all rows are in the store"
        return self._says.row(key[:-TAIL_BYTES], self._each[key[-1]])


def _left(order: SortedList, key: bytes) -> bool:
    """Have a sort key leave an order, and return whether it stood there."""
    try:
        order.remove(key)
    except ValueError:
        return False
    return True


def _position(order: SortedList, key: bytes) -> int | None:
    """Return where a sort key stands, None when it does not."""
    position: int = order.bisect_left(key)
    return position if position < len(order) and order[position] == key else None
