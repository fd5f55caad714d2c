"""What the API is made of: everything comes in through `create_app`, nothing through a global."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import httpx
from runtime.serving.queries import PartitionStatus

from api.http.auth import Tokens
from api.http.delivery import Sharing
from runtime.cluster.host_metadata import ClusterMap, HostInfo
from runtime.copies.listener import Watcher
from runtime.measures import Measures
from topology.leaderboard.shown import Rendered


class BoardQueries(Protocol):
    """What the API asks of `runtime.serving.queries.Queries`; named, so that tests can run a cluster in one process."""

    @property
    def version(self) -> int:
        """A number that grows with every change that a reader could see."""

    @property
    def partition_count(self) -> int:
        """How many partitions the store has; 0 while that is not known."""

    def partition_for(self, product_id: int) -> int:
        """Return the partition of a product."""

    def status(self, partition: int) -> PartitionStatus:
        """Return what this instance can say about `partition`, held or not."""

    def get(self, product_id: int, limit: int) -> Rendered | None:
        """Return the board of a product, or None when there is none to show."""

    def boards(
        self,
        partitions: Iterable[int],
        limit: int,
        first: int | None = None,
        last: int | None = None,
        most: int | None = None,
    ) -> list[tuple[int, bytes]]:
        """Return the boards to show, ascending by product id."""

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Have `watcher` told what changes, until the returned function is called."""

    def count(self, partitions: Iterable[int]) -> int:
        """Return how many boards there are to show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """How this instance talks to its peers; times in seconds.

    Attributes:
        connect_timeout_s: then the next holder is asked.
        read_timeout_s: how long a peer may be silent while it answers for one board.
        gather_timeout_s: the same while it answers for many.
        stream_timeout_s: how long a stream of a peer may be silent, heartbeats included, until another is asked.
        down_for_s: how long a host that failed is tried last; then one request tries it again.
        connections: at most so many to one peer.
        idle_expiry_s: how long an unused one is kept; shorter than the server's keep-alive (uvicorn: 5), so that a
            request seldom meets a connection that is just being closed.
    """

    connect_timeout_s: float = 0.25
    read_timeout_s: float = 1.0
    gather_timeout_s: float = 5.0
    stream_timeout_s: float = 5.0
    down_for_s: float = 2.0
    connections: int = 256
    idle_expiry_s: float = 3.0


class Stopping:
    """Tells what goes on for long that the instance stops."""

    def __init__(self) -> None:
        self._told: list[Callable[[], None]] = []

    def tell(self, told: Callable[[], None]) -> None:
        """Have `told` called when the instance stops."""
        self._told.append(told)

    def begin(self) -> None:
        """Tell all; what is in flight can end now. Called in the event loop, before the server is stopped."""
        for told in self._told:
            told()


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """What one instance answers with.

    Attributes:
        queries: the boards of this instance's partitions.
        cluster: returns the map of the last assignment; one snapshot serves a whole decision.
        host: where peers reach this instance.
        depth: the most entries served of a board.
        ready: returns why the instance should get no traffic, or None.
        measures: returns what the instance measures of itself, for `/metrics`.
        peers: how to talk to the other instances.
        tokens: who may ask; by default all may.
        transport: what carries the requests to them; None for the network.
        clock: monotonic seconds.
        sharing: who else may use an answer: caches, pages of other origins.
        stopping: tells the application that the instance stops.
        instance_id: tells this process from any other, for `SelfCheck`.
    """

    queries: BoardQueries
    cluster: Callable[[], ClusterMap]
    host: HostInfo
    depth: int
    ready: Callable[[], str | None]
    measures: Callable[[], Measures] = Measures
    peers: PeerSettings = field(default_factory=PeerSettings)
    tokens: Tokens = field(default_factory=Tokens)
    transport: httpx.AsyncBaseTransport | None = None
    clock: Callable[[], float] = time.monotonic
    sharing: Sharing = field(default_factory=Sharing)
    stopping: Stopping = field(default_factory=Stopping)
    instance_id: str = field(default_factory=lambda: uuid.uuid4().hex)
