"""What instances ask each other and themselves: parts of an answer about many boards, and who it is that answers.

Not for clients, and never forwarded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from fastapi import APIRouter, Depends, Request, Response

from api.cluster.router import UNREADABLE
from api.components import Components
from api.http.answers import PARTITIONS, SERVED_BY, Answer
from api.http.errors import InvalidRequest, PartitionsUnavailable, Unrouted
from api.http.parameters import Limit, limit_within
from api.leaderboard.routes import is_hop
from api.live.event_stream import LINES_TYPE
from api.live.events import EventStream
from api.live.feeds import Feeds
from api.live.feeds import Scope as FeedScope
from api.live.follower import reach
from api.reads.framing import FRAMES_TYPE, pack
from api.reads.gather import parse_partitions
from runtime.errors import StateUnusable

logger = logging.getLogger(__name__)


def internal_routes(components: Components, feeds: Feeds) -> APIRouter:
    """Return the routes below `/internal`; those for parts answer for those of the asked partitions that they can.

    Args:
        components: what the instance answers with.
        feeds: the feeds of this instance.
    """
    queries = components.queries
    router = APIRouter(prefix="/internal", include_in_schema=False, dependencies=[Depends(_only_peers)])

    @router.get("/boards")
    async def boards(
        partitions: str,
        limit: Limit = None,
        first: int | None = None,
        last: int | None = None,
        most: int | None = None,
    ) -> Response:
        entries = limit_within(limit, components.depth)
        return _part(
            components, partitions, FRAMES_TYPE, lambda held: pack(queries.boards(held, entries, first, last, most))
        )

    @router.get("/count")
    async def count(partitions: str) -> Response:
        return _part(components, partitions, "text/plain", lambda held: b"%d" % queries.count(held))

    @router.get("/events")
    async def events(partition: int, at_least: int, product: int | None = None, limit: Limit = None) -> Response:
        scope = FeedScope(limit_within(limit, components.depth), product, part=partition)
        if not queries.status(partition).can_answer:
            raise PartitionsUnavailable({partition: queries.status(partition).reason})
        await reach(queries, partition, at_least)
        served_by = (SERVED_BY, str(components.host).encode())
        return EventStream(feeds, scope, media_type=LINES_TYPE, headers=[served_by])

    @router.get("/instance")
    async def instance() -> Response:
        return Response(components.instance_id, media_type="text/plain")

    return router


def _part(components: Components, asked: str, media_type: str, body: Callable[[list[int]], bytes]) -> Response:
    try:
        partitions = sorted(parse_partitions(asked))
    except ValueError as error:
        raise InvalidRequest(f"partitions: {error}") from error
    queries = components.queries
    statuses = {each: queries.status(each) for each in partitions if each < queries.partition_count}
    held = [each for each, status in statuses.items() if status.can_answer]
    if not held:
        raise PartitionsUnavailable({each: status.reason for each, status in statuses.items()})
    headers = [
        (b"content-type", media_type.encode()),
        (SERVED_BY, str(components.host).encode()),
        (PARTITIONS, ",".join(map(str, held)).encode()),
    ]
    try:
        part = body(held)
    except StateUnusable as error:
        logger.warning("a peer's question for boards could not be answered: %s", error)
        raise PartitionsUnavailable(dict.fromkeys(held, UNREADABLE)) from error
    return Answer(200, headers, part).to_response()


async def _only_peers(request: Request) -> None:
    if not is_hop(request):
        raise Unrouted(404)
