"""The HTTP server: uvicorn on a socket of ours, without its signal handlers; `app.service` decides when it stops."""

import asyncio
import contextlib
import socket
from collections.abc import Generator

import uvicorn
from starlette.types import ASGIApp

from app.errors import SetupError

_FINISH_WITHIN_S = 3
_BACKLOG = 2048


class HttpServer:
    """Serves an ASGI application.

    Args:
        app: what answers.
        host: address to listen on.
        port: port to listen on.

    Raises:
        SetupError: the address cannot be listened on.
    """

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        self._socket = _listen(host, port)
        config = uvicorn.Config(
            app,
            loop="none",
            http="httptools",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_FINISH_WITHIN_S,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer, in the background."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="http")

    async def stop(self) -> None:
        """Take no more requests, finish those in flight, and close."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        self._socket.close()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the service, which has more than this server to stop, in order."""
        yield


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        fix = "choose another LEADERBOARD_HOST or LEADERBOARD_PORT, or end what listens there"
        raise SetupError(f"cannot listen on {host}:{port}: {error.strerror or error}", fix) from error
