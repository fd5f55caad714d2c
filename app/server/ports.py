"""The sockets that a server listens on: one of its own, and one that several processes of a machine share.

A shared port is one with SO_REUSEPORT: the kernel hands each new connection to one of those that listen there.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

from app.errors import SetupError

_BACKLOG = 2048
_UNSENT_BYTES = 65536
_FIX = "choose another LEADERBOARD_HOST or LEADERBOARD_PORT, or end what listens there"
_SHARED_FIX = "choose another LEADERBOARD_HOST or LEADERBOARD_SHARED_PORT, or end what listens there alone"
_REUSE_PORT: int | None = getattr(socket, "SO_REUSEPORT", None)

# As all servers have it: else connections of a former process, which the kernel remembers for a minute, are in the way.
_AFTER_ANOTHER = socket.SO_REUSEADDR


def listening(host: str, port: int, fix: str = _FIX) -> socket.socket:
    """Return a socket that listens on a port, which nobody else has.

    Args:
        host: address to listen on.
        port: port to listen on.
        fix: what to do when that cannot be.

    Raises:
        SetupError: the address cannot be listened on.
    """
    return _made(host, port, [_AFTER_ANOTHER], fix, listens=True)


def held(host: str, port: int) -> socket.socket:
    """Take a port that nobody has, for others to share; return a socket that keeps other services from it while open.

    Nothing is received there: the socket does not listen.

    Raises:
        SetupError: somebody has it, or this system shares no ports.
    """
    shared = _reuse_port()
    # Two services that both share their ports would get each other's connections, and no error.
    listening(host, port).close()
    try:
        return _made(host, port, [shared], _FIX)
    except SetupError:
        # There are connections left of a process that had the port alone.
        return _made(host, port, [shared, _AFTER_ANOTHER], _FIX)


class SharedPort:
    """A port that this process takes connections at together with others, from `open` to `close`.

    Bound from the start, so that what is wrong is told there; no connection comes before it is opened.

    Args:
        host: address to listen on.
        port: port to listen on.

    Raises:
        SetupError: somebody has the port alone, or this system shares no ports.
    """

    def __init__(self, host: str, port: int) -> None:
        self._socket = _made(host, port, [_reuse_port(), _AFTER_ANOTHER], _SHARED_FIX)
        self._make: Callable[[], asyncio.Protocol] | None = None
        self._server: asyncio.Server | None = None
        self._closed = False

    async def open(self, make: Callable[[], asyncio.Protocol]) -> None:
        """Begin to take connections, unless it was closed before.

        Args:
            make: makes what serves one.
        """
        if not self._closed:
            self._make = make
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(make, sock=self._socket, backlog=_BACKLOG)

    async def close(self) -> None:
        """Take no more connections: new ones go to the other processes, those that there are stay."""
        self._closed = True
        if self._server is None or self._make is None:
            self._socket.close()
            return
        # The kernel resets what still waits to be taken here, and tells the client nothing but that. So nothing is
        # done between the last that is taken and the end.
        waiting = list(self._waiting())
        self._server.close()
        self._server = None
        for connection in waiting:
            with suppress(OSError):  # the client is gone
                await asyncio.get_running_loop().connect_accepted_socket(self._make, connection)

    def _waiting(self) -> Iterator[socket.socket]:
        with suppress(OSError):  # there are no more
            while True:
                connection, _ = self._socket.accept()
                connection.setblocking(False)
                yield connection


def _reuse_port() -> int:
    if _REUSE_PORT is None:
        raise SetupError(
            "this system lets no two processes share a port (SO_REUSEPORT)",
            "run one instance, or several with a port each behind a load balancer",
        )
    return _REUSE_PORT


def _made(host: str, port: int, options: list[int], fix: str, *, listens: bool = False) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        try:
            for option in options:
                made.setsockopt(socket.SOL_SOCKET, option, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # Connections inherit it. Else the kernel takes megabytes for a client that does not read, of which live
            # updates would be a long queue of old boards.
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
            made.bind(address)
            if listens:
                made.listen(_BACKLOG)
        except BaseException:
            made.close()
            raise
    except (OSError, UnicodeError) as error:  # the latter of a name that IDNA cannot encode
        raise SetupError(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}", fix) from error
    return made
