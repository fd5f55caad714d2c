"""The transport to peers, against servers that do what servers do."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Sized
from contextlib import asynccontextmanager

import httpx
import pytest

from api.cluster.connections import PeerTransport, UnknownName
from tests.drivers.eventually import eventually

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PATIENT = httpx.Timeout(60)
"""For what is answered, or is an error by itself."""
SOON = httpx.Timeout(60, read=0.3, pool=0.1)
"""For what has to be given up."""
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nX-Served-By: b:1\r\n\r\n[]"


class Server:
    """Serves each connection by the next function of a script; the last one goes on.

    Attributes:
        url: where it listens.
        connections: how many it has accepted.
        accepted: set by the first one.
    """

    def __init__(self, script: list[Serve]) -> None:
        self.script = script
        self.url = ""
        self.connections = 0
        self.accepted = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        serve = self.script[min(self.connections, len(self.script) - 1)]
        self.connections += 1
        self.accepted.set()
        try:
            await serve(reader, writer)
        finally:
            writer.close()


def answering(answer: bytes = ANSWER, times: int = 100) -> Serve:
    """Return what answers so many requests of a connection, then closes it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(times):
            try:
                await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            writer.write(answer)

    return serve


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take requests and say nothing."""
    await reader.read()


async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one byte at a time, without end."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    while not reader.at_eof():
        writer.write(b".")
        await asyncio.sleep(0.01)


@asynccontextmanager
async def exchange(
    *script: Serve, connections: int = 8, idle_expiry_s: float = 60
) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    """Run a server, and a client on the transport."""
    server = Server(list(script))
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = "http://{}:{}/x".format(*listening.sockets[0].getsockname())
    async with httpx.AsyncClient(transport=PeerTransport(connections, idle_expiry_s), timeout=PATIENT) as client:
        yield server, client
    listening.close()


async def test_an_answer_is_whole_and_its_connection_is_used_again() -> None:
    async with exchange(answering()) as (server, client):
        for _ in range(5):
            response = await client.get(server.url)
            assert (response.status_code, response.content) == (200, b"[]")
            assert response.headers["x-served-by"] == "b:1"
        assert server.connections == 1


async def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    async with exchange(answering()) as (server, client):
        answers = await asyncio.gather(*(client.get(server.url) for _ in range(5)))
        assert [each.content for each in answers] == [b"[]"] * 5
        assert 1 < server.connections <= 5


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n[\r\n1\r\n]\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n[]",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n[]",
    ],
)
async def test_every_framing_of_http_is_understood(answer: bytes) -> None:
    async with exchange(answering(answer)) as (server, client):
        for _ in range(2):
            assert (await client.get(server.url)).content == b"[]"


async def test_a_connection_that_the_peer_closed_while_idle_is_replaced() -> None:
    async with exchange(answering(times=1)) as (server, client):
        for _ in range(3):
            assert (await client.get(server.url)).status_code == 200
        assert server.connections == 3


async def test_of_a_host_that_has_left_nothing_is_kept() -> None:
    left: list[asyncio.StreamWriter] = []

    async def leaving(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left.append(writer)
        await answering()(reader, writer)

    async with exchange(leaving) as (server, client):
        await asyncio.gather(*(client.get(server.url) for _ in range(5)))
        transport = client._transport  # noqa: SLF001
        assert isinstance(transport, PeerTransport)
        kept: list[Sized] = [transport._idle, transport._slots]  # noqa: SLF001
        assert list(map(len, kept)) == [1, 0]
        for writer in left:
            writer.close()
        await eventually(lambda: not any(kept))
        with pytest.raises(httpx.ConnectError):
            await client.get("http://127.0.0.1:1/")
        gc.collect()
        assert not any(kept)


async def test_a_name_that_cannot_be_resolved_is_told_from_a_refusal() -> None:
    async with exchange(answering()) as (_, client):
        with pytest.raises(UnknownName):
            await client.get("http://no-such-name.invalid/")


async def test_a_connection_that_was_idle_for_long_is_not_used_again() -> None:
    async with exchange(answering(), idle_expiry_s=0) as (server, client):
        for _ in range(3):
            assert (await client.get(server.url)).status_code == 200
        assert server.connections == 3


@pytest.mark.parametrize(
    ("serve", "timeout", "error"),
    [
        (silent, SOON, httpx.ReadTimeout),
        (dripping, SOON, httpx.ReadTimeout),
        (answering(times=0), PATIENT, httpx.RemoteProtocolError),
        (answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[]", times=1), PATIENT, httpx.ReadError),
        (answering(b"SSH-2.0-OpenSSH\r\n"), PATIENT, httpx.RemoteProtocolError),
        (answering(b"HTTP/1.1 200 OK\r\n\r\n[]", times=1), PATIENT, httpx.ReadError),
    ],
)
async def test_a_peer_without_a_whole_answer_is_an_error(
    serve: Serve, timeout: httpx.Timeout, error: type[Exception]
) -> None:
    async with exchange(serve, answering()) as (server, client):
        with pytest.raises(error):
            await client.get(server.url, timeout=timeout)
        assert (await client.get(server.url)).content == b"[]"


async def test_a_peer_that_does_not_listen_is_an_error() -> None:
    async with exchange(answering()) as (server, client):
        url = server.url
    async with httpx.AsyncClient(transport=PeerTransport(8, 60)) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(url)


async def test_a_silent_peer_does_not_use_up_more_than_its_connections() -> None:
    async with exchange(silent, connections=2) as (server, client):
        asked = (client.get(server.url, timeout=SOON) for _ in range(5))
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert sorted(type(each).__name__ for each in results) == ["PoolTimeout"] * 3 + ["ReadTimeout"] * 2


async def test_more_requests_than_connections_wait_for_their_turn() -> None:
    async with exchange(answering(), connections=2) as (server, client):
        answers = await asyncio.gather(*(client.get(server.url) for _ in range(50)))
        assert [each.content for each in answers] == [b"[]"] * 50
        assert server.connections == 2


async def test_an_idle_connection_holds_nothing_of_its_last_answer() -> None:
    pieces, piece = 100, b"x" * 100_000
    size = pieces * len(piece)

    async def large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(pieces):
            writer.write(piece)
            await writer.drain()
        await reader.read()

    async with exchange(large) as (server, client):
        tracemalloc.start()
        try:
            received = len((await client.get(server.url)).content)
            # The callback that brought the answer has ended then.
            await asyncio.sleep(0)
            gc.collect()
            held, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert received == size
    assert held < size / 2 < size < most


async def test_a_request_that_is_given_up_leaves_nothing_behind() -> None:
    async with exchange(silent, answering()) as (server, client):
        task = asyncio.create_task(client.get(server.url))
        await asyncio.wait_for(server.accepted.wait(), timeout=60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.get(server.url)).content == b"[]"
        assert server.connections == 2


async def test_bytes_that_nobody_asked_for_are_no_answer() -> None:
    async with exchange(answering(ANSWER + b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nX")) as (server, client):
        for _ in range(3):
            response = await client.get(server.url)
            assert response.content == b"[]"
            assert response.headers["content-length"] == "2"
