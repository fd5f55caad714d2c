"""Kept-open HTTP/1.1 connections to peers.

Behind a load balancer many reads are forwarded, and a client of httpx costs more than all the rest of a forward: its
requests, answers and headers as well as its own connections. These know only what a forward needs: GET, whole answers.
Requests that a peer answers at once are sent ahead of each other's answers on one connection, so that one write and one
read of the system carry many of them, here and at the peer.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

import httptools
import httpx

from runtime.cluster.host_metadata import HostInfo

_AHEAD: Final = 64
"""So many requests wait for answers on one connection; the server behind it takes four times as many."""

_REQUEST_ID: Final = b"x-request-id"


class UnknownName(httpx.ConnectError):
    """The name of a host cannot be resolved: nobody was asked for a connection."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a peer answered.

    Attributes:
        headers: by their names in lower case.
    """

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


class Request(NamedTuple):
    """What a peer is asked.

    Attributes:
        target: path and query.
        headers: further ones than `host`; names in lower case.
        connect_s: how long a connection, or a turn on one, may take, in seconds.
        read_s: how long the whole answer may take, in seconds.
        at_once: whether the peer answers without waiting for anything: then others may be sent ahead of the answer.
    """

    target: str
    headers: Mapping[bytes, bytes]
    connect_s: float
    read_s: float
    at_once: bool = False


class Transport(Protocol):
    """What carries requests to peers."""

    async def get(self, host: HostInfo, request: Request) -> Reply:
        """Return the whole answer to a GET; raises httpx's errors."""

    async def aclose(self) -> None:
        """Close all connections."""


class OverHttpx:
    """A transport of httpx, such as joins instances in one process, as a transport here.

    Args:
        transport: carries the requests.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def get(self, host: HostInfo, request: Request) -> Reply:
        """Return the whole answer to a GET; raises httpx's errors."""
        timeout = httpx.Timeout(request.read_s, connect=request.connect_s, pool=request.connect_s)
        headers = list(request.headers.items())
        asked = httpx.Request(
            "GET", f"http://{host}{request.target}", headers=headers, extensions={"timeout": timeout.as_dict()}
        )
        response = await self._transport.handle_async_request(asked)
        body = await response.aread()
        return Reply(response.status_code, {name.lower(): value for name, value in response.headers.raw}, body)

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()


