"""Clients that keep the server waiting lose their connection in time; nobody else waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from starlette.types import Receive, Scope, Send

from app.server.connection import Limits
from runtime.cluster.host_metadata import HostInfo
from tests.drivers.fake_view import board_of
from tests.drivers.http_instance import app_alone, exchange, free_host, serving
from tests.waiting import UNHURRIED_S

READ = b"GET /leaderboard/1 HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
SHORT = Limits(connections=40, sent_within_s=1.0, taken_within_s=1.0)


@pytest.fixture(scope="module")
def instance() -> Iterator[HostInfo]:
    """An instance with short limits, and more boards than the buffers of a connection hold."""
    host = free_host()
    boards = {each: board_of(each) for each in range(1, 40_000)}
    with serving(app_alone(boards, host), host, SHORT):
        yield host


def connected(host: HostInfo, *, takes_little: bool = False) -> socket.socket:
    """Return a connection; one that takes little holds only a few kilobytes on its way."""
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if takes_little:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(UNHURRIED_S)
    try:
        client.connect((host.host, host.port))
    except OSError:
        client.close()
        raise
    return client


def is_reset(client: socket.socket) -> bool:
    """Return whether the server has given up the connection, without reading from it."""
    poll = select.poll()
    poll.register(client, 0)
    return any(happened & (select.POLLERR | select.POLLHUP) for _, happened in poll.poll(50))


def closed_in_time(client: socket.socket) -> bool:
    """Return whether the server ends the connection, whatever it sends before that."""
    try:
        while client.recv(65536):
            pass
    except ConnectionResetError:
        return True
    return True


SILENT = {
    "nothing": b"",
    "half a line": b"GET /leader",
    "half a head": b"GET /leaderboard/1 HTTP/1.1\r\nHost: here\r\nX: ",
    "no empty line": b"GET /leaderboard/1 HTTP/1.1\r\nHost: here\r\n",
    "half a body": b"POST /leaderboard/1 HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\nhalf",
    "half a chunk": b"POST /leaderboard/1 HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
    "empty lines": b"\r\n" * 9,
    "a request, and half of the next": b"GET /leaderboard/1 HTTP/1.1\r\nHost: here\r\n\r\nGET /leader",
}


@pytest.mark.parametrize("sent", SILENT.values(), ids=SILENT)
def test_a_client_that_stops_sending_is_disconnected(instance: HostInfo, sent: bytes) -> None:
    with connected(instance) as client:
        client.sendall(sent)
        assert closed_in_time(client)


TRICKLED = {
    "a header": (b"GET /leaderboard/1 HTTP/1.1\r\nHost: here\r\nX: ", b"x"),
    "headers": (b"GET /leaderboard/1 HTTP/1.1\r\nHost: here\r\n", b"x: y\r\n"),
    "a path": (b"GET /leaderboard/", b"1"),
    "empty lines": (b"", b"\r\n"),
    "a body": (b"POST /leaderboard/1 HTTP/1.1\r\nHost: here\r\nContent-Length: 99999\r\n\r\n", b"x"),
    "chunks": (b"POST /leaderboard/1 HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "trailers": (b"POST /leaderboard/1 HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TRICKLED)
def test_a_client_that_trickles_is_disconnected_and_others_are_answered_meanwhile(
    instance: HostInfo, kind: str
) -> None:
    first, more = TRICKLED[kind]
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(instance)) for _ in range(20)]
        for client in slow:
            client.sendall(first)
        deadline_s = time.monotonic() + UNHURRIED_S
        while slow:
            assert time.monotonic() < deadline_s, f"{len(slow)} are still connected"
            assert exchange(instance, READ).startswith(b"HTTP/1.1 200 OK")
            slow = [client for client in slow if not is_reset(client) and _sent(client, more)]


def _sent(client: socket.socket, more: bytes) -> bool:
    try:
        client.sendall(more)
    except (ConnectionResetError, BrokenPipeError):
        return False
    return True


@pytest.mark.parametrize("last", [b"Connection: close\r\n\r\n", b"\r\n"], ids=["last request", "kept alive"])
def test_a_client_that_does_not_take_its_answer_is_disconnected(instance: HostInfo, last: bytes) -> None:
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(instance, takes_little=True)) for _ in range(3)]
        for client in slow:
            client.sendall(b"GET /leaderboard HTTP/1.1\r\nHost: here\r\n" + last)
        deadline_s = time.monotonic() + UNHURRIED_S
        while not all(is_reset(client) for client in slow):
            assert time.monotonic() < deadline_s, "they are still connected"
            assert exchange(instance, READ).startswith(b"HTTP/1.1 200 OK")


def test_silent_clients_however_many_keep_nobody_out(instance: HostInfo) -> None:
    with contextlib.ExitStack() as stack:
        silent = []
        for _ in range(5 * SHORT.connections):
            silent.append(stack.enter_context(connected(instance)))
            if len(silent) % 10 == 0:
                assert exchange(instance, READ).startswith(b"HTTP/1.1 200 OK")
        assert all(closed_in_time(client) for client in silent)


def test_connections_in_use_are_not_closed_for_new_ones(instance: HostInfo) -> None:
    with contextlib.ExitStack() as stack:
        kept = stack.enter_context(connected(instance))
        for _ in range(2 * SHORT.connections):
            kept.sendall(READ.replace(b"Connection: close\r\n", b""))
            assert kept.recv(65536).startswith(b"HTTP/1.1 200 OK")
            stack.enter_context(connected(instance))


def test_a_new_connection_takes_the_place_of_an_idle_one_and_never_of_one_in_use() -> None:
    go_on = threading.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _started(receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        if scope["path"] == "/slow":
            await asyncio.to_thread(go_on.wait, UNHURRIED_S)
        await send({"type": "http.response.body", "body": b"end"})

    with serving(app, free_host(), Limits(connections=4)) as host, contextlib.ExitStack() as stack:

        def new() -> socket.socket:
            return stack.enter_context(connected(host))

        def asked(what: bytes) -> socket.socket:
            client = new()
            client.sendall(READ.replace(b"/leaderboard/1", what).replace(b"Connection: close\r\n", b""))
            received = b""
            while not received.endswith(b"0\r\n\r\n" if what != b"/slow" else b"begun\r\n"):
                received += client.recv(65536)
            return client

        def turned_away() -> bool:
            try:
                return closed_in_time(new())
            except ConnectionResetError:
                # The server may be faster with its reset than the client with its connect.
                return True

        in_use = [asked(b"/slow") for _ in range(3)]
        idle = asked(b"/quick")
        in_use.append(asked(b"/slow"))
        assert closed_in_time(idle)
        assert turned_away(), "there is no room for it"
        go_on.set()
        for client in in_use:
            assert client.recv(65536).endswith(b"end\r\n0\r\n\r\n")


def test_a_client_waits_for_an_answer_as_long_as_that_takes() -> None:
    asked, go_on = threading.Event(), threading.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _started(receive, send)
            return
        asked.set()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not go_on.is_set():
            await send({"type": "http.response.body", "body": b".", "more_body": True})
            await asyncio.to_thread(go_on.wait, 0.05)
        await send({"type": "http.response.body", "body": b"end"})

    with serving(slow, free_host(), SHORT) as host, connected(host) as client:
        client.sendall(READ)
        assert asked.wait(UNHURRIED_S)
        # Longer than any limit, and seen to be so by the answer that goes on.
        received, until_s = b"", time.monotonic() + 3 * SHORT.taken_within_s
        while time.monotonic() < until_s:
            piece = client.recv(65536)
            assert piece
            received += piece
        go_on.set()
        while piece := client.recv(65536):
            received += piece
        assert received.endswith(b"end\r\n0\r\n\r\n")


def test_a_client_that_asks_nothing_more_is_disconnected_in_order(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with serving(app_alone({1: board_of(1)}, host := free_host()), host), connected(host) as client:

        def answered() -> float:
            # From before it asks: its own thread may wait after the answer has been there.
            asked_s = time.monotonic()
            client.sendall(READ.replace(b"Connection: close\r\n", b""))
            assert client.recv(65536).startswith(b"HTTP/1.1 200 OK")
            return asked_s

        answered()
        assert select.select([client], [], [], 2.0)[0] == []
        # What it asks now begins the time anew.
        at_s = answered()
        assert client.recv(65536) == b""
        assert time.monotonic() - at_s >= 5.0
    assert "too slow" not in caplog.text


async def _started(receive: Receive, send: Send) -> None:
    for _ in range(2):
        await send({"type": f"{(await receive())['type']}.complete"})
