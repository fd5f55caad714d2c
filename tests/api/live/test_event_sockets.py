"""Live updates over real sockets: clients that do not read, that vanish, and a server that stops."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from api.components import Stopping
from api.leaderboard.own import leaderboard_routes
from api.main import create_app
from app.server.http_server import HttpServer
from runtime.cluster.host_metadata import ClusterMap, HostMetadata
from tests.drivers.declared import boards_view, components_of
from tests.drivers.eventually import eventually
from tests.drivers.fake_view import FakeView, board_of
from tests.drivers.http_instance import free_host
from tests.waiting import UNHURRIED_S

IDS = range(1, 200)
RECEIVES_BYTES = 4096
HELD_BYTES = 250_000
"""What a client that does not read costs: about 200 KB, as operators are told; most of it are the kernel's buffers."""


@pytest.fixture(autouse=True)
def _no_feed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have feeds end with their last reader, so that tests see that it is gone."""
    monkeypatch.setattr("api.live.feeds._KEPT_S", 0.0)


@dataclass
class Server:
    """One instance behind a real server.

    Attributes:
        port: where it listens on 127.0.0.1.
        view: its boards.
    """

    port: int
    view: FakeView
    stopping: Stopping
    http: HttpServer

    def change(self, product_id: int, score: float) -> None:
        """Have a board read differently from now on."""
        entry = board_of(product_id, 1)[0] | {"score": score}
        self.view.shared_rows = {**self.view.shared_rows, product_id: [entry]}
        self.view.changed(product_id)

    async def ask(
        self, path: str, method: str = "GET", version: str = "1.1"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request over a connection that takes little at a time."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVES_BYTES)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=client, limit=RECEIVES_BYTES)
        writer.write(f"{method} {path} HTTP/{version}\r\nHost: here\r\n\r\n".encode())
        return reader, writer


@asynccontextmanager
async def serving(*, beside: int = 0) -> AsyncIterator[Server]:
    """Run one instance with all partitions, and `beside` it others without any; yields the last one."""
    hosts = [free_host() for _ in range(1 + beside)]
    holder, *others = hosts
    members = ClusterMap((HostMetadata(holder, frozenset(range(4))), *map(HostMetadata, others)), 4)
    view = boards_view({each: board_of(each) for each in IDS})
    view.hold(range(4))
    servers = []
    for host in hosts:
        stopping = Stopping()
        of_host = view if host == holder else boards_view({})
        components = components_of(of_host, cluster=lambda: members, host=host, stopping=stopping)
        app = create_app(components, leaderboard_routes)
        servers.append(Server(host.port, view, stopping, HttpServer(app, host.host, host.port)))
    for server in servers:
        await server.http.start()
    try:
        yield servers[-1]
    finally:
        for server in reversed(servers):
            server.stopping.begin()
            await server.http.stop()


async def read_until(reader: asyncio.StreamReader, wanted: bytes) -> bytes:
    """Return what came, up to where `wanted` is in it."""
    found = b""
    async with asyncio.timeout(UNHURRIED_S):
        while wanted not in found:
            piece = await reader.read(RECEIVES_BYTES)
            assert piece, found[-200:]
            found += piece
    return found


def test_what_begins_while_the_instance_stops_ends_at_once() -> None:
    class Goes:
        ended = False

        def end(self) -> None:
            self.ended = True

    stopping, before, late = Stopping(), Goes(), Goes()
    stopping.tell(before.end)
    stopping.begin()
    stopping.tell(late.end)
    assert before.ended
    assert late.ended


@pytest.mark.parametrize("path", ["/leaderboard/1/events", "/leaderboard/events"])
async def test_a_client_that_does_not_read_gets_the_newest_board_and_holds_little(path: str) -> None:
    async with serving() as server:
        reader, writer = await server.ask(path)
        await read_until(reader, b"data:")
        changes = 20_000
        for number in range(changes):
            server.change(1 + number % (1 if "1" in path else 100), float(number))
            if number % 20 == 0:
                await asyncio.sleep(0)
        server.change(1, 1e9)
        found = await read_until(reader, b'"score":1000000000.0')
        # The kernel's buffers, uvicorn's 64 KB and a chunk; a queue of all would be 20,000 events of about 150 bytes.
        assert found.count(b"data:") < changes / 2
        assert len(found) < HELD_BYTES
        writer.close()


@pytest.mark.parametrize("beside", [0, 1], ids=["a copy", "no copy"])
@pytest.mark.parametrize("path", ["/leaderboard/1/events", "/leaderboard/events"])
async def test_a_client_that_knows_no_chunks_reads_events_until_the_connection_ends(path: str, beside: int) -> None:
    async with serving(beside=beside) as server:
        reader, writer = await server.ask(path, version="1.0")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"transfer-encoding" not in head
        assert b"connection: close" in head
        events = await read_until(reader, b"data:")
        server.stopping.begin()
        events += await asyncio.wait_for(reader.read(), UNHURRIED_S)
        writer.close()
        assert events.startswith(b"retry: 500\n\n")
        assert events.endswith(b"\n\n")
        assert b"\r\n" not in events


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_head_of_a_stream_has_no_body_and_no_chunks(version: str) -> None:
    async with serving() as server:
        reader, writer = await server.ask("/leaderboard/events", "HEAD", version)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), UNHURRIED_S)
        assert b"transfer-encoding" not in head
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), UNHURRIED_S) == b""
        writer.close()


async def test_a_stream_ends_with_its_client_whatever_was_asked_behind_it() -> None:
    async with serving() as server:
        for _ in range(10):
            reader, writer = await server.ask("/leaderboard/events")
            await read_until(reader, b"data:")
            writer.write(b"GET /leaderboard/1 HTTP/1.1\r\nHost: here\r\n\r\n")
            await writer.drain()
            writer.transport.abort()
        # What is written next finds the connection lost; nothing is written after it, before the next heartbeat.
        server.change(1, 1e9)
        await eventually(lambda: server.view.watchers == [], deadline_s=5)


async def test_clients_that_vanish_free_everything() -> None:
    async with serving() as server:
        # What the server itself has running, it has once it answers.
        reader, writer = await server.ask("/health/live")
        await read_until(reader, b"live")
        writer.close()
        await eventually(lambda: not any("RequestResponseCycle" in repr(each) for each in asyncio.all_tasks()))
        before = asyncio.all_tasks()
        for _ in range(30):
            reader, writer = await server.ask("/leaderboard/1/events")
            await read_until(reader, b"data:")
            writer.transport.abort()
        stalled, writer = await server.ask("/leaderboard/events")
        await read_until(stalled, b"data:")
        for number in range(5_000):
            server.change(1 + number % 100, float(number))
            if number % 20 == 0:
                await asyncio.sleep(0)
        writer.transport.abort()
        await eventually(lambda: asyncio.all_tasks() <= before and server.view.watchers == [])


async def test_a_server_that_stops_ends_its_streams_and_does_not_wait_for_them() -> None:
    async with serving() as server:
        clients = [await server.ask("/leaderboard/1/events") for _ in range(20)]
        for reader, _ in clients:
            await read_until(reader, b"data:")
        began_s = time.monotonic()
        server.stopping.begin()
        await server.http.stop()
        took_s = time.monotonic() - began_s
        for reader, writer in clients:
            assert (await reader.read()).endswith(b"0\r\n\r\n")
            writer.close()
        # Uvicorn cuts off after 3 s what has not ended.
        assert took_s < 2.5


@pytest.mark.parametrize("path", ["/leaderboard/1/events", "/leaderboard/events"])
async def test_updates_of_a_peer_come_over_a_real_connection(path: str) -> None:
    async with serving(beside=1) as server:
        reader, writer = await server.ask(path)
        await read_until(reader, b"data: [" if "1" in path else b"complete")
        for score in (5e6, 6e6):
            server.change(1, score)
            await read_until(reader, b'"score":%.1f' % score)
        writer.close()
        await eventually(lambda: server.view.watchers == [])
