"""A port that several servers share: who gets connections there, and who is kept from it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager

import pytest
from starlette.types import Receive, Scope, Send

from api.http.answers import Answer
from app.errors import SetupError
from app.server import ports
from app.server.http_server import HttpServer
from app.server.ports import SharedPort, held, listening
from tests.drivers.eventually import eventually
from tests.drivers.ports import free_port, free_ports

HOST = "127.0.0.1"
ASKED = b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
IN_USE = "cannot listen on 127.0.0.1:{}: Address already in use: choose another "


class Named:
    """An application that answers with a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # as ASGI has it
        """Answer anything."""
        if scope["type"] == "http":
            await Answer(200, [], self._name.encode()).send(send)


def connection(port: int) -> socket.socket:
    """Connect and ask, without waiting: the kernel does that before any server has taken the connection."""
    made = socket.create_connection((HOST, port), timeout=60)
    made.sendall(ASKED)
    made.setblocking(False)
    return made


async def answer(asked: socket.socket) -> bytes:
    """Return the body of what comes back; empty when the connection was reset."""
    received = b""

    def ended() -> bool:
        nonlocal received
        try:
            chunk = asked.recv(65536)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        received += chunk
        return not chunk

    with asked:
        await eventually(ended)
    return received.rpartition(b"\r\n\r\n")[2]


@asynccontextmanager
async def started(*names: str, shared_port: int) -> AsyncIterator[list[HttpServer]]:
    """Have servers listen at ports of their own, which answer with their names."""
    servers = [HttpServer(Named(name), HOST, free_port(), shared_port=shared_port) for name in names]
    for each in servers:
        await each.start()
    try:
        yield servers
    finally:
        for each in servers:
            await each.stop()


async def test_all_that_share_a_port_get_connections_there_and_one_that_has_closed_it_gets_none() -> None:
    port = free_port()
    async with started("a", "b", shared_port=port) as servers:
        for each in servers:
            await each.share()
        assert {await answer(connection(port)) for _ in range(64)} == {b"a", b"b"}
        await servers[0].unshare()
        assert {await answer(connection(port)) for _ in range(64)} == {b"b"}
    with pytest.raises(ConnectionRefusedError):
        connection(port)


async def test_a_server_gets_no_connection_at_the_shared_port_before_it_is_opened() -> None:
    port = free_port()
    async with started("a", "b", shared_port=port) as (_, other):
        with pytest.raises(ConnectionRefusedError):
            connection(port)
        await other.share()
        assert {await answer(connection(port)) for _ in range(64)} == {b"b"}


async def test_connections_that_nobody_has_taken_yet_are_answered_when_the_port_is_closed() -> None:
    port = free_port()
    async with started("a", "b", shared_port=port) as servers:
        for each in servers:
            await each.share()
        waiting = [connection(port) for _ in range(64)]
        await servers[0].unshare()
        assert {await answer(each) for each in waiting} == {b"a", b"b"}


async def test_a_port_that_was_closed_is_not_opened_any_more() -> None:
    port = free_port()
    async with started("a", shared_port=port) as (one,):
        await one.unshare()
        await one.share()
        with pytest.raises(ConnectionRefusedError):
            connection(port)


async def test_a_server_with_no_shared_port_shares_none() -> None:
    async with started("a", shared_port=0) as (alone,):
        await alone.share()
        await alone.unshare()


# Who is kept from it


@contextmanager
def shared(port: int) -> Iterator[None]:
    """Have a process bound to a port that it shares."""
    with ExitStack() as opened:
        taken = SharedPort(HOST, port)
        opened.enter_context(closing(taken._socket))  # noqa: SLF001
        yield


def test_a_port_that_is_held_is_for_those_who_share_it() -> None:
    port = free_port()
    with held(HOST, port):
        for taking in (listening, held):
            with pytest.raises(SetupError, match=IN_USE.format(port)):
                taking(HOST, port)
        with shared(port), shared(port), pytest.raises(SetupError, match=IN_USE.format(port)):
            listening(HOST, port)
    listening(HOST, port).close()


@pytest.mark.parametrize("share", [False, True], ids=["alone", "as one that shares"])
def test_a_port_that_somebody_has_is_not_held(share: bool) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SetupError, match=IN_USE.format(port)):
            held(HOST, port)


def test_a_port_is_held_at_once_after_a_process_that_had_it_alone() -> None:
    with listening(HOST, 0) as other:
        port = other.getsockname()[1]
        with socket.create_connection((HOST, port)) as client:
            taken, _ = other.accept()
            # Whoever closes first keeps the connection in mind for a minute.
            taken.close()
            assert client.recv(1) == b""
    with held(HOST, port), shared(port):
        pass


def test_a_shared_port_that_somebody_has_alone_is_told_and_the_servers_own_is_free_again() -> None:
    own = free_ports(2)
    with listening(HOST, own + 1), pytest.raises(SetupError, match="or LEADERBOARD_SHARED_PORT, or end what listens"):
        HttpServer(Named("a"), HOST, own, shared_port=own + 1)
    listening(HOST, own).close()


@pytest.mark.parametrize("taking", [held, SharedPort])
def test_a_system_without_shared_ports_is_told(taking: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_REUSE_PORT", None)
    with pytest.raises(SetupError, match=r"this system lets no two processes share a port .*: run one instance, or "):
        taking(HOST, free_port())
