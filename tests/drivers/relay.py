"""A network between instances that can be cut: each is reached through a relay, and Kafka without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.drivers.deployment import Deployment
from tests.drivers.instance import Instance
from tests.drivers.ports import free_port
from tests.drivers.replicas import Replicas

_AT_ONCE = 65_536
_CALL_WITHIN_S = 10.0


class Relay:
    """Passes connections on to a port of this machine; a context manager that runs it in a thread.

    Args:
        port: where to.

    Attributes:
        port: where it listens.
    """

    def __init__(self, port: int) -> None:
        self.port = free_port()
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        self._run(self._cut())

    def heal(self) -> None:
        """Take connections again."""
        self._run(self._listen())

    def __enter__(self) -> Self:
        self._thread.start()
        self.heal()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_WITHIN_S)
        self._loop.close()

    def _run(self, call: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(call, self._loop).result(_CALL_WITHIN_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", self.port)

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._open:
            writer.transport.abort()
        # Those that notice end now.
        while self._open:
            await asyncio.sleep(0)

    async def _pass_on(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        ends = {to_client}
        self._open.add(to_client)
        try:
            from_target, to_target = await asyncio.open_connection("127.0.0.1", self._target)
            ends.add(to_target)
            self._open.add(to_target)
            await asyncio.gather(_pump(from_client, to_target), _pump(from_target, to_client))
        except OSError:
            # One end is gone: so is the other.
            to_client.transport.abort()
        finally:
            for writer in ends:
                writer.close()
            self._open -= ends


class RelayedReplicas(Replicas):
    """Instances that reach each other through relays. A test asks each of them at its own port.

    Args:
        directory: where they keep state and logs, and the checkpoint that they share.
        bootstrap_servers: Kafka.
        settings: of all of them, without their prefix.
    """

    def __init__(self, directory: Path, bootstrap_servers: str, **settings: object) -> None:
        super().__init__(directory, bootstrap_servers, **settings)
        self._relays: dict[int, Relay] = {}

    def make(self, **settings: object) -> Instance:
        """Return another instance, not started and no member yet, which others reach through a relay."""
        port = free_port()
        relay = self._relays[port] = Relay(port)
        relay.__enter__()
        return super().make(PORT=port, ADVERTISED=relay.address, **settings)

    def cut(self, instance: Instance) -> None:
        """Let no other instance reach this one any more; it still reaches them, and Kafka."""
        self._relays[instance.port].cut()

    def heal(self, instance: Instance) -> None:
        """Let the others reach it again."""
        self._relays[instance.port].heal()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        for relay in self._relays.values():
            relay.__exit__()


class RelayedDeployment(Deployment):
    """A deployment whose instances reach each other through relays."""

    make_replicas = RelayedReplicas


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while piece := await source.read(_AT_ONCE):
        sink.write(piece)
        await sink.drain()
    with suppress(OSError):
        sink.write_eof()
