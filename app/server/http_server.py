"""The HTTP server: uvicorn on sockets of ours, without its signal handlers; the service decides when it stops."""

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
from app.server.ports import SharedPort, listening

logger = logging.getLogger(__name__)

_FINISH_WITHIN_S = 3
_LOOK_EVERY_TICKS = 5


class HttpServer:
    """Serves an ASGI application.

    Args:
        app: what answers.
        host: address to listen on.
        port: port to listen on.
        limits: what one client may take.
        shared_port: a port that other processes of this machine listen on as well, between `share` and `unshare`; 0:
            none.

    Raises:
        SetupError: an address cannot be listened on.
    """

    def __init__(
        self, app: ASGIApp, host: str, port: int, limits: Limits | None = None, *, shared_port: int = 0
    ) -> None:
        self._socket = listening(host, port)
        try:
            self._shared = SharedPort(host, shared_port) if shared_port else None
        except SetupError:
            self._socket.close()
            raise
        self._make = functools.partial(Connection, limits=limits or _limits())
        self._config = config = uvicorn.Config(
            app,
            loop="none",
            http=self._make,  # type: ignore[arg-type]  # only called
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

    async def share(self) -> None:
        """Take connections at the shared port as well, if there is one."""
        if self._shared is not None:
            await self._server.up.wait()
            await self._shared.open(self._connection)

    async def unshare(self) -> None:
        """Take no more connections at the shared port; those that came by it stay."""
        if self._shared is not None:
            await self._shared.close()

    async def stop(self) -> None:
        """Take no more requests, finish those in flight, and close."""
        await self.unshare()
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        self._socket.close()

    def _connection(self) -> Connection:
        """Return what serves a connection, as uvicorn makes it: it is among those that end with the server."""
        server = self._server
        return self._make(config=self._config, server_state=server.server_state, app_state=server.lifespan.state)


class _Server(uvicorn.Server):
    """Attributes: up is set when it takes connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, as `uvicorn.Server.startup` does."""
        await super().startup(sockets)
        self.up.set()

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
