"""Requests to other instances: pooled connections, one hop, holders in order; httpx's errors end here."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Final, NamedTuple

import httpx

from api.cluster.connections import PeerTransport, UnknownName
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
class Reply:
    """What a peer answered."""

    status: int
    headers: httpx.Headers
    body: bytes


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
        self._one_timeout = _timeout(settings, settings.read_timeout_s)
        self._many_timeout = _timeout(settings, settings.gather_timeout_s)
        # Without a client of httpx: its cookies, redirects and hooks cost more than all the rest of a forward.
        self._transport = transport or PeerTransport(settings.connections, settings.idle_expiry_s)
        # The bytes pass through as they are.
        self._headers = (tokens or Tokens()).to_peers | {"accept-encoding": "identity"}
        # Streams stay open, so as many as are needed; the transport above knows only whole answers.
        # `verify` loads certificates, and instances speak HTTP among themselves.
        endless = httpx.AsyncHTTPTransport(
            verify=False, limits=httpx.Limits(max_keepalive_connections=0), trust_env=False
        )
        self._streams = httpx.AsyncClient(
            transport=transport or endless,
            headers=self._headers,
            # Nothing of the environment may redirect them.
            trust_env=False,
        )
        self._stream_timeout = _timeout(settings, settings.stream_timeout_s)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()
        await self._streams.aclose()

    async def forward(self, hosts: tuple[HostInfo, ...], target: str, *, many: bool = False) -> Reply | NoReply:
        """Ask the hosts one after the other until one answers.

        Args:
            hosts: members of the cluster, in the order to ask them.
            target: path and query, built here and not taken from a client.
            many: whether the answer is about many rows and may take longer.
        """
        failures = []
        for host in hosts:
            reply = await self._ask(host, target, self._many_timeout if many else self._one_timeout)
            if isinstance(reply, Reply):
                return reply
            failures.append(f"{host}: {reply.reason}")
        return NoReply(", ".join(failures))

    async def _ask(self, host: HostInfo, target: str, timeout: httpx.Timeout) -> Reply | NoReply:
        self.down.trying(host)
        self.forwards += 1
        request_id = CURRENT.get()
        headers = self._headers | {REQUEST_ID.decode(): request_id.text} if request_id is not None else self._headers
        try:
            request = httpx.Request(
                "GET", _url(host, target), headers=headers, extensions={"timeout": timeout.as_dict()}
            )
            response = await self._transport.handle_async_request(request)
            body = await response.aread()
        except UNREACHED as error:
            return self._failed(host, failure_of(error))
        if (unmet := response.headers.get(UNMET.decode())) is not None:
            self.down.answered(host)
            return NoReply(unmet)
        if (failure := _refusal(response)) is not None:
            return self._failed(host, failure)
        self.down.answered(host)
        return Reply(response.status_code, response.headers, body)

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
            async with self._streams.stream("GET", f"http://{host}{target}", timeout=self._stream_timeout) as response:
                if (failure := _refusal(response)) is not None:
                    return self._failed(host, failure).reason
                self.down.answered(host)
                await _take_lines(response, take)
        except UNREACHED as error:
            return self._failed(host, failure_of(error)).reason
        except ValueError:
            return self._failed(host, Failure("no_store", "its stream is not what was asked for")).reason
        self.down.failed(host)
        return "it ended the stream"

    def _failed(self, host: HostInfo, failure: Failure) -> NoReply:
        self.failures[failure.name] += 1
        # That too many requests wait says nothing about the peer, which others are reading from.
        if failure is not _BUSY:
            if host not in self.down.avoided():
                logger.warning("peer %s is asked last for a while: %s", host, failure.reason)
            self.down.failed(host)
        return NoReply(failure.reason)


def _refusal(response: httpx.Response) -> Failure | None:
    """Return what is wrong with an answer, None for one that can be used."""
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        return Failure("unauthorized", "it does not take the token of this instance")
    if response.status_code >= 500:
        return Failure("status", f"it answered {response.status_code}")
    if SERVED_BY.decode() not in response.headers:
        # Something else at the address, or an instance of other settings.
        return Failure("no_store", f"its answer ({response.status_code}) is not from a store")
    return None


async def _take_lines(response: httpx.Response, take: Callable[[bytes], None]) -> None:
    rest = b""
    async for piece in response.aiter_raw():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            take(line)


@lru_cache(maxsize=4096)
def _url(host: HostInfo, target: str) -> httpx.URL:
    # httpx takes longer to read one than to make a request of it.
    return httpx.URL(f"http://{host}{target}")


def failure_of(error: Exception) -> Failure:
    """Return what an error, one of `UNREACHED`, says about the peer."""
    return next(FAILURES[base] for base in type(error).__mro__ if base in FAILURES)


def _timeout(settings: PeerSettings, read_s: float) -> httpx.Timeout:
    connect_s = settings.connect_timeout_s
    return httpx.Timeout(connect=connect_s, read=read_s, write=read_s, pool=connect_s)
