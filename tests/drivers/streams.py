"""A client of an answer that goes on, in the process of the application: reads it piece by piece, or stops to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Scope

from tests.waiting import UNHURRIED_S


class AppStream:
    """One request whose answer goes on.

    It takes a piece ahead of what is read; the application that sends more waits, as on a connection that is full.

    Args:
        app: who is asked.
        target: path and query.
        headers: of the request.
        method: of the request.

    Attributes:
        status: of the answer, once it is open.
        headers: the same.
        ended: whether the application has ended the answer, or is no more.
    """

    def __init__(
        self, app: ASGIApp, target: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> None:
        url = httpx.URL(f"http://outside{target}")
        self.status = 0
        self.headers = httpx.Headers()
        self.ended = False
        self._app = app
        self._scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower().encode(), text.encode()) for name, text in (headers or {}).items()],
            "server": ("outside", 80),
            "client": ("127.0.0.1", 1),
        }
        self._started = asyncio.Event()
        self._left = asyncio.Event()
        self._pieces: asyncio.Queue[bytes | Exception] = asyncio.Queue(maxsize=1)
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> AppStream:
        """Ask, and return when the answer has begun."""
        self._task = asyncio.create_task(self._run(), name="client")
        async with asyncio.timeout(UNHURRIED_S):
            await self._started.wait()
        return self

    async def read(self) -> bytes:
        """Return the next piece, b"" at the end."""
        if self.ended and self._pieces.empty():
            return b""
        async with asyncio.timeout(UNHURRIED_S):
            piece = await self._pieces.get()
        if isinstance(piece, Exception):
            raise piece
        return piece

    async def leave(self) -> None:
        """Go away; returns when the application has noticed."""
        self._left.set()
        while not self._pieces.empty():
            self._pieces.get_nowait()
        if self._task is not None:
            await asyncio.wait_for(self._task, UNHURRIED_S)

    def break_off(self, error: Exception) -> None:
        """Have the reader see a broken connection, and the application a client that is gone."""
        self._left.set()
        while not self._pieces.empty():
            self._pieces.get_nowait()
        self._pieces.put_nowait(error)

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
        finally:
            self.ended = True
            self._started.set()

    async def _receive(self) -> Message:
        if "asked" not in self._scope:
            self._scope["asked"] = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], httpx.Headers(message["headers"])
            self._started.set()
        elif not self._left.is_set():
            more = message.get("more_body", False)
            if message.get("body") or not more:
                await self._pieces.put(message.get("body", b""))
            self.ended = not more


class StreamBody(httpx.AsyncByteStream):
    """The body of an answer that goes on, as httpx has it."""

    def __init__(self, stream: AppStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces."""
        while piece := await self._stream.read():
            yield piece

    async def aclose(self) -> None:
        """Go away."""
        await self._stream.leave()


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    name: str
    id: str
    data: Any


class Events:
    """Reads server-sent events as a browser does.

    Args:
        stream: where they come from.

    Attributes:
        last_event_id: what a browser would send when it connects again.
        retry_ms: what it was told to wait until then.
    """

    def __init__(self, stream: AppStream) -> None:
        self.stream = stream
        self.last_event_id = ""
        self.retry_ms = 0
        self._text = b""

    async def next(self) -> Event | None:
        """Return the next event, None at the end; heartbeats do not count, nor do they put off the deadline."""
        async with asyncio.timeout(UNHURRIED_S):
            return await self._next()

    async def _next(self) -> Event | None:
        while True:
            while b"\n\n" in self._text:
                block, _, self._text = self._text.partition(b"\n\n")
                event = self._parse(block.decode())
                if event is not None:
                    return event
            piece = await self.stream.read()
            if not piece:
                return None
            self._text += piece

    async def take(self, count: int) -> list[Event]:
        """Return the next events."""
        found = [await self.next() for _ in range(count)]
        return [each for each in found if each is not None]

    def _parse(self, block: str) -> Event | None:
        fields = fields_of(block)
        self.last_event_id = fields.get("id", self.last_event_id)
        self.retry_ms = int(fields.get("retry", self.retry_ms))
        if "data" not in fields:
            return None
        return Event(fields.get("event", "message"), self.last_event_id, json.loads(fields["data"]))


def fields_of(block: str) -> dict[str, str]:
    """Return the fields of a block of an event stream, of which each has one of a name; comments are left out."""
    fields: dict[str, str] = {}
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        if name:
            assert name not in fields, block
            fields[name] = value.removeprefix(" ")
    return fields
