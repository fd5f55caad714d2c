"""One board: from this instance's copy, or from the holder's, the same bytes either way."""

from __future__ import annotations

import logging
from typing import Final

from runtime.serving.queries import PartitionStatus

from api.cluster.peers import NoReply, Peers
from api.cluster.router import Router
from api.cluster.routing import Local, Remote
from api.components import Components
from api.http.answers import BOARDS_PATH, JSON_TYPE, SERVED_BY, STORE_LAG, STORE_ROLE, Answer, Headers
from api.http.errors import NoSuchBoard, PartitionsUnavailable, problem
from runtime.errors import StateUnusable

logger = logging.getLogger(__name__)

_PASSED_ON: Final = ("content-type", "etag", "x-served-by", "x-store-role", "x-store-lag")


class Boards:
    """Answers `GET /leaderboard/{productId}`.

    Args:
        components: what the instance answers with.
        router: who answers for a partition.
        peers: the other instances.
    """

    def __init__(self, components: Components, router: Router, peers: Peers) -> None:
        self._queries = components.queries
        self._router = router
        self._peers = peers
        self._served_by = (SERVED_BY, str(components.host).encode())

    async def answer(self, product_id: int, limit: int, *, hop: bool) -> Answer:
        """Return the board, or the problem that says why there is none.

        Args:
            product_id: which board.
            limit: at most this many entries.
            hop: whether another instance has forwarded the request here.
        """
        answer = self.at_once(product_id, limit, hop=hop)
        if not isinstance(answer, Remote):
            return answer
        # Built from what was parsed: nothing that a client wrote reaches a peer.
        reply = await self._peers.forward(answer.hosts, f"{path_of(product_id)}?limit={limit}")
        if not isinstance(reply, NoReply):
            headers = [(name.encode(), reply.headers[name].encode()) for name in _PASSED_ON if name in reply.headers]
            etag = reply.headers.get("etag")
            return Answer(reply.status, headers, reply.body, etag.encode() if etag else None)
        partition = self._queries.partition_for(product_id)
        status = self._queries.status(partition)
        last = self._local(product_id, limit, status) if answer.then_local and status.can_answer else None
        return last or _unavailable(product_id, partition, reply.reason)

    def at_once(self, product_id: int, limit: int, *, hop: bool) -> Answer | Remote:
        """Return what `answer` does, or whom it asks before: see there."""
        partition = self._queries.partition_for(product_id)
        status = self._queries.status(partition)
        route = self._router.route(partition, status, hop=hop)
        if isinstance(route, Local):
            if (answer := self._local(product_id, limit, status)) is not None:
                return answer
            route = self._router.elsewhere(partition, status, hop=hop)
        if isinstance(route, Remote):
            return route
        return _unavailable(product_id, partition, route.reason)

    def _local(self, product_id: int, limit: int, status: PartitionStatus) -> Answer | None:
        """Return what this instance's copy says, or None when it cannot be read."""
        store: Headers = [
            self._served_by,
            (STORE_ROLE, status.role.encode()),
            (STORE_LAG, b"%d" % status.lag),
        ]
        try:
            rendered = self._queries.get(product_id, limit)
        except StateUnusable as error:
            logger.warning("board %d could not be read: %s", product_id, error)
            return None
        if rendered is None:
            missing = problem(NoSuchBoard(product_id), path_of(product_id))
            return Answer(missing.status, missing.headers + store, missing.body)
        etag = rendered.etag.encode()
        return Answer(200, [JSON_TYPE, (b"etag", etag), *store], rendered.body, etag)


def path_of(product_id: int) -> str:
    """Return the path of a board."""
    return f"{BOARDS_PATH}/{product_id}"


def _unavailable(product_id: int, partition: int, reason: str) -> Answer:
    return problem(PartitionsUnavailable({partition: reason}), path_of(product_id))
