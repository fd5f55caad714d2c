"""A broker with the load and instances that serve it, on this machine, with the service's default settings."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, Self

import psutil

from app.java.broker import Broker
from app.java.spark_class_data import make_spark_class_data
from benchmarks.load import Load, fill
from tests.drivers.instance import Instance
from tests.drivers.replicas import Replicas
from tests.waiting import wait_until

DEFAULTS = {"CHECKPOINT_INTERVAL_S": 60, "TABLES_REFRESH_S": 60}
"""Of the service; the tests' instances have others."""

LOOK_EVERY_S = 0.1


class Served(Protocol):
    """A process that serves boards: an instance, or an application that it is compared with.

    Attributes:
        address: `host:port`.
        url: of its root, without a slash at the end.
    """

    address: str
    url: str

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process; it has been started."""

    def start(self) -> Self:
        """Start it, on the state that it has; returns when it answers over HTTP."""

    def boards(self) -> Any:
        """Return the body of `GET /leaderboard`, or the status when it is not 200."""

    def terminate(self) -> int:
        """Send SIGTERM and wait for the end; return 0 when it has ended in order."""


@contextmanager
def installed(settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[tuple[Path, Broker]]:
    """Have a directory, and a broker in it, where all is set up as the operators' guide says.

    Args:
        settings: further ones of the broker.
    """
    make_spark_class_data()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        directory = Path(name)
        with Broker(directory / "kafka", settings=settings) as broker:
            yield directory, broker


class Loaded:
    """A context manager that starts a broker, fills it, and ends what was started.

    Args:
        load: what the topics hold.
        settings: of the instances, without their prefix.

    Attributes:
        directory: where all of it lies.
        broker: the broker.
        replicas: instances, none at first.
        best: the best scores of what the topics hold.
        expected: the body of `GET /leaderboard` once everything is in it; there before anything is timed.
    """

    def __init__(self, load: Load, **settings: object) -> None:
        self._load = load
        self._settings = {**DEFAULTS, **settings}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self.directory, self.broker = opened.enter_context(installed())
            self.best = fill(self.broker.connection, self._load)
            self.expected = self.best.boards()
            servers = self.broker.bootstrap_servers
            self.replicas = opened.enter_context(Replicas(self.directory, servers, **self._settings))
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def start(self, **settings: object) -> Instance:
        """Start one more instance, with further settings of its own."""
        (instance,) = self.replicas.add(**settings)
        return instance

    def wait_until_exact(self, served: Served, look_every_s: float = LOOK_EVERY_S) -> None:
        """Wait until it serves what it has to."""
        wait_until(lambda: bool(served.boards() == self.expected), "the boards are exact", every_s=look_every_s)

    def start_and_settle(self, **settings: object) -> Instance:
        """Start one more instance and wait until it serves, all members have their share, and real time runs."""
        instance = self.start(**settings)
        self.wait_until_exact(instance)
        self.settle()
        return instance

    def settle(self) -> None:
        """Wait until all members have their share, and real time runs."""
        self.replicas.wait_until_settled()
        self.replicas.stream_holder.wait_for_real_time()


@contextmanager
def pinned(instance: Instance, core: int) -> Iterator[None]:
    """Have the process of an instance run on one core while the block runs; its JVM keeps all."""
    threads = [psutil.Process(each.id) for each in psutil.Process(instance.process.pid).threads()]
    before = psutil.Process().cpu_affinity()
    for thread in threads:
        thread.cpu_affinity([core])
    yield
    for thread in threads:
        with suppress(psutil.NoSuchProcess):
            thread.cpu_affinity(before)
