"""An answer of one partition: from this instance's copy, or from the holder's, the same bytes either way."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Any, Final, NamedTuple

from api.cluster.connections import Reply
from api.cluster.peers import NoReply, Peers
from api.cluster.router import Router
from api.cluster.routing import Local, Remote
from api.http.answers import JSON_TYPE, SERVED_BY, STORE_LAG, STORE_POSITION, STORE_ROLE, Answer, Headers, unmet
from api.http.errors import PartitionsUnavailable, problem
from api.reads.demand import ANY, WITHIN_S, Demand, as_demanded, reached
from api.reads.told import Told
from runtime.cluster.host_metadata import HostInfo
from runtime.copies.status import CopyStatus
from runtime.errors import Fix, StateUnusable
from runtime.serving.position import Position
from runtime.serving.view import Rendered, View

logger = logging.getLogger(__name__)

_PASSED_ON: Final = (b"content-type", b"etag", b"link", SERVED_BY, STORE_ROLE, STORE_LAG, STORE_POSITION)
_SHORT: Final = 512
"""A path with a query of so many characters goes ahead of answers: many of them fit into what a peer reads at once."""


class _OfCopy(NamedTuple):
    """What an answer tells of the copy that it is from.

    Attributes:
        of: the status that it tells of, but for whether the copy can answer.
        position: how far the copy has read; None while its topic is not known.
        headers: the instance, the role, the lag, and the position.
    """

    of: tuple[object, ...]
    position: Position | None
    headers: Headers


class OneCopy(ABC):
    """Answers a route about one partition. A subclass says what is asked: of which key, and what of it.

    Args:
        view: the rows of this instance's copies.
        router: who answers for a partition.
        peers: the other instances.
        told: how far the copies had read whose answers were given.

    Attributes:
        store: the name of the store.
    """

    def __init__(self, view: View, router: Router, peers: Peers, told: Told) -> None:
        self.store = view.store.name
        self._view = view
        self._router = router
        self._peers = peers
        self._told = told
        self._served_by = (SERVED_BY, str(router.here).encode())
        self._last: dict[int, _OfCopy] = {}

    @abstractmethod
    def _partition_for(self, key: Any) -> int:
        """Return the partition of a key."""

    @abstractmethod
    def _read(self, key: Any, what: Any) -> tuple[Rendered | None, Headers]:
        """Return what this instance's copy has, None when there is nothing, with further headers.

        Raises:
            StateUnusable: it cannot be read.
        """

    @abstractmethod
    def _target(self, key: Any, what: Any) -> str:
        """Return the path, and the query in which each parameter has an `&` in front, that a peer is asked for.

        Built from what was parsed: nothing that a client wrote reaches a peer.
        """

    @abstractmethod
    def _path_of(self, key: Any, what: Any) -> str:
        """Return the path that was asked for, for problems."""

    @abstractmethod
    def _none(self, key: Any, what: Any) -> Fix:
        """Return the problem that there is nothing."""

    def _status(self, key: Any, partition: int) -> CopyStatus:  # noqa: ARG002  # of most keys it is the copy's
        """Return what this instance can say about a key."""
        return self._view.status(partition)

    async def answer(self, key: Any, what: Any, *, hop: bool, demand: Demand = ANY) -> Answer:
        """Return what there is, or the problem that says why there is nothing.

        Args:
            key: of what.
            what: which of it.
            hop: whether another instance has forwarded the request here.
            demand: what the copy has to be like.
        """
        partition = self._partition_for(key)
        if demand is not ANY and self._view.partition_count:
            await reached(self._view, partition, demand)
        answer = self._routed(key, what, demand, hop=hop)
        if answer is None:
            await self._told.reached([partition])
            answer = self._routed(key, what, demand, hop=hop, has_waited=True)
            assert answer is not None, "once is enough: what is told meanwhile binds later reads"
        if not isinstance(answer, Remote):
            return answer
        newest = await self._newest(answer, key, what, demand)
        if not isinstance(newest, NoReply):
            return newest
        await self._told.reached([partition])
        status = as_demanded(demand, partition, self._status(key, partition))
        # What was demanded may have come here while peers were asked.
        is_resort = answer.then_local or demand is not ANY
        last = self._local(key, what, partition, status) if is_resort and status.can_answer else None
        return last or self._unavailable(key, what, partition, newest.reason)

    def at_once(self, key: Any, what: Any, demand: Demand, *, hop: bool) -> Answer | None:
        """Return what there is or a problem when nothing has to be waited for, else None; see `answer`."""
        if demand is not ANY:
            partition = self._partition_for(key)
            if not as_demanded(demand, partition, self._status(key, partition)).can_answer:
                return None
        answer = self._routed(key, what, demand, hop=hop)
        return None if isinstance(answer, Remote) else answer

    def _routed(
        self, key: Any, what: Any, demand: Demand, *, hop: bool, has_waited: bool = False
    ) -> Answer | Remote | None:
        """Return the answer, or who gives it; None when the copy here does, and has to be waited for.

        It is waited for once, when it is behind an answer before.
        """
        partition = self._partition_for(key)
        status = as_demanded(demand, partition, self._status(key, partition))
        route = self._router.route(partition, status, hop=hop)
        if isinstance(route, Local):
            if not (hop or has_waited) and self._told.is_ahead(partition, status):
                return None
            if (answer := self._local(key, what, partition, status)) is not None:
                return answer
            route = self._router.elsewhere(partition, status, hop=hop)
        if isinstance(route, Remote):
            return route
        answer = self._unavailable(key, what, partition, route.reason)
        # An instance whose copy is there is no worse to ask for other keys.
        is_there = self._view.status(partition).can_answer
        return unmet(answer, status.reason) if is_there and not status.can_answer else answer

    async def _newest(self, route: Remote, key: Any, what: Any, demand: Demand) -> Answer | NoReply:
        """Return what a copy says that is as far as what was told, a peer's or the one here, or the newest there is."""
        reply = await self._forward(route.hosts, key, what, demand)
        if isinstance(reply, NoReply):
            return reply
        positions = self._told.positions_of(reply, STORE_POSITION)
        for told in self._told.ahead_of(positions).values():
            if (here := self._as_far(told, key, what, demand)) is not None:
                return here
            newer = await self._forward(route.hosts, key, what, demand._replace(position=told))
            if not isinstance(newer, NoReply):
                reply, positions = newer, self._told.positions_of(newer, STORE_POSITION)
            elif (here := self._as_far(told, key, what, demand)) is not None:
                return here
            elif not self._told.is_here(told):
                # What no copy comes to in time is not waited for again.
                self._told.forget([told])
        for position in positions:
            self._told.at(position)
        headers = [(name, reply.headers[name]) for name in _PASSED_ON if name in reply.headers]
        return Answer(reply.status, headers, reply.body, reply.headers.get(b"etag"))

    def _as_far(self, told: Position, key: Any, what: Any, demand: Demand) -> Answer | None:
        """Return what this instance's copy says, None when it is not as far as what was told, or cannot be asked."""
        status = as_demanded(demand, told.partition, self._status(key, told.partition))
        is_here = status.can_answer and self._told.is_here(told)
        return self._local(key, what, told.partition, status) if is_here else None

    async def _forward(self, hosts: tuple[HostInfo, ...], key: Any, what: Any, demand: Demand) -> Reply | NoReply:
        target = f"{self._target(key, what)}{demand.query(self.store)}".replace("&", "?", 1)
        is_short = len(target) <= _SHORT
        longer_s = 0.0 if demand is ANY else WITHIN_S
        return await self._peers.forward(hosts, target, longer_s=longer_s, at_once=demand is ANY and is_short)

    def _of_copy(self, partition: int, status: CopyStatus) -> _OfCopy:
        """Return what tells of the copy beside a row: the same for all reads until it reads on."""
        last, of = self._last.get(partition), status[1:]
        if last is not None and last.of == of:
            return last
        headers = [self._served_by, (STORE_ROLE, status.role.encode()), (STORE_LAG, b"%d" % status.lag)]
        position = Position(status.topic_id, partition, status.position) if status.topic_id else None
        if position is not None:
            headers.append((STORE_POSITION, position.text(self.store).encode()))
        self._last[partition] = now = _OfCopy(of, position, headers)
        return now

    def _local(self, key: Any, what: Any, partition: int, status: CopyStatus) -> Answer | None:
        """Return what this instance's copy says, or None when it cannot be read."""
        try:
            rendered, further = self._read(key, what)
        except StateUnusable as error:
            logger.warning("%s of %s could not be read: %s", self._path_of(key, what), self.store, error)
            return None
        of_copy = self._of_copy(partition, status)
        if of_copy.position is not None:
            self._told.at(of_copy.position)
        if rendered is None:
            missing = problem(self._none(key, what), self._path_of(key, what))
            return Answer(missing.status, missing.headers + of_copy.headers, missing.body)
        etag = rendered.etag.encode()
        return Answer(200, [JSON_TYPE, (b"etag", etag), *further, *of_copy.headers], rendered.body, etag)

    def _unavailable(self, key: Any, what: Any, partition: int, reason: str) -> Answer:
        return problem(PartitionsUnavailable({partition: reason}), self._path_of(key, what))
