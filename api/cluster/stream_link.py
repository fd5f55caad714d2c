"""A connection to the instance that runs the stream, for whoever takes it over: it tells at once when that one ends."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus
from typing import Final

from api.cluster.followed import OVER
from api.cluster.peers import UNREACHED, client_of_streams, headers_of, take_lines
from api.components import Components
from runtime.cluster.host_metadata import HostInfo

logger = logging.getLogger(__name__)

_SILENT_S: Final = 5.0
_CONNECT_S: Final = 1.0


class LinkEnd(Enum):
    """How a connection to it has ended."""

    OVER = "it has handed the stream over"
    BROKEN = "the connection broke"
    NOT_THERE = "it does not run the stream"


class StreamLink:
    """Follows the instance that runs the stream.

    Args:
        components: what this instance answers with.
    """

    def __init__(self, components: Components) -> None:
        self._client = client_of_streams(
            components.transport, headers_of(components.tokens), silent_s=_SILENT_S, connect_s=_CONNECT_S
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def follow(self, host: HostInfo, *, ready: bool, take: Callable[[bytes], None]) -> LinkEnd:
        """Follow an instance until the connection ends, and return how it has.

        Args:
            host: the instance.
            ready: whether the stream could begin here at once.
            take: is given each line that it tells; see `api.cluster.followed`.
        """
        is_over = False

        def note(line: bytes) -> None:
            nonlocal is_over
            is_over = is_over or line == OVER
            take(line)

        try:
            target = f"http://{host}/internal/stream?ready={'true' if ready else 'false'}"
            async with self._client.stream("GET", target) as response:
                if response.status_code != HTTPStatus.OK:
                    return LinkEnd.NOT_THERE
                await take_lines(response, note)
        except UNREACHED as error:
            logger.debug("the connection to %s, which runs the stream, broke: %r", host, error)
        return LinkEnd.OVER if is_over else LinkEnd.BROKEN


async def refuses(host: HostInfo) -> bool:
    """Return whether nothing listens where an instance did: its process has ended.

    One that is frozen still accepts connections, and one whose machine is gone refuses none.
    """
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host.host, host.port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return bool(found) and all([await _refuses(str(address[0]), host.port) for *_, address in found])


async def _refuses(address: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(address, port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return False
