"""Live updates as ASGI sends them: what there is at once, then each change, for as long as the client stays."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.http.answers import NO_STORE, Headers
from api.http.traffic import Traffic
from api.live.event_stream import EVENT_TYPE
from api.live.feed import Reader
from api.live.feeds import Feeds
from api.live.feeds import Scope as FeedScope

HEAD: Final = "leaderboard.head"
"""Set in the scope of a request that wants the headers alone."""


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