class PeerTransport:
    """Sends requests over one pool of connections.

    Args:
        most: at most so many requests to one host at a time, so that a silent host does not use up what the others
            need; of those that it answers at once, and of all others, so many each.
        idle_expiry_s: a connection unused for this long is not used again.
    """

    def __init__(self, most: int, idle_expiry_s: float) -> None:
        self._most = most
        self._idle_expiry_s = idle_expiry_s
        self._open: dict[HostInfo, list[_Connection]] = {}
        # As long as a request to the host is under way: hosts come and go with each deployment.
        self._slots: WeakValueDictionary[tuple[HostInfo, bool], asyncio.Semaphore] = WeakValueDictionary()

    async def get(self, host: HostInfo, request: Request) -> Reply:
        """Return the whole answer to a GET; raises httpx's errors."""
        kind = (host, request.at_once)
        slots = self._slots.get(kind) or self._slots.setdefault(kind, asyncio.Semaphore(self._most))
        if slots.locked():
            try:
                async with asyncio.timeout(request.connect_s):
                    await slots.acquire()
            except TimeoutError as error:
                raise httpx.PoolTimeout("too many requests wait for this host") from error
        else:
            await slots.acquire()
        try:
            return await self._answered(host, request)
        finally:
            slots.release()

    async def aclose(self) -> None:
        """Close all connections."""
        for connection in [each for connections in self._open.values() for each in connections]:
            connection.close()

    async def _answered(self, host: HostInfo, request: Request) -> Reply:
        while (connection := self._kept(host, at_once=request.at_once)) is not None:
            try:
                return await connection.ask(request)
            except httpx.CloseError:
                # The peer closed it between two requests, which says nothing about the peer. Another one may be open:
                # those that waited on this one come here all at once.
                continue
        connection = await self._connected(host, request.connect_s)
        try:
            return await connection.ask(request)
        except httpx.CloseError as error:
            raise httpx.RemoteProtocolError(str(error)) from error

    def _kept(self, host: HostInfo, *, at_once: bool) -> _Connection | None:
        """Return an open connection that takes one more request."""
        used_after_s = asyncio.get_running_loop().time() - self._idle_expiry_s
        # The newest first: that which is used stays in use, and the others expire.
        for connection in reversed(self._open.get(host, ())):
            if not connection.waiting and connection.used_s <= used_after_s:
                connection.close()
            elif connection.takes(at_once=at_once):
                return connection
        return None

    async def _connected(self, host: HostInfo, connect_s: float) -> _Connection:
        loop = asyncio.get_running_loop()
        named = str(HostInfo(host.host.encode("idna").decode(), host.port)).encode()
        try:
            async with asyncio.timeout(connect_s):
                _, connection = await loop.create_connection(
                    lambda: _Connection(named, partial(self._lost, host)), host.host, host.port
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout("no connection in time") from error
        except socket.gaierror as error:
            raise UnknownName(str(error)) from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        self._open.setdefault(host, []).append(connection)
        return connection

    def _lost(self, host: HostInfo, connection: _Connection) -> None:
        """Forget a connection that has ended, and with the last one its host, which may have left for good."""
        connections = self._open.get(host, [])
        if connection in connections:
            connections.remove(connection)
        if not connections:
            self._open.pop(host, None)


class _Asked(NamedTuple):
    """A request whose answer has not come.

    Attributes:
        request_id: what the answer names when it names one.
        until_s: when the answer is too late, by the loop's clock.
    """

    answer: asyncio.Future[Reply]
    request_id: bytes | None
    until_s: float


class _Connection(asyncio.Protocol):
    """One connection; answers come in the order of the requests.

    Args:
        host: its host and port, for the header.
        lost: is told when it is not to be used any more.

    Attributes:
        waiting: the requests whose answers have not come, in their order.
        used_s: when it was used last, by the loop's clock.
    """

    def __init__(self, host: bytes, lost: Callable[[_Connection], None]) -> None:
        self.waiting: deque[_Asked] = deque()
        self.used_s = 0.0
        self._host = host
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._late: asyncio.TimerHandle | None = None
        self._unsent: list[bytes] = []
        self._all_at_once = True
        self._parser: Any = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._started = False

    def takes(self, *, at_once: bool) -> bool:
        """Return whether one more request can be sent on it now.

        Args:
            at_once: whether that request is answered at once.
        """
        if not self._is_open:
            return False
        if not self.waiting:
            return True
        return at_once and self._all_at_once and len(self.waiting) < _AHEAD

    async def ask(self, request: Request) -> Reply:
        """Send a request and return its answer.

        Raises:
            httpx.CloseError: the connection was closed before anything of the answer came.
            httpx.ReadError: it was closed within the answer.
            httpx.ReadTimeout: the whole answer did not come in time.
            httpx.RemoteProtocolError: the answer is no HTTP, or that to another request.
        """
        if not self._is_open:
            raise httpx.CloseError("closed while idle")
        self._all_at_once = request.at_once and (self._all_at_once or not self.waiting)
        lines = b"".join([b"%b: %b\r\n" % line for line in request.headers.items()])
        head = b"GET %b HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (request.target.encode(), self._host, lines)
        if not self._unsent:
            # Whoever else asks in this turn of the event loop goes with it.
            self._loop.call_soon(self._send)
        self._unsent.append(head)
        self.used_s = self._loop.time()
        until_s = self.used_s + request.read_s
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self.waiting.append(_Asked(answer, request.headers.get(_REQUEST_ID), until_s))
        self._look_at(until_s)
        try:
            return await answer
        except asyncio.CancelledError:
            # The peer may work on it for long, and the connection would be of no use to others.
            if not request.at_once and any(asked.answer is answer for asked in self.waiting):
                self.close()
            raise

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()
        self._end(httpx.CloseError("closed here"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, as asyncio.Protocol has it."""
        self._transport = transport  # type: ignore[assignment]  # of a stream socket

    def data_received(self, data: bytes) -> None:
        """Take bytes of answers; bytes that nobody asked for end the connection."""
        if not self.waiting:
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(httpx.RemoteProtocolError(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        """End, as asyncio.Protocol has it."""
        self._transport = None
        reason = str(exc or "closed by the peer")
        self._fail(httpx.ReadError(reason) if self._started else httpx.CloseError(reason))

    def on_message_begin(self) -> None:
        """Begin an answer, as httptools has it."""
        self._started = True
        self._headers, self._body = {}, []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, as httptools has it."""
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body, as httptools has it."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Hand over the answer, as httptools has it."""
        if not self.waiting:
            # A second answer in the same bytes is nobody's.
            self.close()
            return
        self.used_s = self._loop.time()
        answer, request_id, _ = self.waiting.popleft()
        named = self._headers.get(_REQUEST_ID, request_id)
        self._started = False
        # One that names none may be given one on its way, and refusals are.
        if request_id is not None and named != request_id:
            self.waiting.appendleft(_Asked(answer, request_id, 0.0))
            self._fail(httpx.RemoteProtocolError("it is the answer to another request"))
            return
        if not answer.done():
            answer.set_result(Reply(self._parser.get_status_code(), self._headers, b"".join(self._body)))
        # All rows of a large cluster may be in it: an idle connection holds none of that.
        self._headers, self._body = {}, []
        if not self._parser.should_keep_alive():
            self.close()

    @property
    def _is_open(self) -> bool:
        """Whether requests can be sent. `connection_lost` comes in a later turn of the event loop than the end."""
        return self._transport is not None and not self._transport.is_closing()

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None:
            self._transport.write(b"".join(unsent))

    def _look_at(self, until_s: float) -> None:
        """Look at this time, unless there is a look before; those of former requests may come later."""
        if self._late is not None:
            if self._late.when() <= until_s:
                return
            self._late.cancel()
        self._late = self._loop.call_at(until_s, self._look)

    def _look(self) -> None:
        """End the connection when its oldest request has waited for too long."""
        self._late = None
        if not self.waiting:
            return
        until_s = self.waiting[0].until_s
        if until_s <= self._loop.time():
            self._fail(httpx.ReadTimeout("no whole answer in time"))
        else:
            self._look_at(until_s)

    def _fail(self, error: Exception) -> None:
        """End the connection with an error of the request that is answered now, or has waited longest."""
        asked = self.waiting.popleft() if self.waiting else None
        if asked is not None and not asked.answer.done():
            asked.answer.set_exception(error)
        if isinstance(error, httpx.ReadTimeout):
            # The peer is silent: those behind are not asked a second time.
            self._end(error)
        self.close()

    def _end(self, error: Exception) -> None:
        """Have all that wait try again, or fail, and be used no more."""
        if self._late is not None:
            self._late.cancel()
            self._late = None
        waiting, self.waiting = self.waiting, deque()
        for asked in waiting:
            if not asked.answer.done():
                asked.answer.set_exception(type(error)(str(error)))
        self._lost(self)
