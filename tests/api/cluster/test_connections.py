"""The transport to peers, against servers that do what servers do."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Sized
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest

from api.cluster.connections import PeerTransport, Reply, Request, UnknownName
from runtime.cluster.host_metadata import HostInfo
from tests.drivers.eventually import eventually

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PATIENT = Request("/x", {}, connect_s=60, read_s=60)
"""For what is answered, or is an error by itself."""
SOON = PATIENT._replace(connect_s=0.1, read_s=0.3)
"""For what has to be given up."""
AT_ONCE = PATIENT._replace(at_once=True)
"""For what a peer answers without waiting."""
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nX-Served-By: b:1\r\n\r\n[]"


class Server:
    """Serves each connection by the next function of a script; the last one goes on.

    Attributes:
        host: where it listens.
        connections: how many it has accepted.
        accepted: set by the first one.
    """

    def __init__(self, script: list[Serve]) -> None:
        self.script = script
        self.host = HostInfo("127.0.0.1", 1)
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


class Client:
    """Asks a server on a transport.

    Attributes:
        host: who is asked.
    """

    def __init__(self, transport: PeerTransport, host: HostInfo) -> None:
        self.transport = transport
        self.host = host

    async def get(self, request: Request = PATIENT) -> Reply:
        """Return the answer."""
        return await self.transport.get(self.host, request)


@asynccontextmanager
async def exchange(
    *script: Serve, connections: int = 8, idle_expiry_s: float = 60
) -> AsyncIterator[tuple[Server, Client]]:
    """Run a server, and a client on the transport."""
    server = Server(list(script))
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.host = HostInfo(*listening.sockets[0].getsockname())
    transport = PeerTransport(connections, idle_expiry_s)
    yield server, Client(transport, server.host)
    await transport.aclose()
    listening.close()


async def test_an_answer_is_whole_and_its_connection_is_used_again() -> None:
    async with exchange(answering()) as (server, client):
        for _ in range(5):
            reply = await client.get()
            assert (reply.status, reply.body) == (200, b"[]")
            assert reply.headers[b"x-served-by"] == b"b:1"
        assert server.connections == 1


async def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    async with exchange(answering()) as (server, client):
        answers = await asyncio.gather(*(client.get() for _ in range(5)))
        assert [each.body for each in answers] == [b"[]"] * 5
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
    async with exchange(answering(answer)) as (_, client):
        for _ in range(2):
            assert (await client.get()).body == b"[]"


async def test_a_connection_that_the_peer_closed_while_idle_is_replaced() -> None:
    async with exchange(answering(times=1)) as (server, client):
        for _ in range(3):
            assert (await client.get()).status == 200
        assert server.connections == 3


async def test_a_connection_that_is_just_closing_is_left_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    connect, transports = loop.create_connection, []

    async def noted(*args: Any) -> Any:
        made = await connect(*args)
        transports.append(made[0])
        return made

    monkeypatch.setattr(loop, "create_connection", noted)
    async with exchange(answering(), idle_expiry_s=20) as (server, client):
        began_s = loop.time()
        await client.get(AT_ONCE)
        # As when the peer has died: its end is known, and the protocol is told of it in the next turn of the loop.
        transports[0].close()
        assert (await client.get(AT_ONCE)).body == b"[]"
        assert server.connections == 2
        assert loop.time() - began_s < 10, "nobody waits until the connection expires"


async def test_of_a_host_that_has_left_nothing_is_kept() -> None:
    left: list[asyncio.StreamWriter] = []

    async def leaving(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left.append(writer)
        await answering()(reader, writer)

    async with exchange(leaving) as (_, client):
        await asyncio.gather(*(client.get() for _ in range(5)))
        kept: list[Sized] = [client.transport._open, client.transport._slots]  # noqa: SLF001
        assert list(map(len, kept)) == [1, 0]
        for writer in left:
            writer.close()
        await eventually(lambda: not any(kept))
        with pytest.raises(httpx.ConnectError):
            await client.transport.get(HostInfo("127.0.0.1", 1), PATIENT)
        gc.collect()
        assert not any(kept)


async def test_a_name_that_cannot_be_resolved_is_told_from_a_refusal() -> None:
    async with exchange(answering()) as (_, client):
        with pytest.raises(UnknownName):
            await client.transport.get(HostInfo("no-such-name.invalid", 1), PATIENT)


async def test_a_host_may_have_as_long_a_name_as_there_is() -> None:
    async with exchange(answering()) as (server, client):
        # 127.0.0.1, in 63 characters.
        longest = f"0x{0x7F000001:061x}"
        reply = await client.transport.get(HostInfo(longest, server.host.port), PATIENT)
        assert reply.status == 200


async def test_a_connection_that_was_idle_for_long_is_not_used_again() -> None:
    async with exchange(answering(), idle_expiry_s=0) as (server, client):
        for _ in range(3):
            assert (await client.get()).status == 200
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
    serve: Serve, timeout: Request, error: type[Exception]
) -> None:
    async with exchange(serve, answering()) as (_, client):
        with pytest.raises(error):
            await client.get(timeout)
        assert (await client.get()).body == b"[]"


async def test_a_peer_that_does_not_listen_is_an_error() -> None:
    async with exchange(answering()) as (_, client):
        pass
    with pytest.raises(httpx.ConnectError):
        await client.get()


async def test_a_silent_peer_does_not_use_up_more_than_its_connections() -> None:
    async with exchange(silent, connections=2) as (_, client):
        asked = (client.get(SOON) for _ in range(5))
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert sorted(type(each).__name__ for each in results) == ["PoolTimeout"] * 3 + ["ReadTimeout"] * 2


async def test_more_requests_than_connections_wait_for_their_turn() -> None:
    async with exchange(answering(), connections=2) as (server, client):
        answers = await asyncio.gather(*(client.get() for _ in range(50)))
        assert [each.body for each in answers] == [b"[]"] * 50
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

    async with exchange(large) as (_, client):
        tracemalloc.start()
        try:
            received = len((await client.get()).body)
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
        task = asyncio.create_task(client.get())
        await asyncio.wait_for(server.accepted.wait(), timeout=60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.get()).body == b"[]"
        assert server.connections == 2


async def test_bytes_that_nobody_asked_for_are_no_answer() -> None:
    async with exchange(answering(ANSWER + b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nX")) as (_, client):
        for _ in range(3):
            reply = await client.get()
            assert reply.body == b"[]"
            assert reply.headers[b"content-length"] == b"2"


class TestRequestsThatAreAnsweredAtOnce:
    """They go ahead of each other's answers on one connection."""

    async def test_they_share_a_connection_and_each_gets_its_own_answer(self) -> None:
        async def echoing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(asyncio.IncompleteReadError):
                while True:
                    target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(target), target))

        async with exchange(echoing, connections=100) as (server, client):
            await client.get(AT_ONCE)
            targets = [f"/{number}" for number in range(60)]
            replies = await asyncio.gather(*(client.get(AT_ONCE._replace(target=each)) for each in targets))
            assert [each.body.decode() for each in replies] == targets
            assert server.connections == 1

    async def test_others_have_connections_of_their_own(self) -> None:
        async with exchange(silent, answering()) as (server, client):
            waits = asyncio.create_task(client.get(SOON))
            await asyncio.wait_for(server.accepted.wait(), timeout=60)
            assert (await client.get(AT_ONCE)).body == b"[]"
            with pytest.raises(httpx.ReadTimeout):
                await waits
            assert server.connections == 2

    async def test_a_silent_peer_is_an_error_for_all_of_them(self) -> None:
        async with exchange(silent) as (_, client):
            asked = [client.get(AT_ONCE._replace(read_s=0.3)) for _ in range(5)]
            results = await asyncio.gather(*asked, return_exceptions=True)
            assert {type(each) for each in results} == {httpx.ReadTimeout}

    async def test_those_that_were_not_answered_before_the_peer_closed_are_asked_again(self) -> None:
        async with exchange(answering(times=3), answering()) as (server, client):
            await client.get(AT_ONCE)
            replies = await asyncio.gather(*(client.get(AT_ONCE) for _ in range(5)))
            assert [each.body for each in replies] == [b"[]"] * 5
            assert server.connections > 1

    async def test_one_that_is_given_up_does_not_take_the_answers_of_others(self) -> None:
        go_on = asyncio.Event()

        async def later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await go_on.wait()
            writer.write(ANSWER.replace(b"[]", b"{}"))
            await answering()(reader, writer)

        async with exchange(later) as (server, client):
            given_up = asyncio.create_task(client.get(AT_ONCE))
            await asyncio.wait_for(server.accepted.wait(), timeout=60)
            stays = asyncio.create_task(client.get(AT_ONCE))
            await asyncio.sleep(0)
            given_up.cancel()
            go_on.set()
            assert (await stays).body == b"[]"
            assert server.connections == 1

    async def test_the_answer_to_another_request_is_an_error(self) -> None:
        named = ANSWER.replace(b"\r\n\r\n", b"\r\nX-Request-Id: other\r\n\r\n")
        async with exchange(answering(named)) as (_, client):
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(AT_ONCE._replace(headers={b"x-request-id": b"mine"}))
            assert (await client.get(AT_ONCE._replace(headers={b"x-request-id": b"other"}))).body == b"[]"


async def test_a_request_is_given_up_in_its_own_time_after_one_that_had_longer() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await reader.read()

    async with exchange(once) as (_, client):
        await client.get(PATIENT)
        async with asyncio.timeout(PATIENT.read_s / 2):
            with pytest.raises(httpx.ReadTimeout):
                await client.get(SOON)


async def test_an_id_that_came_from_elsewhere_is_no_matter_to_a_request_without_one() -> None:
    named = ANSWER.replace(b"\r\n\r\n", b"\r\nX-Request-Id: from-a-proxy\r\n\r\n")
    async with exchange(answering(named)) as (_, client):
        assert (await client.get()).body == b"[]"


async def test_requests_that_wait_take_no_turns_from_those_that_are_answered_at_once() -> None:
    async with exchange(silent, answering(), connections=1) as (server, client):
        waits = asyncio.create_task(client.get(SOON._replace(read_s=30)))
        await asyncio.wait_for(server.accepted.wait(), timeout=60)
        assert (await client.get(AT_ONCE)).body == b"[]"
        waits.cancel()
