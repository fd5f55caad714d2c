"""Requests to other instances: one pooled client, one hop, holders in order; httpx's errors end here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import httpx

from api.answers import HOP, SERVED_BY
from api.components import PeerSettings
from api.connections import PeerTransport
from api.down_hosts import DownHosts
from topology.host_metadata import HostInfo

log = logging.getLogger(__name__)

_BROKEN: Final = "it broke off the connection"
_NO_HTTP: Final = "it does not speak HTTP as expected"
_BAD_ADDRESS: Final = "its address cannot be used"

REASONS: Final[Mapping[type[Exception], str]] = {
    httpx.ConnectTimeout: "it did not accept a connection in time",
    httpx.ReadTimeout: "it did not answer in time",
    httpx.WriteTimeout: "it did not take the request in time",
    httpx.PoolTimeout: "too many requests wait for peers already",
    httpx.TimeoutException: "it did not answer in time",
    httpx.ConnectError: "it refused the connection",
    httpx.ReadError: _BROKEN,
    httpx.WriteError: _BROKEN,
    httpx.CloseError: _BROKEN,
    httpx.NetworkError: _BROKEN,
    httpx.RemoteProtocolError: _BROKEN,
    httpx.LocalProtocolError: _NO_HTTP,
    httpx.ProtocolError: _NO_HTTP,
    httpx.DecodingError: _NO_HTTP,
    httpx.TooManyRedirects: _NO_HTTP,
    httpx.HTTPStatusError: _NO_HTTP,
    httpx.ProxyError: _BAD_ADDRESS,
    httpx.UnsupportedProtocol: _BAD_ADDRESS,
    httpx.InvalidURL: _BAD_ADDRESS,
    UnicodeError: _BAD_ADDRESS,  # a host name that IDNA cannot encode gets through httpx as such
    httpx.CookieConflict: _NO_HTTP,
    httpx.StreamConsumed: _BROKEN,
    httpx.StreamClosed: _BROKEN,
    httpx.ResponseNotRead: _BROKEN,
    httpx.RequestNotRead: _BROKEN,
    httpx.StreamError: _BROKEN,
    httpx.TransportError: _BROKEN,
    httpx.RequestError: _BROKEN,
    httpx.HTTPError: _BROKEN,
}
"""Every exception class of httpx, and what it says about the peer."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a peer answered."""

    host: HostInfo
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
    """

    def __init__(
        self,
        settings: PeerSettings,
        transport: httpx.AsyncBaseTransport | None,
        clock: Callable[[], float],
    ) -> None:
        self.down = DownHosts(settings.down_for_s, clock)
        self._one_timeout = _timeout(settings, settings.read_timeout_s)
        self._many_timeout = _timeout(settings, settings.gather_timeout_s)
        self._client = httpx.AsyncClient(
            transport=transport or PeerTransport(settings.connections, settings.idle_expiry_s),
            # The bytes pass through as they are; and nothing of the environment may redirect them.
            headers={HOP.decode(): "1", "accept-encoding": "identity"},
            trust_env=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def forward(self, hosts: tuple[HostInfo, ...], target: str, *, many: bool = False) -> Reply | NoReply:
        """Ask the hosts one after the other until one answers.

        Args:
            hosts: members of the cluster, in the order to ask them.
            target: path and query, built here and not taken from a client.
            many: whether the answer is about many boards and may take longer.
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
        try:
            response = await self._client.get(f"http://{host}{target}", timeout=timeout)
        except tuple(REASONS) as error:
            return self._failed(host, reason_for(error))
        if response.status_code >= 500:
            return self._failed(host, f"it answered {response.status_code}")
        if SERVED_BY.decode() not in response.headers:
            # Something else at the address, or an instance of other settings.
            return self._failed(host, f"its answer ({response.status_code}) is not from a store")
        self.down.answered(host)
        return Reply(host, response.status_code, response.headers, response.content)

    def _failed(self, host: HostInfo, reason: str) -> NoReply:
        if host not in self.down.avoided():
            log.warning("peer %s is asked last for a while: %s", host, reason)
        self.down.failed(host)
        return NoReply(reason)


def reason_for(error: Exception) -> str:
    """Return what an error of httpx says about the peer."""
    return next(REASONS[base] for base in type(error).__mro__ if base in REASONS)


def _timeout(settings: PeerSettings, read_s: float) -> httpx.Timeout:
    connect_s = settings.connect_timeout_s
    return httpx.Timeout(connect=connect_s, read=read_s, write=read_s, pool=connect_s)
