"""Many rows: the partitions are asked in parallel, grouped by host; a part is never passed off as the whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, Generic, TypeVar

from api.cluster.connections import Reply
from api.cluster.peers import NoReply, Peers
from api.cluster.router import UNREADABLE, Router
from api.cluster.routing import Local, Remote, Route, Unavailable
from api.http.answers import JSON_TYPE, MISSING_PARTITIONS, NO_STORE, PARTITIONS, POSITIONS, Answer, Headers
from api.http.errors import InvalidRequest, PartitionsUnavailable
from api.http.key_route import encoded
from api.reads.cut import query_of
from api.reads.demand import ANY, Demand, reached_among, status_among_many
from api.reads.framing import Rows, unpack
from api.reads.told import Told
from runtime.cluster.host_metadata import HostInfo
from runtime.errors import StateUnusable
from runtime.keys import KeyType, KeyValue
from runtime.serving.position import Position
from runtime.serving.view import EVERYTHING, Cut, PartitionStatus, Range, View

logger = logging.getLogger(__name__)

Part = TypeVar("Part")

NAMED_BYTES_MAX: Final = 60_000
"""Keys that are asked for by their names take at most so many bytes of a request to a peer, which reads 65,536."""
AT_ONCE: Final = 1_000
"""Of a longer list each copy is asked for so many rows at a time: a million would hold up everything else at each
holder, the group's heartbeats included."""
KEYS_OF_WINDOWS_AT_ONCE: Final = 4
"""Of a store with windows, for the same reason, so many named keys: one may have a thousand windows and more."""
_KEPT_BYTES: Final = 8 << 20
"""A list up to this size is kept for the next who asks."""


