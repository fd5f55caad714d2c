"""Requests to other instances: pooled connections, one hop, holders in order; httpx's errors end here."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, NamedTuple

import httpx

from api.cluster.connections import OverHttpx, PeerTransport, Reply, Request, Transport, UnknownName
from api.cluster.down_hosts import DownHosts
from api.components import PeerSettings
from api.http.answers import SERVED_BY, UNMET
from api.http.auth import Tokens
from api.http.request_ids import CURRENT
from api.http.request_ids import HEADER as REQUEST_ID
from runtime.cluster.host_metadata import HostInfo

logger = logging.getLogger(__name__)


class Failure(NamedTuple):
    """Why a peer has given no usable answer.

    Attributes:
        name: of the class that it is counted in.
        reason: for people.
    """

    name: str
    reason: str


_SLOW: Final = Failure("timeout", "it did not answer in time")
_TOO_LARGE: Final = Failure("too_large", "it does not take so large a request")
_BUSY: Final = Failure("busy", "too many requests wait for peers already")
_BROKEN: Final = Failure("broken_off", "it broke off the connection")
_NO_HTTP: Final = Failure("no_http", "it does not speak HTTP as expected")
_BAD_ADDRESS: Final = Failure("bad_address", "its address cannot be used")

FAILURES: Final[Mapping[type[Exception], Failure]] = {
    httpx.ConnectTimeout: Failure("timeout", "it did not accept a connection in time"),
    httpx.WriteTimeout: Failure("timeout", "it did not take the request in time"),
    httpx.PoolTimeout: _BUSY,
    httpx.TimeoutException: _SLOW,
    UnknownName: Failure("bad_address", "its name cannot be resolved"),
    httpx.ConnectError: Failure("refused", "it refused the connection"),
    httpx.RemoteProtocolError: _BROKEN,
    httpx.ProtocolError: _NO_HTTP,
    httpx.DecodingError: _NO_HTTP,
    httpx.TooManyRedirects: _NO_HTTP,
    httpx.HTTPStatusError: _NO_HTTP,
    httpx.CookieConflict: _NO_HTTP,
    httpx.ProxyError: _BAD_ADDRESS,
    httpx.UnsupportedProtocol: _BAD_ADDRESS,
    httpx.InvalidURL: _BAD_ADDRESS,
    UnicodeError: _BAD_ADDRESS,  # a host name that IDNA cannot encode gets through httpx as such
    httpx.HTTPError: _BROKEN,
    httpx.StreamError: _BROKEN,
}
"""What asking raises, and what it says about the peer; an error is of the kind of its nearest base."""

UNREACHED: Final = tuple(FAILURES)
"""What to catch where a peer is asked."""


@dataclass(frozen=True, slots=True)
class NoReply:
    """None of the hosts answered."""

    reason: str


class Peers:
    """The other instances.

    Args:
        settings: times and limits.
        transport: what carries the requests; None for the network.
        clock: monotonic seconds.
        tokens: what the requests carry with them; none by default.

    Attributes:
        forwards: how many requests were sent to peers, tries after failures included.
        failures: those among them that brought no usable answer, by class.
    """

    def __init__(
        self,
        settings: PeerSettings,
        transport: httpx.AsyncBaseTransport | None,
        clock: Callable[[], float],
        tokens: Tokens | None = None,
    ) -> None:
        self.down = DownHosts(settings.down_for_s, clock)
        self.forwards = 0
        self.failures: Counter[str] = Counter()
        self._settings = settings
        self._transport = transport_of(transport, settings.connections, settings.idle_expiry_s)
        self._headers = headers_of(tokens or Tokens())
        # The transport above knows only whole answers.
        self._streams = client_of_streams(
            transport, self._headers, silent_s=settings.stream_timeout_s, connect_s=settings.connect_timeout_s
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()
        await self._streams.aclose()

    async def forward(
        self,
        hosts: tuple[HostInfo, ...],
        target: str,
        *,
        many: bool = False,
        longer_s: float = 0.0,
        at_once: bool = False,
    ) -> Reply | NoReply:
        """Ask the hosts one after the other until one answers.

        Args:
            hosts: members of the cluster, in the order to ask them.
            target: path and query, built here and not taken from a client.
            many: whether the answer is about many rows and may take longer.
            longer_s: how much longer it may take, in seconds.
            at_once: whether a host waits for nothing before it answers.
        """
        failures = []
        read_s = self._settings.gather_timeout_s if many else self._settings.read_timeout_s
        read_s += longer_s
        request_id = CURRENT.get()
        headers = self._headers
        if request_id is not None:
            headers = {**headers, REQUEST_ID: request_id.text.encode()}
        request = Request(target, headers, self._settings.connect_timeout_s, read_s, at_once)
        for host in hosts:
            reply = await self._ask(host, request)
            if isinstance(reply, Reply):
                return reply
            failures.append(f"{host}: {reply.reason}")
        return NoReply(", ".join(failures))

    async def _ask(self, host: HostInfo, request: Request) -> Reply | NoReply:
        self.down.trying(host)
        self.forwards += 1
        try:
            reply = await self._transport.get(host, request)
        except UNREACHED as error:
            return self._failed(host, failure_of(error))
        if (unmet := reply.headers.get(UNMET)) is not None:
            self.down.answered(host)
            return NoReply(unmet.decode(errors="replace"))
        if (failure := _refusal(reply.status, known=SERVED_BY in reply.headers)) is not None:
            return self._failed(host, failure)
        self.down.answered(host)
        return reply

    async def follow(self, host: HostInfo, target: str, take: Callable[[bytes], None]) -> str:
        """Read a stream of lines for as long as it goes on.

        Args:
            host: a member of the cluster.
            target: path and query, built here and not taken from a client.
            take: is given each line; raises ValueError when it cannot be.

        Returns:
            Why it ended. The host is asked last for a while then: it stops, or has lost its copy.
        """
        self.down.trying(host)
        self.forwards += 1
        try:
            async with self._streams.stream("GET", f"http://{host}{target}") as response:
                known = SERVED_BY.decode() in response.headers
                if (failure := _refusal(response.status_code, known=known)) is not None:
                    return self._failed(host, failure).reason
                self.down.answered(host)
                await take_lines(response, take)
        except UNREACHED as error:
            return self._failed(host, failure_of(error)).reason
        except ValueError:
            return self._failed(host, Failure("no_store", "its stream is not what was asked for")).reason
        self.down.failed(host)
        return "it ended the stream"

    def _failed(self, host: HostInfo, failure: Failure) -> NoReply:
        self.failures[failure.name] += 1
        # That too many requests wait, or one is too large, says nothing about the peer: others are reading from it.
        if failure not in (_BUSY, _TOO_LARGE):
            if host not in self.down.avoided():
                logger.warning("peer %s is asked last for a while: %s", host, failure.reason)
            self.down.failed(host)
        return NoReply(failure.reason)


def _refusal(status: int, *, known: bool) -> Failure | None:
    """Return what is wrong with an answer, None for one that can be used.

    Args:
        status: of the answer.
        known: whether the answer says that it is from a store.
    """
    if status == HTTPStatus.UNAUTHORIZED:
        return Failure("unauthorized", "it does not take the token of this instance")
    if status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        return _TOO_LARGE
    if status >= 500:
        return Failure("status", f"it answered {status}")
    if not known:
        # Something else at the address, or an instance of other settings.
        return Failure("no_store", f"its answer ({status}) is not from a store")
    return None


async def take_lines(response: httpx.Response, take: Callable[[bytes], None]) -> None:
    """Read a stream of lines to its end.

    Args:
        response: what it comes with.
        take: is given each line that ends.
    """
    rest = b""
    async for piece in response.aiter_raw():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            take(line)


def failure_of(error: Exception) -> Failure:
    """Return what an error, one of `UNREACHED`, says about the peer."""
    return next(FAILURES[base] for base in type(error).__mro__ if base in FAILURES)


def transport_of(given: httpx.AsyncBaseTransport | None, most: int, idle_expiry_s: float) -> Transport:
    """Return what carries requests to peers.

    Args:
        given: a transport of httpx that takes the place of the network, None for the network.
        most: see `PeerTransport`.
        idle_expiry_s: see `PeerTransport`.
    """
    return PeerTransport(most, idle_expiry_s) if given is None else OverHttpx(given)


def headers_of(tokens: Tokens) -> dict[bytes, bytes]:
    """Return the headers of requests to peers; names in lower case."""
    to_peers = {name.encode(): text.encode() for name, text in tokens.to_peers.items()}
    # The bytes pass through as they are.
    return to_peers | {b"accept-encoding": b"identity"}


def client_of_streams(
    given: httpx.AsyncBaseTransport | None, headers: Mapping[bytes, bytes], *, silent_s: float, connect_s: float
) -> httpx.AsyncClient:
    """Return what reads streams of peers: they stay open, so as many as are needed.

    Args:
        given: a transport of httpx that takes the place of the network, None for the network.
        headers: of each request.
        silent_s: how long a stream may be silent, in seconds.
        connect_s: how long a connection may take, in seconds.
    """
    # `verify` loads certificates, and instances speak HTTP among themselves.
    endless = httpx.AsyncHTTPTransport(verify=False, limits=httpx.Limits(max_keepalive_connections=0), trust_env=False)
    return httpx.AsyncClient(
        transport=given or endless,
        headers=list(headers.items()),
        timeout=httpx.Timeout(silent_s, connect=connect_s, pool=connect_s),
        # Nothing of the environment may redirect them.
        trust_env=False,
    )
