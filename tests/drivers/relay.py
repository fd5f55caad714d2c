"""A network between instances that can be cut: each is reached through a relay, and Kafka without one."""

from __future__ import annotations

import socket
import socketserver
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.drivers.deployment import Deployment
from tests.drivers.instance import Instance
from tests.drivers.ports import free_port
from tests.drivers.replicas import Replicas

_AT_ONCE = 65_536
_LOOKS_EVERY_S = 0.05


class Relay:
    """Passes connections on to a port of this machine; a context manager that runs it in threads.

    Args:
        port: where to.

    Attributes:
        port: where it listens.
    """

    def __init__(self, port: int) -> None:
        self.port = free_port()
        self._target = port
        self._server: _Server | None = None

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        if self._server is not None:
            server, self._server = self._server, None
            server.cut()

    def heal(self) -> None:
        """Take connections again."""
        self._server = _Server(self.port, self._target)
        threading.Thread(target=self._server.serve_forever, args=(_LOOKS_EVERY_S,), name="relay", daemon=True).start()

    def __enter__(self) -> Self:
        self.heal()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()


class _Server(socketserver.ThreadingTCPServer):
    """Takes connections, each in a thread of its own, until it is cut."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, target: int) -> None:
        super().__init__(("127.0.0.1", port), socketserver.BaseRequestHandler)
        self._target = target
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_cut = False

    def cut(self) -> None:
        self.shutdown()
        self.server_close()
        with self._lock:
            self._is_cut = True
            for connection in self._open:
                _break(connection)

    def finish_request(self, request: object, client_address: object) -> None:  # noqa: ARG002  # as it is called
        assert isinstance(request, socket.socket)
        try:
            target = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            return  # Nobody listens there: the connection is closed.
        with target:
            ends = {request, target}
            for each in ends:
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                if self._is_cut:
                    return
                self._open |= ends
            try:
                back = threading.Thread(target=_pump, args=(target, request), daemon=True)
                back.start()
                _pump(request, target)
                back.join()
            finally:
                with self._lock:
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


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Pass on what comes, and then that nothing more does; where one end is gone, the other goes too."""
    try:
        while piece := source.recv(_AT_ONCE):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        _break(source)
        _break(sink)


def _break(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
