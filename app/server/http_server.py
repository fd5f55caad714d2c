"""The HTTP server: uvicorn on a socket of ours, without its signal handlers; the service decides when it stops."""

import asyncio
import contextlib
import functools
import logging
import resource
import socket
from collections.abc import Generator
from dataclasses import replace

import uvicorn
from starlette.types import ASGIApp

from app.errors import SetupError
from app.server.connection import Connection, Limits

logger = logging.getLogger(__name__)

_FINISH_WITHIN_S = 3
_BACKLOG = 2048
_UNSENT_BYTES = 65536
_LOOK_EVERY_TICKS = 5


class HttpServer:
    """Serves an ASGI application.

    Args:
        app: what answers.
        host: address to listen on.
        port: port to listen on.
        limits: what one client may take.

    Raises:
        SetupError: the address cannot be listened on.
    """

    def __init__(self, app: ASGIApp, host: str, port: int, limits: Limits | None = None) -> None:
        self._socket = _listen(host, port)
        config = uvicorn.Config(
            app,
            loop="none",
            http=functools.partial(Connection, limits=limits or _limits()),  # type: ignore[arg-type]  # only called
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            # What a request says of those before it (`X-Forwarded-For`) decides nothing here.
            proxy_headers=False,
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
    async def on_tick(self, counter: int) -> bool:
        """Look at the connections now and then; called every tenth of a second."""
        if counter % _LOOK_EVERY_TICKS == 0:
            now_s = asyncio.get_running_loop().time()
            # A copy: a connection that is closed leaves the set.
            known = [each for each in list(self.server_state.connections) if isinstance(each, Connection)]
            if closed := sum(each.look(now_s) for each in known):
                logger.info("closed %d connections whose clients were too slow", closed)
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the service, which has more than this server to stop, in order."""
        yield


def _limits() -> Limits:
    """Leave half of the files that the process may open to stores and Kafka."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = files == resource.RLIM_INFINITY
    usual = Limits()
    return usual if unlimited else replace(usual, connections=min(usual.connections, files // 2))


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:  # the latter of a name that IDNA cannot encode
        fix = "choose another LEADERBOARD_HOST or LEADERBOARD_PORT, or end what listens there"
        raise SetupError(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}", fix) from error
    # Connections inherit it. Else the kernel takes megabytes for a client that does not read, of which live updates
    # would be a long queue of old boards.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
    return listening
