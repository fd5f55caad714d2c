"""Live updates as ASGI sends them: what there is at once, then each change, for as long as the client stays."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.http.answers import NO_STORE, Headers, header
from api.http.traffic import Traffic
from api.live.event_stream import EVENT_TYPE, usable_id
from api.live.feed import Reader
from api.live.feeds import Feeds
from api.live.feeds import Scope as FeedScope

HEAD: Final = "leaderboard.head"
"""Set in the scope of a request that wants the headers alone."""

HOW_IT_GOES_ON: Final = (
    " Send the last `id` as `Last-Event-ID` to go on where a stream broke off. A comment comes every 15 s when nothing"
    " else does. While no copy of a partition can answer the stream stays open and waits. It ends when its instance"
    " stops; connect again after `retry` milliseconds, to any instance."
)
"""What every stream to clients says of itself."""


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


def stream_for(request: Request, feeds: Feeds, traffic: Traffic, scope: FeedScope) -> EventStream:
    """Return the stream that answers a client.

    Args:
        request: what the client asks, and what it had last.
        feeds: what the stream comes from.
        traffic: counts the clients.
        scope: what to send.
    """
    last_event_id = usable_id(header(request.scope["headers"], b"last-event-id"))
    return EventStream(feeds, scope, last_event_id, traffic=traffic)


def described_stream(description: str, example: str) -> dict[str, Any]:
    """Return what the document of the routes says of a stream to clients."""
    content = {EVENT_TYPE: {"schema": {"type": "string"}, "example": example}}
    return {"description": description, "content": content}