@dataclass(frozen=True, slots=True)
class _Question(Generic[Part]):
    """What is asked of each copy.

    Attributes:
        local: answers for partitions of this instance.
        target: the internal path and query for partitions of a peer.
        parse: reads the peer's answer; raises ValueError when it is none.
    """

    local: Callable[[list[int]], Part]
    target: Callable[[list[int]], str]
    parse: Callable[[bytes], Part]

    def demanding(self, query: str) -> _Question[Part]:
        """Return the question with further parameters for peers."""
        return replace(self, target=lambda partitions: self.target(partitions) + query) if query else self


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
        self._router = router
        self._peers = peers
        self._told = told
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
        is_whole = within == EVERYTHING and demand is ANY and self._all_here(hop=hop)
        if is_whole and self._composed is not None and self._composed[0] == key:
            self._told.of_copies(range(self._view.partition_count))
            return Answer(200, [JSON_TYPE], self._composed[1])
        rows: Rows = []
        missing: dict[int, str] = {}
        rest: Range | None = within
        while rest is not None:
            question = self._rows_question(cut, rest._replace(most=AT_ONCE))
            parts, without = await self._collect(question, hop=hop, demand=demand)
            missing |= without
            self._refuse_part(missing, partial=partial)
            some, rest = _come_to(parts, rest, self._view.key_type)
            rows += some
            if rest is not None:
                # Others are answered in between.
                await asyncio.sleep(0)
        body = self._compose(rows)
        if is_whole and not missing and self._view.version == key[0] and len(body) <= _KEPT_BYTES:
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
        parts, missing = await self._collect(question, hop=hop, demand=demand)
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
            parts, without = await self._collect(question, by_partition, hop=hop, demand=demand)
            found.update(chain.from_iterable(parts))
            missing |= without
            if missing and not partial:
                break
        self._refuse_part(missing, partial=partial, asked=len({*map(self._view.partition_for, each_once)}))
        return Answer(200, _headers(missing), b"[%b]" % b",".join([found.get(key, b"null") for key in keys]))

    async def count(self, *, hop: bool, partial: bool, demand: Demand = ANY) -> Answer:
        """Return the number of rows of the cluster; arguments and errors as for `rows`."""
        question = _Question(
            local=self._view.count,
            target=lambda partitions: f"{self._internal}/count?partitions={_listed(partitions)}",
            parse=int,
        )
        parts, missing = await self._collect(question, hop=hop, demand=demand)
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
        count = self._read_here(self._view.count, list(active))
        if count is None:
            raise PartitionsUnavailable(dict.fromkeys(active, UNREADABLE))
        return Answer(200, [JSON_TYPE], b"%d" % count)

    @property
    def _internal(self) -> str:
        return f"/internal/stores/{self._view.name}"

    def _rows_question(self, cut: Cut, within: Range) -> _Question[Rows]:
        key_type = self._view.key_type
        bounds = {
            "first": None if within.first is None else encoded(key_type.text(within.first)),
            "end": None if within.end is None else encoded(key_type.text(within.end)),
            "most": within.most,
            "descending": "true" if within.descending else None,
        }
        bounded = "".join(f"&{name}={value}" for name, value in bounds.items() if value is not None)
        query = f"{query_of(cut)}{bounded}"
        return _Question(
            local=lambda partitions: self._view.rows(partitions, within, cut),
            target=lambda partitions: f"{self._internal}/range?partitions={_listed(partitions)}{query}",
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
    ) -> _Question[Rows]:
        def target(partitions: list[int]) -> str:
            keys = "".join(queries[key] for partition in partitions for key in by_partition[partition])
            return f"{self._internal}/named?partitions={_listed(partitions)}{query_of(cut)}{keys}"

        return _Question(
            local=lambda partitions: rows_of(
                self._view, chain.from_iterable(by_partition[partition] for partition in partitions), cut
            ),
            target=target,
            parse=lambda frames: unpack(frames, self._view.key_type),
        )

    def _all_here(self, *, hop: bool) -> bool:
        """Return whether the copies here answer, and are as far as all answers before."""
        partitions = range(self._view.partition_count)
        are_here = all(isinstance(self._route(each, ANY, hop=hop), Local) for each in partitions)
        return bool(partitions) and are_here and not self._told.are_ahead(partitions)

    def _route(self, partition: int, demand: Demand, *, hop: bool) -> Route:
        return self._router.route(partition, self._status(partition, demand), hop=hop)

    def _status(self, partition: int, demand: Demand) -> PartitionStatus:
        return status_among_many(self._view, partition, demand)

    async def _collect(
        self, question: _Question[Part], partitions: Collection[int] | None = None, *, hop: bool, demand: Demand
    ) -> tuple[list[Part], dict[int, str]]:
        """Return what the copies of partitions, by default all, answered, and why partitions have no answer."""
        asked = range(self._view.partition_count) if partitions is None else partitions
        await reached_among(self._view, asked, demand)
        question = question.demanding(demand.query(self._view.name))
        while True:
            routes = {each: self._route(each, demand, hop=hop) for each in asked}
            here = [each for each, route in routes.items() if isinstance(route, Local)]
            if hop or not self._told.are_ahead(here):
                break
            await self._told.reached(here)
        self._told.of_copies(here)
        part_here = self._read_here(question.local, here) if here else None
        if part_here is None:
            routes |= {each: self._router.elsewhere(each, self._view.status(each), hop=hop) for each in here}
        remote = {each: route for each, route in routes.items() if isinstance(route, Remote)}
        missing = {each: route.reason for each, route in routes.items() if isinstance(route, Unavailable)}
        parts, failed = await self._ask(question, remote)
        missing |= failed
        # What was demanded may have come here while peers were asked.
        resorts = failed if demand is not ANY else [each for each in failed if remote[each].then_local]
        await self._told.reached(resorts)
        last_resort = [each for each in resorts if self._status(each, demand).can_answer]
        self._told.of_copies(last_resort)
        last_part = self._read_here(question.local, last_resort) if last_resort else None
        if last_part is not None:
            missing = {each: reason for each, reason in missing.items() if each not in last_resort}
        return [each for each in (part_here, *parts, last_part) if each is not None], missing

    def _read_here(self, read: Callable[[list[int]], Part], partitions: list[int]) -> Part | None:
        """Return what this instance's copies answer, None when they cannot be read."""
        try:
            return read(partitions)
        except StateUnusable as error:
            logger.warning("rows of %s could not be read: %s", self._view.store.name, error)
            return None

    async def _ask(self, question: _Question[Part], remote: Mapping[int, Remote]) -> tuple[list[Part], dict[int, str]]:
        """Ask the hosts of each partition, one after the other; return the parts, and why partitions have none."""
        parts: list[Part] = []
        failed: dict[int, str] = {}
        waiting = dict(remote)
        asked = 0
        while waiting:
            found, in_vain = await self._ask_round(question, {each: waiting[each].hosts[asked] for each in waiting})
            parts += found
            asked += 1
            failed |= {each: reason for each, reason in in_vain.items() if len(waiting[each].hosts) == asked}
            waiting = {each: waiting[each] for each in in_vain if each not in failed}
        return parts, failed

    async def _ask_round(
        self, question: _Question[Part], holders: dict[int, HostInfo]
    ) -> tuple[list[Part], dict[int, str]]:
        """Ask each holder once for its partitions; return the parts, and why partitions have none."""
        groups: dict[HostInfo, list[int]] = {}
        for partition, host in holders.items():
            groups.setdefault(host, []).append(partition)
        replies = await asyncio.gather(*(self._newest(host, question.target(group)) for host, group in groups.items()))
        parts: list[Part] = []
        failed: dict[int, str] = {}
        for (host, group), reply in zip(groups.items(), replies, strict=True):
            if isinstance(reply, NoReply):
                failed |= dict.fromkeys(group, reply.reason)
                continue
            try:
                answered = _partitions(reply)
                parts.append(question.parse(reply.body))
            except ValueError:
                failed |= dict.fromkeys(group, f"{host}: its answer ({reply.status}) is not what was asked for")
                continue
            failed |= {each: f"{host}: it has no copy that can answer" for each in group if each not in answered}
        return parts, failed

    async def _newest(self, host: HostInfo, target: str) -> Reply | NoReply:
        """Return what a peer replies, whose copies have come to what was told before if they do so in a moment."""

        async def ask(positions: list[Position]) -> Reply | NoReply:
            texts = ",".join(each.text(self._view.name) for each in positions)
            return await self._peers.forward((host,), f"{target}&once_at={texts}" if texts else target, many=True)

        return await self._told.newest(POSITIONS, ask)

    def _refuse_part(self, missing: dict[int, str], *, partial: bool, asked: int | None = None) -> None:
        nothing = len(missing) == (self._view.partition_count if asked is None else asked)
        if nothing:
            raise PartitionsUnavailable(missing)
        if missing and not partial:
            raise PartitionsUnavailable(missing, hint=", or ask for what there is with ?partial=true")


def _partitions(reply: Reply) -> set[int]:
    if reply.status != 200:
        raise ValueError(reply.status)
    return parse_partitions(reply.headers.get(PARTITIONS, b"none").decode("latin-1"))


def parse_partitions(text: str) -> set[int]:
    """Return the partitions of a comma-separated list.

    Raises:
        ValueError: it is no such list.
    """
    if not text.isascii() or not all(each.isdigit() and len(each) < 10 for each in text.split(",")):
        raise ValueError("not a list of partitions")
    return {int(each) for each in text.split(",")}


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
    return [JSON_TYPE, (MISSING_PARTITIONS, _listed(sorted(missing)).encode()), NO_STORE]


def _listed(partitions: Sequence[int]) -> str:
    return ",".join(map(str, partitions))
