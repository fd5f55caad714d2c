"""What instances ask each other and themselves: parts of an answer about many rows, and who it is that answers.

Not for clients, and never forwarded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from api.cluster.router import UNREADABLE
from api.http.answers import PARTITIONS, SERVED_BY, Answer, is_hop, unmet
from api.http.errors import InvalidRequest, NoSuchStore, PartitionsUnavailable, problem
from api.http.parameters import HowMany
from api.live.event_stream import LINES_TYPE, Words
from api.live.events import EventStream
from api.live.feeds import Feeds, Scope
from api.live.follower import reach
from api.reads.cut import Instant, cut_within
from api.reads.demand import Demand, MaxLag, MinPosition, Require, reached_among, status_among_many
from api.reads.framing import FRAMES_TYPE, pack
from api.reads.gather import parse_partitions, rows_of
from api.serving import ServedStore, Serving
from runtime.errors import StateUnusable
from runtime.serving.view import Range

logger = logging.getLogger(__name__)


async def _demanded(
    store: str, min_position: MinPosition = None, require: Require = None, max_lag: MaxLag = None
) -> Demand:
    return Demand.of(store, min_position, require, max_lag)


_Demanded = Annotated[Demand, Depends(_demanded)]


class _Parts:
    """Answers for those of the asked partitions of a store that this instance can answer for.

    Args:
        served: the store.
        address: host:port of this instance.
    """

    def __init__(self, served: ServedStore, address: str) -> None:
        self.served = served
        self.by_row = served.view.by_row
        self.feeds: Feeds = served.feeds(Words())
        self.feeds_of_rows = self.feeds if self.by_row is served.view else served.feeds(Words(), self.by_row)
        self.served_by = (SERVED_BY, address.encode())

    async def answer(self, asked: str, media_type: str, demand: Demand, body: Callable[[list[int]], bytes]) -> Response:
        """Return the part.

        Args:
            asked: the partitions, a comma-separated list.
            media_type: of the body.
            demand: what the copies have to be like.
            body: makes it of partitions that are held.

        Raises:
            InvalidRequest: what was asked for is no such list.
            PartitionsUnavailable: none of them can be answered for.
        """
        try:
            partitions = sorted(parse_partitions(asked))
        except ValueError as error:
            raise InvalidRequest(f"partitions: {error}") from error
        view = self.served.view
        await reached_among(view, partitions, demand)
        known = [each for each in partitions if each < view.partition_count]
        statuses = {each: status_among_many(view, each, demand) for each in known}
        held = [each for each, status in statuses.items() if status.can_answer]
        if not held:
            reasons = {each: status.reason for each, status in statuses.items()}
            if any(view.status(each).can_answer for each in known):
                # Not the fault of this instance: it is asked as before for what it can answer.
                refusal = problem(PartitionsUnavailable(reasons), f"/internal/stores/{view.store.name}")
                return unmet(refusal, ", ".join(dict.fromkeys(reasons.values()))).to_response()
            raise PartitionsUnavailable(reasons)
        headers = [
            (b"content-type", media_type.encode()),
            self.served_by,
            (PARTITIONS, ",".join(map(str, held)).encode()),
        ]
        try:
            part = body(held)
        except StateUnusable as error:
            logger.warning("a peer's question for rows of %s could not be answered: %s", view.store.name, error)
            raise PartitionsUnavailable(dict.fromkeys(held, UNREADABLE)) from error
        return Answer(200, headers, part).to_response()


def internal_routes(serving: Serving) -> APIRouter:
    """Return the routes below `/internal`.

    Args:
        serving: what the application answers from.
    """
    router = APIRouter(prefix="/internal", include_in_schema=False, dependencies=[Depends(_only_peers)])
    address = str(serving.components.host)
    stores = {name: _Parts(served, address) for name, served in serving.stores.items()}

    def parts_of(store: str) -> _Parts:
        if store not in stores:
            raise NoSuchStore(store, stores)
        return stores[store]

    @router.get("/stores/{store}/range")
    async def rows(
        store: str,
        partitions: str,
        demand: _Demanded,
        limit: HowMany = None,
        first: str | None = None,
        end: str | None = None,
        most: int | None = None,
        descending: bool = False,
    ) -> Response:
        parts = parts_of(store)
        of, view = parts.served, parts.by_row
        cut = cut_within(of.store, limit)
        lowest, behind = (None if text is None else of.parsed(text, view) for text in (first, end))
        within = Range(lowest, behind, most, descending)
        return await parts.answer(
            partitions, FRAMES_TYPE, demand, lambda held: pack(view.rows(held, within, cut), view.key_type)
        )

    @router.get("/stores/{store}/named")
    async def named(
        store: str,
        partitions: str,
        key: Annotated[list[str], Query()],
        demand: _Demanded,
        limit: HowMany = None,
        since: Instant = None,
        until: Instant = None,
    ) -> Response:
        parts = parts_of(store)
        of, key_type = parts.served, parts.served.view.key_type
        cut = cut_within(of.store, limit, since, until)
        keys = [of.parsed(text) for text in key]

        def there(held: list[int]) -> bytes:
            within = (each for each in keys if of.view.partition_for(each) in held)
            return pack(rows_of(of.view, within, cut), key_type)

        return await parts.answer(partitions, FRAMES_TYPE, demand, there)

    @router.get("/stores/{store}/count")
    async def count(store: str, partitions: str, demand: _Demanded) -> Response:
        parts = parts_of(store)
        return await parts.answer(partitions, "text/plain", demand, lambda held: b"%d" % parts.by_row.count(held))

    @router.get("/stores/{store}/events")
    async def events(
        store: str,
        partition: int,
        at_least: int,
        key: str | None = None,
        limit: HowMany = None,
        since: Instant = None,
        until: Instant = None,
        tells_topic: bool = False,
    ) -> Response:
        parts = parts_of(store)
        of = parts.served
        wanted = None if key is None else of.parsed(key)
        scope = Scope(cut_within(of.store, limit, since, until), wanted, partition, tells_topic)
        status = of.view.status(partition)
        if not status.can_answer:
            raise PartitionsUnavailable({partition: status.reason})
        await reach(of.view, partition, at_least)
        feeds = parts.feeds_of_rows if key is None else parts.feeds
        return EventStream(feeds, scope, media_type=LINES_TYPE, headers=[parts.served_by])

    @router.get("/instance")
    async def instance() -> Response:
        return Response(serving.components.instance_id, media_type="text/plain")

    return router


async def _only_peers(request: Request) -> None:
    if not is_hop(request.scope["headers"]):
        raise HTTPException(404)
