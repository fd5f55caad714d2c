"""What the copies of many partitions answer: they are asked in parallel, grouped by host, and are as far as before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Generic, TypeVar

from api.cluster.connections import Reply
from api.cluster.peers import NoReply, Peers
from api.cluster.router import Router
from api.cluster.routing import Local, Remote, Route, Unavailable
from api.http.answers import PARTITIONS, POSITIONS
from api.reads.demand import ANY, Demand, reached_among, status_among_many
from api.reads.told import Told
from runtime.cluster.host_metadata import HostInfo
from runtime.copies.status import CopyStatus
from runtime.errors import StateUnusable
from runtime.serving.position import Position
from runtime.serving.view import View

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

    def once_at(self, texts: Mapping[int, str]) -> Question[Part]:
        """Return the question to copies that have come to positions, by partition, or do so in a moment."""

        def target(partitions: list[int]) -> str:
            wanted = ",".join(texts[each] for each in partitions if each in texts)
            return self.target(partitions) + (f"&once_at={wanted}" if wanted else "")

        return replace(self, target=target)


@dataclass(frozen=True, slots=True)
class _Answered(Generic[Part]):
    """What a peer has answered.

    Attributes:
        part: of all its partitions together.
        host: who has.
        partitions: those that it was asked for and has answered for.
        positions: how far its copies of them had read.
    """

    part: Part
    host: HostInfo
    partitions: list[int]
    positions: list[Position]


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
        routes, here = self._routes(asked, demand, hop=hop)
        if not hop and self._told.are_ahead(here):
            # Once is enough: what is told meanwhile binds later reads.
            await self._told.reached(here)
            routes, here = self._routes(asked, demand, hop=hop)
        parts_here = self._read(question, here)
        if not parts_here:
            routes |= {each: self._router.elsewhere(each, self._view.status(each), hop=hop) for each in here}
        remote = {each: route for each, route in routes.items() if isinstance(route, Remote)}
        missing = {each: route.reason for each, route in routes.items() if isinstance(route, Unavailable)}
        answered, failed = await self._ask(question, {each: route.hosts for each, route in remote.items()})
        newest = await asyncio.gather(*(self._newest(question, each, remote, demand) for each in answered))
        missing |= failed
        # What was demanded may have come here while peers were asked.
        resorts = failed if demand is not ANY else [each for each in failed if remote[each].then_local]
        await self._told.reached(resorts)
        last_resort = [each for each in resorts if self._status(each, demand).can_answer]
        if last_parts := self._read(question, last_resort):
            missing = {each: reason for each, reason in missing.items() if each not in last_resort}
        return [*parts_here, *chain.from_iterable(newest), *last_parts], missing

    def read_here(self, read: Callable[[list[int]], Part], partitions: list[int]) -> Part | None:
        """Return what this instance's copies answer, None when they cannot be read."""
        try:
            return read(partitions)
        except StateUnusable as error:
            logger.warning("rows of %s could not be read: %s", self._view.store.name, error)
            return None

    def _read(self, question: Question[Part], partitions: list[int]) -> list[Part]:
        """Return what this instance's copies answer, nothing when there are none or they cannot be read."""
        part = self.read_here(question.local, partitions) if partitions else None
        if part is None:
            return []
        self._told.of_copies(partitions)
        return [part]

    async def _newest(
        self, question: Question[Part], answered: _Answered[Part], remote: Mapping[int, Remote], demand: Demand
    ) -> list[Part]:
        """Return what a peer has answered, or newer parts if one of its copies is not as far as what was told.

        The answer of the peer is at hand: whatever fails, nothing becomes missing.
        """
        told = self._told.ahead_of(answered.positions)
        if not told:
            return self._given([answered])
        parts, here = self._read_as_far(question, told, demand)
        hosts = {each: remote[each].hosts for each in answered.partitions if each not in here}
        holders = {each: ordered[ordered.index(answered.host) :] for each, ordered in hosts.items()}
        texts = {each: position.text(self._view.name) for each, position in told.items()}
        newer, behind = await self._ask(question.once_at(texts), holders)
        waited = {each: told[each] for each in behind if each in told}
        parts_late, came = self._read_as_far(question, waited, demand)
        # What no copy comes to in time is not waited for again: what there is is answered.
        self._told.forget(position for position in waited.values() if not self._told.is_here(position))
        older, lost = await self._ask(question, {each: holders[each] for each in behind if each not in came})
        return self._given([answered]) if lost else [*parts, *parts_late, *self._given([*newer, *older])]

    def _read_as_far(
        self, question: Question[Part], told: Mapping[int, Position], demand: Demand
    ) -> tuple[list[Part], list[int]]:
        """Return what this instance's copies answer that are as far as what was told, and of which partitions."""
        here = [
            each
            for each, position in told.items()
            if self._told.is_here(position) and self._status(each, demand).can_answer
        ]
        parts = self._read(question, here)
        return parts, here if parts else []

    def _given(self, answers: Sequence[_Answered[Part]]) -> list[Part]:
        """Return the parts of answers that are given, and remember how far their copies had read."""
        for position in chain.from_iterable(each.positions for each in answers):
            self._told.at(position)
        return [each.part for each in answers]

    async def _ask(
        self, question: Question[Part], holders: Mapping[int, Sequence[HostInfo]]
    ) -> tuple[list[_Answered[Part]], dict[int, str]]:
        """Ask the holders of each partition, one after the other; return also why partitions have no answer."""
        answered: list[_Answered[Part]] = []
        failed: dict[int, str] = {}
        waiting = dict(holders)
        asked = 0
        while waiting:
            found, in_vain = await self._ask_round(question, {each: waiting[each][asked] for each in waiting})
            answered += found
            asked += 1
            failed |= {each: reason for each, reason in in_vain.items() if len(waiting[each]) == asked}
            waiting = {each: waiting[each] for each in in_vain if each not in failed}
        return answered, failed

    async def _ask_round(
        self, question: Question[Part], holders: dict[int, HostInfo]
    ) -> tuple[list[_Answered[Part]], dict[int, str]]:
        """Ask each holder once for its partitions; return also why partitions have no answer."""
        groups: dict[HostInfo, list[int]] = {}
        for partition, host in holders.items():
            groups.setdefault(host, []).append(partition)
        asked = (self._peers.forward((host,), question.target(group), many=True) for host, group in groups.items())
        replies = await asyncio.gather(*asked)
        answered: list[_Answered[Part]] = []
        failed: dict[int, str] = {}
        for (host, group), reply in zip(groups.items(), replies, strict=True):
            if isinstance(reply, NoReply):
                failed |= dict.fromkeys(group, reply.reason)
                continue
            try:
                held, part = _partitions(reply), question.parse(reply.body)
            except ValueError:
                failed |= dict.fromkeys(group, f"{host}: its answer ({reply.status}) is not what was asked for")
                continue
            partitions = [each for each in group if each in held]
            positions = [at for at in self._told.positions_of(reply, POSITIONS) if at.partition in partitions]
            answered.append(_Answered(part, host, partitions, positions))
            failed |= {each: f"{host}: it has no copy that can answer" for each in group if each not in held}
        return answered, failed

    def _routes(self, partitions: Iterable[int], demand: Demand, *, hop: bool) -> tuple[dict[int, Route], list[int]]:
        """Return who answers for each partition, and those that this instance does."""
        routes = {each: self._route(each, demand, hop=hop) for each in partitions}
        return routes, [each for each, route in routes.items() if isinstance(route, Local)]

    def _route(self, partition: int, demand: Demand, *, hop: bool) -> Route:
        return self._router.route(partition, self._status(partition, demand), hop=hop)

    def _status(self, partition: int, demand: Demand) -> CopyStatus:
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
