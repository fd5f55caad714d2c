"""Many rows: what all copies answer as one list, page or number; a part is never passed off as the whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from api.cluster.peers import Peers
from api.cluster.router import UNREADABLE, Router
from api.http.answers import JSON_TYPE, MISSING_PARTITIONS, NO_STORE, Answer, Headers
from api.http.delivery import KEPT_BYTES
from api.http.errors import InvalidRequest, PartitionsUnavailable
from api.http.key_route import encoded
from api.reads.collect import Collector, Question, listed
from api.reads.cut import query_of
from api.reads.demand import ANY, Demand
from api.reads.framing import Rows, unpack
from api.reads.told import Told
from runtime.keys import KeyType, KeyValue
from runtime.serving.view import EVERYTHING, Cut, Range, View

NAMED_BYTES_MAX: Final = 60_000
"""Keys that are asked for by their names take at most so many bytes of a request to a peer, which reads 65,536."""
AT_ONCE: Final = 1_000
"""Of a longer list each copy is asked for so many rows at a time: a million would hold up everything else at each
holder, the group's heartbeats included."""
KEYS_OF_WINDOWS_AT_ONCE: Final = 4
"""Of a store with windows, for the same reason, so many named keys: one may have a thousand windows and more."""


class Gather:
    """Answers routes of many rows, and counts them.

    Args:
        view: the rows of this instance's copies.
        router: who answers for a partition.
        peers: the other instances.
        told: how far the copies had read whose answers were given.
        compose: makes one body of rows, in their order.
    """

    def __init__(self, view: View, router: Router, peers: Peers, told: Told, compose: Callable[[Rows], bytes]) -> None:
        self._view = view
        self._told = told
        self._collector = Collector(view, router, peers, told)
        self._compose = compose
        self._composed: tuple[tuple[int, Cut], bytes] | None = None

    async def rows(
        self, cut: Cut, within: Range = EVERYTHING, *, hop: bool, partial: bool, demand: Demand = ANY
    ) -> Answer:
        """Return the rows of the cluster in one body.

        Args:
            cut: how much of each.
            within: which rows, and in which order.
            hop: whether another instance has forwarded the request here.
            partial: whether a part will do.
            demand: what the copies have to be like.

        Raises:
            PartitionsUnavailable: no copy of some partitions can answer, and a part will not do.
        """
        key = (self._view.version, cut)
        is_whole = within == EVERYTHING and demand is ANY and self._collector.all_here(hop=hop)
        if is_whole and self._composed is not None and self._composed[0] == key:
            self._told.of_copies(range(self._view.partition_count))
            return Answer(200, [JSON_TYPE], self._composed[1])
        rows: Rows = []
        missing: dict[int, str] = {}
        rest: Range | None = within
        while rest is not None:
            question = self._rows_question(cut, rest._replace(most=AT_ONCE))
            parts, without = await self._collector.collect(question, hop=hop, demand=demand)
            missing |= without
            self._refuse_part(missing, partial=partial)
            some, rest = _come_to(parts, rest, self._view.key_type)
            rows += some
            if rest is not None:
                # Others are answered in between.
                await asyncio.sleep(0)
        body = self._compose(rows)
        if is_whole and not missing and self._view.version == key[0] and len(body) <= KEPT_BYTES:
            self._composed = (key, body)
        return Answer(200, _headers(missing), body)

    async def page(
        self,
        cut: Cut,
        after: KeyValue | None,
        size: int,
        within: Range = EVERYTHING,
        *,
        hop: bool,
        partial: bool,
        demand: Demand = ANY,
    ) -> tuple[Answer, KeyValue | None]:
        """Return the rows that come after the key `after`, and where the next page begins.

        Args:
            cut: how much of each.
            after: the last key of the page before, or None for the first page.
            size: at most this many rows.
            within: which rows the pages are of, and in which order.
            hop: whether another instance has forwarded the request here.
            partial: whether a part will do.
            demand: what the copies have to be like.

        Returns:
            The page, and its last key when there are rows after it.

        Raises:
            PartitionsUnavailable: no copy of some partitions can answer, and a part will not do.
        """
        rest = within if after is None else _past(within, after, self._view.key_type)
        if rest is None:
            return Answer(200, [JSON_TYPE], self._compose([])), None
        # Each copy gives one more, so that it is known whether there are more.
        question = self._rows_question(cut, rest._replace(most=size + 1))
        parts, missing = await self._collector.collect(question, hop=hop, demand=demand)
        self._refuse_part(missing, partial=partial)
        rows = _in_order(parts, within)
        more = len(rows) > size
        del rows[size:]
        return Answer(200, _headers(missing), self._compose(rows)), rows[-1][0] if more else None

    async def named(
        self, keys: Sequence[KeyValue], cut: Cut, *, hop: bool, partial: bool, demand: Demand = ANY
    ) -> Answer:
        """Return the rows of these keys as a list, in their order, null for those that are not there.

        Args:
            keys: which rows; each copy is asked for those in its partitions alone.
            cut: how much of each.
            hop: whether another instance has forwarded the request here.
            partial: whether a part will do; rows that nobody can answer for are null then.
            demand: what the copies have to be like.

        Raises:
            InvalidRequest: the keys are too long to be asked for at once.
            PartitionsUnavailable: no copy of some partitions can answer, and a part will not do.
        """
        queries = self._queries_of(keys)
        each_once = [*queries]
        at_once = AT_ONCE if self._view.store.window is None else KEYS_OF_WINDOWS_AT_ONCE
        found: dict[KeyValue, bytes] = {}
        missing: dict[int, str] = {}
        for begin in range(0, len(each_once), at_once):
            if begin:
                # Others are answered in between.
                await asyncio.sleep(0)
            by_partition: dict[int, list[KeyValue]] = {}
            for key in each_once[begin : begin + at_once]:
                by_partition.setdefault(self._view.partition_for(key), []).append(key)
            question = self._named_question(by_partition, queries, cut)
            parts, without = await self._collector.collect(question, by_partition, hop=hop, demand=demand)
            found.update(chain.from_iterable(parts))
            missing |= without
            if missing and not partial:
                break
        self._refuse_part(missing, partial=partial, asked=len({*map(self._view.partition_for, each_once)}))
        return Answer(200, _headers(missing), b"[%b]" % b",".join([found.get(key, b"null") for key in keys]))

    async def count(self, *, hop: bool, partial: bool, demand: Demand = ANY) -> Answer:
        """Return the number of rows of the cluster; arguments and errors as for `rows`."""
        question = Question(
            local=self._view.count,
            target=lambda partitions: f"{self._internal}/count?partitions={listed(partitions)}",
            parse=int,
        )
        parts, missing = await self._collector.collect(question, hop=hop, demand=demand)
        self._refuse_part(missing, partial=partial)
        return Answer(200, _headers(missing), b"%d" % sum(parts))

    def count_local(self) -> Answer:
        """Return the number of rows that this instance is active for.

        Raises:
            PartitionsUnavailable: one of its copies cannot answer yet.
        """
        statuses = {partition: self._view.status(partition) for partition in range(self._view.partition_count)}
        active = {partition: status for partition, status in statuses.items() if status.role == "active"}
        waiting = {partition: status.reason for partition, status in active.items() if not status.can_answer}
        if waiting:
            raise PartitionsUnavailable(waiting)
        count = self._collector.read_here(self._view.count, list(active))
        if count is None:
            raise PartitionsUnavailable(dict.fromkeys(active, UNREADABLE))
        return Answer(200, [JSON_TYPE], b"%d" % count)

    @property
    def _internal(self) -> str:
        return f"/internal/stores/{self._view.name}"

    def _rows_question(self, cut: Cut, within: Range) -> Question[Rows]:
        key_type = self._view.key_type
        bounds = {
            "first": None if within.first is None else encoded(key_type.text(within.first)),
            "end": None if within.end is None else encoded(key_type.text(within.end)),
            "most": within.most,
            "descending": "true" if within.descending else None,
        }
        bounded = "".join(f"&{name}={value}" for name, value in bounds.items() if value is not None)
        query = f"{query_of(cut)}{bounded}"
        return Question(
            local=lambda partitions: self._view.rows(partitions, within, cut),
            target=lambda partitions: f"{self._internal}/range?partitions={listed(partitions)}{query}",
            parse=lambda frames: unpack(frames, key_type),
        )

    def _queries_of(self, keys: Iterable[KeyValue]) -> dict[KeyValue, str]:
        """Return what asks a peer for each of some keys, once each; raises InvalidRequest when they are too long."""
        key_type = self._view.key_type
        queries = {key: f"&key={encoded(key_type.text(key))}" for key in dict.fromkeys(keys)}
        total = sum(map(len, queries.values()))
        if total > NAMED_BYTES_MAX:
            raise InvalidRequest(
                f"key: percent-encoded, these keys have {total} bytes with their names, and {NAMED_BYTES_MAX} can be"
                " asked for at once: ask for them in several requests"
            )
        return queries

    def _named_question(
        self, by_partition: Mapping[int, list[KeyValue]], queries: Mapping[KeyValue, str], cut: Cut
    ) -> Question[Rows]:
        def target(partitions: list[int]) -> str:
            keys = "".join(queries[key] for partition in partitions for key in by_partition[partition])
            return f"{self._internal}/named?partitions={listed(partitions)}{query_of(cut)}{keys}"

        return Question(
            local=lambda partitions: rows_of(
                self._view, chain.from_iterable(by_partition[partition] for partition in partitions), cut
            ),
            target=target,
            parse=lambda frames: unpack(frames, self._view.key_type),
        )

    def _refuse_part(self, missing: dict[int, str], *, partial: bool, asked: int | None = None) -> None:
        nothing = len(missing) == (self._view.partition_count if asked is None else asked)
        if nothing:
            raise PartitionsUnavailable(missing)
        if missing and not partial:
            raise PartitionsUnavailable(missing, hint=", or ask for what there is with ?partial=true")


