"""What the API is made of: everything comes in through `create_app`, nothing through a global."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from weakref import WeakMethod

import httpx

from api.cluster.followed import Followed
from api.http.auth import Tokens
from api.http.delivery import Sharing
from runtime.cluster.host_metadata import ClusterMap, HostInfo
from runtime.declaration import Topology
from runtime.description import Description
from runtime.measures import Measures
from runtime.serving.part_view import Parts
from runtime.serving.ranked_view import RankedView
from runtime.serving.table_view import TableView
from runtime.serving.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """How this instance talks to its peers; times in seconds.

    Attributes:
        connect_timeout_s: then the next holder is asked.
        read_timeout_s: how long a peer may be silent while it answers for one row.
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
        self._told: list[WeakMethod[Callable[[], None]]] = []
        self._has_begun = False

    def tell(self, told: Callable[[], None]) -> None:
        """Have a method called when the instance stops, if its object is still there then; at once when it does."""
        if self._has_begun:
            told()
        else:
            self._told.append(WeakMethod(told, self._told.remove))

    def begin(self) -> None:
        """Tell all; what is in flight can end now. Called in the event loop, before the server is stopped."""
        self._has_begun = True
        for reference in list(self._told):
            if (told := reference()) is not None:
                told()


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """What one instance answers with.

    Attributes:
        topology: what runs here.
        stores: what this instance has of each store of the topology, by its name.
        rankings: where rows stand, of each store that has a ranking, by its name.
        parts: the rows of one second part of keys, of each store that is lapsing, by its name.
        tables: what this instance has of each table of the topology, by the name of its topic.
        description: the topology in words.
        cluster: returns the map of the last assignment; one snapshot serves a whole decision.
        host: where peers reach this instance.
        ready: returns why the instance should get no traffic, or None.
        measures: returns what the instance measures of itself, for `/metrics`.
        followed: who begins with the stream when it ends here.
        stream_trouble: returns why the stream does not get to work here; None when it does, or is elsewhere.
        nearest: whether a current copy here answers before the active one elsewhere.
        peers: how to talk to the other instances.
        tokens: who may ask; by default all may.
        transport: what carries the requests to them; None for the network.
        clock: monotonic seconds.
        sharing: who else may use an answer: caches, pages of other origins.
        stopping: tells the application that the instance stops.
        instance_id: tells this process from any other, for `SelfCheck`.
    """

    topology: Topology
    stores: Mapping[str, View]
    tables: Mapping[str, TableView]
    description: Description
    cluster: Callable[[], ClusterMap]
    host: HostInfo
    ready: Callable[[], str | None]
    rankings: Mapping[str, RankedView] = field(default_factory=dict)
    parts: Mapping[str, Parts] = field(default_factory=dict)
    measures: Callable[[], Measures] = Measures
    followed: Followed = field(default_factory=Followed)
    stream_trouble: Callable[[], str | None] = lambda: None
    nearest: bool = True
    peers: PeerSettings = field(default_factory=PeerSettings)
    tokens: Tokens = field(default_factory=Tokens)
    transport: httpx.AsyncBaseTransport | None = None
    clock: Callable[[], float] = time.monotonic
    sharing: Sharing = field(default_factory=Sharing)
    stopping: Stopping = field(default_factory=Stopping)
    instance_id: str = field(default_factory=lambda: uuid.uuid4().hex)
