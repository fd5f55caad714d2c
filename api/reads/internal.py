"""What instances ask each other and themselves: parts of an answer about many rows, and who it is that answers.

Not for clients, and never forwarded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, NamedTuple

from fastapi import Depends, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse

from api.cluster.router import UNREADABLE
from api.http.answers import PARTITIONS, POSITIONS, SERVED_BY, Answer, is_hop, unmet
from api.http.errors import InvalidRequest, NoSuchStore, PartitionsUnavailable, problem
from api.http.parameters import HowMany
from api.http.routes import Routes
from api.live.event_stream import LINES_TYPE, Words
from api.live.events import EventStream
from api.live.feeds import Feeds, Scope
from api.reads.collect import parse_partitions
from api.reads.cut import Instant, cut_within
from api.reads.demand import Demand, MaxLag, MinPosition, Require, as_demanded, reached_among, status_among_many
from api.reads.framing import FRAMES_TYPE, pack
from api.reads.gather import rows_of
from api.reads.told import reach
from api.serving import ServedStore, Serving
from runtime.errors import StateUnusable
from runtime.keys import KeyValue
from runtime.serving.position import Position
from runtime.serving.view import NotMade, Range

logger = logging.getLogger(__name__)


class _Asked(NamedTuple):
    """Of whom a peer wants a part.

    Attributes:
        partitions: the copies, ascending.
        once_at: those of them answer only if they come to these positions in a moment.
        demand: what the copies have to be like.
    """

    partitions: list[int]
    once_at: list[Position]
    demand: Demand


async def _asked(
    store: str,
    partitions: str,
    once_at: str | None = None,
    min_position: MinPosition = None,
    require: Require = None,
    max_lag: MaxLag = None,
) -> _Asked:
    demand = Demand.of(store, min_position, require, max_lag)
    try:
        listed = sorted(parse_partitions(partitions))
        positions = [] if once_at is None else [Position.of_text(text, store) for text in once_at.split(",")]
    except ValueError as error:
        raise InvalidRequest(f"partitions or once_at: {error}") from error
    return _Asked(listed, positions, demand)


_OfPeer = Annotated[_Asked, Depends(_asked)]


class _Parts:
    """Answers for those of the asked partitions of a store that this instance can answer for.

    Args:
        served: the store.
        address: host:port of this instance.
    """

    def __init__(self, served: ServedStore, address: str) -> None:
        self.served = served
        self.by_row = served.view.by_row
        self._feeds_of_rows: Feeds | None = None
        self.served_by = (SERVED_BY, address.encode())

    def feeds(self, key: KeyValue | None) -> Feeds:
        """Return what peers follow: of a key, or of all rows."""
        if key is not None or self.by_row is self.served.view:
            return self.served.plain_feeds
        if self._feeds_of_rows is None:
            self._feeds_of_rows = self.served.feeds(Words(), self.by_row)
        return self._feeds_of_rows

    async def answer(self, asked: _Asked, media_type: str, body: Callable[[list[int]], bytes]) -> Response:
        """Return the part.

        Args:
            asked: of whom it is wanted.
            media_type: of the body.
            body: makes it of partitions that are held.

        Raises:
            PartitionsUnavailable: none of the partitions can be answered for.
        """
        view, (partitions, once_at, demand) = self.served.view, asked
        awaited = [each for each in once_at if view.status(each.partition).can_answer]
        await asyncio.gather(*(reach(view, each.partition, each.offset) for each in awaited))
        await reached_among(view, partitions, demand)
        known = [each for each in partitions if each < view.partition_count]
        statuses = {each: status_among_many(view, each, demand) for each in known}
        for position in once_at:
            if (status := statuses.get(position.partition)) is not None:
                statuses[position.partition] = as_demanded(Demand(position), position.partition, status)
        held = [each for each, status in statuses.items() if status.can_answer]
        if not held:
            reasons = {each: status.reason for each, status in statuses.items()}
            if any(view.status(each).can_answer for each in known):
                return self._unmet(reasons)
            raise PartitionsUnavailable(reasons)
        positions = [
            Position(status.topic_id, each, status.position).text(view.store.name)
            for each in held
            if (status := statuses[each]).topic_id
        ]
        headers = [
            (b"content-type", media_type.encode()),
            self.served_by,
            (PARTITIONS, ",".join(map(str, held)).encode()),
            (POSITIONS, ",".join(positions).encode()),
        ]
        try:
            part = body(held)
        except NotMade as error:
            return self._unmet(dict.fromkeys(held, str(error)))
        except StateUnusable as error:
            logger.warning("a peer's question for rows of %s could not be answered: %s", view.store.name, error)
            raise PartitionsUnavailable(dict.fromkeys(held, UNREADABLE)) from error
        return Answer(200, headers, part).to_response()

    def _unmet(self, reasons: dict[int, str]) -> Response:
        """Refuse what is not the fault of this instance: it is asked as before for what it can answer."""
        refusal = problem(PartitionsUnavailable(reasons), f"/internal/stores/{self.served.view.store.name}")
        return unmet(refusal, ", ".join(dict.fromkeys(reasons.values()))).to_response()


def internal_routes(serving: Serving) -> Routes:
    """Return the routes below `/internal`.

    Args:
        serving: what the application answers from.
    """
    serving.components.stopping.tell(serving.components.followed.end)
    router = Routes(prefix="/internal", include_in_schema=False, dependencies=[Depends(_only_peers)])
    address = str(serving.components.host)
    every = {served.view.name: served for served in (*serving.stores.values(), *serving.rankings.values())}
    stores = {name: _Parts(served, address) for name, served in every.items()}

    def parts_of(store: str) -> _Parts:
        if store in stores:
            return stores[store]
        for of in serving.parts.values():
            if (served := of.named(store)) is not None:
                return _Parts(served, address)
        raise NoSuchStore(store, serving.stores)

    @router.get("/stores/{store}/range")
    async def rows(
        store: str,
        asked: _OfPeer,
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
        return await parts.answer(asked, FRAMES_TYPE, lambda held: pack(view.rows(held, within, cut), view.key_type))

    @router.get("/stores/{store}/named")
    async def named(
        store: str,
        asked: _OfPeer,
        key: Annotated[list[str], Query()],
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

        return await parts.answer(asked, FRAMES_TYPE, there)

    @router.get("/stores/{store}/count")
    async def count(store: str, asked: _OfPeer) -> Response:
        parts = parts_of(store)
        return await parts.answer(asked, "text/plain", lambda held: b"%d" % parts.by_row.count(held))

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
        if key is None and of.view.pace_s:
            raise InvalidRequest(f"key: {store} is followed by key")
        wanted = None if key is None else of.parsed(key)
        scope = Scope(cut_within(of.store, limit, since, until), wanted, partition, tells_topic)
        status = of.view.status(partition)
        if not status.can_answer:
            raise PartitionsUnavailable({partition: status.reason})
        await reach(of.view, partition, at_least)
        return EventStream(parts.feeds(wanted), scope, media_type=LINES_TYPE, headers=[parts.served_by])

    @router.get("/stream")
    async def stream(ready: bool = False) -> Response:
        followed = serving.components.followed
        if not followed.is_open:
            return Response(status_code=HTTPStatus.CONFLICT)
        return StreamingResponse(followed.lines(ready=ready), media_type=LINES_TYPE)

    @router.get("/instance")
    async def instance() -> Response:
        return Response(serving.components.instance_id, media_type="text/plain")

    return router


async def _only_peers(request: Request) -> None:
    if not is_hop(request.scope["headers"]):
        raise HTTPException(404)