def rows_of(view: View, keys: Iterable[KeyValue], cut: Cut) -> Rows:
    """Return the rows that there are of keys; arguments and errors as for `View.get`."""
    found = ((key, view.get(key, cut)) for key in keys)
    return [(key, rendered.body) for key, rendered in found if rendered is not None]


def _past(within: Range, after: KeyValue, key_type: KeyType) -> Range | None:
    """Return what of a range comes after a key in its order; None when nothing can."""
    if within.descending:
        return within._replace(end=after if within.end is None else min(within.end, after))
    above = key_type.following(after)
    if above is None:
        return None
    return within._replace(first=above if within.first is None else max(within.first, above))


def _come_to(parts: Sequence[Rows], within: Range, key_type: KeyType) -> tuple[Rows, Range | None]:
    """Return the rows of parts as far as all of them have come, and what of the range is left; None when nothing is.

    Args:
        parts: each with the first `AT_ONCE` rows that it has in the range.
        within: the range.
        key_type: of its keys.
    """
    rows = _in_order(parts, within)
    ends = [part[-1][0] for part in parts if len(part) >= AT_ONCE]
    if not ends:
        return rows, None
    end = max(ends) if within.descending else min(ends)
    come_to = [row for row in rows if (row[0] >= end if within.descending else row[0] <= end)]
    return come_to, _past(within, end, key_type)


def _in_order(parts: Iterable[Rows], within: Range) -> Rows:
    return sorted(chain.from_iterable(parts), reverse=within.descending)


def _headers(missing: dict[int, str]) -> Headers:
    if not missing:
        return [JSON_TYPE]
    # The whole may be had a moment later.
    return [JSON_TYPE, (MISSING_PARTITIONS, listed(sorted(missing)).encode()), NO_STORE]
