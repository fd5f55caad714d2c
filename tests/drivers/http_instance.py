"""The HTTP server as the service runs it, on a real socket, with an application of the test's choice."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvloop
from starlette.types import ASGIApp

from api.components import PeerSettings
from api.http.auth import Tokens
from api.leaderboard.own import leaderboard_routes
from api.main import create_app
from app.server.connection import Limits
from app.server.http_server import HttpServer
from runtime.cluster.host_metadata import ClusterMap, HostInfo, HostMetadata
from tests.drivers.declared import boards_view, components_of
from tests.drivers.fake_view import Boards, FakeView
from tests.drivers.ports import free_port

EVERY_PARTITION = frozenset(range(4))
_PATIENT = PeerSettings(connect_timeout_s=30, read_timeout_s=30, gather_timeout_s=30)
"""A peer is asked for long: on a busy machine one that runs may be slow, and another would be asked in its place."""


def free_host() -> HostInfo:
    """Return an address that nobody listens on."""
    return HostInfo("127.0.0.1", free_port())


@contextmanager
def serving(app: ASGIApp, host: HostInfo, limits: Limits | None = None) -> Iterator[HostInfo]:
    """Serve an application in a thread of its own.

    Args:
        app: what answers.
        host: where to listen.
        limits: what one client may take.
    """
    stop, failed = threading.Event(), list[BaseException]()
    server = HttpServer(app, host.host, host.port, limits)

    async def serve() -> None:
        await server.start()
        await asyncio.to_thread(stop.wait)
        await server.stop()

    def run() -> None:
        try:
            uvloop.run(serve())
        except BaseException as error:  # noqa: BLE001  # raised again below, in the test's thread
            failed.append(error)

    thread = threading.Thread(target=run, name=f"server {host}")
    thread.start()
    try:
        yield host
    finally:
        stop.set()
        thread.join()
        if failed:
            raise failed[0]


def app_alone(boards: Boards, host: HostInfo, tokens: Tokens | None = None) -> ASGIApp:
    """Return the application of an instance that is active for every partition, the only one of its cluster."""
    view = boards_view(boards)
    view.hold(EVERY_PARTITION)
    cluster = ClusterMap((HostMetadata(host, EVERY_PARTITION, runs_stream=True),), len(EVERY_PARTITION))
    return app_of(view, lambda: cluster, host, tokens)


def app_of(view: FakeView, cluster: Callable[[], ClusterMap], host: HostInfo, tokens: Tokens | None = None) -> ASGIApp:
    """Return the application of one instance of a cluster, joined to the others by the network."""
    components = components_of(view, cluster=cluster, host=host, peers=_PATIENT, tokens=tokens or Tokens())
    return create_app(components, leaderboard_routes)


def exchange(host: HostInfo, sent: bytes, *, end: bool = False, piece_bytes: int = 0, within_s: float = 60) -> bytes:
    """Send bytes, and return all that comes until the server closes the connection.

    Args:
        host: who is asked.
        sent: what a client sends.
        end: whether the client closes its side after that.
        piece_bytes: send so many at a time; 0: all at once.
        within_s: how long the server may be silent.
    """
    answer = b""
    with socket.create_connection((host.host, host.port), timeout=within_s) as connection:
        # So that pieces are sent as such.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for start in range(0, len(sent), piece_bytes or len(sent) or 1):
                connection.sendall(sent[start : start + (piece_bytes or len(sent))])
            if end:
                with contextlib.suppress(OSError):  # the server has closed it already
                    connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                answer += chunk
        except (ConnectionResetError, BrokenPipeError):
            # What the server has closed while bytes were still on their way ends so.
            pass
    return answer


def without_dates(answers: bytes) -> bytes:
    """Return answers without what changes each second."""
    return re.sub(rb"date: [^\r]*\r\n", b"", answers)
