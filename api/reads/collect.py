"""What the copies of many partitions answer: they are asked in parallel, grouped by host, and are as far as before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from api.cluster.connections import Reply
from api.cluster.peers import NoReply, Peers
from api.cluster.router import Router
from api.cluster.routing import Local, Remote, Route, Unavailable
from api.http.answers import PARTITIONS, POSITIONS
from api.reads.demand import ANY, Demand, reached_among, status_among_many
from api.reads.told import Told
from runtime.cluster.host_metadata import HostInfo
from runtime.errors import StateUnusable
from runtime.serving.position import Position
from runtime.serving.view import PartitionStatus, View

logger = logging.getLogger(__name__)

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Question(Generic[Part]):
    """What is asked of each copy.

    Attributes:
        local: answers for partitions of this instance.
        target: the internal path and query for partitions of a peer.
        parse: reads the peer's answer; raises ValueError when it is none.
    """

    local: Callable[[list[int]], Part]
    target: Callable[[list[int]], str]
    parse: Callable[[bytes], Part]

    def demanding(self, query: str) -> Question[Part]:
        """Return the question with further parameters for peers."""
        return replace(self, target=lambda partitions: self.target(partitions) + query) if query else self


@dataclass(slots=True)
class _Found(Generic[Part]):
    """What copies answered.

    Attributes:
        parts: each of some partitions.
        missing: why partitions are in none of the parts.
        behind: what was told of partitions of which a copy can answer that is not as far.
    """

    parts: list[Part] = field(default_factory=list)
    missing: dict[int, str] = field(default_factory=dict)
    behind: dict[int, Position] = field(default_factory=dict)


class Collector:
    """Asks the copies of a store's partitions.

    Args:
        view: the rows of this instance's copies.
        router: who answers for a partition.
        peers: the other instances.
        told: how far the copies had read whose answers were given.
    """

    def __init__(self, view: View, router: Router, peers: Peers, told: Told) -> None:
        self._view = view
        self._router = router
        self._peers = peers
        self._told = told

    def all_here(self, *, hop: bool) -> bool:
        """Return whether the copies here answer, and are as far as all answers before."""
        partitions = range(self._view.partition_count)
        are_here = all(isinstance(self._route(each, ANY, hop=hop), Local) for each in partitions)
        return bool(partitions) and are_here and not self._told.are_ahead(partitions)

    async def collect(
        self, question: Question[Part], partitions: Collection[int] | None = None, *, hop: bool, demand: Demand
    ) -> tuple[list[Part], dict[int, str]]:
        """Return what the copies of partitions, by default all, answered, and why partitions have no answer."""
        asked = range(self._view.partition_count) if partitions is None else partitions
        await reached_among(self._view, asked, demand)
        question = question.demanding(demand.query(self._view.name))
        found = await self._newest(question, asked, hop=hop, demand=demand)
        while behind := {each: told for each, told in found.behind.items() if each in found.missing}:
            # No copy has come to what was told: what there is is answered, and the next read does not wait for it.
            self._told.forget(behind.values())
            older = await self._newest(question, behind, hop=hop, demand=demand)
            known = {each: why for each, why in found.missing.items() if each not in behind}
            found = _Found(found.parts + older.parts, known | older.missing, older.behind)
        return found.parts, found.missing

    def read_here(self, read: Callable[[list[int]], Part], partitions: list[int]) -> Part | None:
        """Return what this instance's copies answer, None when they cannot be read."""
        try:
            return read(partitions)
        except StateUnusable as error:
            logger.warning("rows of %s could not be read: %s", self._view.store.name, error)
            return None

    async def _newest(
        self, question: Question[Part], asked: Collection[int], *, hop: bool, demand: Demand
    ) -> _Found[Part]:
        """Return what copies answer that are as far as what was told, or that are here and have had their time."""
        while True:
            routes = {each: self._route(each, demand, hop=hop) for each in asked}
            here = [each for each, route in routes.items() if isinstance(route, Local)]
            if hop or not self._told.are_ahead(here):
                break
            await self._told.reached(here)
        self._told.of_copies(here)
        part_here = self.read_here(question.local, here) if here else None
        if part_here is None:
            routes |= {each: self._router.elsewhere(each, self._view.status(each), hop=hop) for each in here}
        remote = {each: route for each, route in routes.items() if isinstance(route, Remote)}
        found = await self._ask(question, remote)
        # What was demanded may have come here while peers were asked.
        resorts = [each for each in found.missing if demand is not ANY or remote[each].then_local]
        # Of copies that are behind, one here is no better.
        resorts = [each for each in resorts if each not in found.behind or self._told.is_here(found.behind[each])]
        await self._told.reached(resorts)
        last_resort = [each for each in resorts if self._status(each, demand).can_answer]
        self._told.of_copies(last_resort)
        last_part = self.read_here(question.local, last_resort) if last_resort else None
        if last_part is not None:
            found.missing = {each: why for each, why in found.missing.items() if each not in last_resort}
        found.missing |= {each: route.reason for each, route in routes.items() if isinstance(route, Unavailable)}
        found.parts += [part for part in (part_here, last_part) if part is not None]
        return found

    async def _ask(self, question: Question[Part], remote: Mapping[int, Remote]) -> _Found[Part]:
        """Ask the hosts of each partition, one after the other."""
        found = _Found[Part]()
        waiting = dict(remote)
        asked = 0
        while waiting:
            missing = await self._ask_round(question, {each: waiting[each].hosts[asked] for each in waiting}, found)
            asked += 1
            is_here = {each for each, told in found.behind.items() if self._told.is_here(told)}
            left = (each for each in missing if each not in is_here and asked < len(waiting[each].hosts))
            waiting = {each: waiting[each] for each in left}
            found.missing |= {each: why for each, why in missing.items() if each not in waiting}
        return found

    async def _ask_round(
        self, question: Question[Part], holders: dict[int, HostInfo], found: _Found[Part]
    ) -> dict[int, str]:
        """Ask each holder for its partitions; return why partitions have no answer."""
        groups: dict[HostInfo, list[int]] = {}
        for partition, host in holders.items():
            groups.setdefault(host, []).append(partition)
        missing: dict[int, str] = {}
        asked = [self._ask_host(question, host, group) for host, group in groups.items()]
        for each in await asyncio.gather(*asked):
            found.parts += each.parts
            found.behind |= each.behind
            missing |= each.missing
        return missing

    async def _ask_host(self, question: Question[Part], host: HostInfo, group: list[int]) -> _Found[Part]:
        """Ask a peer, whose copies answer if they come to what was told before in a moment."""
        target = question.target(group)
        reply = await self._peers.forward((host,), target, many=True)
        behind = [] if isinstance(reply, NoReply) else self._told.ahead_of(reply, POSITIONS)
        if not behind:
            return self._part_of(question, host, group, reply)
        here = [told.partition for told in behind if self._told.is_here(told)]
        if rest := [each for each in group if each not in here]:
            positions = ",".join(told.text(self._view.name) for told in behind if told.partition in rest)
            target = question.target(rest) + (f"&once_at={positions}" if positions else "")
            found = self._part_of(question, host, rest, await self._peers.forward((host,), target, many=True))
        else:
            found = _Found()
        found.missing |= dict.fromkeys(here, f"{host}: its copy is behind the one here")
        found.behind = {told.partition: told for told in behind}
        return found

    def _part_of(
        self, question: Question[Part], host: HostInfo, group: list[int], reply: Reply | NoReply
    ) -> _Found[Part]:
        """Return what a peer replies of the partitions that it was asked for."""
        if isinstance(reply, NoReply):
            return _Found(missing=dict.fromkeys(group, reply.reason))
        try:
            answered = _partitions(reply)
            part = question.parse(reply.body)
        except ValueError:
            reason = f"{host}: its answer ({reply.status}) is not what was asked for"
            return _Found(missing=dict.fromkeys(group, reason))
        self._told.of_reply(reply, POSITIONS)
        reason = f"{host}: it has no copy that can answer"
        return _Found([part], {each: reason for each in group if each not in answered})

    def _route(self, partition: int, demand: Demand, *, hop: bool) -> Route:
        return self._router.route(partition, self._status(partition, demand), hop=hop)

    def _status(self, partition: int, demand: Demand) -> PartitionStatus:
        return status_among_many(self._view, partition, demand)


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


def listed(partitions: Sequence[int]) -> str:
    """Return partitions as a comma-separated list."""
    return ",".join(map(str, partitions))
