"""One row: from this instance's copy, or from the holder's, the same bytes either way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from api.cluster.connections import Reply
from api.cluster.peers import NoReply, Peers
from api.cluster.router import Router
from api.cluster.routing import Local, Remote
from api.http.answers import JSON_TYPE, SERVED_BY, STORE_LAG, STORE_POSITION, STORE_ROLE, Answer, Headers, unmet
from api.http.errors import PartitionsUnavailable, problem
from api.http.key_route import encoded
from api.reads.cut import query_of
from api.reads.demand import ANY, WITHIN_S, Demand, as_demanded, reached
from api.reads.told import Told
from runtime.cluster.host_metadata import HostInfo
from runtime.errors import Fix, StateUnusable
from runtime.keys import KeyValue
from runtime.serving.position import Position
from runtime.serving.view import Cut, PartitionStatus, View

logger = logging.getLogger(__name__)

_PASSED_ON: Final = (b"content-type", b"etag", SERVED_BY, STORE_ROLE, STORE_LAG, STORE_POSITION)
_SHORT: Final = 512
"""A path with a query of so many characters goes ahead of answers: many of them fit into what a peer reads at once."""


class OneRow:
    """Answers a route of one row.

    Args:
        view: the rows of this instance's copies.
        router: who answers for a partition.
        peers: the other instances.
        told: how far the copies had read whose answers were given.
        path: the template of the route's path; its last part is the key.
        missing: makes the problem of a key without a row to show.

    Attributes:
        path: the template of the route's path.
        prefix: what is before the key, without the slash between them.
        limits: of the store.
        default_limit: how many entries of a row that is a list are served when a request does not say.
        parse: returns the key that a text is; raises InvalidRecord.
        store: the name of the store.
    """

    def __init__(
        self, view: View, router: Router, peers: Peers, told: Told, path: str, missing: Callable[[KeyValue], Fix]
    ) -> None:
        self.path = path
        self.prefix = path.rpartition("/")[0]
        self.limits = view.store.limits
        self.default_limit = None if self.limits is None else self.limits.default
        self.parse = view.store.key.type.parse
        self.store = view.store.name
        self._text = view.store.key.type.text
        self._view = view
        self._router = router
        self._peers = peers
        self._told = told
        self._missing = missing
        self._served_by = (SERVED_BY, str(router.here).encode())
        self._positions: dict[int, tuple[Position, bytes]] = {}

    async def answer(self, key: KeyValue, cut: Cut, *, hop: bool, demand: Demand = ANY) -> Answer:
        """Return the row, or the problem that says why there is none.

        Args:
            key: which row.
            cut: how much of it.
            hop: whether another instance has forwarded the request here.
            demand: what the copy has to be like.
        """
        partition = self._view.partition_for(key)
        if demand is not ANY and self._view.partition_count:
            await reached(self._view, partition, demand)
        while (answer := self._at_once(key, cut, demand, hop=hop)) is None:
            await self._told.reached([partition])
        if not isinstance(answer, Remote):
            return answer
        reply = await self._newest(answer.hosts, key, cut, demand)
        if not isinstance(reply, NoReply):
            headers = [(name, reply.headers[name]) for name in _PASSED_ON if name in reply.headers]
            return Answer(reply.status, headers, reply.body, reply.headers.get(b"etag"))
        await self._told.reached([partition])
        status = as_demanded(demand, partition, self._view.status(partition))
        # What was demanded may have come here while peers were asked.
        is_resort = answer.then_local or demand is not ANY
        last = self._local(key, cut, status) if is_resort and status.can_answer else None
        return last or self._unavailable(key, partition, reply.reason)

    def at_once(self, key: KeyValue, cut: Cut, demand: Demand, *, hop: bool) -> Answer | None:
        """Return the row or a problem when nothing has to be waited for, else None; see `answer`."""
        if demand is not ANY:
            partition = self._view.partition_for(key)
            if not as_demanded(demand, partition, self._view.status(partition)).can_answer:
                return None
        answer = self._at_once(key, cut, demand, hop=hop)
        return None if isinstance(answer, Remote) else answer

    def _at_once(self, key: KeyValue, cut: Cut, demand: Demand, *, hop: bool) -> Answer | Remote | None:
        """Return the answer, or who gives it; None when the copy here does, and is behind an answer before."""
        partition = self._view.partition_for(key)
        there_is = self._view.status(partition)
        status = as_demanded(demand, partition, there_is)
        route = self._router.route(partition, status, hop=hop)
        if isinstance(route, Local):
            if not hop and self._told.is_ahead(partition, status):
                return None
            if (answer := self._local(key, cut, status)) is not None:
                return answer
            route = self._router.elsewhere(partition, status, hop=hop)
        if isinstance(route, Remote):
            return route
        answer = self._unavailable(key, partition, route.reason)
        return unmet(answer, status.reason) if there_is.can_answer and not status.can_answer else answer

    async def _newest(self, hosts: tuple[HostInfo, ...], key: KeyValue, cut: Cut, demand: Demand) -> Reply | NoReply:
        """Return what a peer replies, whose copy has come to what was told before if one does so in a moment."""

        async def ask(positions: list[Position]) -> Reply | NoReply:
            wanted = demand._replace(position=positions[0]) if positions else demand
            return await self._forward(hosts, key, cut, wanted)

        return await self._told.newest(STORE_POSITION, ask)

    async def _forward(self, hosts: tuple[HostInfo, ...], key: KeyValue, cut: Cut, demand: Demand) -> Reply | NoReply:
        # Built from what was parsed: nothing that a client wrote reaches a peer.
        query = f"{query_of(cut)}{demand.query(self.store)}"
        target = f"{self.prefix}/{encoded(self._text(key))}{query.replace('&', '?', 1)}"
        is_short = len(target) <= _SHORT
        longer_s = 0.0 if demand is ANY else WITHIN_S
        return await self._peers.forward(hosts, target, longer_s=longer_s, at_once=demand is ANY and is_short)

    def _position(self, partition: int, status: PartitionStatus) -> Headers:
        """Return the header that tells how far the copy has read; the same for all reads until it reads on."""
        if not status.topic_id:
            return []
        position, text = self._positions.get(partition, (None, b""))
        now = Position(status.topic_id, partition, status.position)
        if position != now:
            text = now.text(self.store).encode()
            self._positions[partition] = now, text
            self._told.of_peer(now)
        return [(STORE_POSITION, text)]

    def _local(self, key: KeyValue, cut: Cut, status: PartitionStatus) -> Answer | None:
        """Return what this instance's copy says, or None when it cannot be read."""
        partition = self._view.partition_for(key)
        store: Headers = [
            self._served_by,
            (STORE_ROLE, status.role.encode()),
            (STORE_LAG, b"%d" % status.lag),
            *self._position(partition, status),
        ]
        try:
            rendered = self._view.get(key, cut)
        except StateUnusable as error:
            logger.warning("key %r of %s could not be read: %s", key, self.store, error)
            return None
        if rendered is None:
            missing = problem(self._missing(key), self._path_of(key))
            return Answer(missing.status, missing.headers + store, missing.body)
        etag = rendered.etag.encode()
        return Answer(200, [JSON_TYPE, (b"etag", etag), *store], rendered.body, etag)

    def _path_of(self, key: KeyValue) -> str:
        return f"{self.prefix}/{self._text(key)}"

    def _unavailable(self, key: KeyValue, partition: int, reason: str) -> Answer:
        return problem(PartitionsUnavailable({partition: reason}), self._path_of(key))
