"""Live updates as server-sent events: the board at once, then each change, for as long as the client stays."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from api.http.answers import BOARDS_PATH, NO_STORE, Headers, header
from api.http.parameters import Limit, ProductId, limit_within
from api.http.traffic import Traffic
from api.live.event_stream import EVENT_TYPE, usable_id
from api.live.feed import Reader
from api.live.feeds import Feeds
from api.live.feeds import Scope as FeedScope

HEAD: Final = "leaderboard.head"
"""Set in the scope of a request that wants the headers alone."""

_ONE_EXAMPLE: Final = (
    "retry: 500\n\n"
    "id: 1f0c6a52e1b8a3d09f4e7c2b\nevent: board\n"
    'data: [{"playerId":3,"productId":1,"playerName":"Isabelle","gameName":"Super Smash Bros","score":4000.0}]\n\n'
    "id: none\nevent: gone\ndata: null\n\n:\n\n"
)
_ALL_EXAMPLE: Final = (
    "retry: 500\n\n"
    "event: reset\ndata: {}\n\n"
    'id: 8b1f5c0a77d2-1\nevent: board\ndata: {"productId":1,"entries":[{"playerId":3,"productId":1,"playerName":'
    '"Isabelle","gameName":"Super Smash Bros","score":4000.0}]}\n\n'
    'id: 8b1f5c0a77d2-1\nevent: complete\ndata: {"boards":1}\n\n'
    'id: 8b1f5c0a77d2-2\nevent: gone\ndata: {"productId":1}\n\n:\n\n'
)
_COMMON: Final = (
    " Send the last `id` as `Last-Event-ID` to go on where a stream broke off. A comment comes every 15 s when nothing"
    " else does. While no copy of a partition can answer the stream stays open and waits. It ends when its instance"
    " stops; connect again after `retry` milliseconds, to any instance."
)
_ONE_TEXT: Final = (
    f"`board`: the entries, exactly as `GET {BOARDS_PATH}/{{productId}}` gives them, at once and at each change;"
    " `gone`: there is no board to show, which that route answers with 404. A slow client gets the newest board."
    + _COMMON
)
_ALL_TEXT: Final = (
    "`reset`: forget every board, all come again; `board`: a product's entries; `gone`: it has no board any more;"
    " `complete`: from here on the client has every board in the cluster." + _COMMON
)


class EventStream(Response):
    """A stream as ASGI sends it.

    Args:
        feeds: the feeds of this instance.
        scope: what to send.
        last_event_id: what the client had last.
        media_type: of the format.
        headers: further ones.
        traffic: counts the clients; None for streams to peers.
    """

    def __init__(
        self,
        feeds: Feeds,
        scope: FeedScope,
        last_event_id: bytes | None = None,
        media_type: str = EVENT_TYPE,
        headers: Headers | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        super().__init__()
        self._feeds = feeds
        self._scope = scope
        self._last_event_id = last_event_id
        self._traffic = traffic
        self.raw_headers = [
            (b"content-type", media_type.encode()),
            NO_STORE,
            (b"x-accel-buffering", b"no"),
            *(headers or []),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client goes, or the feed ends."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if not scope.get(HEAD):
            await self._stream(receive, send)
        await send({"type": "http.response.body", "body": b""})

    async def _stream(self, receive: Receive, send: Send) -> None:
        with self._feeds.reader(self._scope, self._last_event_id) as reader:
            watching = asyncio.create_task(_leave_with_client(receive, reader))
            self._count(+1)
            try:
                await self._send_all(reader, send)
            finally:
                self._count(-1)
                watching.cancel()

    async def _send_all(self, reader: Reader, send: Send) -> None:
        piece = reader.format.preamble
        while True:
            # Waits while the client does not take what it was sent before: nothing is made ready meanwhile.
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            if reader.ended:
                return
            piece = reader.take() or await _next_piece(reader)
            if reader.behind:
                # Others get their turn while a fast client gets very much.
                await asyncio.sleep(0)

    def _count(self, change: int) -> None:
        if self._traffic is not None:
            self._traffic.open_streams += change


async def _next_piece(reader: Reader) -> bytes:
    """Return what comes next: a sign of life, when that is nothing else; b"" when the feed has ended."""
    while await reader.news():
        piece = reader.take()
        if piece or reader.ended:
            return piece
    return reader.format.heartbeat


async def _leave_with_client(receive: Receive, reader: Reader) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.leave()


def event_routes(feeds: Feeds, traffic: Traffic, depth: int) -> APIRouter:
    """Return the routes `/leaderboard/events` and `/leaderboard/{productId}/events`.

    Args:
        feeds: the feeds of this instance.
        traffic: counts the clients.
        depth: the most entries served of a board.
    """
    router = APIRouter(
        prefix=BOARDS_PATH,
        tags=["live updates"],
        responses={400: {"description": "An id or a limit that cannot be"}},
    )

    def stream(request: Request, limit: int | None, product_id: int | None = None) -> Response:
        scope = FeedScope(limit_within(limit, depth), product_id)
        last_event_id = usable_id(header(request.scope["headers"], b"last-event-id"))
        return EventStream(feeds, scope, last_event_id, traffic=traffic)

    @router.get(
        "/events",
        summary="Every board in the cluster, live",
        response_class=Response,
        responses={200: _described(_ALL_TEXT, _ALL_EXAMPLE)},
    )
    async def all_events(request: Request, limit: Limit = None) -> Response:
        return stream(request, limit)

    @router.get(
        "/{productId}/events",
        summary="One board, live",
        response_class=Response,
        responses={200: _described(_ONE_TEXT, _ONE_EXAMPLE)},
    )
    async def board_events(request: Request, product_id: ProductId, limit: Limit = None) -> Response:
        return stream(request, limit, product_id)

    return router


def _described(description: str, example: str) -> dict[str, Any]:
    content = {EVENT_TYPE: {"schema": {"type": "string"}, "example": example}}
    return {"description": description, "content": content}
