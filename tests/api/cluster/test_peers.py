"""Holders are asked in order, and whatever httpx raises moves on to the next one."""

from __future__ import annotations

import httpx
import pytest

from api.cluster.connections import Reply, UnknownName
from api.cluster.peers import UNREACHED, NoReply, Peers, failure_of
from api.components import PeerSettings
from runtime.cluster.host_metadata import HostInfo
from tests.drivers.cluster import Clock

B, C = HostInfo("b", 7000), HostInfo("c", 7000)

HTTPX_ERRORS = [
    each
    for each in vars(httpx).values()
    if isinstance(each, type) and issubclass(each, Exception) and not issubclass(each, Warning)
]


class Scripted(httpx.AsyncBaseTransport):
    """Answers each host's requests with a status, or raises its error.

    Attributes:
        from_store: whether answers say so.
    """

    def __init__(self, script: dict[str, int | Exception]) -> None:
        self.script = script
        self.from_store = True
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer as scripted."""
        self.requests.append(request)
        step = self.script[request.url.host]
        if isinstance(step, Exception):
            raise step
        headers = {"x-served-by": request.url.host} if self.from_store else {}
        return httpx.Response(step, headers=headers, content=request.url.host.encode())


def peers_on(transport: Scripted, clock: Clock | None = None) -> Peers:
    """Return peers that are reached by `transport`."""
    return Peers(PeerSettings(down_for_s=2.0), transport, clock or Clock())


def test_no_exception_class_of_httpx_is_left_out() -> None:
    assert len(HTTPX_ERRORS) > 25
    assert [each for each in HTTPX_ERRORS if not issubclass(each, UNREACHED)] == []


@pytest.mark.parametrize("error", HTTPX_ERRORS)
async def test_every_error_of_httpx_moves_on_to_the_next_host(error: type[Exception]) -> None:
    raised = error.__new__(error)
    transport = Scripted({"b": raised, "c": 200})
    peers = peers_on(transport)
    reply = await peers.forward((B, C), "/leaderboard/1")
    assert isinstance(reply, Reply)
    assert (reply.headers[b"x-served-by"], reply.status, reply.body) == (b"c", 200, b"c")
    # That too many wait already says nothing about the host.
    assert peers.down.avoided() == (set() if error is httpx.PoolTimeout else {B})
    assert peers.failures == {failure_of(raised).name: 1}


@pytest.mark.parametrize(
    ("error", "name", "reason"),
    [
        (httpx.ConnectTimeout, "timeout", "it did not accept a connection in time"),
        (httpx.ReadTimeout, "timeout", "it did not answer in time"),
        (httpx.WriteTimeout, "timeout", "it did not take the request in time"),
        (httpx.PoolTimeout, "busy", "too many requests wait for peers already"),
        (httpx.ConnectError, "refused", "it refused the connection"),
        (UnknownName, "bad_address", "its name cannot be resolved"),
        (httpx.ReadError, "broken_off", "it broke off the connection"),
        (httpx.CloseError, "broken_off", "it broke off the connection"),
        (httpx.RemoteProtocolError, "broken_off", "it broke off the connection"),
        (httpx.LocalProtocolError, "no_http", "it does not speak HTTP as expected"),
        (httpx.StreamClosed, "broken_off", "it broke off the connection"),
        (httpx.UnsupportedProtocol, "bad_address", "its address cannot be used"),
        (UnicodeEncodeError, "bad_address", "its address cannot be used"),
    ],
)
def test_an_error_says_what_its_nearest_base_says(error: type[Exception], name: str, reason: str) -> None:
    assert failure_of(error.__new__(error)) == (name, reason)


async def test_a_host_that_cannot_answer_is_passed_over_and_remembered() -> None:
    peers = peers_on(Scripted({"b": 503, "c": 404}))
    reply = await peers.forward((B, C), "/leaderboard/1")
    assert isinstance(reply, Reply)
    assert reply.status == 404
    assert peers.down.avoided() == {B}


@pytest.mark.parametrize(
    ("status", "failure"),
    [(401, "unauthorized"), (431, "too_large"), (503, "status"), (404, "no_store"), (200, "no_store")],
)
async def test_whoever_gives_no_board_is_counted_the_same_for_an_answer_and_a_stream(status: int, failure: str) -> None:
    transport = Scripted({"b": status})
    transport.from_store = False
    peers = peers_on(transport)
    reply = await peers.forward((B,), "/")
    assert isinstance(reply, NoReply)
    lines: list[bytes] = []
    reason = await peers.follow(B, "/internal/stores/leader-boards/events", lines.append)
    assert reply.reason == f"b:7000: {reason}"
    assert (peers.failures, lines) == ({failure: 2}, [])


async def test_an_answer_ends_the_memory_of_a_failure() -> None:
    transport = Scripted({"b": httpx.ConnectError("refused")})
    peers = peers_on(transport)
    await peers.forward((B,), "/")
    transport.script["b"] = 200
    await peers.forward((B,), "/")
    assert not peers.down.avoided()


async def test_when_nobody_answers_each_host_has_its_reason() -> None:
    peers = peers_on(Scripted({"b": httpx.ConnectError("refused"), "c": 503}))
    reply = await peers.forward((B, C), "/")
    assert reply == NoReply("b:7000: it refused the connection, c:7000: it answered 503")


async def test_a_forward_carries_the_hop_header_and_asks_for_plain_bytes() -> None:
    transport = Scripted({"b": 200})
    await peers_on(transport).forward((B,), "/leaderboard/-5?limit=2")
    request = transport.requests[0]
    assert str(request.url) == "http://b:7000/leaderboard/-5?limit=2"
    assert request.headers["x-leaderboard-hop"] == "1"
    assert request.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("host", ["nobody.invalid", "a..b", "x" * 64, "::1%zone", "exa mple", "é" * 80, "1.2.3.4.5"])
async def test_an_address_that_cannot_be_used_is_a_reason(host: str) -> None:
    peers = Peers(PeerSettings(connect_timeout_s=0.2), None, Clock())
    reply = await peers.forward((HostInfo(host, 1),), "/")
    await peers.close()
    assert isinstance(reply, NoReply)
